package engine

import (
	"bytes"
	"time"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// A schedule that fires publishes to its own stream what its message says: its own data, or that of another subject's
// last message. Either may have to be read from the store first.

const (
	// maxFiring is how many schedules are being worked off at once.
	maxFiring = 64
	// refireAfter is how soon a schedule is tried again that could not be published.
	refireAfter = time.Second
)

// mayFire reports whether it is the time to look for schedules that are due.
func (s *Stream) mayFire() bool {
	return s.firing < maxFiring && s.mayAccept()
}

// fire publishes what is due.
func (s *Stream) fire() {
	for s.mayFire() {
		f, ok := s.state.Fire(s.now)
		if !ok {
			break
		}
		s.firing++
		s.read(f.Seq, func(m *record.StoredMessage, err error) {
			if err != nil {
				s.fired(f, err)
				return
			}
			s.fireFrom(f, m)
		})
	}
	s.seal()
}

// fireFrom goes on with the message that holds the schedule.
func (s *Stream) fireFrom(f stream.Firing, m *record.StoredMessage) {
	source := stream.ScheduleSource(m.Header)
	if len(source) == 0 {
		s.fireAs(f, m.Header, m)
		return
	}
	filter, err := stream.CompileFilter(string(source))
	if err != nil {
		s.fireAs(f, m.Header, m)
		return
	}
	last, ok := s.state.Last(filter, 0)
	if !ok {
		s.fireAs(f, m.Header, m)
		return
	}
	plan := bytes.Clone(m.Header)
	own := record.StoredMessage{Header: plan, Data: bytes.Clone(m.Data)}
	s.read(last.Seq, func(m *record.StoredMessage, err error) {
		if err != nil {
			// It is gone, or cannot be read; then the schedule fires without it, as if it were not there.
			m = &own
		}
		s.fireAs(f, plan, m)
	})
}

// fireAs publishes a message's content for a schedule.
func (s *Stream) fireAs(f stream.Firing, plan []byte, m *record.StoredMessage) {
	defer s.fired(f, nil)
	if s.failed != nil || s.deleting || s.ended {
		return
	}
	if err := s.checkQuota(m.Subject, uint64(len(m.Header)+len(m.Data))); err != nil {
		s.state.Refire(f, s.now.Add(refireAfter))
		return
	}
	if a, ok := s.state.AcceptFiring(f, plan, m.Header, len(m.Data), s.now); ok {
		s.addAccepted(&a, m.Data)
	}
}

// fired ends the work on a schedule.
func (s *Stream) fired(f stream.Firing, err error) {
	s.firing--
	if err != nil {
		s.state.Refire(f, s.now.Add(refireAfter)) // if its message is still there
	}
}
