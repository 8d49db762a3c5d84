package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/wal"
)

// aged makes a stream with history, a rewritten part of it, and a tail, and ends the process.
func aged(t *testing.T, w *world) (was []string) {
	w.historic()
	w.start()
	cfg := fileStream
	cfg.Duplicates = time.Second
	s := w.create(cfg)
	publish := func(n int) {
		for i := range n {
			w.client.send(fmt.Sprintf("s.%d", i%3), "_INBOX.ack", "NATS/1.0\r\nA: b\r\n\r\n", fmt.Sprint("message ", i))
			w.client.take()
		}
		time.Sleep(2 * time.Second)
	}
	publish(40)
	if err := s.DeleteMessage(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	w.compacted()
	publish(10)
	was = content(t, s)
	w.crash()
	return was
}

// A byte that is changed anywhere in a segment is an error that names the segment, or it holds the stream offline, or it
// does not matter; it is never another message. Nothing is deleted or rewritten for it.
func TestAByteOfASegmentIsChanged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		want := aged(t, w)
		k := keyOf(t, w, key.StreamSegment, "S")
		object, err := w.store.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		offline, unreadable := 0, 0
		for at := 0; at < len(object.Data); at += 5 {
			damaged := bytes.Clone(object.Data)
			damaged[at] ^= 1 << (at % 8)
			if _, err := w.store.Put(t.Context(), k, damaged, store.Always()); err != nil {
				t.Fatal(err)
			}
			w.start()
			s, err := w.account.Stream("S")
			switch {
			case err != nil && strings.Contains(err.Error(), k):
				offline++
			case err != nil:
				t.Errorf("byte %d: %v, which does not name %s", at, err, k)
			default:
				if !readsOrFails(t, s, want, k) {
					unreadable++
				}
			}
			if at%50 == 0 {
				w.engine.Trim(t.Context()) // they may fail
				w.engine.Tidy(t.Context())
			}
			if t.Failed() {
				t.Fatalf("byte %d of %d", at, len(object.Data))
			}
			w.crash()
			if !slices.Contains(w.keys(key.StreamSegment), k) {
				t.Fatalf("byte %d: the segment was deleted", at)
			}
		}
		if offline == 0 || unreadable == 0 {
			t.Errorf("%d times the stream was offline, %d times a message was not readable", offline, unreadable)
		}
		if _, err := w.store.Put(t.Context(), k, object.Data, store.Always()); err != nil {
			t.Fatal(err)
		}
		w.start()
		if got := content(t, w.stream("S")); !slices.Equal(got, want) {
			t.Errorf("in the end the stream has %d messages, want %d", len(got), len(want))
		}
	})
}

// readsOrFails reads all messages, and reports whether all could be read. Those that could are right.
func readsOrFails(t *testing.T, s *Stream, want []string, k string) (all bool) {
	t.Helper()
	all = true
	for _, line := range want {
		var seq uint64
		if _, err := fmt.Sscan(line, &seq); err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq})
		switch {
		case err != nil && strings.Contains(err.Error(), k):
			all = false
		case err != nil:
			t.Errorf("reading %d: %v", seq, err)
		default:
			if got := fmt.Sprintf("%d %s %s %d", seq, m.Subject, m.Data, m.Time.UnixNano()); got != line || string(m.Header) != "NATS/1.0\r\nA: b\r\n\r\n" {
				t.Errorf("read %q with %q, want %q", got, m.Header, line)
			}
		}
	}
	return all
}

// A byte that is changed in a batch of the log ends the start, with an error that names the batch: it holds many streams'
// records. With the byte restored, everything is there.
func TestAByteOfTheLogIsChanged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		want := aged(t, w)
		r := w.ranges[len(w.ranges)-1]
		for offset := r.From; offset < r.To; offset++ {
			k := r.Log.Key(offset)
			object, err := w.store.Get(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(object.Data); at += 1 + len(object.Data)/12 {
				damaged := bytes.Clone(object.Data)
				damaged[at] ^= 1 << (at % 8)
				if _, err := w.store.Put(t.Context(), k, damaged, store.Always()); err != nil {
					t.Fatal(err)
				}
				if err := w.recoverOnly(); err == nil || !strings.Contains(err.Error(), k) {
					t.Fatalf("byte %d of %s: the start ends with %v", at, k, err)
				}
			}
			if _, err := w.store.Put(t.Context(), k, object.Data, store.Always()); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		if got := content(t, w.stream("S")); !slices.Equal(got, want) {
			t.Errorf("in the end the stream has %d messages, want %d", len(got), len(want))
		}
	})
}

// recoverOnly makes an engine of what the store has, and forgets it.
func (w *world) recoverOnly() error {
	log, err := wal.Open(wal.Options{Store: w.store, ID: wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: w.epoch + 1}})
	if err != nil {
		return err
	}
	defer func() {
		log.Close(w.t.Context())
		<-log.Done()
	}()
	opts := w.opts
	opts.Broker, opts.Store, opts.Log = broker.New(broker.Options{}), w.store, log
	e, err := New(opts)
	if err != nil {
		return err
	}
	defer e.stop()
	defer e.reading.Close()
	return e.Recover(w.t.Context(), w.ranges)
}

// What arrives damaged need not be stored so: a start reads it again.
func TestAStartReadsAgainWhatArrivedDamaged(t *testing.T) {
	for _, rule := range []string{"get streams/* torn times=2", "get streams/* broken times=5", "get streams/* timeout times=5"} {
		t.Run(rule, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				want := aged(t, w)
				for _, skip := range []int{0, 1} { // the manifest; an index
					faulty, err := fault.New(w.store, fault.Options{Rules: fault.MustParse(fmt.Sprint(rule, " skip=", skip))})
					if err != nil {
						t.Fatal(err)
					}
					inner := w.store
					w.store = faulty
					w.start()
					if got := content(t, w.stream("S")); !slices.Equal(got, want) {
						t.Errorf("%d messages, want %d", len(got), len(want))
					}
					w.crash()
					w.store = inner
					faulty.Close()
				}
			})
		})
	}
}
