package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/archive"
	"github.com/sluicemq/sluice/internal/jserr"
)

// backup writes a stream's backup.
func backup(t *testing.T, s *Stream) []byte {
	t.Helper()
	sn, err := s.Snapshot(true)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := sn.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (w *world) restore(cfg api.StreamConfig, from io.Reader) (*Stream, error) {
	w.t.Helper()
	cfg, err := w.account.CheckRestore(cfg)
	if err != nil {
		return nil, err
	}
	return w.account.Restore(w.t.Context(), cfg, from)
}

// standing is what a restore has to bring back, but for when it was created.
func standing(t *testing.T, s *Stream) string {
	t.Helper()
	info, err := s.Info(api.JSApiStreamInfoRequest{DeletedDetails: true})
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%+v\n%s", info.State, strings.Join(content(t, s), "\n"))
	names, err := s.ConsumerNames()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		c, err := s.ConsumerInfo(name)
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf("\n%s: delivered %d %d, floor %d %d, pending %d, unacknowledged %d, redelivered %d", name,
			c.Delivered.Consumer, c.Delivered.Stream, c.AckFloor.Consumer, c.AckFloor.Stream, c.NumPending, c.NumAckPending, c.NumRedelivered)
	}
	return out
}

// filled makes a stream with a past: messages with and without headers, removed ones inside and at both ends, consumers
// with deliveries that wait.
func (w *world) filled(cfg api.StreamConfig) *Stream {
	w.t.Helper()
	s := w.create(cfg)
	for i := range 40 {
		w.client.publish(fmt.Sprintf("s.%d", i%7), fmt.Sprintf("message %d", i))
		w.client.withID("s.id", fmt.Sprint(i), "with an id")
		w.client.take()
	}
	w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit, AckWait: time.Hour, MaxAckPending: 100})
	for i, m := range w.client.pull(s, "c", 20) {
		if i%3 == 0 {
			w.client.send(m.reply, "", "", "+ACK")
		}
	}
	w.client.take()
	for _, seq := range []uint64{1, 2, 30, 31, 35, 79, 80} {
		if err := s.DeleteMessage(w.t.Context(), seq); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// restored is the configuration of the streams that are backed up.
func restored() api.StreamConfig {
	return api.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, Storage: api.FileStorage, Retention: api.LimitsPolicy, Discard: api.DiscardOld,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1, MaxConsumers: -1, Replicas: 1, Duplicates: 2 * time.Minute, AllowDirect: true,
	}
}

