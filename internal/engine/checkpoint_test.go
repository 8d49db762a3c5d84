package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/wal"
)

// truncating makes the world's engines trim their logs, and keeps the ranges that a start would replay in step.
func (w *world) truncating() {
	w.opts.TrimBytes = 1 << 40 // only when the test asks for it
	w.opts.Truncate = func(ctx context.Context, log wal.LogID, before wal.Offset) error {
		kept := w.ranges[:0]
		for _, r := range w.ranges {
			if r.Log == log {
				r.From = max(r.From, before)
			}
			if r.From < r.To {
				kept = append(kept, r)
			}
		}
		w.ranges = kept
		if log == w.log.ID() {
			w.from = max(w.from, before)
		} else {
			before = min(before, 1<<40)
		}
		return wal.Truncate(ctx, w.store, log, before)
	}
}

// objects counts what is in the store.
func (w *world) objects() int {
	n, after := 0, ""
	for {
		page, err := w.store.List(w.t.Context(), listAfter(after))
		if err != nil {
			w.t.Fatal(err)
		}
		if n += len(page.Objects); !page.More {
			return n
		}
		after = page.Objects[len(page.Objects)-1].Key
	}
}

func TestATrimmedLogGivesTheSameStreams(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.start()
		cfg := fileStream
		cfg.MaxMsgsPer, cfg.MaxMsgs = 3, 12
		cfg.Duplicates = time.Second
		w.consumer(w.create(cfg), api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		other := fileStream
		other.Name, other.Subjects, other.Duplicates = "IDLE", []string{"idle.>"}, time.Second
		w.create(other)
		w.client.publish("idle.a", "stays")
		random := rand.New(rand.NewPCG(3, 4))
		for round := range 40 {
			for i := range random.IntN(20) {
				w.client.publish(fmt.Sprintf("s.%d", random.IntN(6)), fmt.Sprintf("%d/%d", round, i))
				if i%5 == 0 {
					w.client.take()
				}
			}
			w.client.take()
			s := w.stream("S")
			switch random.IntN(5) {
			case 0:
				info, _ := s.Info(api.JSApiStreamInfoRequest{})
				s.DeleteMessage(t.Context(), info.State.FirstSeq+uint64(random.IntN(5))) // it may not be there
			case 1:
				if _, err := s.Purge(t.Context(), PurgeRequest{}); err != nil {
					t.Fatal(err)
				}
			case 2:
				for _, m := range w.client.pull(s, "c", 3) {
					w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
				}
			case 3:
				time.Sleep(3 * time.Second)
				if err := w.engine.Trim(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.client.take()
			time.Sleep(step)
			before := append(content(t, w.stream("S")), content(t, w.stream("IDLE"))...)
			seqs, _ := w.stream("S").Info(api.JSApiStreamInfoRequest{})
			consumer, err := w.stream("S").ConsumerInfo("c")
			if err != nil {
				t.Fatal(err)
			}
			w.crash()
			w.start()
			after := append(content(t, w.stream("S")), content(t, w.stream("IDLE"))...)
			if !slices.Equal(before, after) {
				t.Fatalf("round %d: before the crash\n%s\nafter it\n%s", round, strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			seqs2, _ := w.stream("S").Info(api.JSApiStreamInfoRequest{})
			if seqs.State.LastSeq != seqs2.State.LastSeq || seqs.State.FirstSeq != seqs2.State.FirstSeq || seqs.State.Bytes != seqs2.State.Bytes {
				t.Fatalf("round %d: the state was %+v, is %+v", round, seqs.State, seqs2.State)
			}
			again, err := w.stream("S").ConsumerInfo("c")
			if err != nil {
				t.Fatal(err)
			}
			if consumer.NumAckPending != again.NumAckPending || consumer.NumPending != again.NumPending || consumer.Delivered.Consumer != again.Delivered.Consumer {
				t.Fatalf("round %d: the consumer was %+v, is %+v", round, consumer, again)
			}
		}
	})
}

func TestADrainedWorkQueueLeavesNoLogBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.start()
		cfg := fileStream
		cfg.Retention, cfg.Duplicates = api.WorkQueuePolicy, time.Second
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		for i := range 200 {
			w.client.publish("s.a", fmt.Sprint(i))
			w.client.take()
		}
		full := w.objects()
		for _, m := range w.client.pull(s, "c", 200) {
			w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
		}
		w.client.take()
		time.Sleep(10 * time.Second)
		if err := w.engine.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := w.objects(); left > 5 || full < 200 {
			t.Errorf("%d objects of %d are left", left, full)
		}
		w.client.publish("s.a", "next")
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 201 {
			t.Errorf("the next message: %v", acks)
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 {
			t.Errorf("after a crash: %v", c)
		}
	})
}

func TestAMessageIDIsRememberedThoughTheLogWasTrimmed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.start()
		cfg := fileStream
		cfg.Duplicates = time.Minute
		w.create(cfg)
		w.client.withID("s.a", "x", "1")
		w.client.take()
		if _, err := w.stream("S").Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if err := w.engine.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		w.client.withID("s.a", "x", "1")
		if acks := w.client.acks(); len(acks) != 1 || !acks[0].Duplicate {
			t.Errorf("within the window: %+v", acks)
		}
	})
}

func TestALogWithoutTheBeginningOfAStreamIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.create(fileStream)
		w.client.publish("s.a", "1")
		w.client.take()
		w.crash()
		w.ranges[0].From = 1 // the stream's creation is lost
		e, err := New(Options{Broker: w.broker, Store: w.store, Log: w.log})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Recover(t.Context(), w.ranges); err == nil {
			t.Error("a stream was recovered, or dropped, without its creation")
		}
		e.stop()
		w.ranges[0].From = 0
		w.start()
	})
}

func TestOfTwoStreamsOfOneNameOneWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.start()
		w.create(fileStream)
		w.client.publish("s.a", "first")
		w.client.take()
		first := w.ranges
		w.crash()
		theirs := w.ranges
		// Another node, which knows nothing of the first one's log, creates a stream of the same name.
		w.ranges = first
		w.start()
		w.create(fileStream)
		w.client.publish("s.a", "second")
		w.client.take()
		w.crash()
		w.ranges = append(theirs, w.ranges...)
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 || !strings.Contains(c[0], "first") {
			t.Errorf("by the name goes %v", c)
		}
		time.Sleep(time.Hour)
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		if err := w.engine.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 || !strings.Contains(c[0], "second") {
			t.Errorf("after the first was deleted: %v", c)
		}
	})
}
