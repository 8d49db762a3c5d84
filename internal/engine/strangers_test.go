package engine

import (
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// A message that waits for its acknowledgement may be removed after the filter changed so that it does not pass.
func TestTheRemovalOfAStrangerIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		cfg := api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, FilterSubject: "s.a"}
		w.consumer(s, cfg)
		for range 3 {
			w.client.publish("s.a", "x")
		}
		w.client.publish("s.b", "x")
		w.client.take()
		if got := w.client.pull(s, "C", 3); len(got) != 3 {
			t.Fatalf("%v", got)
		}
		cfg.FilterSubject = "s.b"
		w.consumer(s, cfg)
		remove := func(s *Stream, seq uint64, left int) {
			t.Helper()
			if err := s.DeleteMessage(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
			if i, err := s.ConsumerInfo("C"); err != nil || i.NumAckPending != left || i.NumPending != 1 {
				t.Errorf("after the removal of %d: %d wait, %d to come, %v", seq, i.NumAckPending, i.NumPending, err)
			}
		}
		remove(s, 2, 2)
		time.Sleep(time.Second) // its progress is written
		w.client.take()
		w.crash()
		w.start()
		s = w.stream("S")
		remove(s, 1, 1)
		remove(s, 3, 0)
		if len(s.strange) > 0 && s.strange[0].machine.Strangers() {
			t.Error("it still waits for strangers")
		}
	})
}

// A consumer of the last message per subject does not fall back to older messages after a crash.
func TestTheListOfLastMessagesSurvives(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		for _, subj := range []string{"s.a", "s.b", "s.a", "s.b", "s.c"} {
			w.client.publish(subj, "x")
		}
		w.client.take()
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, DeliverPolicy: api.DeliverLastPerSubject, FilterSubject: "s.*"})
		if err := s.DeleteMessage(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		w.crash()
		w.start()
		s = w.stream("S")
		got := w.client.pull(s, "C", 9)
		if len(got) != 2 || got[0].subject != "s.a" || got[1].subject != "s.c" {
			t.Errorf("%v", got)
		}
	})
}
