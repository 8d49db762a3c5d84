package consumer

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/nats-io/jsm.go/api"
)

var (
	ackOK   = []byte("+OK") // an old form of +ACK
	ackAck  = []byte("+ACK")
	ackNak  = []byte("-NAK")
	ackWPI  = []byte("+WPI")
	ackNext = []byte("+NXT")
	ackTerm = []byte("+TERM")
)

// Reasons of Terminated advisories for messages that were removed from the stream.
const reasonRemoved = "Unacknowledged message was deleted"

// TakesAcks reports whether deliveries are acknowledged on their reply subjects. Where not, nobody waits for an answer.
func (c *Consumer) TakesAcks() bool { return !c.ackNone && !c.ackByFlow }

// Ack takes an answer to a delivered message: the payload of a message to its acknowledgement subject, without header.
// It returns true when the sender, if it named a reply subject, is to get an empty message back. That reply promises
// that the acknowledgement is not forgotten, so it goes out once the next Progress is committed. +NXT is answered with
// messages instead, on that reply subject.
func (c *Consumer) Ack(a *AckSubject, body, reply []byte, now time.Time, fx *Effects) (answer bool) {
	if c.ackByFlow {
		return false
	}
	t := now.UnixNano()
	c.sawActivity(t)
	if c.threshold > 0 && c.push && c.inactiveAt != 0 {
		c.inactiveAt = later(t, c.threshold)
	}
	known := a.StreamSeq != 0
	switch {
	case len(body) == 0, bytes.Equal(body, ackAck), bytes.Equal(body, ackOK):
		return c.ack(a, true, t, fx) && known
	case bytes.HasPrefix(body, ackNext):
		c.ack(a, true, t, fx)
		c.Pull(reply, body[len(ackNext):], now, fx)
		return false
	case bytes.HasPrefix(body, ackNak):
		c.nak(a, body[len(ackNak):], t, fx)
	case bytes.Equal(body, ackWPI):
		if i := c.pending.find(a.StreamSeq); i >= 0 && c.pending.entries[i].flags&(queued|dead) == 0 {
			c.setDeadline(i, later(t, c.wait(c.pending.entries[i].deliveries)))
			c.pending.touch(i)
		}
	case bytes.HasPrefix(body, ackTerm):
		return c.term(a, string(bytes.TrimSpace(body[len(ackTerm):])), t, fx) && known
	}
	return known
}

// ack settles a message, with AckAll those before it too. It returns false for a message that was not delivered.
func (c *Consumer) ack(a *AckSubject, sample bool, now int64, fx *Effects) bool {
	seq := a.StreamSeq
	if c.ackNone || seq > c.delivered.stream {
		return false
	}
	c.ackAt = now
	if c.ackUpTo {
		c.ackAllUpTo(seq, min(a.ConsumerSeq, c.delivered.consumer), fx)
		return true
	}
	if i := c.pending.find(seq); i >= 0 {
		if sample && !c.isDead(i) && c.sampled() {
			e := &c.pending.entries[i]
			c.advise(fx, Advisory{Kind: AckSampled, StreamSeq: seq, ConsumerSeq: a.ConsumerSeq, Deliveries: a.Deliveries,
				Delay: time.Duration(now - (e.deadline - c.wait(e.deliveries)))})
		}
		c.removePending(i)
		c.settled(seq, fx)
		return true
	}
	// A message that was given up may still be acknowledged, and then the stream may let it go.
	if c.exhausted.remove(seq) {
		c.dirty.unexhausted = append(c.dirty.unexhausted, seq)
		c.settled(seq, fx)
	}
	return true
}

// ackAllUpTo settles all messages up to seq.
func (c *Consumer) ackAllUpTo(seq, consumerSeq uint64, fx *Effects) {
	if seq <= c.floor.stream || consumerSeq <= c.floor.consumer {
		return
	}
	if i := c.pending.find(seq); i >= 0 {
		consumerSeq = c.pending.entries[i].consumer
	}
	for c.pending.live > 0 && c.pending.first().stream <= seq {
		e := c.pending.first()
		c.settled(e.stream, fx)
		c.forget(c.pending.head)
	}
	c.floor = sequences{consumerSeq, seq}
	if c.pending.live == 0 {
		c.floor = c.delivered
	}
	c.dirty.position = true
}

