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

// withTTL sends a message with a Nats-TTL.
func (c *client) withTTL(subject, ttl, data string) {
	c.send(subject, "_INBOX.ack", "NATS/1.0\r\nNats-TTL: "+ttl+"\r\n\r\n", data)
}

// subjectsOf gives "seq subject" of what content listed.
func subjectsOf(content []string) (all []string) {
	for _, line := range content {
		all = append(all, strings.Join(strings.SplitN(line, " ", 3)[:2], " "))
	}
	return all
}

func TestAMessageWithATTLGoesWhenItsRemovalIsStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(2)
		cfg := fileStream
		cfg.AllowMsgTTL = true
		s := w.create(cfg)
		w.client.withTTL("s.a", "1s", "short")
		w.client.take()
		go b.through(1)
		w.client.publish("s.b", "long")
		w.client.take()
		time.Sleep(1500 * time.Millisecond)
		w.client.take()
		if c := content(t, s); len(c) != 2 {
			t.Errorf("it went before its removal was stored: %v", c)
		}
		b.through(1)
		w.client.take()
		if got := subjectsOf(content(t, s)); !slices.Equal(got, []string{"2 s.b"}) {
			t.Errorf("after its removal was stored there is %v", got)
		}
		w.store = b.Store
		w.crash()
		w.start()
		if got := subjectsOf(content(t, w.stream("S"))); !slices.Equal(got, []string{"2 s.b"}) {
			t.Errorf("after a crash there is %v", got)
		}
		close(b.gate)
	})
}

func TestTTLsRunOnOverACrash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.AllowMsgTTL = true
		cfg.MaxAge = 10 * time.Second
		w.create(cfg)
		w.client.withTTL("s.a", "5s", "")
		w.client.withTTL("s.b", "never", "")
		w.client.publish("s.c", "")
		w.client.take()
		time.Sleep(2 * time.Second)
		w.crash()
		w.start()
		time.Sleep(2 * time.Second)
		if got := subjectsOf(content(t, w.stream("S"))); len(got) != 3 {
			t.Errorf("after 4 s there is %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := subjectsOf(content(t, w.stream("S"))); !slices.Equal(got, []string{"2 s.b", "3 s.c"}) {
			t.Errorf("after 6 s there is %v", got)
		}
		w.crash()
		time.Sleep(time.Hour)
		w.start()
		time.Sleep(step)
		if got := subjectsOf(content(t, w.stream("S"))); !slices.Equal(got, []string{"2 s.b"}) {
			t.Errorf("after an hour there is %v", got)
		}
	})
}

func TestADeleteMarkerTakesThePlaceOfTheLastMessage(t *testing.T) {
	for _, storage := range []api.StorageType{api.FileStorage, api.MemoryStorage} {
		bubble(t, func(t *testing.T, w *world) {
			w.start()
			cfg := fileStream
			cfg.Storage = storage
			cfg.SubjectDeleteMarkerTTL = 3 * time.Second
			cfg.MaxMsgsPer = 1
			s := w.create(cfg)
			w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckNone})
			w.client.withTTL("s.a", "1s", "value")
			w.client.take()
			time.Sleep(1500 * time.Millisecond)
			w.client.take()
			if storage == api.FileStorage {
				w.crash()
				w.start()
			}
			msgs := w.client.pull(w.stream("S"), "c", 10)
			if len(msgs) != 1 || msgs[0].subject != "s.a" || msgs[0].data != "" ||
				msgs[0].header != "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 3s\r\nNats-Rollup: sub\r\n\r\n" {
				t.Errorf("delivered: %q", msgs)
			}
			if got := subjectsOf(content(t, w.stream("S"))); !slices.Equal(got, []string{"2 s.a"}) {
				t.Errorf("there is %v", got)
			}
			time.Sleep(4 * time.Second)
			if got := subjectsOf(content(t, w.stream("S"))); len(got) != 0 {
				t.Errorf("after the marker's time there is %v", got)
			}
		})
	}
}

func TestManyMessagesExpireInPieces(t *testing.T) {
	for _, markers := range []time.Duration{0, 5 * time.Second} {
		bubble(t, func(t *testing.T, w *world) {
			w.start()
			cfg := fileStream
			cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL, cfg.MaxMsgsPer = true, markers, 1
			s := w.create(cfg)
			const many = 2*maxDue + 10
			for i := range many {
				w.client.withTTL(fmt.Sprintf("s.%d", i), "2s", "")
			}
			w.client.take()
			time.Sleep(3 * time.Second)
			info, err := s.Info(api.JSApiStreamInfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(0)
			if markers > 0 {
				want = many
			}
			if info.State.Msgs != want {
				t.Errorf("with markers %v there are %d messages, want %d", markers, info.State.Msgs, want)
			}
			time.Sleep(5 * time.Second)
			if info, err = s.Info(api.JSApiStreamInfoRequest{}); err != nil || info.State.Msgs != 0 {
				t.Errorf("with markers %v, in the end there are %d messages, %v", markers, info.State.Msgs, err)
			}
		})
	}
}

func TestWhatExpiredNeverComesBackAfterACrash(t *testing.T) {
	for seed := range uint64(6) {
		bubble(t, func(t *testing.T, w *world) {
			w.start()
			random := rand.New(rand.NewPCG(seed, 3))
			cfg := fileStream
			cfg.AllowMsgTTL = true
			cfg.MaxAge = time.Duration(random.IntN(2)) * 5 * time.Second
			cfg.SubjectDeleteMarkerTTL = time.Duration(random.IntN(3)) * time.Second
			if random.IntN(2) == 0 {
				cfg.MaxMsgsPer = 1
			}
			w.create(cfg)
			gone, was := map[string]bool{}, []string(nil)
			look := func() []string {
				now := content(t, w.stream("S"))
				for _, m := range was {
					gone[m] = gone[m] || !slices.Contains(now, m)
				}
				for _, m := range now {
					if gone[m] {
						t.Errorf("seed %d: came back: %s", seed, m)
					}
				}
				was = now
				return now
			}
			for round := range 40 {
				ttl := []string{"1s", "2", "never", "3s"}[random.IntN(4)]
				w.client.withTTL(fmt.Sprintf("s.%d", random.IntN(4)), ttl, fmt.Sprint(round))
				w.client.take()
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				before := look()
				if random.IntN(3) > 0 {
					continue
				}
				w.crash()
				w.start()
				after := look()
				for _, m := range after {
					if !slices.Contains(before, m) && !strings.Contains(m, "  ") { // a marker that was on its way has no data
						t.Errorf("seed %d: new after a crash: %s", seed, m)
					}
				}
			}
		})
	}
}
