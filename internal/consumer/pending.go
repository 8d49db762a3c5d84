package consumer

import "slices"

// entry is a delivered message that waits for its acknowledgement.
type entry struct {
	stream     uint64 // sequence in the stream
	consumer   uint64 // sequence of its first delivery
	deadline   int64  // when it is to be redelivered, unless it is queued for that
	deliveries uint32 // 0 when its only delivery was taken back
	flags      entryFlags
}

type entryFlags uint8

const (
	gone   entryFlags = 1 << iota // acknowledged or given up; waits to be squeezed out
	queued                        // in the redelivery queue
	saved                         // part of the progress that was handed out
	dirty                         // changed since
	dead                          // waits for its dead letter to be stored, and is not delivered again
)

// Slack of pendingList and of the structures beside it: they are squeezed when more than half of what they hold, and
// at least this many, is of no use any more.
const slack = 64

// pendingList holds the messages that wait for acknowledgement, ascending by stream sequence, which is also the order
// of their first deliveries. New ones come at the end; most leave at the front. One that leaves elsewhere stays as a
// gap that is squeezed out in time, so a lookup is mostly one probe: without gaps, an entry's place is the distance of
// its sequence from the first.
type pendingList struct {
	entries     []entry // from head on; entries[head] is never gone
	head        int
	live        int
	redelivered int // live entries that were delivered more than once
	peak        int // most live entries since there were none
	dirtyFrom   int // no entry before this index is dirty
	hint        int // where the last lookup ended; acknowledgements mostly come in order
}

// find gives the index of a live entry, or -1.
func (p *pendingList) find(seq uint64) int {
	if i := p.hint + 1; i < len(p.entries) && i > p.head && p.entries[i].stream == seq {
		p.hint = i
		if p.entries[i].flags&gone != 0 {
			return -1
		}
		return i
	}
	i := p.search(seq)
	if i == len(p.entries) || p.entries[i].stream != seq || p.entries[i].flags&gone != 0 {
		return -1
	}
	p.hint = i
	return i
}

// search gives the index of the first entry, gone or not, at or above seq.
func (p *pendingList) search(seq uint64) int {
	lo, hi := p.head, len(p.entries)
	if lo == hi || seq <= p.entries[lo].stream {
		return lo
	}
	// Sequences are distinct, so an entry is never further from the first than its sequence is.
	if far := seq - p.entries[lo].stream; far < uint64(hi-lo) {
		if guess := lo + int(far); p.entries[guess].stream == seq {
			return guess
		}
		hi = lo + int(far)
	}
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); p.entries[mid].stream < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// add appends an entry that sorts after all others.
func (p *pendingList) add(e entry) {
	if len(p.entries) == cap(p.entries) && p.head > len(p.entries)/2 {
		n := copy(p.entries, p.entries[p.head:])
		p.shift(p.head)
		p.entries, p.head = p.entries[:n], 0
	}
	if p.live == 0 {
		p.dirtyFrom = len(p.entries)
	}
	p.entries = append(p.entries, e)
	p.live++
	p.peak = max(p.peak, p.live)
	if e.deliveries > 1 {
		p.redelivered++
	}
}

// shift corrects the indices after the entries moved down.
func (p *pendingList) shift(by int) {
	p.dirtyFrom = max(p.dirtyFrom-by, 0)
	p.hint = max(p.hint-by, 0)
}

// touch notes that an entry changed.
func (p *pendingList) touch(i int) {
	p.entries[i].flags |= dirty
	p.dirtyFrom = min(p.dirtyFrom, i)
}

// remove takes an entry out. Indices of others are not valid afterwards.
func (p *pendingList) remove(i int) {
	e := &p.entries[i]
	if e.deliveries > 1 {
		p.redelivered--
	}
	e.flags = e.flags&^dirty | gone
	p.live--
	for p.head < len(p.entries) && p.entries[p.head].flags&gone != 0 {
		p.head++
	}
	// The end is cut as well: a delivery that was taken back comes again, with the same sequence.
	for n := len(p.entries); n > p.head && p.entries[n-1].flags&gone != 0; n-- {
		p.entries = p.entries[:n-1]
	}
	p.dirtyFrom = min(p.dirtyFrom, len(p.entries))
	switch used := len(p.entries) - p.head; {
	case used == 0:
		p.clear()
	case used > 2*p.live+slack:
		p.squeeze()
	}
}

// clear drops all entries.
func (p *pendingList) clear() { *p = pendingList{entries: emptied(p.entries, p.peak)} }

// emptied empties a list and keeps its memory unless that is far more than was needed of late.
func emptied[T any](s []T, needed int) []T {
	if cap(s) > 4*needed+slack {
		return nil
	}
	return s[:0]
}

// squeeze takes the gaps out.
func (p *pendingList) squeeze() {
	into := p.entries[:0]
	if cap(into) > 64*slack && cap(into) > 16*p.live {
		into = make([]entry, 0, 2*p.live+slack)
	}
	dirtyFrom := -1
	for i := p.head; i < len(p.entries); i++ {
		if p.entries[i].flags&gone != 0 {
			continue
		}
		if dirtyFrom < 0 && i >= p.dirtyFrom {
			dirtyFrom = len(into)
		}
		into = append(into, p.entries[i])
	}
	if dirtyFrom < 0 {
		dirtyFrom = len(into)
	}
	p.entries, p.head, p.dirtyFrom, p.hint = into, 0, dirtyFrom, 0
}

// first is the lowest live entry; there must be one.
func (p *pendingList) first() *entry { return &p.entries[p.head] }

// all walks over the live entries, ascending. The body may change an entry but not add or remove.
func (p *pendingList) all(yield func(i int, e *entry) bool) {
	for i := p.head; i < len(p.entries); i++ {
		if p.entries[i].flags&gone == 0 && !yield(i, &p.entries[i]) {
			return
		}
	}
}

// put inserts or replaces an entry wherever it belongs: for replay, where the order is not that of delivery.
func (p *pendingList) put(e entry) {
	i := p.search(e.stream)
	switch {
	case i == len(p.entries):
		p.add(e)
	case p.entries[i].stream == e.stream:
		old := p.entries[i]
		if old.flags&gone != 0 {
			p.live++
		} else if old.deliveries > 1 {
			p.redelivered--
		}
		if e.deliveries > 1 {
			p.redelivered++
		}
		p.entries[i] = e
	default:
		p.entries = slices.Insert(p.entries, i, e)
		p.live++
		if e.deliveries > 1 {
			p.redelivered++
		}
	}
	p.dirtyFrom = min(p.dirtyFrom, i)
}
