package stream

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/sluicemq/sluice/internal/subject"
)

// transformFault is the text of a transform's fault, as a client is told.
func transformFault(err error) string {
	if errors.Is(err, subject.ErrDestination) {
		return err.Error()
	}
	return "invalid subject"
}

// transformed is the subject that a publish is stored under. The result holds until the next call.
func (s *State) transformed(text []byte) []byte {
	if s.transform == nil {
		return text
	}
	out, ok := s.transform.Append(s.scratch[:0], view(text))
	s.scratch = out[:0]
	if !ok {
		return text
	}
	return out
}

// republishOf tells where a message is copied to. row is its subject before it is counted.
func (s *State) republishOf(m *Message, row name, e *Effects) {
	out, ok := s.republish.Append(s.scratch[:0], view(m.Subject))
	s.scratch = out[:0]
	if !ok || !subject.ValidPublish(out) || isReserved(view(out)) {
		return
	}
	e.Republish = Republish{Subject: append(e.Republish.Subject[:0], out...), LastSeq: row.last, HeadersOnly: s.cfg.RePublish.HeadersOnly}
}

// isReserved reports whether messages on a subject would be taken for requests or answers within the server.
func isReserved(text string) bool {
	if strings.HasPrefix(text, "_R_.") || strings.HasPrefix(text, "_GR_.") {
		return true
	}
	if !strings.HasPrefix(text, "$JS.") {
		return false
	}
	switch subject.Token(text, 1) {
	case "API", "ACK", "FC", "SNAPSHOT", "EVENT":
		return true
	}
	return subject.Token(text, 2) == "API"
}

// view reads bytes as a string without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
