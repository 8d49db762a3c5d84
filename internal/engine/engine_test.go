package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

var fileStream = api.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: api.FileStorage, Retention: api.LimitsPolicy, Replicas: 1}

func TestNothingIsAcknowledgedOrVisibleBeforeItIsStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(1)
		s := w.create(fileStream)
		w.client.publish("s.a", "1")
		if acks := w.client.acks(); len(acks) != 0 {
			t.Errorf("acknowledged before it was stored: %v", acks)
		}
		if c := content(t, s); len(c) != 0 {
			t.Errorf("visible before it was stored: %v", c)
		}
		b.through(1)
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 1 || acks[0].Error != nil {
			t.Errorf("after it was stored: %v", acks)
		}
		if c := content(t, s); len(c) != 1 {
			t.Errorf("after it was stored there is %v", c)
		}
	})
}

func TestAsyncPersistenceAcknowledgesOnAcceptance(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(1)
		cfg := fileStream
		cfg.PersistMode = api.AsyncPersistMode
		s := w.create(cfg)
		w.client.publish("s.a", "1")
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 1 {
			t.Errorf("got %v", acks)
		}
		if c := content(t, s); len(c) != 1 {
			t.Errorf("what was acknowledged cannot be read: %v", c)
		}
		close(b.gate)
		time.Sleep(step)
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 {
			t.Errorf("what was stored is gone: %v", c)
		}
	})
}

func TestADuplicateOfWhatIsInFlightWaitsForTheOriginal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(1)
		w.create(fileStream)
		w.client.withID("s.a", "x", "1")
		w.client.take()
		w.client.withID("s.a", "x", "1")
		if acks := w.client.acks(); len(acks) != 0 {
			t.Errorf("a duplicate was acknowledged before its original was stored: %v", acks)
		}
		b.through(1)
		acks := w.client.acks()
		if len(acks) != 2 || acks[0].Duplicate || !acks[1].Duplicate || acks[1].Seq != 1 {
			t.Errorf("got %+v", acks)
		}
		close(b.gate)
	})
}

func TestACrashLosesNothingThatWasAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.MaxMsgsPer = 3
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 12 {
			for i := range random.IntN(30) {
				w.client.publish(fmt.Sprintf("s.%d", random.IntN(5)), fmt.Sprintf("%d/%d", round, i))
			}
			w.client.take()
			switch s := w.stream("S"); random.IntN(4) {
			case 0:
				info, _ := s.Info(api.JSApiStreamInfoRequest{})
				s.DeleteMessage(t.Context(), info.State.FirstSeq+uint64(random.IntN(5))) // it may not be there
			case 1:
				if _, err := s.Purge(t.Context(), PurgeRequest{Subject: fmt.Sprintf("s.%d", random.IntN(5)), Keep: 1}); err != nil {
					t.Fatal(err)
				}
			case 2:
				for _, m := range w.client.pull(s, "c", 3) {
					w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
				}
			}
			w.client.take()
			time.Sleep(step) // the consumer's progress is written within a window
			w.client.take()
			before := content(t, w.stream("S"))
			info, err := w.stream("S").ConsumerInfo("c")
			if err != nil {
				t.Fatal(err)
			}
			w.crash()
			w.start()
			if after := content(t, w.stream("S")); !slices.Equal(before, after) {
				t.Fatalf("round %d: before the crash\n%s\nafter it\n%s", round, strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			again, err := w.stream("S").ConsumerInfo("c")
			if err != nil {
				t.Fatal(err)
			}
			if info.NumAckPending != again.NumAckPending || info.NumPending != again.NumPending {
				t.Fatalf("round %d: the consumer had %d pending acknowledgements and %d messages, has %d and %d", round,
					info.NumAckPending, info.NumPending, again.NumAckPending, again.NumPending)
			}
		}
	})
}

func TestWhatADoubleAcknowledgementAnsweredIsNeverDeliveredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		for i := range 4 {
			w.client.publish("s.a", fmt.Sprint(i))
		}
		for _, m := range w.client.pull(s, "c", 2) {
			w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
		}
		if got := w.client.take(); len(got) != 2 {
			t.Fatalf("answers to double acknowledgements: %v", got)
		}
		w.crash()
		w.start()
		var seqs []string
		for _, m := range w.client.pull(w.stream("S"), "c", 10) {
			seqs = append(seqs, m.data)
		}
		if !slices.Equal(seqs, []string{"2", "3"}) {
			t.Errorf("delivered after the crash: %v", seqs)
		}
	})
}

func TestAWorkQueueEndsEmptyWhateverCrashes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Retention = api.WorkQueuePolicy
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		for i := range 6 {
			w.client.publish("s.a", fmt.Sprint(i))
		}
		for round := range 3 {
			msgs := w.client.pull(w.stream("S"), "c", 2)
			if len(msgs) != 2 {
				t.Fatalf("round %d: got %v", round, msgs)
			}
			for _, m := range msgs {
				w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
			}
			w.client.take()
			w.crash()
			w.start()
			if left := content(t, w.stream("S")); len(left) != 4-2*round {
				t.Fatalf("round %d: left are %v", round, left)
			}
		}
	})
}

func TestInterestRetentionKeepsWhatSomebodyWants(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Retention = api.InterestPolicy
		s := w.create(cfg)
		w.client.publish("s.a", "nobody")
		w.client.take()
		time.Sleep(step)
		for _, name := range []string{"a", "b"} {
			w.consumer(s, api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit})
		}
		w.client.publish("s.a", "both")
		w.client.take()
		ack := func(name string) {
			for _, m := range w.client.pull(w.stream("S"), name, 10) {
				w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
			}
			w.client.take()
			time.Sleep(step)
		}
		ack("a")
		if left := content(t, w.stream("S")); len(left) != 1 || !strings.Contains(left[0], "both") {
			t.Errorf("after one of two acknowledged: %v", left)
		}
		w.crash()
		w.start()
		ack("b")
		if left := content(t, w.stream("S")); len(left) != 0 {
			t.Errorf("after both acknowledged: %v", left)
		}
		// A consumer that is deleted wants nothing any more.
		w.client.publish("s.a", "last")
		ack("a")
		if err := w.stream("S").DeleteConsumer(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(step)
		if left := content(t, w.stream("S")); len(left) != 0 {
			t.Errorf("after the other consumer was deleted: %v", left)
		}
	})
}

func TestADeletedStreamStaysDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.create(fileStream)
		w.client.publish("s.a", "old")
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		w.create(fileStream)
		w.client.publish("s.a", "new")
		w.client.take()
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 || !strings.Contains(c[0], "1 s.a new") {
			t.Errorf("got %v", c)
		}
	})
}

func TestACleanStopWritesEverythingOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		for i := range 100 {
			w.client.publish("s.a", fmt.Sprint(i))
		}
		for _, m := range w.client.pull(s, "c", 10) {
			w.client.send(m.reply, "", "", "+ACK")
		}
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		info, err := w.stream("S").ConsumerInfo("c")
		if err != nil || info.AckFloor.Stream != 10 {
			t.Errorf("consumer %+v, %v", info, err)
		}
		if c := content(t, w.stream("S")); len(c) != 100 {
			t.Errorf("%d messages", len(c))
		}
	})
}
