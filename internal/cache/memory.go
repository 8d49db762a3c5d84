package cache

import "hash/maphash"

const (
	// entryBytes and objectBytes are what the cache's own books take for a part and for an object beside its key,
	// measured generously: structs, map slots with their free room, the allocator's rounding.
	entryBytes  = 320
	objectBytes = 512
	// A ghost is a hash in a ring and in a map.
	ghostBytes = 48
	// bytesPerGhost gives the number of ghosts: about as many as parts of a usual size fit.
	bytesPerGhost = 64 << 10
	// maxUses is where counting ends.
	maxUses = 3
	// usesToStay is how many uses after the first a part needs in the small queue to move to the main one. Two
	// consumers that pass by make one.
	usesToStay = 2
)

// entry is a part in memory.
type entry struct {
	key    string
	part   Part
	data   []byte // never modified: callers hold it
	uses   uint8  // up to maxUses, since it came into its queue
	unused bool   // read ahead, and nobody has asked for it yet
	in     *fifo
	prev   *entry
	next   *entry
}

func (e *entry) cost() int64 { return int64(cap(e.data)) + entryBytes }

// fifo is a queue of entries.
type fifo struct {
	newest, oldest *entry
	bytes          int64
	reader         *Reader // of whom this is what was read ahead, if it is that
}

func (l *fifo) push(e *entry) {
	e.in, e.prev, e.next = l, nil, l.newest
	if l.newest != nil {
		l.newest.prev = e
	} else {
		l.oldest = e
	}
	l.newest = e
	l.bytes += e.cost()
}

func (l *fifo) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.newest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.oldest = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	l.bytes -= e.cost()
}

// memory holds parts within a number of bytes. It is S3-FIFO (Yang et al., "FIFO queues are all you need for cache
// eviction", SOSP 2023) with bytes in the place of counts: new parts enter a small queue of a tenth of the bytes, from
// which only those that were used again move to the main queue; the others leave a ghost, a hash by which a part that
// comes back soon is known and enters the main queue at once. So a scan passes through a tenth of the memory. A hit
// moves nothing.
//
// Beside the two queues there are lists of parts that were read ahead, one of each Reader: they cannot be evicted,
// and their sum is bounded by the Cache.
//
// size never exceeds max, given that what is reserved and read ahead leaves room for one part: see [Options].
type memory struct {
	max      int64
	size     int64 // entries, objects, ghosts, reserved
	entries  index[*entry]
	parts    int
	small    fifo
	main     fifo
	seed     maphash.Seed
	ghosts   map[uint64]struct{}
	ring     []uint64 // of ghosts; a slot of 0 is free
	ringNext int
	// evicted is told of parts that had to go.
	evicted func(*entry)
}

func newMemory(max int64, evicted func(*entry)) *memory {
	n := min(max/bytesPerGhost, 1<<16)
	return &memory{
		max: max, size: n * ghostBytes, evicted: evicted,
		entries: index[*entry]{}, seed: maphash.MakeSeed(),
		ghosts: make(map[uint64]struct{}, n), ring: make([]uint64, n),
	}
}

// reserve counts bytes of a fetch that is under way.
func (m *memory) reserve(n int64) {
	m.makeRoom(n)
	m.size += n
}

func (m *memory) release(n int64) { m.size -= n }

// add takes a part in that is not there: into a list, or if that is nil into the queue that it belongs to.
func (m *memory) add(e *entry, l *fifo) {
	object := objectBytes + int64(len(e.key))
	m.makeRoom(e.cost() + object)
	if m.entries.put(e.key, e.part, e) {
		m.size += object
	}
	m.size += e.cost()
	m.parts++
	if l == nil {
		l = &m.small
		if _, known := m.ghosts[m.hash(e)]; known {
			l = &m.main
		}
	}
	l.push(e)
}

// drop forgets a part.
func (m *memory) drop(e *entry) {
	e.in.remove(e)
	m.size -= e.cost()
	m.parts--
	if m.entries.remove(e.key, e.part) {
		m.size -= objectBytes + int64(len(e.key))
	}
}

// move puts a part that was read ahead into the small queue.
func (m *memory) move(e *entry) {
	e.in.remove(e)
	m.small.push(e)
}

// makeRoom evicts until n bytes fit, or nothing is left.
func (m *memory) makeRoom(n int64) {
	for m.size+n > m.max && m.evictOne() {
	}
}

func (m *memory) evictOne() bool {
	for {
		fromSmall := m.small.oldest != nil && (m.small.bytes > m.max/10 || m.main.oldest == nil)
		if !fromSmall && m.main.oldest == nil {
			return false
		}
		if fromSmall {
			e := m.small.oldest
			if e.uses < usesToStay {
				m.remember(m.hash(e))
				m.evict(e)
				return true
			}
			e.uses = 0
			m.small.remove(e)
			m.main.push(e)
			continue
		}
		e := m.main.oldest
		if e.uses == 0 {
			m.evict(e)
			return true
		}
		e.uses--
		m.main.remove(e)
		m.main.push(e)
	}
}

func (m *memory) evict(e *entry) {
	m.drop(e)
	m.evicted(e)
}

func (m *memory) hash(e *entry) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	h.WriteString(e.key)
	maphash.WriteComparable(&h, e.part)
	return h.Sum64() | 1
}

// remember makes a ghost, in the place of the oldest.
func (m *memory) remember(hash uint64) {
	if _, known := m.ghosts[hash]; known || len(m.ring) == 0 {
		return
	}
	delete(m.ghosts, m.ring[m.ringNext])
	m.ring[m.ringNext] = hash
	m.ghosts[hash] = struct{}{}
	m.ringNext = (m.ringNext + 1) % len(m.ring)
}