func TestARestoredStreamIsTheOneThatWasBackedUp(t *testing.T) {
	for _, kind := range []api.StorageType{api.FileStorage, api.MemoryStorage} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start()
				cfg := restored()
				cfg.Storage = kind
				s := w.filled(cfg)
				want, made := standing(t, s), backup(t, s)
				if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
					t.Fatal(err)
				}
				s, err := w.restore(cfg, bytes.NewReader(made))
				if err != nil {
					t.Fatal(err)
				}
				if got := standing(t, s); got != want {
					t.Fatalf("got %s\nwant %s", got, want)
				}
				w.client.publish("s.new", "after")
				if acks := w.client.acks(); len(acks) != 1 || acks[0].Seq != 81 {
					t.Fatalf("the next publish: %+v", acks)
				}
				w.client.withID("s.id", "38", "again")
				if acks := w.client.acks(); len(acks) != 1 || !acks[0].Duplicate {
					t.Fatalf("a publish with an id of the backup: %+v", acks)
				}
				if kind == api.MemoryStorage {
					return
				}
				want = standing(t, s)
				for range 2 { // the second time there is a checkpoint, too
					w.crash()
					w.start()
					s = w.stream("S")
					if got := standing(t, s); got != want {
						t.Fatalf("after a crash: got %s\nwant %s", got, want)
					}
					if _, err := s.checkpoint(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func TestARestoreThatIsCutOffLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		made := backup(t, w.filled(restored()))
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		cut := errors.New("cut off")
		for n := range len(made) {
			if n > 64 && n%97 != 0 && n < len(made)-8 {
				continue
			}
			for _, end := range []error{io.EOF, cut} {
				_, err := w.restore(restored(), io.MultiReader(bytes.NewReader(made[:n]), failing{end}))
				if err == nil {
					t.Fatalf("%d of %d bytes made a stream", n, len(made))
				}
				if _, err := w.account.Stream("S"); !errors.Is(err, jserr.New(jserr.StreamNotFound)) {
					t.Fatalf("after %d of %d bytes: %v", n, len(made), err)
				}
			}
		}
		// The end is there, and the sender is gone before it says that it was all.
		if _, err := w.restore(restored(), io.MultiReader(bytes.NewReader(made), failing{cut})); !errors.Is(err, cut) {
			t.Fatalf("got %v", err)
		}
		w.crash()
		w.start()
		if all := w.account.list(); len(all) != 0 {
			t.Fatalf("after a crash there is %s", all[0].Name())
		}
		if _, err := w.restore(restored(), bytes.NewReader(made)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestACrashInARestoreLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		var made bytes.Buffer
		out, err := archive.NewWriter(&made)
		if err != nil {
			t.Fatal(err)
		}
		const n = 50
		if err := out.State(api.StreamState{Msgs: n, FirstSeq: 1, LastSeq: n}); err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= n; seq++ {
			if err := out.Message(archive.Message{Seq: seq, Time: 1, Subject: "s.x", Data: make([]byte, 100<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		// The sender stops where all but the end is in the log.
		in, hold := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			cfg, err := w.account.CheckRestore(restored())
			if err == nil {
				_, err = w.account.Restore(ctx, cfg, in)
			}
			done <- err
		}()
		if _, err := hold.Write(made.Bytes()); err != nil {
			t.Fatal(err)
		}
		w.create(api.StreamConfig{Name: "OTHER", Subjects: []string{"other"}, Storage: api.FileStorage, Retention: api.LimitsPolicy,
			Discard: api.DiscardOld, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1, MaxConsumers: -1, Replicas: 1})
		if _, err := w.account.CheckRestore(restored()); !errors.Is(err, jserr.New(jserr.StreamNameExistRestoreFailed)) {
			t.Fatalf("a second restore of the name: %v", err)
		}
		cancel()
		hold.CloseWithError(context.Canceled)
		if err := <-done; err == nil {
			t.Fatal("it was restored")
		}
		w.crash()
		w.start()
		if all := w.account.list(); len(all) != 1 || all[0].Name() != "OTHER" {
			t.Fatalf("there are %d streams", len(all))
		}
		if n := w.engine.tails.inUse(); n > 1<<10 {
			t.Errorf("%d bytes of it are in memory", n)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestRestoresAreRefused(t *testing.T) {
	message := func(seq uint64, subj string) archive.Message {
		return archive.Message{Seq: seq, Time: 1, Subject: subj, Data: []byte("x")}
	}
	pending := archive.Consumer{Name: "c", Config: api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit}}
	pending.State.Pending = map[uint64]archive.Pending{9: {}}
	for _, c := range []struct {
		name     string
		change   func(*api.StreamConfig, *world)
		messages []archive.Message
		consumer *archive.Consumer
		want     string
	}{
		{name: "subject with a wildcard", messages: []archive.Message{message(1, "s.*")}, want: `has subject "s.*"`},
		{name: "sequence beyond all", messages: []archive.Message{message(1<<63, "s.a")}, want: "message sequence"},
		{name: "larger than the stream allows", change: func(c *api.StreamConfig, _ *world) { c.MaxMsgSize = 1 },
			messages: []archive.Message{{Seq: 1, Subject: "s.a", Data: []byte("xy")}}, want: "exceeds maximum message size"},
		{name: "no room in the account", change: func(_ *api.StreamConfig, w *world) { w.account.pools.limit(100, 100) },
			messages: []archive.Message{{Seq: 1, Subject: "s.a", Data: make([]byte, 200)}}, want: "insufficient storage resources"},
		{name: "a header that is none", messages: []archive.Message{{Seq: 1, Subject: "s.a", Header: []byte("X")}}, want: "header of message 1"},
		{name: "a consumer that contradicts itself", messages: []archive.Message{message(1, "s.a"), message(9, "s.a")}, consumer: &pending,
			want: "message 9 is pending"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start()
				cfg := restored()
				if c.change != nil {
					c.change(&cfg, w)
				}
				var made bytes.Buffer
				out, err := archive.NewWriter(&made)
				if err != nil {
					t.Fatal(err)
				}
				st := api.StreamState{Msgs: uint64(len(c.messages)), FirstSeq: 1, LastSeq: 9}
				if c.consumer != nil {
					st.Consumers = 1
				}
				_ = out.State(st)
				if c.consumer != nil {
					_ = out.Consumer(*c.consumer)
				}
				for _, m := range c.messages {
					_ = out.Message(m)
				}
				_ = out.Close()
				_, err = w.restore(cfg, &made)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				if n := w.account.pools.store.used.Load(); n != 0 {
					t.Errorf("%d bytes are still counted", n)
				}
				if len(w.account.list()) != 0 {
					t.Error("something is left")
				}
			})
		})
	}
}

func TestARestoreKeepsFarSequencesApart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		var made bytes.Buffer
		out, err := archive.NewWriter(&made)
		if err != nil {
			t.Fatal(err)
		}
		seqs := []uint64{5, 6, 60, 1000, 1 << 40, 1<<40 + 1}
		_ = out.State(api.StreamState{Msgs: uint64(len(seqs)), FirstSeq: 5, LastSeq: 1 << 41})
		for _, seq := range seqs {
			_ = out.Message(archive.Message{Seq: seq, Time: int64(seq), Subject: "s.x", Data: []byte("x")})
		}
		_ = out.Close()
		s, err := w.restore(restored(), &made)
		if err != nil {
			t.Fatal(err)
		}
		look := func(s *Stream) (found []uint64, last uint64) {
			_ = s.do(func() {
				for m, ok := s.state.Next(nil, 0); ok; m, ok = s.state.Next(nil, m.Seq+1) {
					found = append(found, m.Seq)
				}
				last = s.state.LastSeq()
			})
			return found, last
		}
		for range 2 {
			if found, last := look(s); !reflect.DeepEqual(found, seqs) || last != 1<<41 {
				t.Fatalf("got %v, last %d", found, last)
			}
			w.crash()
			w.start()
			s = w.stream("S")
		}
	})
}

