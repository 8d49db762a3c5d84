package stream

import (
	"math"
	"slices"
	"sort"
	"sync"
)

// blockMessages is how many messages a block holds at most.
const blockMessages = 512

// block is a run of messages in order. It begins open, as rows, and is packed into columns some time after it is full:
// sequences without gaps and sizes and subjects that are alike take next to nothing then, and a time takes about as many
// bits as messages come irregularly. A packed message is still read in a constant number of steps.
type block struct {
	base   uint64  // the first sequence; offsets count from here
	live   int     // messages that are there
	rows   []row   // open: those that are gone have no subject
	times  []int64 // open
	packed *packed // or nil
	places []Place // nil while nobody set one
}

// row is the fixed part of a message.
type row struct {
	offset  uint32
	subject subjectID // 0: gone
	size    uint32    // as accounted, at most math.MaxUint32
}

// packed is a block's messages in columns.
type packed struct {
	columns [columns]column
	words   []uint64
	gone    absent
	n       int
}

// What the columns hold.
const (
	columnSeq = iota
	columnTime
	columnSize
	columnSubject
	columns
)

func (p *packed) at(column, i int) uint64 { return p.columns[column].at(p.words, i) }

// rowCount is how many messages there are, gone or not.
func (b *block) rowCount() int {
	if b.packed != nil {
		return b.packed.n
	}
	return len(b.rows)
}

func (b *block) seq(i int) uint64 {
	if b.packed != nil {
		return b.packed.at(columnSeq, i)
	}
	return b.base + uint64(b.rows[i].offset)
}

func (b *block) time(i int) int64 {
	if b.packed != nil {
		return int64(b.packed.at(columnTime, i))
	}
	return b.times[i]
}

func (b *block) size(i int) uint64 {
	if b.packed != nil {
		return b.packed.at(columnSize, i)
	}
	return uint64(b.rows[i].size)
}

// subject is that of a message that is there.
func (b *block) subject(i int) subjectID {
	if b.packed != nil {
		return subjectID(b.packed.at(columnSubject, i))
	}
	return b.rows[i].subject
}

func (b *block) there(i int) bool {
	if b.packed != nil {
		return !b.packed.gone.has(i)
	}
	return b.rows[i].subject != 0
}

// next gives the first message from i on that is there, or the number of rows.
func (b *block) next(i int) int {
	if p := b.packed; p != nil {
		return p.gone.next(i, p.n)
	}
	for i < len(b.rows) && b.rows[i].subject == 0 {
		i++
	}
	return i
}

// previous gives the last message up to i that is there, or -1.
func (b *block) previous(i int) int {
	if b.packed != nil {
		return b.packed.gone.previous(i)
	}
	for i >= 0 && b.rows[i].subject == 0 {
		i--
	}
	return i
}

// from counts the messages from i on.
func (b *block) from(i int) int {
	if p := b.packed; p != nil {
		return p.n - i - p.gone.count(i, p.n)
	}
	n := 0
	for k := range b.rows[i:] {
		if b.rows[i+k].subject != 0 {
			n++
		}
	}
	return n
}

// search gives the first row whose sequence is at least seq, or the number of rows.
func (b *block) search(seq uint64) int {
	if seq <= b.base {
		return 0
	}
	if p := b.packed; p != nil {
		return p.columns[columnSeq].search(p.words, p.n, seq)
	}
	off := seq - b.base
	n := len(b.rows)
	if off < uint64(n) && uint64(b.rows[off].offset) == off {
		return int(off)
	}
	return sort.Search(n, func(i int) bool { return uint64(b.rows[i].offset) >= off })
}

// searchTime gives the first row that is not older than a time, or the number of rows.
func (b *block) searchTime(ns int64) int {
	return sort.Search(b.rowCount(), func(i int) bool { return b.time(i) >= ns })
}

func (b *block) remove(i int) {
	if p := b.packed; p != nil {
		p.gone.set(i, p.n)
	} else {
		b.rows[i].subject = 0
	}
	b.live--
}

