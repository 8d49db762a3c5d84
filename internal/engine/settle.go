package engine

import (
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// Work-queue and interest retention let a message go when it is settled: acknowledged or terminated by its consumer, or
// by every consumer whose filter it passes. The removal is written in one entry with the progress that made it due, so
// that a crash forgets both or neither, and takes effect when that is committed.

// settle notes that a consumer needs messages no more.
func (s *Stream) settle(seqs []uint64) {
	for _, seq := range seqs {
		if m, ok := s.state.Meta(seq); ok {
			s.letGo(seq, m.Subject)
		}
	}
}

// letGo notes that a message is settled, if retention has no use for it any more.
func (s *Stream) letGo(seq uint64, subject []byte) {
	if s.Config().Retention != api.WorkQueuePolicy && s.wanted(seq, subject) {
		return
	}
	s.goes(seq)
}

// hasInterest tells the state machine of an interest stream which messages to keep: those that pass some consumer's
// filter. What none wants takes no room from what is wanted, and is not republished.
func (s *Stream) hasInterest(subject []byte) bool { return len(s.interested.in(subject)) > 0 }

// goes notes that a message is to be removed with the next progress that is written.
func (s *Stream) goes(seq uint64) {
	s.settled = append(s.settled, seq)
	if s.progressAt.IsZero() {
		s.progressAt = s.now.Add(s.engine.opts.ProgressWindow)
	}
}

// wanted reports whether a consumer still needs a message.
func (s *Stream) wanted(seq uint64, subject []byte) bool {
	return slices.ContainsFunc(s.interested.in(subject), func(c *Consumer) bool { return c.machine.NeedsAck(seq) })
}

// settleAll looks for messages that nobody needs any more: after a start, since a crash may have kept a consumer's
// progress and lost what followed from it, and when a consumer is gone. filter nil looks at all.
func (s *Stream) settleAll(filter *stream.Filter) {
	switch s.Config().Retention {
	case api.InterestPolicy:
	case api.WorkQueuePolicy:
		if len(s.consumers) == 0 {
			return
		}
	default:
		return
	}
	for from := uint64(0); ; {
		m, ok := s.state.Next(filter, from)
		if !ok {
			return
		}
		from = m.Seq + 1
		// In a work queue a message that no consumer's filter passes waits for one to come.
		if s.Config().Retention == api.WorkQueuePolicy && len(s.interested.in(m.Subject)) == 0 {
			continue
		}
		if !s.wanted(m.Seq, m.Subject) {
			s.goes(m.Seq)
		}
	}
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