// Backups and direct gets of many messages read what was let go without holding it all.
func TestReadsOfMuchStayWithinTheirBounds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.opts.TailBytes, w.opts.FetchBytes = 1<<20, 1<<20
		w.start()
		s := w.create(restored())
		const n, size = 64, 100 << 10
		for range n {
			w.client.publish("s.x", strings.Repeat("x", size))
			w.client.take()
		}
		made := backup(t, s)
		if w.engine.tails.inUse() > 2<<20 {
			t.Errorf("a backup left %d bytes in memory", w.engine.tails.inUse())
		}
		count := 0
		if err := archive.Read(bytes.NewReader(made), &counting{messages: &count}); err != nil || count != n {
			t.Fatalf("the backup has %d messages: %v", count, err)
		}
		w.client.send("$JS.API.DIRECT.GET.S", "_INBOX.get", "", `{"seq":1,"batch":1000}`)
		w.client.publish("s.y", "meanwhile")
		got := w.client.take()
		var data, acked int
		for _, m := range got {
			switch {
			case len(m.data) == size:
				data++
			case m.inbox == "_INBOX.>" && m.subject == "_INBOX.ack":
				acked = data
			}
		}
		if data != n {
			t.Fatalf("%d messages came back", data)
		}
		if acked == n {
			t.Error("a publish waited for the whole batch")
		}
		if last := got[len(got)-1]; !strings.HasPrefix(last.header, "NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n") {
			t.Errorf("it ends with %q", last.header)
		}
	})
}

// counting counts what is in an archive.
type counting struct{ messages *int }

func (c *counting) State(api.StreamState) error     { return nil }
func (c *counting) Created(time.Time) error         { return nil }
func (c *counting) Message(archive.Message) error   { *c.messages++; return nil }
func (c *counting) Removed(uint64, uint64) error    { return nil }
func (c *counting) Consumer(archive.Consumer) error { return nil }
