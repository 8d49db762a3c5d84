package engine

import (
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/record"
)

// Work-queue and interest retention let a message go when it is settled: acknowledged or terminated by its consumer, or
// by every consumer whose filter it passes. The removal is written in one entry with the progress that made it due, so
// that a crash forgets both or neither, and takes effect when that is committed.

// settle notes that a consumer needs messages no more.
func (s *Stream) settle(seqs []uint64) {
	for _, seq := range seqs {
		if s.mayGo(seq) {
			s.settled = append(s.settled, seq)
		}
	}
	if len(s.settled) > 0 && s.progressAt.IsZero() {
		s.progressAt = s.now.Add(s.engine.opts.ProgressWindow)
	}
}

// mayGo reports whether retention has no use for a message any more.
func (s *Stream) mayGo(seq uint64) bool {
	m, ok := s.state.Meta(seq)
	if !ok {
		return false
	}
	switch s.Config().Retention {
	case api.WorkQueuePolicy:
		return true
	case api.InterestPolicy:
		return !slices.ContainsFunc(s.interested.in(m.Subject), func(c *Consumer) bool { return c.machine.NeedsAck(seq) })
	}
	return false
}

// appendSettled adds the record of the messages that are settled and still there, and what is to happen once it is
// committed.
func (s *Stream) appendSettled(e *entry) {
	if len(s.settled) == 0 {
		return
	}
	seqs := s.settled
	s.settled = nil
	e.Data = record.AppendSeqs(e.Data, s.id, seqs)
	e.Records++
	e.then = append(e.then, func(err error) {
		if err != nil {
			return
		}
		s.effects.Reset()
		for _, seq := range seqs {
			s.state.Delete(seq, &s.effects)
		}
		s.spread()
	})
}
