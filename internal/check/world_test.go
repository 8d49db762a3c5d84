package check_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/wal"
)

// world is a store with a node on it: head, log and engine, as a server puts them together.
type world struct {
	t       *testing.T
	store   store.Store
	head    *head.Claimed
	log     *wal.Log
	engine  *engine.Engine
	account *engine.Account
	key     []byte // of segments
	wait    bool   // the next trim waits for the dedup window to pass
	beat    context.CancelFunc
	beaten  sync.WaitGroup

	mu   sync.Mutex // guards acks
	acks int
}

// Deliver implements broker.Receiver.
func (w *world) Deliver(batch []broker.Delivery) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks += len(batch)
	return nil
}

// A compressor that many share must not be made within the bubble of a test.
func TestMain(m *testing.M) {
	w, err := segment.NewWriter(io.Discard, segment.Options{Account: "A", Stream: "S"})
	if err == nil {
		err = w.Add(segment.Message{Seq: 1, Subject: []byte("s"), Data: make([]byte, 1000)})
	}
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func newStore(t *testing.T) *mem.Store {
	t.Helper()
	st, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// start starts a node.
func (w *world) start() {
	w.t.Helper()
	ctx := w.t.Context()
	var err error
	must := func() {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.head, err = head.Claim(ctx, w.store, head.Options{Names: []string{"n"}})
	must()
	var beat context.Context
	beat, w.beat = context.WithCancel(ctx)
	w.beaten.Go(func() { w.head.Run(beat) })
	w.log, err = wal.Open(wal.Options{Store: w.store, LazyWindow: 10 * time.Millisecond,
		ID: wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: w.head.Epoch()}})
	must()
	b := broker.New(broker.Options{})
	w.engine, err = engine.New(engine.Options{Broker: b, Store: w.store, Log: w.log, TailBytes: 1,
		Truncate: func(ctx context.Context, log wal.LogID, before wal.Offset) error {
			if err := w.head.Update(ctx, func(h *head.Head) { h.Advance(log.Node, log.Epoch, before) }); err != nil {
				return err
			}
			return wal.Truncate(ctx, w.store, log, before)
		},
		History: engine.History{
			Alive:      func(ctx context.Context) error { return w.head.Update(ctx, func(*head.Head) {}) },
			SegmentKey: w.key, CompactBytes: 1 << 40, SegmentBytes: 8 << 10, ReplayBytes: 1 << 40, Grace: time.Minute, DeletedFor: time.Hour,
			Compact: compact.Options{TargetBytes: 1 << 20, Fanout: 100},
		}})
	must()
	var ranges []engine.LogRange
	for _, r := range w.head.Logs() {
		ranges = append(ranges, engine.LogRange{Log: r.ID(), From: r.Start, To: r.End})
	}
	err = w.engine.Recover(ctx, ranges)
	must()
	w.account = w.engine.Enable("A", account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1})
	err = w.engine.Start()
	must()
	_, err = w.account.Space().Subscribe("_INBOX.>", "", w)
	must()
}

// stop shuts the node down cleanly.
func (w *world) stop() {
	w.t.Helper()
	ctx := w.t.Context()
	for _, err := range []error{w.engine.Stop(ctx), w.log.Close(ctx)} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.beat()
	w.beaten.Wait()
	if err := w.head.Release(ctx); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(name string, change ...func(*api.StreamConfig)) *engine.Stream {
	w.t.Helper()
	cfg := api.StreamConfig{
		Name: name, Subjects: []string{strings.ToLower(name) + ".>"}, Storage: api.FileStorage, Retention: api.LimitsPolicy, Discard: api.DiscardOld,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1, MaxConsumers: -1, Replicas: 1, Duplicates: time.Second,
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := w.account.CreateStream(w.t.Context(), cfg, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// publish stores n messages in a stream, in several batches.
func (w *world) publish(stream string, n int) {
	w.t.Helper()
	pub := w.account.Space().NewPublisher()
	before := w.acks
	for i := range n {
		pub.Publish(broker.Msg{Subject: fmt.Appendf(nil, "%s.%d", strings.ToLower(stream), i%7), Reply: []byte("_INBOX.ack"),
			Header: fmt.Appendf(nil, "NATS/1.0\r\nNats-Msg-Id: %d.%d\r\n\r\n", before, i), Data: bytes.Repeat([]byte{byte(i)}, 100)})
		if i%20 == 19 {
			pub.Flush()
			synctest.Wait()
		}
	}
	pub.Flush()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acks != before+n {
		w.t.Fatalf("%d acknowledgements, want %d", w.acks-before, n)
	}
}

// trim moves all that is old enough into segments.
func (w *world) trim() {
	w.t.Helper()
	if w.wait { // else the checkpoint has the ids of the dedup window
		time.Sleep(5 * time.Second) // it passes, in virtual time
	}
	w.wait = !w.wait
	if err := w.engine.Trim(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// lived is a store on which a node did all that leaves something behind: streams with segments, deleted messages, a
// stream that lies in the log alone, one that was deleted, a consumer, three epochs.
func lived(t *testing.T, cipher []byte) *world {
	w := &world{t: t, store: newStore(t), key: cipher}
	w.start()
	s := w.create("S")
	w.publish("S", 300)
	w.create("GONE")
	w.publish("GONE", 20)
	w.trim()
	if err := w.account.DeleteStream(t.Context(), "GONE"); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{3, 4, 250} {
		if err := s.DeleteMessage(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	w.start()
	w.publish("S", 60)
	w.stop()
	w.start()
	w.trim()
	w.publish("S", 60)
	w.trim()
	w.create("L")
	w.publish("L", 50)
	w.publish("S", 40)
	if _, err := w.stream("L").CreateConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "L", Config: api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit}}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) stream(name string) *engine.Stream {
	w.t.Helper()
	s, err := w.account.Stream(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// snapshot is all that lies in a store.
type snapshot map[string][]byte

func take(t *testing.T, st store.Store) snapshot {
	t.Helper()
	all := snapshot{}
	for _, k := range keys(t, st, "") {
		o, err := st.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		all[k] = o.Data
	}
	return all
}

// lay makes a store of it.
func (s snapshot) lay(t *testing.T) *mem.Store {
	t.Helper()
	st := newStore(t)
	for k, data := range s {
		if _, err := st.Put(t.Context(), k, data, store.Always()); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func keys(t *testing.T, st store.Store, prefix string) (all []string) {
	t.Helper()
	for after := ""; ; {
		page, err := st.List(t.Context(), store.ListOptions{Prefix: prefix, StartAfter: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Objects {
			all = append(all, o.Key)
			after = o.Key
		}
		if !page.More {
			return all
		}
	}
}

// of gives the keys of a family, sorted.
func (s snapshot) of(family key.Family) (all []string) {
	for k := range s {
		if p, err := key.Parse(k); err == nil && p.Family == family {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

// findings checks a store and gives what was found, as "severity kind key".
func findings(t *testing.T, st store.Store, opts check.Options) (found []string, all []check.Finding, sum check.Summary) {
	t.Helper()
	opts.Report = func(f check.Finding) {
		found = append(found, fmt.Sprintf("%s %s %s", f.Severity, f.Kind, f.Key))
		all = append(all, f)
	}
	sum, err := check.Run(t.Context(), st, opts)
	if err != nil {
		t.Fatal(err)
	}
	return found, all, sum
}
