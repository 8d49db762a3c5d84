package stream

import (
	"bytes"
	"fmt"
)

// Recalled is a message of which only that is at hand which a State needs to know it: its bytes lie in a segment.
type Recalled struct {
	Seq     uint64
	Time    int64 // ns UTC
	Subject []byte
	Size    uint64 // as Bytes counts it
	Note    []byte // see [AppendNote]; empty as a rule
}

// Recall is Apply for a message that was visible before. Its id is not remembered: the dedup window is rebuilt from the
// log, which keeps it.
func (s *State) Recall(m Recalled, e *Effects) error {
	msg := Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Note}
	if err := s.inOrder(&msg); err != nil {
		return err
	}
	if s.flight.len() > 0 {
		return fmt.Errorf("%w: %d is recalled while messages are in flight", ErrSequence, m.Seq)
	}
	f, err := s.land(&msg)
	if err != nil {
		return err
	}
	f.size = m.Size
	s.enter(&msg, f, e)
	return nil
}

// noted are the headers that a State must know of a message that it does not read again.
var noted = []string{
	"TTL", "Marker-Reason", "Schedule", "Schedule-Time-Zone", "Schedule-TTL", "Schedule-Rollup", "Schedule-Target",
	"Schedule-Source", "Schedule-Next", "Scheduler",
}

// AppendNote appends what a State needs to know of a message's header block when it is to Recall the message: a block
// of the few headers that act later, or nothing.
func AppendNote(dst, header []byte) []byte {
	if len(header) == 0 || !bytes.Contains(header, ourHeaders) && !bytes.Contains(header, kvPurge) {
		return dst
	}
	start := len(dst)
	for line := range bytes.SplitAfterSeq(header, lineEnd) {
		if !isNoted(line) {
			continue
		}
		if len(dst) == start {
			dst = append(dst, "NATS/1.0\r\n"...)
		}
		dst = append(dst, line...)
	}
	if len(dst) > start {
		dst = append(dst, lineEnd...)
	}
	return dst
}

func isNoted(line []byte) bool {
	if bytes.Equal(line, kvPurge[len(lineEnd):]) {
		return true
	}
	rest, ours := bytes.CutPrefix(line, ourHeaders)
	if !ours {
		return false
	}
	for _, key := range noted {
		if hasKey(rest, key) {
			return true
		}
	}
	return false
}
