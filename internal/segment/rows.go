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

// rowsAtOnce is how many rows of a block are decoded together.
const rowsAtOnce = 64

// rowsColumns are the columns of a block that are yet to be read.
type rowsColumns struct {
	gapCount               uint64
	gaps                   cursor
	times, sizes, subjects []byte
}

// cutRows tells a block's columns apart.
func cutRows(block []byte) (r rowsColumns, ok bool) {
	c := &cursor{b: block}
	r.gapCount = c.uvarint()
	gaps, times, sizes := c.uvarint(), c.uvarint(), c.uvarint()
	r.gaps.b = c.bytes(gaps)
	r.times = c.bytes(times)
	r.sizes = c.bytes(sizes)
	r.subjects = block[c.at:]
	return r, !c.bad
}

// rowsReader reads the block of one group, which must be one that checkRows let in.
type rowsReader struct {
	row Row // the newest, without its note

	columns rowsColumns
	n, left uint64 // rows
	nextGap uint64 // the row before which sequences are left out; 0, the first, is none
	size    uint64 // twice the size, and one more with a header

	at, held               int // of the rows that are decoded
	times, sizes, subjects [rowsAtOnce]uint64
}

// start makes r read the block of a group, from its first row on.
func (r *rowsReader) start(block []byte, g *Group) {
	r.columns, _ = cutRows(block)
	r.row = Row{Seq: g.First, Time: g.FirstTime}
	r.n, r.left = 0, uint64(g.Rows)
	r.nextGap, r.size = 0, 0
	r.at, r.held = 0, 0
	r.gap()
}

// gap reads where the next gap is.
func (r *rowsReader) gap() {
	if r.columns.gapCount == 0 {
		r.nextGap = 0
		return
	}
	r.columns.gapCount--
	r.nextGap += r.columns.gaps.uvarint()
}

// fill decodes the next rows.
func (r *rowsReader) fill() {
	c := &r.columns
	r.at, r.held = 0, int(min(r.left, rowsAtOnce))
	times := r.times[:r.held]
	if r.n == 0 { // the group has the first one
		times[0] = 0
		times = times[1:]
	}
	c.times = takeColumn(times, c.times)
	c.sizes = takeColumn(r.sizes[:r.held], c.sizes)
	c.subjects = takeColumn(r.subjects[:r.held], c.subjects)
}

// read goes to the next row.
func (r *rowsReader) read() bool {
	if r.at == r.held {
		if r.left == 0 {
			return false
		}
		r.fill()
	}
	if r.n > 0 {
		r.row.Seq++
		if r.n == r.nextGap {
			r.row.Seq += r.columns.gaps.uvarint()
			r.gap()
		}
	}
	i := r.at % rowsAtOnce
	r.row.Time += zigzag(r.times[i])
	r.size += uint64(zigzag(r.sizes[i]))
	r.row.Size, r.row.Header = r.size>>1, r.size&1 == 1
	r.row.Subject = uint32(r.subjects[i])
	r.at++
	r.n++
	r.left--
	return true
}

// checkRows reads the block of a group once, so that whoever reads it later need not check.
func checkRows(block []byte, g *Group, subjects uint32) error {
	r, ok := cutRows(block)
	n := int(g.Rows)
	if !ok || !isColumn(r.times, n-1) || !isColumn(r.sizes, n) || !isColumn(r.subjects, n) {
		return fmt.Errorf("%w: rows of group %d: not %d of them", ErrCorrupt, g.Number, n)
	}
	if !r.checkGaps(g) {
		return fmt.Errorf("%w: rows of group %d: gaps that do not lead from %d to %d", ErrCorrupt, g.Number, g.First, g.Last)
	}
	var sizes, ordinals [rowsAtOnce]uint64
	var size, bytes uint64
	for left := n; left > 0; left -= rowsAtOnce {
		held := min(left, rowsAtOnce)
		r.sizes = takeColumn(sizes[:held], r.sizes)
		r.subjects = takeColumn(ordinals[:held], r.subjects)
		for i, ordinal := range ordinals[:held] {
			size += uint64(zigzag(sizes[i]))
			bytes += size >> 1
			if ordinal >= uint64(subjects) || size>>1 > MaxMessageBytes {
				return fmt.Errorf("%w: rows of group %d: row %d has %d bytes and subject %d", ErrCorrupt, g.Number, n-left+i, size>>1, ordinal)
			}
		}
	}
	if bytes != g.Bytes {
		return fmt.Errorf("%w: rows of group %d: %d bytes, want %d", ErrCorrupt, g.Number, bytes, g.Bytes)
	}
	return nil
}

// checkGaps reports whether the sequences lead from the first to the last of a group, without one twice.
func (r *rowsColumns) checkGaps(g *Group) bool {
	c := r.gaps // a copy
	room := g.Last - g.First - (uint64(g.Rows) - 1)
	row := uint64(0)
	for range r.gapCount {
		step, out := c.uvarint(), c.uvarint()
		if c.bad || step == 0 || step >= uint64(g.Rows)-row || out == 0 || out > room {
			return false
		}
		row += step
		room -= out
	}
	return c.atEnd() && room == 0
}
