package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// story builds a history of one stream without limits and one work queue.
type story struct{ h History }

func newStory() *story {
	return &story{History{Specs: []Spec{
		{Name: "s", Consumers: []ConsumerSpec{{Name: "c"}, {Name: "all", Acks: AckAll}}},
		{Name: "wq", Retention: WorkQueue, Consumers: []ConsumerSpec{{Name: "w"}}},
		{Name: "two", MaxMsgs: 2},
		{Name: "kv", PerSubject: 1},
	}}}
}

func (s *story) add(events ...Event) *story {
	for _, e := range events {
		if e.Life == 0 {
			e.Life = 1
		}
		if e.Stream == "" && e.Kind != Drained {
			e.Stream = "s"
		}
		e.At = time.Duration(len(s.h.Events)) * time.Second
		s.h.Events = append(s.h.Events, e)
	}
	return s
}

// acked publishes messages that get the sequences of their numbers.
func (s *story) acked(stream string, from, to int) *story {
	for n := from; n <= to; n++ {
		s.add(Event{Kind: Sent, Stream: stream, Message: n, Subject: "x"}, Event{Kind: Acked, Stream: stream, Message: n, Seq: uint64(n)})
	}
	return s
}

// holds is the content at the end.
func (s *story) holds(stream string, last int, numbers ...int) *story {
	for _, n := range numbers {
		s.add(Event{Kind: Content, Stream: stream, Message: n, Seq: uint64(n), Subject: "x"})
	}
	first := last + 1
	if len(numbers) > 0 {
		first = numbers[0]
	}
	return s.add(Event{Kind: State, Stream: stream, Seq: uint64(first), Last: uint64(last)})
}

