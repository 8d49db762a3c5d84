package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/wal"
)

// world is a store with one engine after the other on it.
type world struct {
	t      *testing.T
	store  store.Store
	epoch  wal.Epoch
	ranges []LogRange
	from   wal.Offset // where the log that is written begins, after a trim
	opts   Options
	walOpt wal.Options
	limits account.JetStreamLimits // of the account
	// wrapLog, when set, changes the log that the engine sees.
	wrapLog func(*wal.Log) Log

	broker  *broker.Broker
	log     *wal.Log
	engine  *Engine
	account *Account
	client  *client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, store: st, walOpt: wal.Options{LazyWindow: step / 10},
		limits: account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}
}

// start starts an engine that continues what the earlier ones left.
func (w *world) start() {
	w.t.Helper()
	w.epoch++
	id := wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: w.epoch}
	o := w.walOpt
	o.Store, o.ID = w.store, id
	var err error
	if w.log, err = wal.Open(o); err != nil {
		w.t.Fatal(err)
	}
	w.broker = broker.New(broker.Options{})
	opts := w.opts
	opts.Broker, opts.Store, opts.Log = w.broker, w.store, w.log
	if w.wrapLog != nil {
		opts.Log = w.wrapLog(w.log)
	}
	if w.engine, err = New(opts); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine.Recover(w.t.Context(), w.ranges); err != nil {
		w.t.Fatal(err)
	}
	w.account = w.engine.Enable("A", w.limits)
	if err := w.engine.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.client = newClient(w.t, w.account.Space())
}

// crash fences the running engine's log, as whoever takes over does, and forgets the engine.
func (w *world) crash() {
	w.t.Helper()
	id := w.log.ID()
	end, _, err := wal.FenceLog(w.t.Context(), w.store, id, w.from, wal.Fence{Node: "n", Epoch: w.epoch + 1, Heirs: []string{"n"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ranges = append(w.ranges, LogRange{Log: id, From: w.from, To: end})
	w.from = 0
	w.end()
}

// end lets the goroutines of the running engine go, whatever becomes of its log.
func (w *world) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range w.account.list() {
		s.inbox.command(s.end)
		<-s.done
	}
	w.engine.stop()
	w.log.Close(ctx)
	<-w.log.Done()
}

// bubble runs f in virtual time with a world that is ended after it.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() {
			if w.engine != nil {
				w.end()
			}
		}()
		f(t, w)
	})
}

func (w *world) create(cfg api.StreamConfig) *Stream {
	w.t.Helper()
	s, err := w.account.CreateStream(w.t.Context(), cfg, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) stream(name string) *Stream {
	w.t.Helper()
	s, err := w.account.Stream(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) consumer(s *Stream, cfg api.ConsumerConfig) {
	w.t.Helper()
	if _, err := s.CreateConsumer(w.t.Context(), api.JSApiConsumerCreateRequest{Stream: s.Name(), Config: cfg}); err != nil {
		w.t.Fatal(err)
	}
}

// client publishes, and hears what comes back on its inbox.
type client struct {
	t     *testing.T
	space *broker.Space
	pub   *broker.Publisher

	mu  sync.Mutex // guards got
	got []letterGot
}

// letterGot is a message that a client received.
type letterGot struct{ inbox, subject, reply, header, data string }

func newClient(t *testing.T, space *broker.Space) *client {
	c := &client{t: t, space: space, pub: space.NewPublisher()}
	if _, err := space.Subscribe("_INBOX.>", "", c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Deliver implements broker.Receiver.
func (c *client) Deliver(batch []broker.Delivery) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range batch {
		c.got = append(c.got, letterGot{d.Sub.Subject(), string(d.Subject), string(d.Reply), string(d.Header), string(d.Data)})
	}
	return nil
}

// take gives what was received since the last call, once nothing moves any more.
func (c *client) take() []letterGot {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

func (c *client) send(subject, reply, header, data string) <-chan struct{} {
	c.pub.Publish(broker.Msg{Subject: []byte(subject), Reply: []byte(reply), Header: []byte(header), Data: []byte(data)})
	return c.pub.Flush()
}

// publish sends a message that wants an acknowledgement.
func (c *client) publish(subject, data string) { c.send(subject, "_INBOX.ack", "", data) }

// withID sends a message with a Nats-Msg-Id.
func (c *client) withID(subject, id, data string) {
	c.send(subject, "_INBOX.ack", "NATS/1.0\r\nNats-Msg-Id: "+id+"\r\n\r\n", data)
}

// pull asks a consumer for messages and gives those that came.
func (c *client) pull(s *Stream, consumer string, n int) []letterGot {
	c.take()
	c.send("$JS.API.CONSUMER.MSG.NEXT."+s.Name()+"."+consumer, "_INBOX.pull", "", `{"no_wait":true,"batch":`+strconv.Itoa(n)+`}`)
	var msgs []letterGot
	for _, m := range c.take() {
		if m.reply != "" {
			msgs = append(msgs, m)
		}
	}
	return msgs
}

// pubAck is an acknowledgement as it comes back.
type pubAck struct {
	Stream    string        `json:"stream"`
	Seq       uint64        `json:"seq"`
	Duplicate bool          `json:"duplicate"`
	Error     *api.ApiError `json:"error"`
}

func (c *client) acks() (acks []pubAck) {
	c.t.Helper()
	for _, m := range c.take() {
		var a pubAck
		if err := json.Unmarshal([]byte(m.data), &a); err != nil {
			c.t.Fatalf("acknowledgement %q: %v", m.data, err)
		}
		acks = append(acks, a)
	}
	return acks
}

// content lists what a stream holds, by its own reads.
func content(t *testing.T, s *Stream) (all []string) {
	t.Helper()
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq})
		if err == nil {
			all = append(all, fmt.Sprintf("%d %s %s %d", seq, m.Subject, m.Data, m.Time.UnixNano()))
		}
	}
	return all
}

// blocking is a store whose creates wait until they are let through.
type blocking struct {
	store.Store
	gate chan struct{}
}

// Put implements store.Store.
func (b *blocking) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if cond.IsAbsent() {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return "", fmt.Errorf("put: %w", store.ErrUnknownOutcome)
		}
	}
	return b.Store.Put(ctx, key, data, cond)
}

// through lets n creates through, or all from now on.
func (b *blocking) through(n int) {
	for range n {
		b.gate <- struct{}{}
	}
}

func listAfter(key string) store.ListOptions { return store.ListOptions{StartAfter: key} }

const step = 300 * time.Millisecond
