package segment

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Group is a row group: the block of a segment that is read and decoded as a whole.
type Group struct {
	Number int // from 0

	First, Last uint64 // sequences
	FirstTime   int64  // of the message First
	Rows        uint32
	Bytes       uint64 // sum of [Message.Size]; a block that holds the group needs this and about 50 bytes a row

	Offset  int64           // in the object
	Lengths [columns]uint32 // of the five chunks, which follow each other: seq, time, subject, headers, data
	CRC     uint32          // CRC-32C of them all

	rowsAt, rowsSize uint32 // the block of the group in the section of rows
}

// Size is how many bytes of the object the group takes, from Offset.
func (g *Group) Size() int64 {
	n := int64(0)
	for _, length := range g.Lengths {
		n += int64(length)
	}
	return n
}

// appendGroups gives the section of groups: totals first, then the groups.
func appendGroups(b []byte, info *Info, groups []Group) []byte {
	b = binary.AppendUvarint(b, info.Messages)
	b = binary.AppendUvarint(b, info.Bytes)
	b = binary.AppendVarint(b, info.LastTime)
	b = binary.AppendUvarint(b, uint64(len(groups)))
	var last uint64
	var time int64
	for i := range groups {
		g := &groups[i]
		b = binary.AppendUvarint(b, g.First-last)
		b = binary.AppendUvarint(b, g.Last-g.First)
		last = g.Last
		b = binary.AppendUvarint(b, uint64(g.Rows))
		b = binary.AppendVarint(b, g.FirstTime-time)
		time = g.FirstTime
		b = binary.AppendUvarint(b, g.Bytes)
		for _, length := range g.Lengths {
			b = binary.AppendUvarint(b, uint64(length))
		}
		b = binary.AppendUvarint(b, uint64(g.rowsSize))
		b = binary.BigEndian.AppendUint32(b, g.CRC)
	}
	return b
}

// parseGroups reads the section of groups. indexAt is where the last group ends, rowsBytes the section of rows.
func parseGroups(b []byte, indexAt int64, rowsBytes int) (info Info, groups []Group, err error) {
	c := &cursor{b: b}
	info.Messages = c.below(math.MaxUint32 + 1)
	info.Bytes = c.uvarint()
	info.LastTime = c.varint()
	n := c.below(MaxGroups + 1)
	if c.bad || n == 0 || n > uint64(len(b)) {
		return info, nil, fmt.Errorf("%w: section of groups: %d groups in %d bytes", ErrCorrupt, n, len(b))
	}
	groups = make([]Group, n)
	p := parsedGroups{offset: firstGroupAt}
	for i := range groups {
		if !p.next(c, &groups[i], i) {
			return info, nil, fmt.Errorf("%w: section of groups: group %d", ErrCorrupt, i)
		}
	}
	switch {
	case !c.atEnd():
		return info, nil, fmt.Errorf("%w: section of groups: %d bytes too many", ErrCorrupt, len(b)-c.at)
	case p.rows != info.Messages || p.bytes != info.Bytes:
		return info, nil, fmt.Errorf("%w: groups of %d messages and %d bytes, want %d and %d", ErrCorrupt, p.rows, p.bytes, info.Messages, info.Bytes)
	case p.offset != indexAt || p.rowsAt != uint64(rowsBytes):
		return info, nil, fmt.Errorf("%w: groups end at %d, want %d, and have %d bytes of rows, want %d", ErrCorrupt, p.offset, indexAt, p.rowsAt, rowsBytes)
	}
	info.First, info.FirstTime, info.Last = groups[0].First, groups[0].FirstTime, groups[n-1].Last
	return info, groups, nil
}

// parsedGroups is what has been read of the groups: sums, and what the next one builds on.
type parsedGroups struct {
	rows, bytes, rowsAt uint64
	last                uint64
	time                int64
	offset              int64
}

func (p *parsedGroups) next(c *cursor, g *Group, number int) bool {
	first := c.uvarint()
	span := c.uvarint()
	*g = Group{Number: number, Offset: p.offset, First: p.last + first, rowsAt: uint32(p.rowsAt)}
	g.Last = g.First + span
	rising := (number == 0 || first > 0) && g.First >= p.last && g.Last >= g.First
	p.last = g.Last
	g.Rows = uint32(c.below(math.MaxUint32))
	p.time += c.varint()
	g.FirstTime = p.time
	g.Bytes = c.below(math.MaxInt32)
	for i := range g.Lengths {
		g.Lengths[i] = uint32(c.below(math.MaxInt32))
	}
	g.rowsSize = uint32(c.below(MaxIndexBytes + 1))
	g.CRC = c.uint32()
	p.rows += uint64(g.Rows)
	p.bytes += g.Bytes
	p.rowsAt += uint64(g.rowsSize)
	p.offset += g.Size()
	// Rows have at least a byte of subject each, and as many sequences.
	return !c.bad && rising && g.Rows > 0 && uint64(g.Rows) <= g.Bytes && uint64(g.Rows)-1 <= span && p.rowsAt <= MaxIndexBytes
}
