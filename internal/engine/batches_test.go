package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/stream"
)

// ofBatch sends a message of an atomic batch.
func (c *client) ofBatch(subject, batch string, seq int, commit, data string) {
	header := fmt.Sprintf("NATS/1.0\r\nNats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n", batch, seq)
	if commit != "" {
		header += "Nats-Batch-Commit: " + commit + "\r\n"
	}
	c.send(subject, "_INBOX.batch", header+"\r\n", data)
}

// bodies gives the bodies of what was received since the last call.
func (c *client) bodies() (all []string) {
	for _, m := range c.take() {
		all = append(all, m.data)
	}
	return all
}

func atomicStream() api.StreamConfig {
	cfg := fileStream
	cfg.AllowAtomicPublish = true
	return cfg
}

func TestABatchIsVisibleAndAcknowledgedAsOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(atomicStream())
		for seq := 1; seq <= 3; seq++ {
			w.client.ofBatch("s.a", "k", seq, "", fmt.Sprint(seq))
		}
		if got := w.client.bodies(); !slices.Equal(got, []string{"", "", ""}) {
			t.Errorf("answers to staged messages: %q", got)
		}
		w.client.publish("s.b", "other")
		w.client.take()
		if c := content(t, s); len(c) != 1 {
			t.Errorf("before the commit there is %v", c)
		}
		w.client.ofBatch("s.c", "k", 4, "1", "4")
		if got := w.client.bodies(); !slices.Equal(got, []string{`{"stream":"S","seq":5,"batch":"k","count":4}`}) {
			t.Errorf("answer to the commit: %q", got)
		}
		want := []string{"1 s.b", "2 s.a", "3 s.a", "4 s.a", "5 s.c"}
		if got := subjectsOf(content(t, s)); !slices.Equal(got, want) {
			t.Errorf("there is %v", got)
		}
		w.crash()
		w.start()
		if got := subjectsOf(content(t, w.stream("S"))); !slices.Equal(got, want) {
			t.Errorf("after a crash there is %v", got)
		}
	})
}

// TestACrashKeepsABatchAsAWhole crashes before each of the creates that a run of batches makes.
func TestACrashKeepsABatchAsAWhole(t *testing.T) {
	const batches, size = 4, 300 // of 1 KiB: more than a chunk takes otherwise
	for let := range batches + 1 {
		bubble(t, func(t *testing.T, w *world) {
			b := &blocking{Store: w.store, gate: make(chan struct{})}
			w.store = b
			w.start()
			go b.through(1 + let)
			w.create(atomicStream())
			w.client.take()
			for k := range batches {
				for seq := 1; seq <= size; seq++ {
					commit := ""
					if seq == size {
						commit = "1"
					}
					w.client.ofBatch("s.a", fmt.Sprint("k", k), seq, commit, strings.Repeat("x", 1024))
				}
				w.client.take()
			}
			w.store = b.Store
			w.crash()
			w.start()
			n := len(content(t, w.stream("S")))
			if n%size != 0 {
				t.Errorf("%d creates let through: a crash leaves %d messages", let, n)
			}
			close(b.gate)
		})
	}
}

func TestABatchThatIsNotCommittedIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.create(atomicStream())
		const advisory = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"
		if _, err := w.account.Space().Subscribe(advisory, "", w.client); err != nil {
			t.Fatal(err)
		}
		reason := func() string {
			var event struct{ Type, Stream, Batch, Reason string }
			for _, m := range w.client.take() {
				if m.subject == advisory {
					if err := json.Unmarshal([]byte(m.data), &event); err != nil {
						t.Fatal(err)
					}
				}
			}
			return fmt.Sprint(event)
		}
		const kind = "io.nats.jetstream.advisory.v1.stream_batch_abandoned"
		w.client.ofBatch("s.a", "k", 1, "", "")
		w.client.take()
		time.Sleep(11 * time.Second)
		if got, want := reason(), fmt.Sprintf("{%s S k timeout}", kind); got != want {
			t.Errorf("advisory %s, want %s", got, want)
		}
		w.client.ofBatch("s.a", "k", 2, "1", "")
		if got := w.client.acks(); len(got) != 1 || got[0].Error == nil || got[0].Error.ErrCode != 10176 {
			t.Errorf("after the time: %+v", got)
		}
		w.client.ofBatch("s.a", "l", 1, "", "")
		w.client.ofBatch("s.a", "l", 3, "", "")
		if got, want := reason(), fmt.Sprintf("{%s S l incomplete}", kind); got != want {
			t.Errorf("advisory %s, want %s", got, want)
		}
		// A crash forgets what is open.
		w.client.ofBatch("s.a", "m", 1, "", "")
		w.client.take()
		w.crash()
		w.start()
		w.client.ofBatch("s.a", "m", 2, "1", "")
		if got := w.client.acks(); len(got) != 1 || got[0].Error == nil || got[0].Error.ErrCode != 10176 {
			t.Errorf("after a crash: %+v", got)
		}
		if c := content(t, w.stream("S")); len(c) != 0 {
			t.Errorf("there is %v", c)
		}
	})
}