func (b *block) place(i int, p Place) {
	if b.places == nil {
		if p == 0 {
			return
		}
		b.places = make([]Place, 0, max(cap(b.rows), b.rowCount()))
	}
	for len(b.places) <= i {
		b.places = append(b.places, 0)
	}
	b.places[i] = p
}

// placeOf is 0 where nobody set one.
func (b *block) placeOf(i int) Place {
	if i < len(b.places) {
		return b.places[i]
	}
	return 0
}

// appendColumn appends what a column holds of the messages that are there.
func (b *block) appendColumn(list []uint64, column int) []uint64 {
	if p := b.packed; p != nil {
		for i := p.gone.next(0, p.n); i < p.n; i = p.gone.next(i+1, p.n) {
			list = append(list, p.at(column, i))
		}
		return list
	}
	// Whatever is gone is written too, and then overwritten.
	k := len(list)
	list = slices.Grow(list, len(b.rows))[:k+len(b.rows)]
	switch column {
	case columnSeq:
		for i := range b.rows {
			list[k] = b.base + uint64(b.rows[i].offset)
			k += b.rows[i].one()
		}
	case columnTime:
		for i, t := range b.times {
			list[k] = uint64(t)
			k += b.rows[i].one()
		}
	case columnSize:
		for i := range b.rows {
			list[k] = uint64(b.rows[i].size)
			k += b.rows[i].one()
		}
	case columnSubject:
		for i := range b.rows {
			list[k] = uint64(b.rows[i].subject)
			k += b.rows[i].one()
		}
	}
	return list[:k]
}

// one is 1 where a message is there.
func (r *row) one() int {
	if r.subject != 0 {
		return 1
	}
	return 0
}

// gapless reports whether an open block's sequences follow each other and all are there.
func (b *block) gapless() bool {
	n := len(b.rows)
	return b.packed == nil && b.live == n && b.rows[0].offset == 0 && b.rows[n-1].offset == uint32(n-1)
}

// packing is the room that packing needs meanwhile.
type packing struct{ list, words []uint64 }

var packings = sync.Pool{New: func() any { return &packing{} }}

// packBlocks packs the messages of blocks that follow each other; there is at least one.
func packBlocks(blocks ...*block) *packed {
	room := packings.Get().(*packing)
	defer packings.Put(room)
	p := &packed{}
	room.words = room.words[:0]
	for c := range columns {
		if c == columnSeq && len(blocks) == 1 && blocks[0].gapless() {
			p.columns[c] = column{base: blocks[0].base, slope: 1}
			continue
		}
		room.list = room.list[:0]
		for _, b := range blocks {
			room.list = b.appendColumn(room.list, c)
		}
		p.columns[c], room.words = packColumn(room.words, room.list)
	}
	p.n = len(room.list)
	p.words = slices.Clone(room.words)
	return p
}

// gatherPlaces gives the places of the messages that are there, or nil.
func gatherPlaces(blocks ...*block) (places []Place) {
	if !slices.ContainsFunc(blocks, func(b *block) bool { return b.places != nil }) {
		return nil
	}
	for _, b := range blocks {
		for i, n := b.next(0), b.rowCount(); i < n; i = b.next(i + 1) {
			places = append(places, b.placeOf(i))
		}
	}
	return places
}

// become takes over the messages of blocks that follow each other, the first of which it may be, without those that
// are gone.
func (b *block) become(pack bool, blocks ...*block) {
	whole := block{base: blocks[0].seq(blocks[0].next(0)), places: gatherPlaces(blocks...)}
	for _, part := range blocks {
		whole.live += part.live
	}
	if pack {
		whole.packed = packBlocks(blocks...)
	} else {
		whole.rows, whole.times = make([]row, 0, whole.live), make([]int64, 0, whole.live)
		for _, part := range blocks {
			for i, n := part.next(0), part.rowCount(); i < n; i = part.next(i + 1) {
				whole.rows = append(whole.rows, row{uint32(part.seq(i) - whole.base), part.subject(i), uint32(part.size(i))})
				whole.times = append(whole.times, part.time(i))
			}
		}
	}
	*b = whole
}

// spans reports whether offsets reach from the first message of a block to the last of another.
func spans(a, b *block) bool { return b.seq(b.rowCount()-1)-a.base <= math.MaxUint32 }
