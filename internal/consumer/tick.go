package consumer

import (
	"slices"
	"time"
)

// NextTimer tells when Tick wants to be called; ok is false when it never does. It may name a time too early, not too
// late.
func (c *Consumer) NextTimer() (at time.Time, ok bool) {
	next := int64(0)
	for _, t := range [...]int64{c.waiting.due, c.beatAt, c.inactiveAt, c.pauseUntil, c.rate.until, c.replay.at, c.pin.until} {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if len(c.deadlines) > 0 && (next == 0 || c.deadlines[0].at < next) {
		next = c.deadlines[0].at
	}
	if next == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, next), true
}

// Tick does what is due: messages whose acknowledgement is overdue are queued again or given up, pull requests expire,
// heartbeats go out, a pause ends, inactivity is noticed. Peek afterwards.
func (c *Consumer) Tick(now time.Time, fx *Effects) {
	t := now.UnixNano()
	c.settleSent(fx)
	c.expirePending(t, fx)
	c.expirePin(t, fx)
	if c.waiting.due != 0 && c.waiting.due <= t {
		c.sweep(t, false, fx)
	}
	if c.pauseUntil != 0 && c.pauseUntil <= t {
		c.pauseUntil = 0
		c.advise(fx, Advisory{Kind: PauseChanged, PauseUntil: c.cfg.PauseUntil})
	}
	if c.rate.until <= t {
		c.rate.until = 0
	}
	// replay.at stays until its message goes out, unless nobody takes it: then Peek is to look again when somebody does.
	if c.replay.at <= t {
		c.replay.at = 0
	}
	if c.beatAt != 0 && c.beatAt <= t {
		if c.active {
			fx.heartbeat(c.cfg.DeliverSubject, c.delivered.consumer, c.cursor-1, c.flow.id)
			if c.ackByFlow && c.pending.live > 0 && c.flow.id == "" {
				c.askFlow(fx)
			}
		}
		c.beatAt = later(t, int64(c.cfg.Heartbeat))
	}
	c.noticeInactivity(t, fx)
}

// expirePending deals with the messages whose acknowledgement is overdue, in order of their sequences.
func (c *Consumer) expirePending(now int64, fx *Effects) {
	c.expired = c.expired[:0]
	for len(c.deadlines) > 0 && c.deadlines[0].at <= now {
		d := c.deadlines[0]
		c.deadlines.pop()
		i := c.pending.find(d.seq)
		if i < 0 || c.pending.entries[i].deadline != d.at || c.pending.entries[i].flags&queued != 0 {
			continue
		}
		c.expired = append(c.expired, d.seq)
	}
	slices.Sort(c.expired)
	for _, seq := range c.expired {
		if i := c.pending.find(seq); i >= 0 {
			c.due(i, fx)
		}
	}
	if cap(c.expired) > 1<<12 {
		c.expired = nil
	}
}

// sawActivity notes a sign of life of whoever uses a pull consumer.
func (c *Consumer) sawActivity(at int64) { c.activeAt = max(c.activeAt, at) }

// noticeInactivity asks for the consumer's deletion when nobody has used it for its inactive threshold. A pull consumer
// is in use while requests wait, and until the last message that it handed out had its time to be acknowledged.
func (c *Consumer) noticeInactivity(now int64, fx *Effects) {
	if c.inactiveAt == 0 || now < c.inactiveAt {
		return
	}
	if len(c.dead.known) > 0 { // their letters would be lost
		c.inactiveAt = later(now, c.threshold)
		return
	}
	if c.push {
		fx.Inactive = !c.active
		c.inactiveAt = later(now, c.threshold)
		return
	}
	if c.waiting.count > 0 {
		c.sweep(now, true, fx)
	}
	until := later(c.activeAt, c.threshold)
	if c.waiting.count > 0 {
		until = later(now, c.threshold)
	}
	if until <= now {
		for _, e := range c.pending.all {
			until = max(until, later(e.deadline, c.threshold))
		}
	}
	if until <= now {
		fx.Inactive = true
		until = later(now, c.threshold)
	}
	c.inactiveAt = until
}
