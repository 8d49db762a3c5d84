package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
)

// deadWorld has a stream S whose consumer c sends its dead to the stream DLQ.
type deadWorld struct {
	*world
	source, target api.StreamConfig
	consumer       api.ConsumerConfig
}

func deadLetters(w *world) *deadWorld {
	d := &deadWorld{world: w, source: fileStream, target: fileStream}
	d.source.Retention = api.WorkQueuePolicy
	d.target.Name, d.target.Subjects = "DLQ", []string{"dlq.>"}
	d.consumer = api.ConsumerConfig{
		Durable: "c", AckPolicy: api.AckExplicit, MaxDeliver: 2, AckWait: time.Minute,
		Metadata: map[string]string{consumer.MetadataDeadLetter: "dlq.{{stream}}.{{consumer}}"},
	}
	return d
}

func (d *deadWorld) setUp() (s, dlq *Stream) {
	d.t.Helper()
	s, dlq = d.create(d.source), d.create(d.target)
	d.world.consumer(s, d.consumer)
	return s, dlq
}

// answer sends an answer to each of some deliveries.
func (d *deadWorld) answer(msgs []letterGot, text string) {
	for _, m := range msgs {
		d.client.send(m.reply, "", "", text)
	}
	d.client.take()
}

// exhaust has all that a consumer delivers refused until nothing comes.
func (d *deadWorld) exhaust(s *Stream) (n int) {
	for {
		got := d.client.pull(s, "c", 100)
		if len(got) == 0 {
			return n
		}
		n += len(got)
		d.answer(got, "-NAK")
	}
}

func (d *deadWorld) ackPending(s *Stream) int {
	d.t.Helper()
	info, err := s.ConsumerInfo("c")
	if err != nil {
		d.t.Fatal(err)
	}
	return info.NumAckPending
}

// letters are what a stream holds, as header blocks and data.
func letters(t *testing.T, s *Stream) (all []*api.StoredMsg) {
	t.Helper()
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		if m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq}); err == nil {
			all = append(all, m)
		}
	}
	return all
}

func field(m *api.StoredMsg, key string) string {
	v, _ := proto.Header(m.Header).Get(key)
	return string(v)
}

func TestTheDeadBecomeLetters(t *testing.T) {
	for _, c := range []struct {
		name      string
		retention api.RetentionPolicy
		stays     int
	}{
		{"work queue", api.WorkQueuePolicy, 0}, {"interest", api.InterestPolicy, 0}, {"limits", api.LimitsPolicy, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				d := deadLetters(w)
				d.source.Retention = c.retention
				d.source.AllowMsgTTL, d.source.RollupAllowed = true, true
				w.start()
				s, dlq := d.setUp()
				w.client.send("s.a", "", "NATS/1.0\r\nNats-Msg-Id: 7\r\nNats-TTL: 1h\r\nColour: red\r\nNats-Rollup: sub\r\nColour: blue\r\n\r\n", "one")
				stored := time.Now()
				time.Sleep(time.Second)
				w.client.publish("s.b", "two")
				d.answer(w.client.pull(s, "c", 1), "+TERM no\r\nsuch thing")
				d.exhaust(s)
				time.Sleep(step)
				got := letters(t, dlq)
				if len(got) != 2 {
					t.Fatalf("%d letters", len(got))
				}
				for key, want := range map[string]string{
					deadReason: "term", deadTermReason: "no  such thing", deadStream: "S", deadConsumer: "c", deadSubject: "s.a",
					deadSequence: "1", deadDelivered: "1", deadTime: stored.UTC().Format(time.RFC3339Nano), deadHops: "1",
					"Nats-Msg-Id": "", "Nats-TTL": "", "Nats-Rollup": "", deadOriginal + "Msg-Id": "7", deadOriginal + "TTL": "1h", "Colour": "red",
				} {
					if v := field(got[0], key); v != want {
						t.Errorf("%s is %q, want %q", key, v, want)
					}
				}
				if n := strings.Count(string(got[0].Header), "\r\nColour: "); n != 2 || proto.Header(got[0].Header).Validate() != nil {
					t.Errorf("the header is %q", got[0].Header)
				}
				if got[0].Subject != "dlq.S.c" || string(got[0].Data) != "one" || string(got[1].Data) != "two" {
					t.Errorf("the letters are %v", got)
				}
				if field(got[1], deadReason) != "max_deliver" || field(got[1], deadDelivered) != "2" || field(got[1], deadTermReason) != "" {
					t.Errorf("the header is %q", got[1].Header)
				}
				if all := content(t, s); len(all) != c.stays || d.ackPending(s) != 0 {
					t.Errorf("left are %v, %d pending", all, d.ackPending(s))
				}
				w.crash()
				w.start()
				if all := content(t, w.stream("S")); len(all) != c.stays || len(letters(t, w.stream("DLQ"))) != 2 {
					t.Errorf("after a crash there is %v and %v", all, content(t, w.stream("DLQ")))
				}
				if got := w.client.pull(w.stream("S"), "c", 10); len(got) > 0 {
					t.Errorf("delivered again: %v", got)
				}
			})
		})
	}
}

