package stream

import (
	"math"
	"slices"
	"sort"
)

// blockMessages is how many messages a block holds at most.
const blockMessages = 512

// messages is the index of what is visible, by sequence: blocks of up to 512 messages in order. Deleted sequences
// cost nothing: a block lists what is there, shrinks when half of it is gone and joins its neighbour when both are
// small, so memory follows the number of messages however far apart their sequences are.
type messages struct {
	blocks []*block
	bases  []uint64 // of the blocks, for the search
	head   int      // the first row of the first block that is there
	live   uint64
	spare  *block // an emptied block, for the next
}

// block is a run of messages. Those that are gone have no subject.
type block struct {
	base   uint64 // offsets count from here
	live   int
	rows   []row
	times  []int64
	places []Place // nil while nobody set one
}

// row is the fixed part of a message.
type row struct {
	offset  uint32
	subject subjectID // 0: gone
	size    uint32    // as accounted, at most math.MaxUint32
}

// cursor is a position in the index.
type cursor struct{ block, row int }

func (l *messages) at(c cursor) (*block, *row) {
	b := l.blocks[c.block]
	return b, &b.rows[c.row]
}

func (l *messages) seq(c cursor) uint64 {
	b, r := l.at(c)
	return b.base + uint64(r.offset)
}

// add appends a message behind all others.
func (l *messages) add(seq uint64, time int64, id subjectID, size uint64, place Place) {
	var b *block
	if n := len(l.blocks); n > 0 {
		b = l.blocks[n-1]
	}
	if b == nil || len(b.rows) == blockMessages || seq-b.base > math.MaxUint32 {
		b = l.newBlock(seq)
	}
	b.rows = append(b.rows, row{uint32(seq - b.base), id, uint32(min(size, math.MaxUint32))})
	b.times = append(b.times, time)
	if place != 0 || b.places != nil {
		b.place(len(b.rows)-1, place)
	}
	b.live++
	l.live++
}

func (l *messages) newBlock(base uint64) *block {
	b := l.spare
	l.spare = nil
	switch {
	case b != nil:
	case len(l.blocks) == 0:
		b = &block{} // most streams are small: it grows
	default:
		b = &block{rows: make([]row, 0, blockMessages), times: make([]int64, 0, blockMessages)}
	}
	b.base = base
	l.blocks = append(l.blocks, b)
	l.bases = append(l.bases, base)
	return b
}

