package consumer

import (
	"slices"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// UpdateConfig takes over a configuration that CheckUpdate allowed. messages is the view through the new filter, nil
// when the filter is the same. The caller calls Interest anew when the deliver subject changed. Before Resume it only
// takes the configuration: that is for replay.
func (c *Consumer) UpdateConfig(cfg api.ConsumerConfig, messages Messages, now time.Time, fx *Effects) {
	old := c.cfg
	if !c.running {
		// What followed from it then is in the progress.
		c.derive(cfg)
		if messages != nil {
			c.messages = messages
		}
		return
	}
	t := now.UnixNano()
	c.peek, c.undo = peeked{}, undo{}
	c.derive(cfg)
	if cfg.AckWait != old.AckWait || !slices.Equal(cfg.BackOff, old.BackOff) {
		c.moveDeadlines(int64(old.AckWait), old.BackOff)
	}
	if cfg.PriorityPolicy != api.PriorityPinnedClient {
		c.pin = pin{}
	}
	if cfg.DeliverSubject != old.DeliverSubject {
		c.active = false
		c.redeliverAll(fx)
	}
	if cfg.InactiveThreshold != old.InactiveThreshold {
		c.inactiveAt = 0
		if c.threshold > 0 && !(c.push && c.active) {
			c.inactiveAt = later(t, c.threshold)
		}
	}
	if !cfg.PauseUntil.Equal(old.PauseUntil) {
		c.announcePause(t, fx)
	}
	if c.pauseUntil <= t {
		c.pauseUntil = 0
	}
	if messages != nil {
		c.messages = messages
		if c.pending.live > 0 || c.exhausted.count > 0 {
			c.strangers = max(c.strangers, c.delivered.stream)
		}
		c.from, c.dirty.position = c.cursor, true
		if c.skip.active() {
			c.skip.build(c.messages, c.delivered.stream)
			c.dirty.whole = true
		}
		c.recount()
	}
}

// moveDeadlines shifts the deadlines of pending messages from an old ack_wait and backoff to the new.
func (c *Consumer) moveDeadlines(ackWait int64, backOff []time.Duration) {
	for i, e := range c.pending.all {
		if e.flags&dead != 0 {
			continue
		}
		if shift := c.wait(e.deliveries) - waitAfter(e.deliveries, ackWait, backOff); shift != 0 {
			e.deadline = max(later(e.deadline, shift), 1)
			c.pending.touch(i)
		}
	}
	c.rebuildDeadlines()
}

// redeliverAll queues all that is pending, for a new subscriber.
func (c *Consumer) redeliverAll(fx *Effects) {
	seqs := make([]uint64, 0, c.pending.live)
	for _, e := range c.pending.all {
		seqs = append(seqs, e.stream)
	}
	for _, seq := range seqs {
		if i := c.pending.find(seq); i >= 0 && c.pending.entries[i].flags&queued == 0 {
			c.due(i, fx)
		}
	}
}

// Pause suspends deliveries until the given time, or resumes them when it is not in the future. It is a change of the
// configuration: the caller stores Config.
func (c *Consumer) Pause(until, now time.Time, fx *Effects) {
	c.peek = peeked{}
	c.cfg.PauseUntil = until
	c.pauseUntil = 0
	if !until.IsZero() {
		c.pauseUntil = until.UnixNano()
	}
	t := now.UnixNano()
	c.announcePause(t, fx)
	if c.pauseUntil <= t {
		c.pauseUntil = 0
	}
}

func (c *Consumer) announcePause(now int64, fx *Effects) {
	c.advise(fx, Advisory{Kind: PauseChanged, Paused: c.pauseUntil > now, PauseUntil: c.cfg.PauseUntil})
}
