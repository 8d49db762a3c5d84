package stream

import (
	"math"
	"slices"
	"sort"
)

// openBlocks is how many full blocks stay open in front of the one that is being filled: what is read and removed soon
// after it came, as a work queue does it, costs no packing.
const openBlocks = 4

// messages is the index of what is visible, by sequence: blocks of up to 512 messages in order. Deleted sequences
// cost nothing: a block lists what is there, shrinks when half of it is gone and joins its neighbour when both are
// small, so memory follows the number of messages however far apart their sequences are.
type messages struct {
	blocks []*block
	bases  []uint64 // of the blocks, for the search
	lives  tally    // messages that are there, by block
	head   int      // the first row of the first block that is there
	live   uint64
	spare  block // the rows of a block that was packed or emptied, for the next
	eager  bool  // blocks are packed when they are full
}

// cursor is a position in the index.
type cursor struct{ block, row int }

func (l *messages) seq(c cursor) uint64        { return l.blocks[c.block].seq(c.row) }
func (l *messages) time(c cursor) int64        { return l.blocks[c.block].time(c.row) }
func (l *messages) size(c cursor) uint64       { return l.blocks[c.block].size(c.row) }
func (l *messages) subject(c cursor) subjectID { return l.blocks[c.block].subject(c.row) }
func (l *messages) place(c cursor) Place       { return l.blocks[c.block].placeOf(c.row) }

// add appends a message behind all others.
func (l *messages) add(seq uint64, time int64, id subjectID, size uint64, place Place) {
	var b *block
	if n := len(l.blocks); n > 0 {
		b = l.blocks[n-1]
	}
	if b == nil || b.packed != nil || len(b.rows) == blockMessages || seq-b.base > math.MaxUint32 {
		b = l.newBlock(seq)
	}
	b.rows = append(b.rows, row{uint32(seq - b.base), id, uint32(min(size, math.MaxUint32))})
	b.times = append(b.times, time)
	if place != 0 || b.places != nil {
		b.place(len(b.rows)-1, place)
	}
	b.live++
	l.lives.add(len(l.blocks)-1, 1)
	l.live++
}

func (l *messages) newBlock(base uint64) *block {
	late := openBlocks
	if l.eager {
		late = 0
	}
	if i := len(l.blocks) - 1 - late; i >= 0 && l.blocks[i].packed == nil {
		l.pack(i)
	}
	b := &block{base: base, rows: l.spare.rows, times: l.spare.times}
	l.spare = block{}
	if b.rows == nil && len(l.blocks) > 0 { // most streams are small: their first block grows
		b.rows, b.times = make([]row, 0, blockMessages), make([]int64, 0, blockMessages)
	}
	l.blocks = append(l.blocks, b)
	l.bases = append(l.bases, base)
	l.lives.push(0)
	return b
}

// pack packs a block and keeps its rows for the next.
func (l *messages) pack(i int) {
	b := l.blocks[i]
	open := *b
	b.become(true, b)
	l.bases[i] = b.base
	l.keep(&open)
	if i == 0 {
		l.head = 0
	}
}

// keep keeps the rows of a block that needs them no more.
func (l *messages) keep(b *block) {
	if l.spare.rows == nil && cap(b.rows) == blockMessages {
		l.spare = block{rows: b.rows[:0], times: b.times[:0]}
	}
}

// placed reports whether a message has a place.
func (l *messages) placed() bool {
	for _, b := range l.blocks {
		for i, p := range b.places {
			if p != 0 && b.there(i) {
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
	if i == l.blocks[at].rowCount() {
		if at++; at == n {
			return cursor{}, false
		}
		i = 0
	}
	return cursor{at, i}, true
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
		b := l.blocks[c.block]
		if c.row = b.next(c.row); c.row < b.rowCount() {
			return c, true
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
		if c.row > 0 {
			if c.row = l.blocks[c.block].previous(c.row - 1); c.row >= 0 {
				return c, true
			}
		}
		if c.block--; c.block < 0 {
			return c, false
		}
		c.row = l.blocks[c.block].rowCount()
	}
}

// find gives the message of exactly this sequence.
func (l *messages) find(seq uint64) (cursor, bool) {
	c, ok := l.search(seq)
	if !ok {
		return c, false
	}
	b := l.blocks[c.block]
	return c, b.seq(c.row) == seq && b.there(c.row)
}

// from counts the messages whose sequence is at least seq.
func (l *messages) from(seq uint64) uint64 {
	c, ok := l.search(seq)
	if !ok {
		return 0
	}
	b := l.blocks[c.block]
	return l.live - l.lives.before(c.block) - uint64(b.live-b.from(c.row))
}

// remove takes a message out. Cursors do not survive it.
func (l *messages) remove(c cursor) {
	b := l.blocks[c.block]
	b.remove(c.row)
	l.lives.add(c.block, -1)
	l.live--
	switch {
	case b.live == 0:
		l.dropBlock(c.block)
	case c.block > 0 && b.live*2 < b.rowCount():
		// Not the first block: retention eats it from the front and will have it whole soon.
		l.compact(c.block)
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
	l.head = l.blocks[0].next(l.head)
}

func (l *messages) dropBlock(i int) {
	l.keep(l.blocks[i])
	l.lives.delete(i)
	if i == 0 {
		l.blocks[0] = nil
		l.blocks, l.bases, l.head = l.blocks[1:], l.bases[1:], 0
		return
	}
	l.blocks = slices.Delete(l.blocks, i, i+1)
	l.bases = slices.Delete(l.bases, i, i+1)
}

// compact forgets the rows of a block that are gone, or merges it with a neighbour when both together are still at most
// half full.
func (l *messages) compact(i int) {
	if l.join(i) || l.join(i-1) {
		return
	}
	b := l.blocks[i]
	b.become(b.packed != nil, b)
	l.bases[i] = b.base
}

// join merges a block with the next, if it may be.
func (l *messages) join(i int) bool {
	if i+1 >= len(l.blocks) {
		return false
	}
	a, b := l.blocks[i], l.blocks[i+1]
	if a.live+b.live > blockMessages/2 || !spans(a, b) {
		return false
	}
	if i == 0 {
		l.head = 0
	}
	a.become(i+1 < len(l.blocks)-1-openBlocks, a, b)
	l.bases[i] = a.base
	l.lives.add(i, b.live)
	l.lives.add(i+1, -b.live)
	l.lives.delete(i + 1)
	l.blocks = slices.Delete(l.blocks, i+1, i+2)
	l.bases = slices.Delete(l.bases, i+1, i+2)
	return true
}

// seekTime gives the first message that is not older than a time. Times never fall from one message to the next.
func (l *messages) seekTime(ns int64) (cursor, bool) {
	at := sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].time(l.blocks[i].rowCount()-1) >= ns })
	if at == len(l.blocks) {
		return cursor{}, false
	}
	return l.settle(cursor{at, l.blocks[at].searchTime(ns)})
}