func TestTheServerBoundsItsOpenBatches(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.engine.batches.SetLimits(stream.BatchLimits{Total: 1})
		w.create(atomicStream())
		other := atomicStream()
		other.Name, other.Subjects = "T", []string{"t.>"}
		w.create(other)
		w.client.ofBatch("s.a", "k", 1, "", "")
		w.client.take()
		w.client.ofBatch("t.a", "k", 1, "", "")
		if got := w.client.acks(); len(got) != 1 || got[0].Error == nil || got[0].Error.ErrCode != 10210 {
			t.Errorf("beyond the bound: %+v", got)
		}
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		w.client.take()
		w.client.ofBatch("t.a", "k", 1, "1", "")
		if got := w.client.acks(); len(got) != 1 || got[0].Error != nil {
			t.Errorf("after the other stream is gone: %+v", got)
		}
	})
}

func TestAFastBatchIsAcknowledgedWhenItIsStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(1)
		cfg := fileStream
		cfg.AllowBatchPublish = true
		s := w.create(cfg)
		send := func(seq, op int) {
			w.client.send("s.a", fmt.Sprintf("_INBOX.f.k.2.fail.%d.%d.$FI", seq, op), "", fmt.Sprint(seq))
		}
		send(1, 0)
		send(2, 1)
		if got := w.client.bodies(); !slices.Equal(got, []string{`{"type":"ack","seq":0,"msgs":2}`}) {
			t.Errorf("before anything is stored: %q", got)
		}
		close(b.gate)
		if got := w.client.bodies(); !slices.Equal(got, []string{`{"type":"ack","seq":2,"msgs":2}`}) {
			t.Errorf("when two are stored: %q", got)
		}
		send(3, 1)
		send(4, 3)
		if got := w.client.bodies(); !slices.Equal(got, []string{`{"stream":"S","seq":3,"batch":"k","count":3}`}) {
			t.Errorf("at the end: %q", got)
		}
		if c := content(t, s); len(c) != 3 {
			t.Errorf("there is %v", c)
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 3 {
			t.Errorf("after a crash there is %v", c)
		}
	})
}

// counting sends an increment.
func (c *client) counting(subject, by string) {
	c.send(subject, "_INBOX.ack", "NATS/1.0\r\nNats-Incr: "+by+"\r\n\r\n", "")
}

func TestCountersCountOnOverACrashAndWhenTheirMessagesAreOnlyInTheStore(t *testing.T) {
	for _, storage := range []api.StorageType{api.FileStorage, api.MemoryStorage} {
		bubble(t, func(t *testing.T, w *world) {
			w.opts.TailBytes = 1 // every read goes to the store
			w.start()
			cfg := fileStream
			cfg.Storage, cfg.AllowMsgCounter = storage, true
			s := w.create(cfg)
			for i := range 5 {
				w.client.counting("s.a", "10")
				w.client.counting("s.b", fmt.Sprint(-i))
			}
			got := w.client.bodies()
			if want := `{"stream":"S","seq":10,"val":"-10"}`; len(got) != 10 || got[9] != want {
				t.Errorf("answers %q, want the last to be %s", got, want)
			}
			if storage == api.FileStorage {
				w.crash()
				w.start()
				s = w.stream("S")
			}
			for range 3 {
				w.client.counting("s.a", "1")
				w.client.counting("s.b", "1")
			}
			got = w.client.bodies()
			if len(got) != 6 || got[4] != `{"stream":"S","seq":15,"val":"53"}` || got[5] != `{"stream":"S","seq":16,"val":"-7"}` {
				t.Errorf("answers %q", got)
			}
			if err := s.DeleteMessage(t.Context(), 16); err != nil {
				t.Fatal(err)
			}
			w.client.take()
			w.client.counting("s.b", "1")
			if got = w.client.bodies(); len(got) != 1 || got[0] != `{"stream":"S","seq":17,"val":"-7"}` {
				t.Errorf("after a delete: %q", got)
			}
			m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{LastFor: "s.a"})
			if err != nil || string(m.Data) != `{"val":"53"}` {
				t.Errorf("stored is %s, %v", m.Data, err)
			}
		})
	}
}
