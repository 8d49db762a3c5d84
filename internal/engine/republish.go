package engine

import (
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// republish sends the copy of a stored message that the stream's configuration asks for (ADR-28).
func (s *Stream) republish(m *record.StoredMessage, r *stream.Republish) {
	b := openHeader(s.scratch[:0], m.Header)
	b = proto.AppendHeaderField(b, "Nats-Stream", s.name)
	b = proto.AppendHeaderField(b, "Nats-Subject", string(m.Subject))
	b = proto.AppendHeaderField(b, "Nats-Sequence", strconv.FormatUint(m.Seq, 10))
	b = proto.AppendHeaderField(b, "Nats-Time-Stamp", time.Unix(0, m.Time).UTC().Format(time.RFC3339Nano))
	b = proto.AppendHeaderField(b, "Nats-Last-Sequence", strconv.FormatUint(r.LastSeq, 10))
	out := broker.Msg{Subject: r.Subject, Data: m.Data}
	if r.HeadersOnly {
		b = proto.AppendHeaderField(b, "Nats-Msg-Size", strconv.Itoa(len(m.Data)))
		out.Data = nil
	}
	b = append(b, "\r\n"...)
	s.scratch, out.Header = b, b
	s.pub.Publish(out)
}

// openHeader begins a header block with the fields of another, ready for more.
func openHeader(dst, header []byte) []byte {
	if len(header) < 2 {
		return append(dst, "NATS/1.0\r\n"...)
	}
	return append(dst, header[:len(header)-2]...)
}
