package consumer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Standing is how far a consumer is, in terms that another server understands: what backups of a stream hold.
type Standing struct {
	// Delivered and Floor are consumer and stream sequences.
	DeliveredConsumer, DeliveredStream uint64
	FloorConsumer, FloorStream         uint64
	// Pending are the deliveries that wait for acknowledgement.
	Pending []Delivery
	// GivenUp are the messages that reached max_deliver, by stream sequence.
	GivenUp []uint64
}

// Delivery is a message that waits for its acknowledgement.
type Delivery struct {
	Stream, Consumer uint64
	At               int64  // of the last delivery, Unix ns
	Deliveries       uint32 // 1 or more
}

// ErrStanding: the numbers of a Standing contradict each other.
var ErrStanding = errors.New("consumer: its state contradicts itself")

// maxGivenUp bounds the given-up messages that a Standing lists.
const maxGivenUp = 1 << 20

// Standing tells how far the consumer is.
func (c *Consumer) Standing(now time.Time) Standing {
	s := Standing{
		DeliveredConsumer: c.delivered.consumer, DeliveredStream: c.delivered.stream,
		FloorConsumer: c.floor.consumer, FloorStream: c.floor.stream,
	}
	for _, e := range c.pending.all {
		if e.stream <= c.floor.stream || e.stream > c.delivered.stream {
			continue // out of the order of the stream, which others do not know
		}
		d := Delivery{Stream: e.stream, Consumer: e.consumer, Deliveries: max(e.deliveries, 1)}
		if d.At = e.deadline; e.flags&(queued|dead) != 0 {
			d.At = now.UnixNano()
		}
		d.At = max(d.At-c.wait(d.Deliveries), 0)
		s.Pending = append(s.Pending, d)
	}
	for _, sp := range c.exhausted.spans {
		for seq := sp.lo; seq <= sp.hi && len(s.GivenUp) < maxGivenUp; seq++ {
			s.GivenUp = append(s.GivenUp, seq)
		}
	}
	return s
}

// Assume gives a consumer that Restore made a past that another server told. Resume follows. On an error (ErrStanding)
// nothing has changed.
func (c *Consumer) Assume(s Standing) error {
	switch {
	case s.FloorConsumer > s.DeliveredConsumer, s.FloorStream > s.DeliveredStream:
		return fmt.Errorf("%w: the acknowledgement floor lies above what was delivered", ErrStanding)
	case s.DeliveredStream == math.MaxUint64, s.DeliveredConsumer == math.MaxUint64:
		return fmt.Errorf("%w: sequence", ErrStanding)
	}
	slices.SortFunc(s.Pending, func(a, b Delivery) int {
		if a.Stream < b.Stream {
			return -1
		}
		return 1
	})
	for i, d := range s.Pending {
		if d.Stream <= s.FloorStream || d.Stream > s.DeliveredStream || d.Deliveries == 0 || i > 0 && d.Stream == s.Pending[i-1].Stream {
			return fmt.Errorf("%w: message %d is pending", ErrStanding, d.Stream)
		}
	}
	c.placed, c.dirty.whole = true, true
	c.delivered = sequences{s.DeliveredConsumer, s.DeliveredStream}
	c.floor = sequences{s.FloorConsumer, s.FloorStream}
	for _, d := range s.Pending {
		c.pending.put(entry{
			stream: d.Stream, consumer: d.Consumer, deliveries: d.Deliveries,
			deadline: later(max(d.At, 1), c.wait(d.Deliveries)), flags: saved,
		})
	}
	c.pending.dirtyFrom = len(c.pending.entries)
	for _, seq := range s.GivenUp {
		if seq > 0 && seq <= s.DeliveredStream && c.pending.find(seq) < 0 {
			c.exhausted.add(seq)
		}
	}
	return nil
}
