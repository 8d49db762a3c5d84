package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/consumer"
)

// standstill is a world whose log is written an object at a time and stands still, with a dead message in S whose
// letter's entry the DLQ has lent, since S waits for a quiet moment to write a checkpoint. What S waits for is the one
// object that is under way.
func standstill(t *testing.T, w *world) (d *deadWorld, s, dlq *Stream, b *blocking) {
	t.Helper()
	d = deadLetters(w)
	w.walOpt.MaxBatchBytes, w.walOpt.MaxInFlight = 1, 1
	b = held(t, w)
	go b.through(5)
	s, dlq = d.setUp()
	w.client.publish("s.a", "1")
	w.client.take()
	w.client.publish("dlq.x", "2")
	w.client.take()
	got := w.client.pull(s, "c", 1)
	w.client.send("s.a", "", "", "under way")
	w.client.take()
	go s.checkpoint(context.Background())
	w.client.take()
	d.answer(got, "+TERM")
	lent := false
	if err := dlq.do(func() { lent = dlq.lent != nil }); err != nil || !lent {
		t.Fatalf("nothing is lent: %v", err)
	}
	return d, s, dlq, b
}

func TestACheckpointBeforeTheLetterHasTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		_, _, _, b := standstill(t, w)
		b.through(2) // what was under way, and the checkpoint, but not the group
		w.client.take()
		w.store = b.Store
		w.crash()
		w.start()
		time.Sleep(step)
		if all, dlq := content(t, w.stream("S")), letters(t, w.stream("DLQ")); len(all) != 1 || len(dlq) != 2 || string(dlq[1].Data) != "1" {
			t.Errorf("there is %v and %v", all, content(t, w.stream("DLQ")))
		}
	})
}

func TestNothingOvertakesALetterThatIsLent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		_, _, dlq, b := standstill(t, w)
		deleted := make(chan error, 1)
		go func() { deleted <- dlq.DeleteMessage(t.Context(), 1) }()
		w.client.publish("dlq.x", "3")
		w.client.take()
		b.through(2) // what was under way, and the checkpoint
		w.client.take()
		if all := content(t, dlq); len(all) != 1 || len(deleted) > 0 {
			t.Errorf("the DLQ holds %v before anything of it was committed", all)
		}
		b.through(1) // the group
		w.client.take()
		if all := content(t, dlq); len(all) != 2 || len(deleted) > 0 {
			t.Errorf("the DLQ holds %v", all)
		}
		close(b.gate)
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		w.client.take()
		before := content(t, dlq)
		if len(before) != 2 {
			t.Errorf("the DLQ holds %v", before)
		}
		w.crash()
		w.start()
		if after := content(t, w.stream("DLQ")); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("before the crash %v, after it %v", before, after)
		}
	})
}

func TestStreamsMaySendEachOtherLetters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const each = 150
		d := deadLetters(w)
		d.consumer.MaxDeliver = 1
		d.consumer.FilterSubject = "s.new"
		d.target.Retention = api.WorkQueuePolicy
		w.walOpt.MaxPendingBytes = 300 // a few entries fill the log
		w.walOpt.MaxInFlight = 1
		w.start()
		s, dlq := d.setUp()
		back := d.consumer
		back.FilterSubject, back.Metadata = "dlq.new", map[string]string{consumer.MetadataDeadLetter: "s.letter"}
		w.consumer(dlq, back)
		for i := range each {
			w.client.publish("s.new", "s"+strconv.Itoa(i))
			w.client.publish("dlq.new", "d"+strconv.Itoa(i))
			if i%10 == 9 {
				for _, to := range []*Stream{s, dlq} {
					d.answer(w.client.pull(to, "c", 10), "-NAK")
				}
			}
		}
		for range 5 {
			time.Sleep(step)
			for _, to := range []*Stream{s, dlq} {
				d.answer(w.client.pull(to, "c", each), "-NAK")
			}
		}
		time.Sleep(time.Minute)
		for stream, first := range map[*Stream]string{s: "d", dlq: "s"} {
			var names []string
			for _, m := range letters(t, stream) {
				names = append(names, string(m.Data))
			}
			slices.Sort(names)
			if len(slices.Compact(slices.Clone(names))) != each || len(names) != each || slices.ContainsFunc(names, func(n string) bool { return n[:1] != first }) {
				t.Errorf("%s holds %d: %v", stream.Name(), len(names), names)
			}
			if p := d.ackPending(stream); p != 0 {
				t.Errorf("%s: %d pending", stream.Name(), p)
			}
		}
	})
}

func TestASourceThatIsDeletedGivesBackWhatWasLent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		_, _, dlq, b := standstill(t, w)
		deleted := make(chan error, 2)
		go func() { deleted <- w.account.DeleteStream(t.Context(), "S") }()
		go func() { deleted <- dlq.DeleteMessage(t.Context(), 1) }()
		w.client.publish("dlq.x", "3")
		w.client.take()
		close(b.gate)
		for range 2 {
			if err := <-deleted; err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(step)
		w.client.publish("dlq.x", "4")
		if acks := w.client.acks(); len(acks) != 2 || acks[0].Error != nil || acks[1].Error != nil {
			t.Errorf("publishes to the target got %v", acks)
		}
		before := content(t, dlq)
		if len(before) != 3 {
			t.Errorf("there is %v", before)
		}
		w.crash()
		w.start()
		if after := content(t, w.stream("DLQ")); !slices.Equal(before, after) {
			t.Errorf("before the crash %v, after it %v", before, after)
		}
	})
}

func TestAStopEndsTheRound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		d := deadLetters(w)
		b := held(t, w)
		go b.through(4)
		s, _ := d.setUp()
		w.client.publish("s.a", "1")
		d.answer(w.client.pull(s, "c", 1), "+TERM")
		w.client.publish("dlq.x", "2")
		stopped := make(chan error, 1)
		go func() { stopped <- w.engine.Stop(t.Context()) }()
		synctest.Wait()
		close(b.gate)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		time.Sleep(step)
		if n := len(letters(t, w.stream("DLQ"))); n < 1 || n > 2 || len(content(t, w.stream("S"))) != 0 {
			t.Errorf("there is %v and %v", content(t, w.stream("S")), content(t, w.stream("DLQ")))
		}
	})
}
