package segment

import (
	"encoding/binary"
	"slices"
)

// groupBuffer gathers the messages of one row group by column, as the pages have them before they are packed. Its
// buffers are reused from group to group.
type groupBuffer struct {
	seqs, times             []int64
	subjects, headers, data []byte // a length each, little-endian, and the bytes
	present                 []byte // a bit a row: it has a header
	headerCount             int
	bytes                   uint64 // sum of [Message.Size]

	low, high []byte // of the subjects; nil before the first
}

func (b *groupBuffer) rows() int { return len(b.seqs) }

// add copies a message. A subject that the group has already need not be compared again.
func (b *groupBuffer) add(m *Message, newSubject bool) {
	row := len(b.seqs)
	b.seqs = append(b.seqs, int64(m.Seq))
	b.times = append(b.times, m.Time)
	b.subjects = appendValue(b.subjects, m.Subject)
	b.data = appendValue(b.data, m.Data)
	if row%8 == 0 {
		b.present = append(b.present, 0)
	}
	if m.Header != nil {
		b.headers = appendValue(b.headers, m.Header)
		b.present[row/8] |= 1 << (row % 8)
		b.headerCount++
	}
	b.bytes += m.Size()
	if newSubject {
		b.widen(m.Subject)
	}
}

func appendValue(dst, value []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// widen takes a subject into the range of them.
func (b *groupBuffer) widen(subject []byte) {
	if b.low == nil || string(subject) < string(b.low) {
		b.low = append(b.low[:0], subject...)
	}
	if b.high == nil || string(subject) > string(b.high) {
		b.high = append(b.high[:0], subject...)
	}
}

// reset forgets the messages, and buffers that one large message has made larger than limit.
func (b *groupBuffer) reset(limit int) {
	for _, buffer := range []*[]byte{&b.subjects, &b.headers, &b.data} {
		*buffer = shrink(*buffer, limit)
	}
	b.seqs, b.times, b.present = b.seqs[:0], b.times[:0], b.present[:0]
	b.headerCount, b.bytes = 0, 0
	b.low, b.high = nil, nil
}

// shrink empties a buffer, and drops one that is larger than limit.
func shrink(b []byte, limit int) []byte {
	if cap(b) > limit {
		return nil
	}
	return b[:0]
}

// page gives the page of a column before packing. It may be built in scratch, and is valid until the next message.
func (b *groupBuffer) page(column int, scratch []byte) (page, newScratch []byte) {
	switch column {
	case seqColumn:
		scratch = appendPacked(scratch[:0], b.seqs)
	case timeColumn:
		scratch = appendPacked(scratch[:0], b.times)
	case subjectColumn:
		return b.subjects, scratch
	case headersColumn:
		scratch = append(b.appendLevels(scratch[:0]), b.headers...)
	case dataColumn:
		return b.data, scratch
	}
	return scratch, scratch
}

// appendLevels appends the definition levels of the headers: one run where all are alike, else all as bits.
func (b *groupBuffer) appendLevels(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	switch b.headerCount {
	case 0:
		dst = append(binary.AppendUvarint(dst, uint64(b.rows())<<1), 0)
	case b.rows():
		dst = append(binary.AppendUvarint(dst, uint64(b.rows())<<1), 1)
	default:
		dst = append(binary.AppendUvarint(dst, uint64(len(b.present))<<1|1), b.present...)
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// numberRange gives the least and the greatest of a column of numbers, as engines order them: signed.
func numberRange(values []int64) (low, high []byte) {
	low = binary.LittleEndian.AppendUint64(nil, uint64(slices.Min(values)))
	high = binary.LittleEndian.AppendUint64(nil, uint64(slices.Max(values)))
	return low, high
}
