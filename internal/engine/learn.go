package engine

import (
	"bytes"
	"errors"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
)

// learn tells the state machine of a message that a publish depends on, and then goes on with that. As a rule the
// message is in memory, and that is at once; until then nothing else is accepted, so that the order stays.
func (s *Stream) learn(seq uint64, goOn func(), fail func(error)) {
	s.learning = true
	s.read(seq, func(m *record.StoredMessage, err error) {
		s.learning = false
		var gone *jserr.Error
		switch {
		case err == nil:
			s.state.Learn(seq, m.Subject, m.Header, m.Data)
		case !errors.As(err, &gone):
			fail(err)
			return
		}
		goOn() // what is gone meanwhile is not asked for again
	})
}

// cloneMsg copies a message that has to outlive its mailbag.
func cloneMsg(m *broker.Msg) broker.Msg {
	return broker.Msg{Subject: bytes.Clone(m.Subject), Reply: bytes.Clone(m.Reply), Header: bytes.Clone(m.Header), Data: bytes.Clone(m.Data)}
}
