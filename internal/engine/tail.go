package engine

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// chunk holds the records of messages of one stream that travelled to the log together. They follow each other; a few
// sequences between may have no message. Its bytes may be let go once they are committed: the place says where to read
// them again.
type chunk struct {
	first   uint64   // sequence of the first message
	count   int      // sequences, those of removed messages and those without a message included
	live    int      // messages that are not removed; 0: the chunk is dead, and only its first and count hold
	offsets []uint32 // where the record of each sequence starts in data; 0 but for the first: there is none
	bytes   int      // len of data, also when it is let go

	data  atomic.Pointer[[]byte] // nil: let go. Immutable
	place place
	moved bool // a segment has the messages as well, so the log need not

	// counted and the links are guarded by the budget's mu.
	counted      bool
	older, newer *chunk
}

// place is where a chunk's bytes lie in the log.
type place struct {
	log wal.LogID
	pos wal.Position
}

// of gives the bytes of a chunk in its batch, which it aliases.
func (p place) of(b *wal.Batch, bytes int) ([]byte, error) {
	begin := int(p.pos.Byte)
	if begin+bytes > len(b.Body) {
		return nil, fmt.Errorf("batch %v at %d is shorter than its chunk", p.log, p.pos.Offset)
	}
	return b.Body[begin : begin+bytes], nil
}

// placed reports whether the log has the chunk.
func (c *chunk) placed() bool { return c.place.pos.Epoch != 0 }

func (c *chunk) last() uint64 { return c.first + uint64(c.count) - 1 }

// has reports whether a sequence of the chunk came with a message.
func (c *chunk) has(seq uint64) bool { return seq == c.first || c.offsets[seq-c.first] != 0 }

// message reads a message of the chunk out of its data.
func (c *chunk) message(data []byte, seq uint64) (record.StoredMessage, error) {
	m, err := messageAt(data, c.offsets[seq-c.first])
	if err != nil {
		err = fmt.Errorf("engine: reading sequence %d: %w", seq, err)
	}
	return m, err
}

// messageAt reads the message whose record starts at a place in a chunk's data.
func messageAt(data []byte, at uint32) (record.StoredMessage, error) {
	if int(at) >= len(data) {
		return record.StoredMessage{}, fmt.Errorf("a record at byte %d of %d", at, len(data))
	}
	r, _, err := record.Next(data[at:])
	if err != nil {
		return record.StoredMessage{}, err
	}
	return record.ParseMessage(r.Body)
}

// tail is a stream's messages, oldest first, as chunks. It knows where each message's bytes are; which messages exist
// is the state machine's business. Only the stream's owner uses it.
type tail struct {
	chunks []*chunk // by first sequence, dead ones among them
	dead   int
	logged int64       // bytes of the live chunks that only the log has, once it has them
	died   []place     // of the oldest chunk of each log that died since the last checkpoint
	budget *tailBudget // nil: everything stays in memory (storage: memory)
}

// push adds a chunk whose bytes stay in memory: for good, or until it is counted.
func (t *tail) push(c *chunk) { t.chunks = append(t.chunks, c) }

// find gives the live chunk that holds seq, or nil.
func (t *tail) find(seq uint64) *chunk {
	i := len(t.chunks) - 1
	// Most reads are near the end: the newest chunk first.
	if i >= 0 && seq < t.chunks[i].first {
		i = sort.Search(i, func(i int) bool { return t.chunks[i].first > seq }) - 1
	}
	if i < 0 || t.chunks[i].live == 0 || seq > t.chunks[i].last() {
		return nil
	}
	return t.chunks[i]
}

// removed notes that a message is gone; a chunk without any is dropped.
func (t *tail) removed(seq uint64) {
	c := t.find(seq)
	if c == nil {
		return
	}
	if c.live--; c.live > 0 {
		return
	}
	if t.budget != nil {
		t.budget.drop(c)
	}
	if c.placed() && !c.moved {
		t.logged -= int64(c.bytes)
		t.noteDeath(c.place)
	}
	c.data.Store(nil)
	c.offsets = nil
	t.dead++
	if t.dead > 64 && t.dead > len(t.chunks)/2 {
		t.squeeze()
	}
}

// noteDeath notes that the messages of a chunk are gone, which no checkpoint says yet.
func (t *tail) noteDeath(at place) {
	for i, d := range t.died {
		if d.log == at.log {
			if at.pos.Offset < d.pos.Offset {
				t.died[i] = at
			}
			return
		}
	}
	t.died = append(t.died, at)
}

// squeeze takes the dead chunks out.
func (t *tail) squeeze() {
	kept := t.chunks[:0]
	for _, c := range t.chunks {
		if c.live > 0 {
			kept = append(kept, c)
		}
	}
	clear(t.chunks[len(kept):])
	t.chunks, t.dead = kept, 0
}

// release lets go of everything, for a stream that ends.
func (t *tail) release() {
	for _, c := range t.chunks {
		if t.budget != nil {
			t.budget.drop(c)
		}
	}
	t.chunks, t.dead, t.logged, t.died = nil, 0, 0, nil
}

// tailBudget bounds the bytes of committed messages that all streams of a node keep in memory. The oldest committed are
// let go first, whichever stream they belong to.
type tailBudget struct {
	max int

	mu             sync.Mutex // guards the list and used
	oldest, newest *chunk
	used           int
}

// add counts a chunk whose bytes are in memory.
func (b *tailBudget) add(c *chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.counted = true
	c.older = b.newest
	if b.newest != nil {
		b.newest.newer = c
	} else {
		b.oldest = c
	}
	b.newest = c
	b.used += c.bytes
	for b.used > b.max && b.oldest != b.newest {
		old := b.oldest
		b.unlink(old)
		old.data.Store(nil)
	}
}

// drop forgets a chunk.
func (b *tailBudget) drop(c *chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.counted {
		b.unlink(c)
	}
}

// unlink takes a chunk out of the list. mu is held.
func (b *tailBudget) unlink(c *chunk) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		b.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		b.newest = c.older
	}
	c.older, c.newer, c.counted = nil, nil, false
	b.used -= c.bytes
}

func (b *tailBudget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// enter notes that the log has a chunk that is in the tail.
func (t *tail) enter(c *chunk, at place) {
	c.place = at
	if c.live > 0 {
		t.logged += int64(c.bytes)
	} else {
		t.noteDeath(at)
	}
}

// count puts a chunk that is in the tail already under the budget, now that its bytes can be read again from the log.
func (t *tail) count(c *chunk) {
	if t.budget != nil && c.live > 0 {
		t.budget.add(c)
	}
}