func (b *block) place(i int, p Place) {
	if b.places == nil {
		if p == 0 {
			return
		}
		b.places = make([]Place, 0, cap(b.rows))
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

// placed reports whether a message has a place.
func (l *messages) placed() bool {
	for _, b := range l.blocks {
		for i, p := range b.places {
			if p != 0 && b.rows[i].subject != 0 {
				return true
			}
		}
	}
	return false
}

// search gives the position of the first row, gone or not, whose sequence is at least seq.
func (l *messages) search(seq uint64) (cursor, bool) {
	n := len(l.blocks)
	if n == 0 {
		return cursor{}, false
	}
	at := n - 1
	if seq < l.bases[at] {
		// Where few are deleted, the place can be guessed.
		guess := 0
		if seq > l.bases[0] {
			guess = int(min((seq-l.bases[0])/blockMessages, uint64(n-1)))
		}
		if l.bases[guess] <= seq && seq < l.bases[guess+1] {
			at = guess
		} else {
			at = max(sort.Search(n, func(i int) bool { return l.bases[i] > seq })-1, 0)
		}
	}
	i := l.blocks[at].search(seq)
	if i == len(l.blocks[at].rows) {
		if at++; at == n {
			return cursor{}, false
		}
		i = 0
	}
	return cursor{at, i}, true
}

// search gives the first row whose sequence is at least seq, or the number of rows.
func (b *block) search(seq uint64) int {
	if seq <= b.base {
		return 0
	}
	off := seq - b.base
	n := len(b.rows)
	if off < uint64(n) && uint64(b.rows[off].offset) == off {
		return int(off)
	}
	return sort.Search(n, func(i int) bool { return uint64(b.rows[i].offset) >= off })
}

// seek gives the first message whose sequence is at least seq.
func (l *messages) seek(seq uint64) (cursor, bool) {
	c, ok := l.search(seq)
	if !ok {
		return c, false
	}
	if c.block == 0 && c.row < l.head {
		c.row = l.head
	}
	return l.settle(c)
}

// first gives the first message.
func (l *messages) first() (cursor, bool) { return cursor{0, l.head}, l.live > 0 }

// settle goes on from c, inclusive, to a message that is there.
func (l *messages) settle(c cursor) (cursor, bool) {
	for ; c.block < len(l.blocks); c.block, c.row = c.block+1, 0 {
		rows := l.blocks[c.block].rows
		for ; c.row < len(rows); c.row++ {
			if rows[c.row].subject != 0 {
				return c, true
			}
		}
	}
	return c, false
}

// after gives the next message behind c.
func (l *messages) after(c cursor) (cursor, bool) {
	c.row++
	return l.settle(c)
}

// seekBack gives the last message whose sequence is at most seq.
func (l *messages) seekBack(seq uint64) (cursor, bool) {
	c := cursor{block: len(l.blocks)}
	if seq < math.MaxUint64 {
		if found, ok := l.search(seq + 1); ok {
			c = found
		}
	}
	return l.before(c)
}

// before gives the last message in front of c.
func (l *messages) before(c cursor) (cursor, bool) {
	for {
		for c.row--; c.row >= 0; c.row-- {
			if l.blocks[c.block].rows[c.row].subject != 0 {
				return c, true
			}
		}
		if c.block--; c.block < 0 {
			return c, false
		}
		c.row = len(l.blocks[c.block].rows)
	}
}

// find gives the message of exactly this sequence.
func (l *messages) find(seq uint64) (cursor, bool) {
	c, ok := l.search(seq)
	if !ok {
		return c, false
	}
	b, r := l.at(c)
	return c, r.subject != 0 && b.base+uint64(r.offset) == seq
}

// from counts the messages whose sequence is at least seq.
func (l *messages) from(seq uint64) uint64 {
	c, ok := l.search(seq)
	if !ok {
		return 0
	}
	n := 0
	for _, r := range l.blocks[c.block].rows[c.row:] {
		if r.subject != 0 {
			n++
		}
	}
	// From whichever end is nearer.
	if c.block < len(l.blocks)/2 {
		n -= l.blocks[c.block].live
		for _, b := range l.blocks[:c.block] {
			n -= b.live
		}
		return l.live + uint64(n)
	}
	for _, b := range l.blocks[c.block+1:] {
		n += b.live
	}
	return uint64(n)
}

// remove takes a message out. Cursors do not survive it.
func (l *messages) remove(c cursor) {
	b, r := l.at(c)
	r.subject = 0
	b.live--
	l.live--
	switch {
	case b.live == 0:
		l.dropBlock(c.block)
	case c.block > 0 && b.live*2 < len(b.rows):
		// Not the first block: retention eats it from the front and will have it whole soon.
		b.compact()
		l.join(c.block)
	}
	if c.block <= 1 {
		l.findHead()
	}
}

// findHead moves head to the first row that is there. Rows in front of it never come back, so it is short.
func (l *messages) findHead() {
	if l.live == 0 {
		l.head = 0
		return
	}
	for rows := l.blocks[0].rows; rows[l.head].subject == 0; {
		l.head++
	}
}

func (l *messages) dropBlock(i int) {
	b := l.blocks[i]
	if cap(b.rows) == blockMessages && l.spare == nil {
		b.rows, b.times, b.places = b.rows[:0], b.times[:0], nil
		l.spare = b
	}
	if i == 0 {
		l.blocks[0] = nil
		l.blocks, l.bases, l.head = l.blocks[1:], l.bases[1:], 0
		return
	}
	l.blocks = slices.Delete(l.blocks, i, i+1)
	l.bases = slices.Delete(l.bases, i, i+1)
}

// compact forgets the rows that are gone.
func (b *block) compact() {
	rows := make([]row, 0, b.live)
	times := make([]int64, 0, b.live)
	var places []Place
	if b.places != nil {
		places = make([]Place, 0, b.live)
	}
	for i, r := range b.rows {
		if r.subject == 0 {
			continue
		}
		rows, times = append(rows, r), append(times, b.times[i])
		if places != nil {
			places = append(places, b.placeOf(i))
		}
	}
	b.rows, b.times, b.places = rows, times, places
}

// join merges a thin block with a neighbour when both together are still at most half full.
func (l *messages) join(i int) {
	if i+1 < len(l.blocks) && l.tryJoin(i) {
		return
	}
	if i > 0 {
		l.tryJoin(i - 1)
	}
}

func (l *messages) tryJoin(i int) bool {
	a, b := l.blocks[i], l.blocks[i+1]
	if a.live+b.live > blockMessages/2 {
		return false
	}
	if len(b.rows) > 0 && b.base+uint64(b.rows[len(b.rows)-1].offset)-a.base > math.MaxUint32 {
		return false
	}
	if i == 0 {
		l.head = 0
	}
	a.compact()
	b.compact()
	shift := uint32(b.base - a.base)
	for k, r := range b.rows {
		r.offset += shift
		a.rows = append(a.rows, r)
		a.times = append(a.times, b.times[k])
		if b.places != nil || a.places != nil {
			a.place(len(a.rows)-1, b.placeOf(k))
		}
	}
	a.live += b.live
	l.blocks = slices.Delete(l.blocks, i+1, i+2)
	l.bases = slices.Delete(l.bases, i+1, i+2)
	return true
}

// seekTime gives the first message that is not older than a time. Times never fall from one message to the next.
func (l *messages) seekTime(ns int64) (cursor, bool) {
	at := sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].times[len(l.blocks[i].times)-1] >= ns })
	if at == len(l.blocks) {
		return cursor{}, false
	}
	times := l.blocks[at].times
	return l.settle(cursor{at, sort.Search(len(times), func(i int) bool { return times[i] >= ns })})
}
