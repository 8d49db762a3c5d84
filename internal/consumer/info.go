package consumer

import (
	"time"

	"github.com/nats-io/jsm.go/api"
)

// Info is the consumer's state as $JS.API.CONSUMER.INFO answers it. Pull requests that expired, or whose requester
// left, are ended first.
func (c *Consumer) Info(now time.Time, fx *Effects) api.ConsumerInfo {
	t := now.UnixNano()
	if c.waiting.count > 0 {
		c.sweep(t, false, fx)
	}
	info := api.ConsumerInfo{
		Stream:         c.stream,
		Name:           c.name,
		Config:         c.cfg,
		Created:        c.created,
		Delivered:      api.SequenceInfo{Consumer: c.delivered.consumer, Stream: c.delivered.stream, Last: instant(c.deliverAt)},
		AckFloor:       api.SequenceInfo{Consumer: c.floor.consumer, Stream: c.floor.stream, Last: instant(c.ackAt)},
		NumAckPending:  c.pending.live,
		NumRedelivered: c.pending.redelivered + int(c.exhausted.count),
		NumWaiting:     c.waiting.count,
		NumPending:     c.numPending,
		PushBound:      c.push && c.active,
		TimeStamp:      now.UTC(),
		PriorityGroups: c.groupStates(),
	}
	// With a single delivery there are no redeliveries to speak of.
	if c.maxDeliver == 1 {
		info.NumRedelivered = 0
	}
	if c.pauseUntil > t {
		info.Paused, info.PauseRemaining = true, time.Duration(c.pauseUntil-t)
	}
	return info
}

func instant(t int64) *time.Time {
	if t == 0 {
		return nil
	}
	at := time.Unix(0, t).UTC()
	return &at
}

// NumPending is how many messages are left to deliver.
func (c *Consumer) NumPending() uint64 { return c.numPending }

// NumAckPending is how many messages wait for acknowledgement.
func (c *Consumer) NumAckPending() int { return c.pending.live }
