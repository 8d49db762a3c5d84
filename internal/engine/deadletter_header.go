package engine

import (
	"bytes"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
)

// The headers of a dead letter. docs/dead-letter.md has the table.
const (
	deadReason     = "Nats-Dead-Letter-Reason"
	deadTermReason = "Nats-Dead-Letter-Term-Reason"
	deadStream     = "Nats-Dead-Letter-Stream"
	deadConsumer   = "Nats-Dead-Letter-Consumer"
	deadSubject    = "Nats-Dead-Letter-Subject"
	deadSequence   = "Nats-Dead-Letter-Sequence"
	deadDelivered  = "Nats-Dead-Letter-Delivered"
	deadTime       = "Nats-Dead-Letter-Time"
	deadHops       = "Nats-Dead-Letter-Hops"
	// deadOriginal begins the names under which headers are kept that would make the target stream act.
	deadOriginal = "Nats-Dead-Letter-Original-"
)

const natsPrefix = "Nats-"

// maxDeadHops is how often one message becomes a dead letter of a dead letter: what ends a circle of policies.
const maxDeadHops = 8

// deadHopsOf is how often a message was a dead letter before.
func deadHopsOf(header []byte) int {
	value, _ := proto.Header(header).Get(deadHops)
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// deadHeader is the header block of a letter: the message's own fields and what is to be known of its death.
func deadHeader(s *Stream, c *Consumer, m *record.StoredMessage, d *consumer.DeadLetter) []byte {
	b := append(make([]byte, 0, len(m.Header)+512), proto.HeaderLine...)
	for key, value := range proto.Header(m.Header).All() {
		switch {
		case deadField(key):
			continue
		case actedUpon(key):
			b = append(append(b, deadOriginal...), key[len(natsPrefix):]...)
		default:
			b = append(b, key...)
		}
		b = append(append(append(b, ": "...), value...), "\r\n"...)
	}
	b = proto.AppendHeaderField(b, deadReason, d.Cause.String())
	if d.Reason != "" {
		b = proto.AppendHeaderField(b, deadTermReason, d.Reason)
	}
	b = proto.AppendHeaderField(b, deadStream, s.name)
	b = proto.AppendHeaderField(b, deadConsumer, c.name)
	b = proto.AppendHeaderField(b, deadSubject, string(m.Subject))
	b = proto.AppendHeaderField(b, deadSequence, strconv.FormatUint(m.Seq, 10))
	b = proto.AppendHeaderField(b, deadDelivered, strconv.FormatUint(d.Deliveries, 10))
	b = proto.AppendHeaderField(b, deadTime, time.Unix(0, m.Time).UTC().Format(time.RFC3339Nano))
	b = proto.AppendHeaderField(b, deadHops, strconv.Itoa(deadHopsOf(m.Header)+1))
	return append(b, "\r\n"...)
}

// deadField reports whether a field is one that every letter has anew.
func deadField(key []byte) bool {
	switch string(key) {
	case deadReason, deadTermReason, deadStream, deadConsumer, deadSubject, deadSequence, deadDelivered, deadTime, deadHops:
		return true
	}
	return false
}

// actedUpon reports whether a stream does something because of a field, or refuses the message. Those of package stream
// are meant, whose list this follows.
func actedUpon(key []byte) bool {
	rest, ours := bytes.CutPrefix(key, []byte(natsPrefix))
	if !ours {
		return false
	}
	switch string(rest) {
	case "Msg-Id", "Rollup", "TTL", "Incr", "Counter-Sources", "Required-Api-Level", "Stream-Source", "Marker-Reason":
		return true
	}
	for _, family := range []string{"Expected-", "Batch-", "Schedule"} {
		if bytes.HasPrefix(rest, []byte(family)) {
			return true
		}
	}
	return false
}
