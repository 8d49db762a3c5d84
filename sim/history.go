package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of events. Those that end in Sent may or may not have an effect; Done says that they had it.
const (
	Note         EventKind = iota // for whoever reads the history
	Sent                          // a publish: Message, Subject, MsgID, Rollup, Expect…
	Acked                         // its acknowledgement: Message, Seq, Duplicate
	Refused                       // its refusal: Message, Text
	Delivered                     // Consumer, Seq, Message, Deliveries
	AckSent                       // Consumer, Seq, Text is the verb; Op if an answer is wanted
	AckDone                       // Op: the double acknowledgement was answered
	Read                          // Seq, Message
	Gone                          // a read of a sequence that was acknowledged found none: Seq
	Made                          // Consumer: its creation was answered
	Unmade                        // Consumer: its deletion was answered
	Unsure                        // Consumer: it is being deleted
	Exists                        // Consumer: at the end
	ChangeSent                    // of the configuration that is a mere number: Op is that number
	ChangeDone                    // Op
	Changed                       // at the end: Op
	DeleteSent                    // Op, Seq
	DeleteDone                    // Op
	PurgeSent                     // Op, Subject: a filter, "" for all
	PurgeDone                     // Op
	ConfigSent                    // a change of max_msgs: Seq is the new value
	LifeBegun                     // the node has recovered: Life
	LifeEnded                     // Text says how
	Drained                       // the store is well from here on, and everything is acknowledged plainly
	Content                       // what the stream holds at the end: Seq, Message, Subject
	State                         // of the stream at the end: Seq is its first, Last its last sequence
	ConsumerInfo                  // at the end: Consumer, Seq is its ack floor, Last its pending messages
)

var kindNames = [...]string{"note", "sent", "acked", "refused", "delivered", "ack sent", "ack done", "read", "gone", "made", "unmade", "unsure", "exists", "change sent", "change done", "changed", "delete sent", "delete done",
	"purge sent", "purge done", "config sent", "life begun", "life ended", "drained", "content", "state", "consumer"}

// Event is one line of a history. Which fields mean something depends on the kind.
type Event struct {
	Kind      EventKind
	At        time.Duration // since the run began
	Life      int           // which life of the node it happened with; they count from 1
	Stream    string        // as its Spec names it
	Consumer  string
	Message   int    // number of the message; 0: its bytes are none that were sent
	Seq, Last uint64 // in the stream
	Subject   string
	MsgID     bool   // the publish can be repeated: it has a Nats-Msg-Id that is its number's
	Rollup    bool   // of its subject
	Duplicate bool   // as the acknowledgement says
	Op        int    // joins what was sent with its answer
	Text      string // error, verb, explanation
	// ExpectLast and ExpectOfSubject are the expected last sequences plus one; 0: none.
	ExpectLast, ExpectOfSubject uint64
	Deliveries                  uint64
}

// String is the event as a line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12.3fs life %d %-11s", e.At.Seconds(), e.Life, kindNames[e.Kind])
	field := func(name string, shown bool, value any) {
		if shown {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	field("stream", e.Stream != "", e.Stream)
	field("consumer", e.Consumer != "", e.Consumer)
	field("message", e.Message != 0, e.Message)
	field("seq", e.Seq != 0, e.Seq)
	field("last", e.Last != 0, e.Last)
	field("subject", e.Subject != "", e.Subject)
	field("id", e.MsgID, e.MsgID)
	field("rollup", e.Rollup, e.Rollup)
	field("duplicate", e.Duplicate, e.Duplicate)
	field("op", e.Op != 0, e.Op)
	field("expect", e.ExpectLast != 0, e.ExpectLast-1)
	field("expect_subject", e.ExpectOfSubject != 0, e.ExpectOfSubject-1)
	field("deliveries", e.Deliveries != 0, e.Deliveries)
	field("text", e.Text != "", fmt.Sprintf("%q", e.Text))
	return b.String()
}

// History is what a run's clients saw, in the order in which they saw it.
type History struct {
	Specs  []Spec
	Events []Event
}

// journal records a history; it may be used concurrently.
type journal struct {
	begun time.Time

	mu      sync.Mutex // guards history
	history History
}

func (j *journal) add(e Event) {
	e.At = time.Since(j.begun)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.Events = append(j.history.Events, e)
}

func (j *journal) note(life int, format string, args ...any) {
	j.add(Event{Kind: Note, Life: life, Text: fmt.Sprintf(format, args...)})
}

// Tail gives the last lines that concern a stream ("": all), notes and lives included.
func (h *History) Tail(stream string, lines int) string {
	var kept []string
	for i := len(h.Events) - 1; i >= 0 && len(kept) < lines; i-- {
		e := h.Events[i]
		if stream == "" || e.Stream == "" || e.Stream == stream {
			kept = append(kept, fmt.Sprintf("%6d %v", i, e))
		}
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return strings.Join(kept, "\n")
}

// About gives the lines that name a message or its sequence.
func (h *History) About(stream string, message int, seq uint64) string {
	var b strings.Builder
	for i, e := range h.Events {
		if e.Stream == stream && (message != 0 && e.Message == message || seq != 0 && e.Seq == seq) {
			fmt.Fprintf(&b, "%6d %v\n", i, e)
		}
	}
	return b.String()
}
