package segment

import (
	"encoding/binary"
	"fmt"
)

// Row is what the index knows of a message.
type Row struct {
	Seq     uint64
	Time    int64  // nanoseconds since 1970
	Size    uint64 // see [Message.Size]
	Header  bool   // it has a header block that is not empty
	Note    []byte // see [Message.Note]; aliases the index
	Subject uint32 // its ordinal among the sorted subjects, see [Index.AppendSubject]
}

// rowsBuilder gathers the block of one group: four columns, since each alone packs better. Subjects come last and only
// when all are known, since their ordinals follow the order of their names.
type rowsBuilder struct {
	n                  uint64
	gaps, times, sizes []byte
	gapCount, lastGap  uint64
	seq                uint64
	time               int64
	size               uint64
}

func (b *rowsBuilder) reset() {
	*b = rowsBuilder{gaps: b.gaps[:0], times: b.times[:0], sizes: b.sizes[:0]}
}

func (b *rowsBuilder) add(m *Message) {
	if b.n > 0 {
		if gap := m.Seq - b.seq - 1; gap > 0 {
			b.gaps = binary.AppendUvarint(b.gaps, b.n-b.lastGap)
			b.gaps = binary.AppendUvarint(b.gaps, gap)
			b.lastGap = b.n
			b.gapCount++
		}
		b.times = binary.AppendVarint(b.times, m.Time-b.time)
	}
	size := m.Size() << 1
	if len(m.Header) > 0 {
		size |= 1
	}
	b.sizes = binary.AppendVarint(b.sizes, int64(size)-int64(b.size))
	b.n++
	b.seq, b.time, b.size = m.Seq, m.Time, size
}

// appendHead gives the block without its subjects.
func (b *rowsBuilder) appendHead(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, b.gapCount)
	dst = binary.AppendUvarint(dst, uint64(len(b.gaps)))
	dst = binary.AppendUvarint(dst, uint64(len(b.times)))
	dst = binary.AppendUvarint(dst, uint64(len(b.sizes)))
	dst = append(dst, b.gaps...)
	dst = append(dst, b.times...)
	return append(dst, b.sizes...)
}

// rowsReader reads the block of one group.
type rowsReader struct {
	gaps, times, sizes, subjects cursor
	n, left                      uint64
	gapsLeft, nextGap            uint64
	size                         uint64 // twice the size, and one more with a header
	row                          Row
}

func newRowsReader(block []byte, g *Group) rowsReader {
	c := &cursor{b: block}
	r := rowsReader{left: uint64(g.Rows), gapsLeft: c.uvarint()}
	gaps, times, sizes := c.uvarint(), c.uvarint(), c.uvarint()
	r.gaps.b = c.bytes(gaps)
	r.times.b = c.bytes(times)
	r.sizes.b = c.bytes(sizes)
	r.subjects.b = block[c.at:]
	r.subjects.bad = c.bad
	r.row.Seq, r.row.Time = g.First, g.FirstTime
	r.gap()
	return r
}

// gap reads where the next gap is.
func (r *rowsReader) gap() {
	if r.gapsLeft == 0 {
		r.nextGap = 0 // the first row is none
		return
	}
	r.gapsLeft--
	r.nextGap += r.gaps.uvarint()
}

func (r *rowsReader) next() (Row, bool) {
	if r.left == 0 {
		return Row{}, false
	}
	if r.n > 0 {
		r.row.Seq++
		if r.n == r.nextGap {
			r.row.Seq += r.gaps.uvarint()
			r.gap()
		}
		r.row.Time += r.times.varint()
	}
	r.size += uint64(r.sizes.varint())
	r.row.Size, r.row.Header = r.size>>1, r.size&1 == 1
	r.row.Subject = uint32(r.subjects.below(1 << 32))
	r.n++
	r.left--
	return r.row, true
}

// checkRows reads the block of a group once, so that whoever reads it later need not check.
func checkRows(block []byte, g *Group, subjects uint32) error {
	r := newRowsReader(block, g)
	var bytes uint64
	last := g.First
	for i := uint32(0); i < g.Rows; i++ {
		row, _ := r.next()
		if i > 0 && row.Seq <= last || row.Subject >= subjects || row.Size > MaxMessageBytes {
			return fmt.Errorf("%w: rows of group %d: row %d", ErrCorrupt, g.Number, i)
		}
		last = row.Seq
		bytes += row.Size
	}
	ended := r.gaps.atEnd() && r.times.atEnd() && r.sizes.atEnd() && r.subjects.atEnd() && r.gapsLeft == 0 && r.nextGap == 0
	if !ended || last != g.Last || bytes != g.Bytes {
		return fmt.Errorf("%w: rows of group %d: they end at sequence %d with %d bytes, want %d with %d", ErrCorrupt, g.Number, last, bytes, g.Last, g.Bytes)
	}
	return nil
}
