package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// A watcher of a key-value bucket has seen all there was when a delivery says that none is pending. So that number must
// come to 0 with the last one, whatever was deleted in between, and must be there at all.

func TestTheInitialStateOfAWatcherEnds(t *testing.T) {
	// What happens to a bucket before it is watched, and the keys that are left.
	for _, tc := range []struct {
		name    string
		happens func(t *testing.T, w *world)
		left    string
	}{
		{"nothing", func(*testing.T, *world) {}, "a b c d"},
		{"interior deletes", func(t *testing.T, w *world) {
			for _, seq := range []uint64{5, 7} {
				if err := w.stream("S").DeleteMessage(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}, "a b c d"},
		{"the last message deleted", func(t *testing.T, w *world) {
			if err := w.stream("S").DeleteMessage(t.Context(), 12); err != nil {
				t.Fatal(err)
			}
		}, "d a b c"},
		{"a key purged", func(t *testing.T, w *world) {
			if _, err := w.stream("S").Purge(t.Context(), PurgeRequest{Subject: "s.b"}); err != nil {
				t.Fatal(err)
			}
		}, "a c d"},
		{"the last key purged", func(t *testing.T, w *world) {
			if _, err := w.stream("S").Purge(t.Context(), PurgeRequest{Subject: "s.d"}); err != nil {
				t.Fatal(err)
			}
		}, "a b c"},
		{"a key rolled up", func(_ *testing.T, w *world) {
			w.client.send("s.c", "_INBOX.ack", "NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", "deleted")
		}, "a b d c"},
		{"a key written beyond its history", func(_ *testing.T, w *world) {
			for range 7 {
				w.client.publish("s.a", "again")
			}
		}, "b c d a"},
	} {
		for _, crashes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, crash %t", tc.name, crashes), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.start()
					w.create(bucket())
					for range 3 {
						for _, key := range []string{"s.a", "s.b", "s.c", "s.d"} {
							w.client.publish(key, "value")
						}
					}
					w.client.take()
					tc.happens(t, w)
					w.client.take()
					if crashes {
						w.crash()
						w.start()
					}
					w.watchInitialState(t, tc.left)
				})
			})
		}
	}
}

// bucket is the stream of a key-value bucket.
func bucket() api.StreamConfig {
	cfg := fileStream
	cfg.MaxMsgsPer, cfg.RollupAllowed, cfg.Discard = 5, true, api.DiscardNew
	return cfg
}

// watchInitialState watches a bucket as clients do, and expects keys in this order and the number of pending ones to
// count down to 0.
func (w *world) watchInitialState(t *testing.T, keys string) {
	t.Helper()
	s := w.stream("S")
	w.client.take()
	w.consumer(s, api.ConsumerConfig{Name: "W", DeliverSubject: "_INBOX.watch", AckPolicy: api.AckNone,
		DeliverPolicy: api.DeliverLastPerSubject, FilterSubject: "s.>", InactiveThreshold: time.Hour})
	want := strings.Fields(keys)
	got := w.client.take()
	if len(got) != len(want) {
		t.Fatalf("got %d messages, want the keys %s: %v", len(got), keys, got)
	}
	for i, m := range got {
		if m.subject != "s."+want[i] || !strings.HasSuffix(m.reply, fmt.Sprintf(".%d", len(want)-1-i)) {
			t.Errorf("delivery %d is %s with %s, want %s with %d pending", i, m.subject, m.reply, want[i], len(want)-1-i)
		}
	}
	info, err := s.ConsumerInfo("W")
	if err != nil || info.NumPending != 0 {
		t.Errorf("%d pending in the end, %v", info.NumPending, err)
	}
}

// Deletes while somebody reads: what is pending goes down with each that was not delivered yet, and only with those.
func TestDeletesLowerWhatIsPending(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, FilterSubject: "s.a"})
		for i := range 12 {
			w.client.publish([]string{"s.a", "s.b"}[i%2], "x")
		}
		w.client.take()
		w.client.pull(s, "C", 2) // 1 and 3
		pending := func(want uint64) {
			t.Helper()
			if info, err := w.stream("S").ConsumerInfo("C"); err != nil || info.NumPending != want {
				t.Errorf("%d pending, want %d, %v", info.NumPending, want, err)
			}
		}
		pending(4)
		for _, del := range []struct{ seq, left uint64 }{{3, 4}, {4, 4}, {7, 3}, {11, 2}, {12, 2}} {
			if err := s.DeleteMessage(t.Context(), del.seq); err != nil {
				t.Fatal(err)
			}
			pending(del.left)
		}
		time.Sleep(time.Second) // its progress is written
		w.client.take()
		w.crash()
		w.start()
		pending(2)
		if got := w.client.pull(w.stream("S"), "C", 10); len(got) != 2 || !strings.HasSuffix(got[1].reply, ".0") {
			t.Errorf("after the crash: %v", got)
		}
	})
}

// A message that is larger than the stream may be goes at once: nobody waits for it.
func TestAMessageLargerThanTheStreamIsNeverPending(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.MaxBytes = 200
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		for _, data := range []string{strings.Repeat("x", 500), "small", strings.Repeat("x", 500)} {
			w.client.publish("s.a", data)
			w.client.take()
			want := uint64(len(content(t, s)))
			if info, err := s.ConsumerInfo("C"); err != nil || info.NumPending != want {
				t.Errorf("after %d bytes %d pending, want %d, %v", len(data), info.NumPending, want, err)
			}
		}
		w.client.publish("s.a", "last")
		if got := w.client.pull(s, "C", 5); len(got) != 1 || !strings.HasSuffix(got[0].reply, ".0") {
			t.Errorf("got %v", got)
		}
	})
}

// A pull that waits because too much is unacknowledged goes on when some of that is removed.
func TestARemovalMakesRoomForTheNextDelivery(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, MaxAckPending: 1, AckWait: time.Hour})
		for _, data := range []string{"1", "2"} {
			w.client.publish("s.a", data)
		}
		w.client.take()
		w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.pull", "", `{"batch":5,"expires":3600000000000}`)
		if got := w.client.take(); len(got) != 1 || got[0].data != "1" {
			t.Fatalf("delivered: %v", got)
		}
		if err := s.DeleteMessage(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := w.client.take(); len(got) != 1 || got[0].data != "2" {
			t.Errorf("after the removal: %v", got)
		}
	})
}

func TestConsumersKeepWithinTheLimitsOfTheirStream(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		for _, name := range []string{"B", "A"} {
			w.consumer(s, api.ConsumerConfig{Durable: name, AckPolicy: api.AckExplicit, MaxAckPending: 10})
		}
		cfg := s.Config()
		cfg.ConsumerLimits.MaxAckPending = 9
		err := s.update(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "change to limits violates consumers: A, B") {
			t.Errorf("a limit below what consumers have: %v", err)
		}
		cfg.ConsumerLimits.MaxAckPending = 10
		if err := s.update(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	})
}