// nak asks for redelivery: at once, or after a delay.
func (c *Consumer) nak(a *AckSubject, arg []byte, now int64, fx *Effects) {
	i := c.pending.find(a.StreamSeq)
	if i < 0 || a.ConsumerSeq <= c.floor.consumer || a.ConsumerSeq > c.delivered.consumer || c.isDead(i) {
		return
	}
	c.advise(fx, Advisory{Kind: Nacked, StreamSeq: a.StreamSeq, ConsumerSeq: a.ConsumerSeq, Deliveries: a.Deliveries})
	if delay, ok := nakDelay(arg); ok {
		c.dequeue(i)
		c.setDeadline(i, later(now, int64(delay)))
		c.pending.touch(i)
		return
	}
	c.due(i, fx)
}

// nakDelay reads what follows -NAK: a duration ("1.5s"), or JSON with the delay in nanoseconds. Anything else is a
// -NAK without delay.
func nakDelay(arg []byte) (time.Duration, bool) {
	arg = bytes.TrimSpace(arg)
	if len(arg) == 0 {
		return 0, false
	}
	if arg[0] == '{' {
		var o api.ConsumerNakOptions
		err := json.Unmarshal(arg, &o)
		return o.Delay, err == nil
	}
	d, err := time.ParseDuration(string(arg))
	return d, err == nil
}

// term settles a message although it was not processed.
func (c *Consumer) term(a *AckSubject, reason string, now int64, fx *Effects) bool {
	if c.termDead(a, reason, now, fx) {
		return true
	}
	ok := c.ack(a, false, now, fx)
	if ok {
		c.advise(fx, Advisory{Kind: Terminated, StreamSeq: a.StreamSeq, ConsumerSeq: a.ConsumerSeq, Deliveries: a.Deliveries, Reason: reason})
	}
	return ok
}

// due is called when the pending message at index i is to be delivered again: it is queued, or given up after
// max_deliver deliveries.
func (c *Consumer) due(i int, fx *Effects) {
	e := &c.pending.entries[i]
	if e.flags&dead != 0 {
		return
	}
	if c.maxDeliver == 0 || e.deliveries < c.maxDeliver {
		c.enqueue(i)
		return
	}
	seq := e.stream
	c.advise(fx, Advisory{Kind: MaxDeliveriesReached, StreamSeq: seq, Deliveries: uint64(e.deliveries)})
	if c.dies(i, DeadMaxDeliver, "") {
		return
	}
	c.removePending(i)
	c.exhausted.add(seq)
	c.dirty.exhausted = append(c.dirty.exhausted, seq)
}

// removePending takes a message off the pending list and moves the acknowledgement floor.
func (c *Consumer) removePending(i int) {
	lowest := i == c.pending.head
	c.forget(i)
	switch {
	case c.pending.live == 0:
		c.floor = c.delivered
		c.dirty.position = true
	case lowest:
		first := c.pending.first()
		c.floor = sequences{first.consumer - 1, first.stream - 1}
		c.dirty.position = true
	}
}

// forget takes a message off the pending list.
func (c *Consumer) forget(i int) {
	e := &c.pending.entries[i]
	if e.flags&saved != 0 {
		c.dirty.removed = append(c.dirty.removed, e.stream)
	}
	if c.peek.seq == e.stream {
		c.peek = peeked{}
	}
	if e.flags&dead != 0 {
		c.dead.forget(e.stream)
	}
	c.dequeue(i)
	peak := c.pending.peak
	c.pending.remove(i)
	if c.pending.live == 0 {
		c.deadlines = emptied(c.deadlines, peak)
	}
}

func (c *Consumer) settled(seq uint64, fx *Effects) {
	if c.opts.Retains && fx != nil {
		fx.Settled = append(fx.Settled, seq)
	}
}

// settleSent settles the message that went out last without acknowledgement being asked for: it cannot be taken back
// any more.
func (c *Consumer) settleSent(fx *Effects) {
	if c.unsettled == 0 {
		return
	}
	if c.opts.Retains {
		c.undo = undo{}
	}
	c.settled(c.unsettled, fx)
	c.unsettled = 0
}

func (c *Consumer) advise(fx *Effects, a Advisory) {
	a.Consumer = c.name
	fx.Advisories = append(fx.Advisories, a)
}

// sampled decides whether to measure this acknowledgement.
func (c *Consumer) sampled() bool {
	return c.sample > 0 && (c.sample >= 100 || int(c.random()%100) < c.sample)
}

// NeedsAck reports whether the consumer may still need a message that passes its filter: it was not delivered yet, waits
// for its acknowledgement, or was given up. Streams with interest retention keep such messages.
func (c *Consumer) NeedsAck(seq uint64) bool {
	if c.exhausted.has(seq) {
		return true
	}
	if seq <= c.floor.stream {
		return false
	}
	return c.ackNone || seq > c.delivered.stream || c.ackUpTo || c.pending.find(seq) >= 0
}
