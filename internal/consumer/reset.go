package consumer

import (
	"errors"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// Reset makes the consumer start over at a sequence of its stream, or with 0 after its acknowledgement floor: what was
// pending is forgotten, and consumer sequences begin again at 1. It returns the sequence; errors are *jserr.Error.
func (c *Consumer) Reset(seq uint64, now time.Time) (uint64, error) {
	if seq == 0 {
		seq = c.floor.stream + 1
	} else if err := c.mayReset(seq); err != nil {
		return 0, jserr.New(jserr.ConsumerInvalidReset, "err", err)
	}
	c.peek, c.undo, c.unsettled = peeked{}, undo{}, 0
	c.pending.clear()
	c.redeliver.clear()
	c.dead.clear()
	c.deadlines = nil
	c.exhausted, c.strangers, c.from = seqSet{}, 0, 0
	c.delivered = sequences{0, seq - 1}
	c.floor = c.delivered
	c.deliverAt, c.ackAt = 0, 0
	c.dirty = changes{whole: true}
	if c.cfg.DeliverPolicy == api.DeliverLastPerSubject && c.opts.MaxMsgsPerSubject != 1 {
		_, last := c.messages.Bounds()
		c.skip = skipList{upTo: last}
		c.skip.build(c.messages, seq-1)
	}
	first, _ := c.messages.Bounds()
	c.cursor = max(seq, first, c.skip.upTo+1)
	c.recount()
	return seq, nil
}

// mayReset tells whether the deliver policy allows to start at a sequence.
func (c *Consumer) mayReset(seq uint64) error {
	switch c.cfg.DeliverPolicy {
	case api.DeliverAll:
		return nil
	case api.DeliverByStartSequence:
		if seq < c.cfg.OptStartSeq {
			return errors.New("below start seq")
		}
		return nil
	case api.DeliverByStartTime:
		if c.cfg.OptStartTime != nil && seq < c.messages.SeqAt(c.cfg.OptStartTime.UnixNano()) {
			return errors.New("below start time")
		}
		return nil
	}
	return errors.New("not allowed")
}
