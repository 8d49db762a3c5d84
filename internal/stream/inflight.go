package stream

// flying is a message between accepted and visible.
type flying struct {
	seq      uint64
	size     uint64
	subject  subjectID
	previous uint32 // 1 + position of the subject's message in flight before this one, or 0; it may have landed since
	count    uint32 // messages that the subject is going to have once this one is visible, where that is limited
	ttl      int64  // seconds of Nats-TTL; -1: never, 0: none
	rollup   rollup
	hasID    bool
	marker   bool // a delete marker
	unwanted bool // is not kept, and has no subject
	// schedule: it has a schedule; scheduling: it has to do with one.
	schedule, scheduling bool
}

// inFlight is the queue of messages between accepted and visible. Its bound is the caller's bound on what the log may
// hold uncommitted. Positions count on for ever and wrap.
type inFlight struct {
	ring      []flying // a power of two
	head      uint32   // position of the oldest
	tail      uint32   // position behind the newest
	rollups   int      // messages in flight that roll up
	bytes     uint64   // of all of them
	ignore    bool     // rollups are not allowed
	rolledAll uint64   // sequence of the newest in flight that rolls up the whole stream, or 0
}

// positionMask keeps positions below 2^31, so that 1 + position fits everywhere.
const positionMask = 1<<31 - 1

func (q *inFlight) len() int { return int((q.tail - q.head) & positionMask) }

func (q *inFlight) at(pos uint32) *flying { return &q.ring[pos&uint32(len(q.ring)-1)] }

// holds reports whether a position (1 + position, as rows and links keep it) is still in flight.
func (q *inFlight) holds(ref uint32) bool {
	return ref != 0 && (ref-1-q.head)&positionMask < (q.tail-q.head)&positionMask
}

// push appends and returns 1 + position.
func (q *inFlight) push(f flying) uint32 {
	if q.len() == len(q.ring) {
		q.grow()
	}
	*q.at(q.tail) = f
	ref := q.tail + 1
	q.tail = (q.tail + 1) & positionMask
	q.bytes += f.size
	if f.rollup != rollupNone && !q.ignore {
		q.rollups++
		if f.rollup == rollupAll {
			q.rolledAll = f.seq
		}
	}
	return ref
}

func (q *inFlight) grow() {
	old := q.ring
	q.ring = make([]flying, max(16, 2*len(old)))
	for pos := q.head; pos != q.tail; pos = (pos + 1) & positionMask {
		*q.at(pos) = old[pos&uint32(len(old)-1)]
	}
}

// pop removes the oldest.
func (q *inFlight) pop() (f flying, ref uint32) {
	f, ref = *q.at(q.head), q.head+1
	q.head = (q.head + 1) & positionMask
	q.bytes -= f.size
	if f.rollup != rollupNone && !q.ignore {
		q.rollups--
		if f.seq == q.rolledAll {
			q.rolledAll = 0
		}
	}
	if q.head == q.tail && len(q.ring) > 4096 {
		q.ring = nil // a burst is over
	}
	return f, ref
}

// countRollups counts again after a change of the configuration: rollups do nothing while they are not allowed.
func (q *inFlight) countRollups(allowed bool) {
	q.rollups, q.rolledAll, q.ignore = 0, 0, !allowed
	for pos := q.head; pos != q.tail && allowed; pos = (pos + 1) & positionMask {
		if f := q.at(pos); f.rollup != rollupNone {
			q.rollups++
			if f.rollup == rollupAll {
				q.rolledAll = f.seq
			}
		}
	}
}
