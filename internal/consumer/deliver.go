package consumer

import (
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// Message is what a delivery needs to know of a message that was fetched.
type Message struct {
	Seq     uint64
	Time    int64 // when it was stored, Unix nanoseconds
	Subject int   // sizes in bytes
	Header  int
	Data    int
}

// Dispatch is one delivery. The caller may reuse it: Take overwrites it and keeps the memory of Reply.
type Dispatch struct {
	Seq         uint64
	ConsumerSeq uint64
	Deliveries  uint64 // this one included
	Pending     uint64 // messages that are left for this consumer
	To          string // subject to publish to
	Reply       []byte // subject to acknowledge on; owned by the Dispatch
	// HeadersOnly asks to leave the payload out and to add the header Nats-Msg-Size.
	HeadersOnly bool
	// Pinned asks to add the header Nats-Pin-Id, last of all, with PinID, which may be empty.
	Pinned bool
	PinID  string

	size     int // as max_bytes and the rate limit count it
	flowSize int // as flow control counts it
}

// peeked is the message that Peek named.
type peeked struct {
	seq   uint64 // 0: none
	again bool   // a redelivery
}

// undo is what the last Take changed, so that it can be taken back.
type undo struct {
	seq       uint64 // 0: nothing to take back
	again     bool
	cursor    uint64
	listed    bool // was taken from the skip list
	pinned    bool // its request got the pin
	delivered sequences
	floor     sequences
	deliverAt int64
}

// Peek names the message that would be delivered now; ok is false when there is none or nobody to deliver it to.
// Requests that do not wait are ended when there is nothing for them.
func (c *Consumer) Peek(now time.Time, fx *Effects) (seq uint64, ok bool) {
	t := now.UnixNano()
	c.peek = peeked{}
	c.settleSent(fx)
	if c.pauseUntil != 0 && t < c.pauseUntil {
		c.endNoWait(t, fx)
		return 0, false
	}
	if c.push {
		if !c.active || c.flow.stalled() {
			return 0, false
		}
	} else if c.waiting.head == nil {
		return 0, false
	}
	if c.rate.until > t || c.replay.at > t {
		return 0, false
	}
	again := false
	if i := c.nextRedelivery(); i >= 0 {
		seq, ok, again = c.pending.entries[i].stream, true, true
	} else if c.maxPending > 0 && c.pending.live >= c.maxPending {
		return 0, false
	} else {
		seq, ok = c.nextNew()
	}
	if !ok || !c.push && !c.anybodyServed(again, t) {
		c.endNoWait(t, fx)
		return 0, false
	}
	c.peek = peeked{seq, again}
	return seq, true
}

// nextNew finds the next message that was not delivered yet, and moves the cursor up to it.
func (c *Consumer) nextNew() (uint64, bool) {
	if seq, ok := c.skip.next(); ok {
		return seq, true
	}
	seq, ok := c.messages.Next(c.cursor)
	if ok {
		c.cursor = seq
		return seq, true
	}
	if _, last := c.messages.Bounds(); c.cursor <= last {
		c.cursor = last + 1
	}
	c.numPending = 0
	c.replay.on = c.replay.on && c.cursor <= c.replay.until
	return 0, false
}

func (c *Consumer) endNoWait(now int64, fx *Effects) {
	if c.waiting.noWait > 0 {
		c.sweep(now, true, fx)
	}
}

// Take commits to delivering the message that Peek named, and says in d how. It returns false when the message cannot
// go out now after all: requests with too small a max_bytes were ended, the rate limit or the original pace asks to
// wait, or things changed since Peek. NextTimer tells when to Peek again.
func (c *Consumer) Take(d *Dispatch, m Message, now time.Time, fx *Effects) bool {
	if m.Seq != c.peek.seq || m.Seq == 0 {
		return false
	}
	t := now.UnixNano()
	again := c.peek.again
	at := -1
	if again {
		if at = c.pending.find(m.Seq); at < 0 {
			return false
		}
	}
	if !c.replay.may(m, again, t) {
		return false
	}
	c.fill(d, m, at)
	pinned := c.pin.id
	if !c.address(d, t, again, fx) {
		return false
	}
	c.peek = peeked{}
	c.undo = undo{
		seq: m.Seq, again: again, pinned: c.pin.id != pinned,
		cursor: c.cursor, delivered: c.delivered, floor: c.floor, deliverAt: c.deliverAt,
	}
	c.delivered.consumer++
	c.deliverAt = t
	if again {
		c.takeAgain(at, t)
	} else {
		c.takeNew(m.Seq, t)
	}
	if c.push {
		c.sent(d, t, fx)
	} else {
		c.activeAt = t
	}
	return true
}

// fill describes the delivery of a message; at is the index of its pending entry, or -1.
func (c *Consumer) fill(d *Dispatch, m Message, at int) {
	d.Seq = m.Seq
	d.ConsumerSeq = c.delivered.consumer + 1
	d.HeadersOnly, d.Pinned, d.PinID = c.cfg.HeadersOnly, c.cfg.PriorityPolicy == api.PriorityPinnedClient, ""
	d.Deliveries, d.Pending = 1, c.numPending
	if at >= 0 {
		d.Deliveries = uint64(c.pending.entries[at].deliveries) + 1
	} else if d.Pending > 0 {
		d.Pending--
	}
	b := append(d.Reply[:0], c.ackPrefix...)
	b = strconv.AppendUint(b, d.Deliveries, 10)
	b = strconv.AppendUint(append(b, '.'), d.Seq, 10)
	b = strconv.AppendUint(append(b, '.'), d.ConsumerSeq, 10)
	b = strconv.AppendInt(append(b, '.'), m.Time, 10)
	b = strconv.AppendUint(append(b, '.'), d.Pending, 10)
	d.Reply = b
	body := m.Header + m.Data
	if d.HeadersOnly {
		body = headersOnlySize(m.Header, m.Data)
	}
	d.size = m.Subject + len(b) + body
	d.flowSize = len(c.cfg.DeliverSubject) + len(b) + body
}

// headersOnlySize is the size of a header block after Nats-Msg-Size was added.
func headersOnlySize(header, data int) int {
	const line, size = "NATS/1.0\r\n\r\n", "Nats-Msg-Size: \r\n"
	if header == 0 {
		header = len(line)
	}
	n := header + len(size) + 1
	for ; data >= 10; data /= 10 {
		n++
	}
	return n
}

// address chooses where a message goes, and reports whether it may go now.
func (c *Consumer) address(d *Dispatch, now int64, again bool, fx *Effects) bool {
	if c.push {
		d.To = c.cfg.DeliverSubject
		return c.active && c.rate.may(d.size, now)
	}
	r := c.choose(d.size, now, again, fx)
	if r == nil {
		return false
	}
	d.To, d.PinID = r.reply, c.pin.id
	r.messages--
	r.delivered++
	if r.messages > 0 {
		if r.heartbeat > 0 {
			r.beatAt = later(now, r.heartbeat)
			c.waiting.schedule(r)
		}
		c.waiting.rotate()
		return true
	}
	if r.bytes > 0 {
		fx.requestStatus(r, "409 Batch Completed")
	}
	c.waiting.remove(r)
	return true
}

// choose gives the request that takes a message of the given size; it is at the head of the queue. Requests that
// expired, have too little room left or name a wrong pin are ended.
func (c *Consumer) choose(size int, now int64, again bool, fx *Effects) *request {
	passedOver := 0
	for r := c.waiting.head; r != nil; r = c.waiting.head {
		if r.expires != 0 && now >= r.expires {
			c.expireRequest(r, fx)
			continue
		}
		turn := c.turnOf(r, again)
		switch {
		case turn == wrongPin:
			fx.requestStatus(r, "423 Nats-Wrong-Pin-Id")
			c.waiting.remove(r)
		case turn == passed:
			c.waiting.rotate()
			if passedOver++; passedOver >= c.waiting.count {
				return nil
			}
		case r.bytes > 0 && size > r.bytes:
			fx.requestStatus(r, "409 Message Size Exceeds MaxBytes")
			c.waiting.remove(r)
		case turn == givenPin && c.opts.Listening != nil && !c.opts.Listening(r.reply):
			c.waiting.remove(r)
		default:
			if turn == givenPin {
				c.givePin(r, now, fx)
			}
			if r.bytes > 0 {
				if r.bytes -= size; r.bytes == 0 {
					r.messages = 1
				}
			}
			return r
		}
	}
	return nil
}

// takeNew accounts for the first delivery of a message.
func (c *Consumer) takeNew(seq uint64, now int64) {
	if c.undo.listed = c.skip.take(seq); !c.undo.listed {
		c.cursor = seq + 1
	}
	if c.numPending > 0 {
		c.numPending--
	}
	c.delivered.stream = seq
	c.dirty.position = true
	if c.ackNone {
		c.floor = c.delivered
		c.unsettled = seq
		return
	}
	e := entry{stream: seq, consumer: c.delivered.consumer, deliveries: 1, flags: dirty}
	c.pending.add(e)
	c.setDeadline(len(c.pending.entries)-1, later(now, c.wait(1)))
}

// takeAgain accounts for a redelivery.
func (c *Consumer) takeAgain(at int, now int64) {
	e := &c.pending.entries[at]
	c.dequeue(at)
	if e.deliveries++; e.deliveries == 2 {
		c.pending.redelivered++
	}
	c.pending.touch(at)
	c.dirty.position = true
	c.setDeadline(at, later(now, c.wait(e.deliveries)))
}

// Skip tells that the message that Peek named is no longer in the stream.
func (c *Consumer) Skip(seq uint64, fx *Effects) {
	if seq != c.peek.seq || seq == 0 {
		return
	}
	again := c.peek.again
	c.peek = peeked{}
	if again {
		c.dropPending(seq, fx)
		return
	}
	if !c.skip.take(seq) {
		c.cursor = seq + 1
	}
	if c.numPending > 0 {
		c.numPending--
	}
}

// Undelivered takes a delivery back because nobody received it: the pull request is dropped, or the push consumer
// becomes inactive until the next call of Interest, and the message stays undelivered. Called before the next Peek, it
// leaves no trace; later, the message waits for redelivery as if it had never gone out, and without acknowledgement
// (AckNone) it counts as delivered.
func (c *Consumer) Undelivered(d *Dispatch, now time.Time) {
	c.peek = peeked{}
	if c.push {
		c.lost(now.UnixNano())
		c.flow.refund(d.flowSize)
	} else if r := c.waiting.find(d.To); r != nil {
		c.waiting.remove(r)
	}
	at := c.pending.find(d.Seq)
	u := c.undo
	c.undo = undo{}
	if u.pinned && u.seq == d.Seq {
		c.pin = pin{}
	}
	if u.seq == d.Seq && c.delivered.consumer == d.ConsumerSeq {
		if u.again && at >= 0 || !u.again && (c.ackNone || at >= 0) {
			c.takeBack(at, u)
			return
		}
	}
	if at < 0 || c.isDead(at) || c.pending.entries[at].deliveries == 0 || uint64(c.pending.entries[at].deliveries) != d.Deliveries {
		return
	}
	c.uncount(at)
	c.requeueFront(at)
}

// takeBack restores the state before the last Take.
func (c *Consumer) takeBack(at int, u undo) {
	c.delivered, c.deliverAt = u.delivered, u.deliverAt
	c.dirty.position = true
	if u.again {
		c.uncount(at)
		c.requeueFront(at)
		return
	}
	if u.listed {
		c.skip.at--
	}
	c.numPending++
	if at >= 0 {
		c.forget(at)
	}
	c.cursor, c.floor, c.unsettled = u.cursor, u.floor, 0
}

// uncount takes one delivery of a pending message back.
func (c *Consumer) uncount(at int) {
	e := &c.pending.entries[at]
	if e.deliveries == 2 {
		c.pending.redelivered--
	}
	e.deliveries--
	c.pending.touch(at)
}

func (c *Consumer) requeueFront(at int) {
	e := &c.pending.entries[at]
	if e.flags&queued != 0 {
		return
	}
	e.flags |= queued
	c.pending.touch(at)
	c.redeliver.pushFront(e.stream)
}

// Demand is how many messages could go out now if the stream had them: a hint for reading ahead.
func (c *Consumer) Demand() int {
	n := 1 << 20
	if c.push {
		if !c.active || c.flow.stalled() {
			return 0
		}
	} else {
		n = max(c.waiting.wanted(), c.waiting.count)
	}
	if c.maxPending > 0 {
		n = min(n, c.redeliver.live+max(c.maxPending-c.pending.live, 0))
	}
	return n
}
