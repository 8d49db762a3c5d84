package consumer

import "time"

// Visible tells that a message that passes the filter became visible. They come in the order of their sequences.
func (c *Consumer) Visible(seq uint64) {
	if seq >= c.cursor {
		c.numPending++
	}
}

// Removed tells that a message that passes the filter is no longer in the stream.
func (c *Consumer) Removed(seq uint64, fx *Effects) {
	if c.peek.seq == seq {
		c.peek = peeked{}
	}
	if c.undo.seq == seq {
		c.undo = undo{}
	}
	if seq >= c.cursor || c.skip.removed(seq) {
		if c.numPending > 0 {
			c.numPending--
		}
		return
	}
	if c.exhausted.remove(seq) {
		c.dirty.unexhausted = append(c.dirty.unexhausted, seq)
	}
	c.dropPending(seq, fx)
}

// dropPending gives a pending message up because it is gone.
func (c *Consumer) dropPending(seq uint64, fx *Effects) {
	i := c.pending.find(seq)
	if i < 0 {
		return
	}
	e := c.pending.entries[i]
	c.advise(fx, Advisory{Kind: Terminated, StreamSeq: seq, ConsumerSeq: e.consumer, Deliveries: uint64(e.deliveries), Reason: reasonRemoved})
	c.removePending(i)
	c.settled(seq, fx)
}

// Purged tells that any number of messages were removed from the stream.
func (c *Consumer) Purged(now time.Time, fx *Effects) {
	c.peek, c.undo = peeked{}, undo{}
	c.settleSent(fx)
	c.settlePurged(fx)
	c.recount()
	// As in nats-server, what a purge took before it was delivered counts as delivered.
	if first, _ := c.messages.Bounds(); !c.skip.active() && first > c.delivered.stream+1 {
		c.delivered.stream = first - 1
		c.dirty.position = true
		if c.pending.live == 0 {
			c.floor = c.delivered
		}
	}
}

// settlePurged forgets what is no longer in the stream.
func (c *Consumer) settlePurged(fx *Effects) {
	first, _ := c.messages.Bounds()
	if first > c.cursor {
		c.cursor = first
	}
	if c.exhausted.below(first) > 0 {
		c.dirty.exhaustedBelow = first
		c.exhausted.removeBelow(first)
	}
	var missing []uint64
	for _, e := range c.pending.all {
		if e.stream < first {
			missing = append(missing, e.stream)
			continue
		}
		if e.stream <= c.strangers {
			continue
		}
		if seq, ok := c.messages.Next(e.stream); !ok || seq != e.stream {
			missing = append(missing, e.stream)
		}
	}
	for _, seq := range missing {
		if i := c.pending.find(seq); i >= 0 {
			c.removePending(i)
			c.settled(seq, fx)
		}
	}
}

// recount counts what is left to deliver.
func (c *Consumer) recount() {
	if c.skip.active() {
		c.skip.build(c.messages, c.delivered.stream)
	}
	c.numPending = c.skip.left() + c.messages.Pending(c.cursor)
}