func TestTheCheckerFindsWhatIsWrong(t *testing.T) {
	got := func(seq uint64, n int) Event {
		return Event{Kind: Delivered, Consumer: "c", Seq: seq, Message: n, Subject: "x"}
	}
	settled := func(consumer string, seq uint64, op int) []Event {
		return []Event{{Kind: AckSent, Consumer: consumer, Seq: seq, Text: "+ACK", Op: op}, {Kind: AckDone, Op: op}}
	}
	inQueue := func(events []Event) []Event {
		for i := range events {
			events[i].Stream = "wq"
		}
		return events
	}
	for _, c := range []struct {
		name  string
		story *story
		want  string // "": nothing is wrong
	}{
		{"nothing", newStory().acked("s", 1, 3).holds("s", 3, 1, 2, 3), ""},
		{"not acknowledged and there", newStory().add(Event{Kind: Sent, Message: 1, Subject: "x"}).holds("s", 1, 1), ""},
		{"not acknowledged and not there", newStory().add(Event{Kind: Sent, Message: 1, Subject: "x"}).holds("s", 0), ""},
		{"lost at the end", newStory().acked("s", 1, 3).holds("s", 2, 1, 2), "acknowledged with sequence 3, and the stream ends at 2"},
		{"lost in the middle", newStory().acked("s", 1, 3).holds("s", 3, 1, 3), "message 2, acknowledged with sequence 2, is lost"},
		{"a gap of what nobody heard of", newStory().acked("s", 1, 1).acked("s", 3, 3).holds("s", 3, 1, 3), "sequence 2 is missing"},
		{"stored twice", newStory().acked("s", 1, 1).holds("s", 1, 1).add(Event{Kind: Content, Message: 1, Seq: 2, Subject: "x"}), "message 1 is stored twice"},
		{"acknowledged twice", newStory().acked("s", 1, 1).add(Event{Kind: Acked, Message: 1, Seq: 2}).holds("s", 1, 1), "with sequence 1 and with 2"},
		{"another's sequence", newStory().acked("s", 1, 1).add(Event{Kind: Sent, Message: 2, Subject: "x"}, Event{Kind: Acked, Message: 2, Seq: 1}).holds("s", 1, 1), "later message 2 was acknowledged with it"},
		{"reordered", newStory().add(Event{Kind: Sent, Message: 1, Subject: "x"}, Event{Kind: Sent, Message: 2, Subject: "x"},
			Event{Kind: Acked, Message: 1, Seq: 2}, Event{Kind: Acked, Message: 2, Seq: 1}), "was sent before message"},
		{"invented", newStory().acked("s", 1, 1).holds("s", 2, 1, 9), "invented"},
		{"damaged", newStory().acked("s", 1, 1).add(Event{Kind: Content, Message: 0, Seq: 1, Subject: "x"}), "invented"},
		{"delivered and invented", newStory().add(got(1, 7)), "invented"},
		{"delivered and then another's", newStory().acked("s", 1, 1).add(Event{Kind: Sent, Message: 2, Subject: "x"}, got(1, 2)), "later message 2 was delivered"},
		{"another subject", newStory().acked("s", 1, 1).add(Event{Kind: Content, Message: 1, Seq: 1, Subject: "y"}), "is stored as y"},
		{"refused and stored", newStory().add(Event{Kind: Sent, Message: 1, Subject: "x"}, Event{Kind: Refused, Message: 1}).holds("s", 1, 1), "was refused and is stored"},
		{"expected last", newStory().add(Event{Kind: Sent, Message: 1, Subject: "x", ExpectLast: 1}, Event{Kind: Acked, Message: 1, Seq: 2}), "expected the last sequence to be 0"},
		{"expected last of subject", newStory().acked("s", 1, 1).add(Event{Kind: Sent, Message: 2, Subject: "x", ExpectOfSubject: 1},
			Event{Kind: Acked, Message: 2, Seq: 2}).holds("s", 2, 1, 2), "expected 0 to be the last of its subject"},

		{"redelivered", newStory().acked("s", 1, 1).add(got(1, 1)).add(settled("c", 1, 1)...).add(got(1, 1)).holds("s", 1, 1), "was redelivered"},
		{"redelivered by the next", newStory().acked("s", 1, 1).add(got(1, 1)).add(settled("c", 1, 1)...).
			add(Event{Kind: Delivered, Life: 2, Consumer: "c", Seq: 1, Message: 1, Subject: "x"}).holds("s", 1, 1), "was redelivered"},
		{"redelivered by one that was taken over from", newStory().acked("s", 1, 1).add(Event{Kind: AckSent, Life: 2, Consumer: "c", Seq: 1, Text: "+ACK", Op: 1},
			Event{Kind: AckDone, Life: 2, Op: 1}, got(1, 1)).holds("s", 1, 1), ""},
		{"redelivered after a plain acknowledgement", newStory().acked("s", 1, 1).add(got(1, 1), Event{Kind: AckSent, Consumer: "c", Seq: 1, Text: "+ACK"}, got(1, 1)).holds("s", 1, 1), ""},
		{"redelivered below an acknowledgement of all", newStory().acked("s", 1, 2).add(settled("all", 2, 1)...).
			add(Event{Kind: Delivered, Consumer: "all", Seq: 1, Message: 1, Subject: "x"}).holds("s", 2, 1, 2), "was redelivered"},
		{"the floor is too high", newStory().acked("s", 1, 2).add(settled("c", 2, 1)...).holds("s", 2, 1, 2).
			add(Event{Kind: ConsumerInfo, Consumer: "c", Seq: 2}), "the ack floor of c is 2, and 1 was never acknowledged"},
		{"never delivered", newStory().acked("s", 1, 1).add(Event{Kind: Drained}).holds("s", 1, 1).add(Event{Kind: ConsumerInfo, Consumer: "c"}), "never delivered to c"},

		{"in the queue", newStory().acked("wq", 1, 2).add(inQueue(settled("w", 1, 1))...).holds("wq", 2, 2), ""},
		{"gone from the queue", newStory().acked("wq", 1, 2).add(inQueue(settled("w", 1, 1))...).holds("wq", 2), "message 2, acknowledged with sequence 2, is lost"},
		{"settled and still in the queue", newStory().acked("wq", 1, 1).add(inQueue(settled("w", 1, 1))...).holds("wq", 1, 1), "sequence 1 is settled and is there"},

		{"deleted", newStory().acked("s", 1, 2).add(Event{Kind: DeleteSent, Seq: 1, Op: 1}).holds("s", 2, 2), ""},
		{"deleted and there", newStory().acked("s", 1, 2).add(Event{Kind: DeleteSent, Seq: 1, Op: 1}, Event{Kind: DeleteDone, Op: 1}).holds("s", 2, 1, 2), "was deleted and is there"},
		{"purged", newStory().acked("s", 1, 2).add(Event{Kind: PurgeSent, Op: 1}, Event{Kind: PurgeDone, Op: 1}).holds("s", 2), ""},
		{"purged and there", newStory().acked("s", 1, 1).add(Event{Kind: PurgeSent, Op: 1}, Event{Kind: PurgeDone, Op: 1}).holds("s", 1, 1), "was purged and is there"},
		{"sent after the purge and gone", newStory().add(Event{Kind: PurgeSent, Op: 1}, Event{Kind: PurgeDone, Op: 1}).acked("s", 1, 1).holds("s", 1), "is lost"},

		{"within the limit", newStory().acked("two", 1, 3).holds("two", 3, 2, 3), ""},
		{"below the limit and gone", newStory().acked("two", 1, 3).holds("two", 3, 3), "message 2, acknowledged with sequence 2, is lost"},
		{"beyond the limit", newStory().acked("two", 1, 3).holds("two", 3, 1, 2, 3), "beyond the limit of 2"},
		{"newer of the subject", newStory().acked("kv", 1, 2).holds("kv", 2, 2), ""},
		{"newest of the subject gone", newStory().acked("kv", 1, 2).holds("kv", 2, 1), "message 2, acknowledged with sequence 2, is lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := Check(&c.story.h)
			if c.want == "" && len(faults) > 0 {
				t.Errorf("found %q", faults)
			}
			if c.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("found %q, want %q", faults, c.want)
			}
		})
	}
}
