// Package metamorphic drives random JetStream operations through Sluice and through nats-server and compares every
// answer, every delivered message, and, after each operation, everything that the two tell of their streams and
// consumers, also across restarts and kills of Sluice. A run is made from a seed; one that finds a difference is shrunk to
// the operations that it needs.
package metamorphic

import (
	"fmt"
	"strings"
)

// kind says what an operation's messages are and which answers are waited for.
type kind int

const (
	// request sends its messages one after the other; those that ask for an answer wait for it.
	request kind = iota
	// many sends one request that is answered by several messages, the last of which is a status.
	many
	// pull asks a consumer for messages, which come to an inbox of their own.
	pull
	// ack settles a message that a consumer delivered.
	ack
	// listen and silence begin and end the interest in a push consumer's deliver subject.
	listen
	silence
	// restart ends both servers and starts them again on what they stored.
	restart
)

// operation is one step of a run. It means something in whatever state the streams are, so that any operations before it
// can be left out.
//
// Texts may hold places such as {first:ORDERS+2} and {last:ORDERS-1}, which stand for sequences of a stream when the
// operation is played.
type operation struct {
	kind     kind
	messages []message // request, many, pull
	stream   string    // ack, pull
	consumer string    // ack, pull
	pick     int       // ack: which of the consumer's deliveries, counted from the newest
	body     string    // ack: what is said
	confirm  bool      // ack: an answer is waited for
	subject  string    // listen, silence
	signal   string    // restart: "TERM" or "KILL"
	quiet    bool      // restart: not before lazily written progress is stored
}

// message is what a client publishes.
type message struct {
	subject string
	header  []string // name, value, name, value…
	data    string
	mute    bool // no answer is asked for
}

func (o operation) String() string {
	switch o.kind {
	case ack:
		confirmed := ""
		if o.confirm {
			confirmed = ", confirmed"
		}
		return fmt.Sprintf("ack %s/%s, newest delivery but %d: %q%s", o.stream, o.consumer, o.pick, o.body, confirmed)
	case listen:
		return "listen " + o.subject
	case silence:
		return "unlisten " + o.subject
	case restart:
		quiet := ""
		if o.quiet {
			quiet = " when all is stored"
		}
		return "restart by " + o.signal + quiet
	}
	var lines []string
	for _, m := range o.messages {
		line := m.subject
		for i := 0; i+1 < len(m.header); i += 2 {
			line += " [" + m.header[i] + ": " + m.header[i+1] + "]"
		}
		if m.data != "" {
			line += " " + m.data
		}
		if m.mute {
			line += " (no answer asked for)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ; ")
}