func TestWithInterestTheLastConsumerRemoves(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.source.Retention = api.InterestPolicy
		w.start()
		s, dlq := d.setUp()
		w.consumer(s, api.ConsumerConfig{Durable: "other", AckPolicy: api.AckExplicit})
		w.client.publish("s.a", "1")
		d.exhaust(s)
		time.Sleep(step)
		if len(letters(t, dlq)) != 1 || len(content(t, s)) != 1 {
			t.Fatalf("there is %v and %v", content(t, s), content(t, dlq))
		}
		d.answer(w.client.pull(s, "other", 1), "+ACK")
		time.Sleep(step)
		if all := content(t, s); len(all) != 0 {
			t.Errorf("left are %v", all)
		}
	})
}

func TestARefusedLetterWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.target.MaxMsgs, d.target.Discard = 1, api.DiscardNew
		d.target.MaxMsgSize = 1000
		var log strings.Builder
		w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.start()
		s, dlq := d.setUp()
		heard := newClient(t, w.account.Space())
		if _, err := w.account.Space().Subscribe("$JS.EVENT.ADVISORY.CONSUMER.>", "", heard); err != nil {
			t.Fatal(err)
		}
		w.client.publish("s.a", strings.Repeat("x", 2000)) // never finds room
		w.client.publish("s.a", "1")
		w.client.publish("s.a", "2")
		d.exhaust(s)
		time.Sleep(10 * time.Minute)
		if got := letters(t, dlq); len(got) != 1 || string(got[0].Data) != "1" {
			t.Fatalf("the letters are %v", content(t, dlq))
		}
		if all := content(t, s); len(all) != 2 || d.ackPending(s) != 2 {
			t.Errorf("left are %v, %d pending", all, d.ackPending(s))
		}
		if n := strings.Count(log.String(), "finds no place"); n != 1 {
			t.Errorf("%d warnings:\n%s", n, log.String())
		}
		count := map[string]int{}
		for _, m := range heard.take() {
			var ev consumerEvent
			if json.Unmarshal([]byte(m.data), &ev) == nil {
				count[ev.Type]++
			}
		}
		if count["io.sluice.jetstream.advisory.v1.dead_letter_refused"] != 2 || count["io.nats.jetstream.advisory.v1.max_deliver"] != 3 {
			t.Errorf("the advisories are %v", count)
		}
		if got := w.client.pull(s, "c", 10); len(got) > 0 {
			t.Errorf("delivered again: %v", got)
		}
		w.crash()
		w.start()
		s, dlq = w.stream("S"), w.stream("DLQ")
		if d.ackPending(s) != 2 || len(w.client.pull(s, "c", 10)) > 0 {
			t.Error("they came back to life")
		}
		if _, err := dlq.Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := letters(t, dlq); len(got) != 1 || string(got[0].Data) != "2" || len(content(t, s)) != 1 {
			t.Errorf("the letters are %v, left are %v", content(t, dlq), content(t, s))
		}
		// A letter without hope does not keep others waiting.
		d.target.MaxMsgs = -1
		if _, err := w.account.UpdateStream(t.Context(), d.target, false); err != nil {
			t.Fatal(err)
		}
		w.client.publish("s.a", "3")
		d.exhaust(s)
		w.client.take()
		if got := letters(t, dlq); len(got) != 2 {
			t.Errorf("the letters are %v", content(t, dlq))
		}
		// Without the policy they are given up, as ever.
		d.consumer.Metadata = nil
		w.consumer(s, d.consumer)
		if info, _ := s.ConsumerInfo("c"); info.NumAckPending != 0 || info.NumRedelivered != 1 || len(content(t, s)) != 1 {
			t.Errorf("the consumer is %+v, left are %v", info, content(t, s))
		}
	})
}

func TestAnAnsweredTermIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.target.MaxMsgs, d.target.Discard = 1, api.DiscardNew
		w.start()
		s, _ := d.setUp()
		w.client.publish("dlq.full", "0")
		w.client.publish("s.a", "1")
		got := w.client.pull(s, "c", 1)
		w.client.send(got[0].reply, "_INBOX.done", "", "+TERM for good")
		if a := w.client.take(); len(a) != 1 || a[0].inbox != "_INBOX.>" || a[0].subject != "_INBOX.done" {
			t.Fatalf("answered with %v", a)
		}
		w.crash()
		w.start()
		s = w.stream("S")
		dlq := w.stream("DLQ")
		if again := w.client.pull(s, "c", 1); len(again) > 0 {
			t.Errorf("delivered again: %v", again)
		}
		if err := dlq.DeleteMessage(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if l := letters(t, dlq); len(l) != 1 || field(l[0], deadTermReason) != "for good" || len(content(t, s)) != 0 {
			t.Errorf("the letters are %v, left are %v", l, content(t, s))
		}
	})
}

func TestLettersThatNoStreamTakes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.consumer.Metadata[consumer.MetadataDeadLetter] = "dead.{{subject}}"
		w.start()
		s, _ := d.setUp()
		w.client.publish("s.a", "1")
		d.exhaust(s)
		time.Sleep(step)
		if len(content(t, s)) != 1 {
			t.Fatal("it went where nobody was")
		}
		heard := newClient(t, w.account.Space())
		if _, err := w.account.Space().Subscribe("dead.>", "", heard); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got := heard.take()
		if len(got) != 1 || got[0].subject != "dead.s.a" || got[0].data != "1" || !strings.Contains(got[0].header, deadReason+": max_deliver") {
			t.Errorf("heard %v", got)
		}
		if all := content(t, s); len(all) != 0 {
			t.Errorf("left are %v", all)
		}
	})
}

func TestACircleEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.target.Retention = api.WorkQueuePolicy
		w.start()
		s, dlq := d.setUp()
		back := d.consumer
		back.Metadata = map[string]string{consumer.MetadataDeadLetter: "s.again"}
		w.consumer(dlq, back)
		w.client.publish("s.a", "1")
		for range 2 * maxDeadHops {
			d.exhaust(s)
			d.exhaust(dlq)
			time.Sleep(step)
		}
		all := append(letters(t, s), letters(t, dlq)...)
		if len(all) != 1 || field(all[0], deadHops) != strconv.Itoa(maxDeadHops) || d.ackPending(s)+d.ackPending(dlq) != 0 {
			t.Errorf("there are %d: %v", len(all), all)
		}
	})
}

func TestLettersAndMemory(t *testing.T) {
	for _, c := range []struct{ source, target api.StorageType }{
		{api.MemoryStorage, api.MemoryStorage}, {api.MemoryStorage, api.FileStorage}, {api.FileStorage, api.MemoryStorage},
	} {
		t.Run(fmt.Sprintf("%v to %v", c.source, c.target), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				d := deadLetters(w)
				d.source.Storage, d.target.Storage = c.source, c.target
				w.start()
				s, dlq := d.setUp()
				for i := range 200 {
					w.client.publish("s.a", strconv.Itoa(i))
				}
				d.exhaust(s)
				time.Sleep(step)
				if got := letters(t, dlq); len(got) != 200 || len(content(t, s)) != 0 || d.ackPending(s) != 0 {
					t.Errorf("%d letters, %d left, %d pending", len(got), len(content(t, s)), d.ackPending(s))
				}
			})
		})
	}
}

func TestTheDeadAreReadAgainFromTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		w.opts.TailBytes, w.opts.FetchBytes = 1, 1
		w.start()
		s, dlq := d.setUp()
		const n = 2*deadRound + 1
		for i := range n {
			w.client.publish("s.a", strconv.Itoa(i)+strings.Repeat(".", 10_000)) // and more than a round's bytes
			w.client.take()
		}
		d.exhaust(s)
		time.Sleep(step)
		got := letters(t, dlq)
		if len(got) != n || len(content(t, s)) != 0 {
			t.Fatalf("%d letters, %d left", len(got), len(content(t, s)))
		}
		for i, l := range got {
			if !strings.HasPrefix(string(l.Data), strconv.Itoa(i)+".") || field(l, deadSequence) != strconv.Itoa(i+1) {
				t.Errorf("letter %d is of %s: %.10q", i, field(l, deadSequence), l.Data)
			}
		}
	})
}

func TestTheStreamsDefault(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		d.source.Retention = api.LimitsPolicy
		d.source.Metadata = map[string]string{consumer.MetadataDeadLetter: "dlq.default", consumer.MetadataDeadLetterOn: "term"}
		d.consumer.Metadata = nil
		w.start()
		s, dlq := d.setUp()
		off := d.consumer
		off.Durable, off.Metadata = "off", map[string]string{consumer.MetadataDeadLetter: ""}
		w.consumer(s, off)
		w.client.publish("s.a", "1")
		d.answer(w.client.pull(s, "off", 1), "+TERM")
		d.exhaust(s)
		if n := len(letters(t, dlq)); n != 0 {
			t.Fatalf("%d letters", n)
		}
		w.client.publish("s.a", "2")
		d.answer(w.client.pull(s, "c", 1), "+TERM")
		time.Sleep(step)
		if got := letters(t, dlq); len(got) != 1 || got[0].Subject != "dlq.default" {
			t.Fatalf("the letters are %v", content(t, dlq))
		}
		d.source.Metadata = map[string]string{consumer.MetadataDeadLetter: "dlq.other"}
		if _, err := w.account.UpdateStream(t.Context(), d.source, false); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		s, dlq = w.stream("S"), w.stream("DLQ")
		w.client.publish("s.a", "3")
		d.exhaust(s)
		time.Sleep(step)
		if got := letters(t, dlq); len(got) != 2 || got[1].Subject != "dlq.other" {
			t.Errorf("the letters are %v", content(t, dlq))
		}
		for _, bad := range []map[string]string{
			{consumer.MetadataDeadLetter: "dlq.*"}, {consumer.MetadataDeadLetterOn: "always"}, {consumer.MetadataDeadLetter: "$JS.API.STREAM.DELETE.S"},
		} {
			cfg := d.source
			cfg.Metadata = bad
			if _, err := w.account.UpdateStream(t.Context(), cfg, false); err == nil {
				t.Errorf("taken: %v", bad)
			}
			other := d.consumer
			other.Durable, other.Metadata = "bad", bad
			if _, err := s.CreateConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "S", Config: other}); err == nil {
				t.Errorf("taken: %v", bad)
			}
		}
	})
}

func TestDeadHeaderOfAnything(t *testing.T) {
	s, c := &Stream{name: "S"}, &Consumer{name: "c"}
	for _, header := range []string{"", "x", "NATS/1.0\r\n", "NATS/1.0 503\r\nA: b\r\n\r\n", "NATS/1.0\r\nA b\r\n: c\r\nD: e\r\n\r\nbody", "\r\n\r\n"} {
		m := record.StoredMessage{Header: []byte(header), Subject: []byte("s")}
		got := deadHeader(s, c, &m, &consumer.DeadLetter{Cause: consumer.DeadTerm, Reason: "a\r\nB: c"})
		if err := proto.Header(got).Validate(); err != nil || deadHopsOf(got) != 1 || proto.Header(got).Has("B") {
			t.Errorf("%q becomes %q: %v", header, got, err)
		}
		if again := deadHeader(s, c, &record.StoredMessage{Header: got}, &consumer.DeadLetter{Cause: consumer.DeadMaxDeliver}); deadHopsOf(again) != 2 ||
			strings.Count(string(again), deadReason+":") != 1 || strings.Contains(string(again), deadTermReason) {
			t.Errorf("%q becomes %q", got, again)
		}
	}
}
