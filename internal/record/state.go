package record

import (
	"encoding/binary"
	"fmt"
)

// StreamStateBody says which messages a stream has.
type StreamStateBody struct {
	First, Last uint64 // sequences; First is Last+1 when there are none
	Gaps        []Gap  // between First and Last, ascending
	LastTime    int64  // of the message Last, ns UTC; it may be gone
	LastID      string // its Nats-Msg-Id
}

// Messages is how many messages the state says there are.
func (s *StreamStateBody) Messages() uint64 {
	n := s.Last + 1 - s.First
	for _, g := range s.Gaps {
		n -= g.Last - g.First + 1
	}
	return n
}

// Gap is a run of sequences without messages, first to last.
type Gap struct{ First, Last uint64 }

// AppendStreamState writes a StreamState record: first (uvarint), last (uvarint), number of gaps (uvarint), and for
// each the distance from the end of the one before (of First for the first one), and its length, as uvarints; then the
// time (varint) and the message id (the rest) of the last message.
func AppendStreamState(dst []byte, stream StreamID, s *StreamStateBody) []byte {
	body := binary.AppendUvarint(nil, s.First)
	body = binary.AppendUvarint(body, s.Last)
	body = binary.AppendUvarint(body, uint64(len(s.Gaps)))
	at := s.First
	for _, g := range s.Gaps {
		body = binary.AppendUvarint(body, g.First-at)
		body = binary.AppendUvarint(body, g.Last-g.First+1)
		at = g.Last + 1
	}
	body = binary.AppendVarint(body, s.LastTime)
	body = append(body, s.LastID...)
	return Append(dst, StreamState, stream, body)
}

// ParseStreamState reads the body of a StreamState record.
func ParseStreamState(body []byte) (s StreamStateBody, err error) {
	fail := func() (StreamStateBody, error) {
		return StreamStateBody{}, fmt.Errorf("%w: stream state of %d bytes", ErrMalformed, len(body))
	}
	rest, ok := body, true
	next := func() uint64 {
		v, w := binary.Uvarint(rest)
		if w <= 0 {
			ok = false
			return 0
		}
		rest = rest[w:]
		return v
	}
	s.First, s.Last = next(), next()
	n := next()
	if !ok || s.First > s.Last+1 || n > uint64(len(rest))/2 {
		return fail()
	}
	s.Gaps = make([]Gap, 0, n)
	at := s.First
	for range n {
		skip, length := next(), next()
		if !ok || length == 0 || skip > s.Last || length > s.Last || at+skip < at || at+skip+length-1 > s.Last {
			return fail()
		}
		g := Gap{at + skip, at + skip + length - 1}
		s.Gaps = append(s.Gaps, g)
		at = g.Last + 1
	}
	var w int
	if s.LastTime, w = binary.Varint(rest); w <= 0 {
		return fail()
	}
	s.LastID = string(rest[w:])
	return s, nil
}
