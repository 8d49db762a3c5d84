package consumer

import (
	"strconv"
	"time"
)

// Effects are what the caller has to do after a call. Calls append; the caller carries everything out and calls Reset.
// Strings and slices stay valid after Reset.
type Effects struct {
	// Statuses are messages without payload to publish, in order, after the dispatch of the same call.
	Statuses []Status
	// Advisories are events to announce.
	Advisories []Advisory
	// Settled lists the stream sequences that this consumer needs no more: acknowledged, terminated, or delivered
	// without acknowledgement being asked for. Only with Options.Retains; may name messages that are gone already.
	Settled []uint64
	// Inactive asks to delete the consumer: nobody has used it for its inactive threshold.
	Inactive bool
}

// Reset empties the effects and keeps the memory.
func (e *Effects) Reset() {
	clear(e.Statuses)
	clear(e.Advisories)
	e.Statuses, e.Advisories, e.Settled, e.Inactive = e.Statuses[:0], e.Advisories[:0], e.Settled[:0], false
	if cap(e.Settled) > 1<<16 {
		e.Settled = nil
	}
}

// Status is a message that has only a header.
type Status struct {
	To     string // subject
	Reply  string // reply subject, or empty
	Header []byte // the whole header block
}

// AdvisoryKind says what an advisory announces.
type AdvisoryKind uint8

const (
	// MaxDeliveriesReached: a message was delivered max_deliver times and not acknowledged. It is given up.
	MaxDeliveriesReached AdvisoryKind = iota
	// Nacked: a -NAK came in.
	Nacked
	// Terminated: a +TERM came in, or an unacknowledged message was removed from the stream.
	Terminated
	// AckSampled: a metric about an acknowledgement (sample_freq).
	AckSampled
	// PauseChanged: the consumer was paused or resumed.
	PauseChanged
	// Pinned: a client got the pin of its priority group.
	Pinned
	// Unpinned: a client lost the pin, by a request or because it did not ask for messages any more.
	Unpinned
	// DeadLetterRefused: the letter of a dead message found no place. It is tried again, unless the reason says other.
	DeadLetterRefused
)

// Advisory is an event about a consumer; jsapi turns it into the JSON of the schemas io.nats.jetstream.advisory.v1
// (max_deliver, nak, terminated, consumer_pause,
// consumer_group_pinned, consumer_group_unpinned) and io.nats.jetstream.metric.v1 (consumer_ack).
type Advisory struct {
	Kind                   AdvisoryKind
	Consumer               string // its name
	StreamSeq, ConsumerSeq uint64
	Deliveries             uint64
	Reason                 string        // of Terminated, DeadLetterRefused and Unpinned ("admin", "timeout")
	Delay                  time.Duration // of AckSampled: from delivery to acknowledgement
	Paused                 bool          // of PauseChanged
	PauseUntil             time.Time     // of PauseChanged
	Group                  string        // of Pinned and Unpinned
	PinID                  string        // of Pinned
}

// Header blocks of statuses, as nats-server sends them.
const (
	statusFlowControl     = "NATS/1.0 100 FlowControl Request\r\n\r\n"
	statusNoMessages      = "NATS/1.0 404 No Messages\r\n\r\n"
	statusRequestsPending = "NATS/1.0 408 Requests Pending\r\n\r\n"
	statusPushBased       = "NATS/1.0 409 Consumer is push based\r\n\r\n"
	statusMaxWaiting      = "NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
	statusDeleted         = "NATS/1.0 409 Consumer Deleted\r\n\r\n"
	statusAPILevel        = "NATS/1.0 412 Required Api Level\r\n\r\n"
)

func (e *Effects) status(to, header string) {
	e.Statuses = append(e.Statuses, Status{To: to, Header: []byte(header)})
}

// statusLine sends a status without further headers.
func (e *Effects) statusLine(to string, code int, text string) {
	e.status(to, "NATS/1.0 "+strconv.Itoa(code)+" "+text+"\r\n\r\n")
}

// requestStatus sends a status that tells how much of a pull request is left.
func (e *Effects) requestStatus(r *request, line string) {
	b := make([]byte, 0, 96+len(line))
	b = append(b, "NATS/1.0 "...)
	b = append(b, line...)
	b = append(b, "\r\nNats-Pending-Messages: "...)
	b = strconv.AppendInt(b, int64(r.messages), 10)
	b = append(b, "\r\nNats-Pending-Bytes: "...)
	b = strconv.AppendInt(b, int64(r.bytes), 10)
	b = append(b, "\r\n\r\n"...)
	e.Statuses = append(e.Statuses, Status{To: r.reply, Header: b})
}

// heartbeat sends an idle heartbeat; stalled is the reply subject of a flow control message that is not answered.
func (e *Effects) heartbeat(to string, consumerSeq, streamSeq uint64, stalled string) {
	b := make([]byte, 0, 128+len(stalled))
	b = append(b, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: "...)
	b = strconv.AppendUint(b, consumerSeq, 10)
	b = append(b, "\r\nNats-Last-Stream: "...)
	b = strconv.AppendUint(b, streamSeq, 10)
	if stalled != "" {
		b = append(b, "\r\nNats-Consumer-Stalled: "...)
		b = append(b, stalled...)
	}
	b = append(b, "\r\n\r\n"...)
	e.Statuses = append(e.Statuses, Status{To: to, Header: b})
}
