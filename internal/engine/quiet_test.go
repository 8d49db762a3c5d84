package engine

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// held is a world whose log stands still: what is handed to it stays under way until let go.
func held(t *testing.T, w *world) *blocking {
	t.Helper()
	b := &blocking{Store: w.store, gate: make(chan struct{})}
	w.store = b
	w.truncating()
	w.start()
	return b
}

// trimmed has the log trimmed behind what is under way, while more comes, lets everything happen, and starts anew.
func trimmed(t *testing.T, w *world, b *blocking, meanwhile func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- w.engine.Trim(context.Background()) }()
	w.client.take()
	meanwhile()
	w.client.take()
	close(b.gate)
	if err := <-done; err != nil {
		t.Logf("trim: %v", err)
	}
	w.client.take()
	time.Sleep(step)
}

func TestACheckpointHasWhatWasOnItsWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := held(t, w)
		go b.through(4)
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "stays", AckPolicy: api.AckExplicit})
		w.consumer(s, api.ConsumerConfig{Durable: "goes", AckPolicy: api.AckExplicit})
		w.client.publish("s.a", "1")
		w.client.take()
		// None of these is in the state yet.
		w.client.publish("s.a", "2")
		go s.DeleteMessage(t.Context(), 1)
		go s.DeleteConsumer(t.Context(), "goes")
		cfg := fileStream
		cfg.Description = "changed"
		go w.account.UpdateStream(t.Context(), cfg, false)
		trimmed(t, w, b, func() { w.client.publish("s.a", "3") })
		if acks := w.client.acks(); len(acks) > 0 {
			t.Errorf("late: %v", acks)
		}
		before := content(t, s)
		if len(before) != 2 {
			t.Fatalf("there is %v", before)
		}
		w.client.publish("s.a", "4")
		w.client.take()
		if err := w.engine.Trim(t.Context()); err != nil { // nothing holds it back now
			t.Fatal(err)
		}
		w.crash()
		w.start()
		s = w.stream("S")
		if after := content(t, s); len(after) != 3 || after[0] != before[0] || after[1] != before[1] {
			t.Errorf("before the crash %v, after it %v", before, after)
		}
		if got := s.Config().Description; got != "changed" {
			t.Errorf("the configuration's change is lost: %q", got)
		}
		if names, err := s.ConsumerNames(); err != nil || len(names) != 1 || names[0] != "stays" {
			t.Errorf("the consumers are %v, %v", names, err)
		}
	})
}

func TestAChangeWhoseCreationWasTrimmedIsNoStream(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.start()
		s := w.create(fileStream)
		other := fileStream
		other.Name, other.Subjects, other.Duplicates = "KEEPS", []string{"k.>"}, time.Second
		w.create(other)
		w.client.publish("s.a", "1")
		w.client.take()
		w.client.publish("k.a", "holds the log's front from here on")
		w.client.take()
		cfg := fileStream
		cfg.Description = "changed"
		if _, err := w.account.UpdateStream(t.Context(), cfg, false); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteMessage(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute) // beyond the dedup windows
		for range 2 {
			if err := w.engine.Trim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if w.from == 0 {
			t.Fatal("nothing was trimmed")
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 0 {
			t.Errorf("there is %v", c)
		}
		if got := w.stream("S").Config().Description; got != "changed" {
			t.Errorf("the configuration's change is lost: %q", got)
		}
	})
}

func TestADeletedStreamIsNotBroughtBackByACheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := held(t, w)
		go b.through(1)
		w.create(fileStream)
		trimmed(t, w, b, func() { go w.account.DeleteStream(t.Context(), "S") })
		w.crash()
		w.start()
		if s, err := w.account.Stream("S"); err == nil {
			t.Errorf("the stream %s is there", s.Name())
		}
		w.crash()
		w.start()
		w.create(fileStream)
		w.crash()
		w.start()
		w.stream("S")
	})
}

func TestADeletionUnderWayIsNotFollowedByACheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := held(t, w)
		go b.through(1)
		w.create(fileStream)
		go w.account.DeleteStream(t.Context(), "S")
		w.client.take()
		trimmed(t, w, b, func() {})
		w.create(fileStream)
		w.crash()
		w.start()
		w.stream("S")
	})
}

func TestACreationGoesOnAfterItsRequestGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := held(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.account.CreateStream(ctx, fileStream, false); err == nil {
			t.Fatal("it was answered before it was committed")
		}
		again := make(chan error, 1)
		go func() {
			_, err := w.account.CreateStream(t.Context(), fileStream, false)
			again <- err
		}()
		w.client.take()
		close(b.gate)
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		w.client.publish("s.a", "1")
		if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 1 {
			t.Errorf("got %v", acks)
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 1 {
			t.Errorf("there is %v", c)
		}
	})
}

func TestAConsumerThatIsBeingDeletedIsNotChanged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := held(t, w)
		go b.through(2)
		s := w.create(fileStream)
		cfg := api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit}
		w.consumer(s, cfg)
		deleted, created := make(chan error, 1), make(chan error, 2)
		go func() { deleted <- s.DeleteConsumer(t.Context(), "c") }()
		w.client.take()
		cfg.Description = "another"
		for range 2 { // the second may not be answered before the first is committed
			go func() {
				_, err := s.CreateConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "S", Config: cfg})
				created <- err
			}()
			w.client.take()
		}
		b.through(1)
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		w.client.take()
		if len(created) > 0 {
			t.Error("a creation was answered before it was committed")
		}
		close(b.gate)
		for range 2 {
			if err := <-created; err != nil {
				t.Fatal(err)
			}
		}
		w.client.publish("s.a", "1")
		if got := w.client.pull(s, "c", 1); len(got) != 1 {
			t.Fatalf("pulled %v", got)
		}
		time.Sleep(step)
		w.crash()
		w.start()
		info, err := w.stream("S").ConsumerInfo("c")
		if err != nil || info.Config.Description != "another" || info.Delivered.Consumer != 1 {
			t.Errorf("the consumer is %+v, %v", info, err)
		}
	})
}

func TestAStreamWhoseLogIsLostIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		w.client.publish("s.a", "1")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		w.client.pull(s, "c", 1)
		w.log.Close(over)
		w.client.publish("s.a", "2")
		w.client.take()
		time.Sleep(time.Hour) // never ends when an owner spins
	})
}
