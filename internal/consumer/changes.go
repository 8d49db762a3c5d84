package consumer

import "time"

// Visible tells that a message that passes the filter became visible. They come in the order of their sequences.
func (c *Consumer) Visible(seq uint64) {
	if seq >= c.cursor {
		c.numPending++
	}
}

// findStrangers looks for what was delivered through another filter.
func (c *Consumer) findStrangers() {
	if c.exhausted.count > 0 && c.from > 0 {
		c.strangers = c.from - 1
	}
	for _, e := range c.pending.all {
		if e.stream <= c.strangers || !c.messages.Has(e.stream) {
			continue
		}
		if seq, ok := c.messages.Next(e.stream); !ok || seq != e.stream {
			c.strangers = e.stream
		}
	}
}

// Strangers reports whether a message that does not pass the filter may be pending, since the filter changed after its
// delivery. The removal of any message is then told with RemovedStranger.
func (c *Consumer) Strangers() bool {
	if c.strangers != 0 && (c.pending.live == 0 || c.pending.first().stream > c.strangers) && c.exhausted.below(c.strangers+1) == 0 {
		c.strangers = 0
	}
	return c.strangers != 0
}

// RemovedStranger tells that a message that does not pass the filter is no longer in the stream.
func (c *Consumer) RemovedStranger(seq uint64, fx *Effects) {
	if seq <= c.strangers {
		c.removedDelivered(seq, fx)
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
	c.removedDelivered(seq, fx)
}

// removedDelivered forgets a message that was delivered.
func (c *Consumer) removedDelivered(seq uint64, fx *Effects) {
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
	c.skip.purged(c.messages)
	if c.exhausted.below(first) > 0 {
		c.dirty.exhaustedBelow = first
		c.exhausted.removeBelow(first)
	}
	var missing []uint64
	for _, e := range c.pending.all {
		if e.stream < first || !c.messages.Has(e.stream) {
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
	c.numPending = c.skip.left() + c.messages.Pending(c.cursor)
}
