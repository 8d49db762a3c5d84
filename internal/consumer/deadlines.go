package consumer

import "time"

// deadline says when a pending message is to be looked at. It holds only while the entry has the very same deadline.
type deadline struct {
	at  int64
	seq uint64
}

func (d deadline) before(o deadline) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

// deadlineHeap is a binary heap, soonest first. Deadlines that are moved or dropped stay as stale items until they come
// up, or until most items are stale and the heap is rebuilt. With one ack_wait for all, deadlines come ascending and
// adding costs one comparison.
type deadlineHeap []deadline

func (h *deadlineHeap) add(d deadline) {
	*h = append(*h, d)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *deadlineHeap) pop() {
	q := *h
	last := len(q) - 1
	q[0] = q[last]
	*h = q[:last]
	h.sink(0)
}

func (h deadlineHeap) sink(i int) {
	for {
		down := 2*i + 1
		if down >= len(h) {
			return
		}
		if right := down + 1; right < len(h) && h[right].before(h[down]) {
			down = right
		}
		if !h[down].before(h[i]) {
			return
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}

// setDeadline moves the deadline of the entry at index i.
func (c *Consumer) setDeadline(i int, at int64) {
	e := &c.pending.entries[i]
	at = max(at, 1) // 0 is no deadline
	e.deadline = at
	if !c.hasDeadlines() {
		return
	}
	c.deadlines.add(deadline{at, e.stream})
	if len(c.deadlines) > 2*c.pending.live+slack {
		c.rebuildDeadlines()
	}
}

// hasDeadlines reports whether messages are redelivered when their acknowledgement is overdue.
func (c *Consumer) hasDeadlines() bool { return c.ackWait > 0 || len(c.cfg.BackOff) > 0 }

func (c *Consumer) rebuildDeadlines() {
	h := c.deadlines[:0]
	if cap(h) > 64*slack && cap(h) > 16*c.pending.live {
		h = nil
	}
	for _, e := range c.pending.all {
		if e.flags&(queued|dead) == 0 && c.hasDeadlines() {
			h = append(h, deadline{e.deadline, e.stream})
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
	c.deadlines = h
}

// wait is how long an acknowledgement may take after the given number of deliveries.
func (c *Consumer) wait(deliveries uint32) int64 {
	return waitAfter(deliveries, c.ackWait, c.cfg.BackOff)
}

func waitAfter(deliveries uint32, ackWait int64, backOff []time.Duration) int64 {
	n := len(backOff)
	if n == 0 {
		return ackWait
	}
	return int64(backOff[min(max(int(deliveries)-1, 0), n-1)])
}

// redeliverQueue lists sequences to deliver again, in order. An item holds only while its entry is flagged queued.
type redeliverQueue struct {
	seqs []uint64 // from head on
	head int
	live int
}

func (q *redeliverQueue) push(seq uint64) {
	q.seqs = append(q.seqs, seq)
	q.live++
}

// pushFront puts a sequence before all others.
func (q *redeliverQueue) pushFront(seq uint64) {
	q.live++
	if q.head > 0 {
		q.head--
		q.seqs[q.head] = seq
		return
	}
	q.seqs = append([]uint64{seq}, q.seqs...)
}

func (q *redeliverQueue) clear() { *q = redeliverQueue{seqs: emptied(q.seqs, len(q.seqs))} }

// enqueue puts the entry at index i into the redelivery queue.
func (c *Consumer) enqueue(i int) {
	e := &c.pending.entries[i]
	if e.flags&(queued|dead) != 0 {
		return
	}
	e.flags |= queued
	c.pending.touch(i)
	c.redeliver.push(e.stream)
	c.squeezeRedeliver()
}

// dequeue takes the entry at index i out of the redelivery queue.
func (c *Consumer) dequeue(i int) {
	e := &c.pending.entries[i]
	if e.flags&queued == 0 {
		return
	}
	e.flags &^= queued
	if c.redeliver.live--; c.redeliver.live == 0 {
		c.redeliver.clear()
	}
}

// nextRedelivery gives the index of the entry that is to be redelivered next, or -1.
func (c *Consumer) nextRedelivery() int {
	q := &c.redeliver
	if q.live == 0 {
		return -1
	}
	for ; q.head < len(q.seqs); q.head++ {
		if i := c.pending.find(q.seqs[q.head]); i >= 0 && c.pending.entries[i].flags&queued != 0 {
			return i
		}
	}
	q.clear()
	return -1
}

// squeezeRedeliver takes items out that do not hold any more, when they are too many.
func (c *Consumer) squeezeRedeliver() {
	q := &c.redeliver
	if len(q.seqs)-q.head <= 2*q.live+slack && q.head <= 2*q.live+slack {
		return
	}
	kept := q.seqs[:0]
	for _, seq := range q.seqs[q.head:] {
		if i := c.pending.find(seq); i >= 0 && c.pending.entries[i].flags&queued != 0 {
			kept = append(kept, seq)
		}
	}
	q.seqs, q.head = kept, 0
}
