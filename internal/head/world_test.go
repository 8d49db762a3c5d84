package head

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/wal"
)

// world is a store and the nodes that came and went in it. Use it in a synctest bubble.
type world struct {
	t      *testing.T
	store  store.Store
	lease  time.Duration
	epochs map[wal.LogID][]wal.LogID // handed out, each with the logs that it was told to replay
	acked  []string                  // in order of acknowledgement
	nodes  int
}

func newWorld(t *testing.T) *world {
	s, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, store: s, lease: 3 * time.Second, epochs: map[wal.LogID][]wal.LogID{}}
}

// options of a node: each process is on a host of its own unless a test says otherwise.
func (w *world) options(names ...string) Options {
	w.nodes++
	return Options{Names: names, Lease: w.lease, Host: fmt.Sprintf("host-%d", w.nodes), PID: 1, PIDRuns: func(int) bool { return true }}
}

// claim starts a node over a store; it checks what holds for every claim.
func (w *world) claim(s store.Store, opts Options) (*Claimed, error) {
	c, err := Claim(w.t.Context(), s, opts)
	if err != nil {
		return nil, err
	}
	id := wal.LogID{Kind: wal.WriteAhead, Node: c.Node(), Epoch: c.Epoch()}
	if _, ok := w.epochs[id]; ok {
		w.t.Errorf("%s was handed out twice", id)
	}
	w.epochs[id] = nil
	for i, r := range c.Logs() {
		if r.Open || r.End <= r.Start || r.From != "" {
			w.t.Errorf("%s is to replay %+v", id, r)
		}
		if slices.Contains(w.epochs[r.ID()], id) || r.ID() == id {
			w.t.Errorf("%s is to replay %s", id, r.ID())
		}
		for _, earlier := range c.Logs()[i+1:] {
			if slices.Contains(w.epochs[r.ID()], earlier.ID()) {
				w.t.Errorf("%s is to replay %s before %s, which continued it", id, r.ID(), earlier.ID())
			}
		}
		w.epochs[id] = append(w.epochs[id], r.ID())
	}
	w.check()
	return c, nil
}

func (w *world) mustClaim(names ...string) *Claimed {
	w.t.Helper()
	c, err := w.claim(w.store, w.options(names...))
	if err != nil {
		w.t.Fatalf("claim %q: %v", names, err)
	}
	return c
}

type collector struct{ data []string }

func (c *collector) Committed(entries []*wal.Entry) {
	for _, e := range entries {
		if e.Err == nil {
			c.data = append(c.data, string(e.Data))
		}
	}
}

// write commits n batches to the log of a claim, and stops writing.
func (w *world) write(c *Claimed, n int) {
	w.t.Helper()
	l, err := wal.Open(wal.Options{Store: w.store, ID: wal.LogID{Kind: wal.WriteAhead, Node: c.Node(), Epoch: c.Epoch()}, MaxBatchBytes: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	var got collector
	for i := range n {
		if err := l.Append(&wal.Entry{Data: fmt.Appendf(nil, "%s/%d/%d", c.Node(), c.Epoch(), i), Records: 1, Sink: &got}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := l.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.acked = append(w.acked, got.data...)
}

// replay gives what the ranges of a claim hold, in order.
func (w *world) replay(c *Claimed) (all []string) {
	w.t.Helper()
	for _, r := range c.Logs() {
		err := wal.Replay(w.t.Context(), w.store, r.ID(), r.Start, r.End, func(b *wal.Batch) error {
			all = append(all, string(b.Body))
			return nil
		})
		if err != nil {
			w.t.Errorf("replay %+v: %v", r, err)
		}
	}
	return all
}

// check wants every range to belong to exactly one head: what a head lists and its taker lists too is the taker's.
func (w *world) check() {
	w.t.Helper()
	all := map[string]*Head{}
	for _, h := range w.readHeads() {
		all[h.Node] = h
	}
	owner := map[wal.LogID]string{}
	for _, h := range all {
		logs := h.Logs
		if h.TakenBy != nil {
			logs = h.without(all[h.TakenBy.Node])
		}
		for _, r := range logs {
			if other, ok := owner[r.ID()]; ok {
				w.t.Errorf("%s belongs to both %q and %q", r.ID(), other, h.Node)
			}
			owner[r.ID()] = h.Node
		}
	}
}

// compact lets go of a claim's oldest range, as if its records were in segments.
func (w *world) compact(c *Claimed) {
	w.t.Helper()
	logs := c.Logs()
	if len(logs) == 0 {
		return
	}
	r := logs[0]
	err := wal.Replay(w.t.Context(), w.store, r.ID(), r.Start, r.End, func(b *wal.Batch) error {
		w.acked = slices.DeleteFunc(w.acked, func(s string) bool { return s == string(b.Body) })
		return nil
	})
	if err != nil {
		w.t.Errorf("replay %+v: %v", r, err)
	}
	if err := c.Update(w.t.Context(), func(h *Head) { h.Advance(r.Node, r.Epoch, r.End) }); err != nil {
		w.t.Fatal(err)
	}
	if err := wal.Truncate(w.t.Context(), w.store, r.ID(), r.End); err != nil {
		w.t.Fatal(err)
	}
}

// verify starts one more node when all others are dead: it must replay everything that was acknowledged, once, and each
// log in order.
func (w *world) verify() {
	w.t.Helper()
	c := w.mustClaim("verifier")
	got := w.replay(c)
	if !sameByLog(got, w.acked) {
		w.t.Errorf("replayed %q, acknowledged were %q", got, w.acked)
	}
	for _, h := range w.readHeads() {
		if h.Node != "verifier" && (len(h.Logs) > 0 || h.TakenBy != nil) {
			w.t.Errorf("the head of %q still lists %+v, taken by %+v", h.Node, h.Logs, h.TakenBy)
		}
	}
}

// sameByLog compares records, in order within each log.
func sameByLog(a, b []string) bool {
	byLog := func(all []string) []string {
		s := slices.Clone(all)
		slices.SortStableFunc(s, func(x, y string) int {
			return strings.Compare(x[:strings.LastIndexByte(x, '/')], y[:strings.LastIndexByte(y, '/')])
		})
		return s
	}
	return slices.Equal(byLog(a), byLog(b))
}

func (w *world) readHeads() (all []*Head) {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), store.ListOptions{Prefix: "heads/"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range page.Objects {
		object, err := w.store.Get(w.t.Context(), o.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		h, err := Decode(o.Key, object.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// prepare leaves three dead nodes: a and b with logs of their own, b also with some of c's.
// prepare leaves three dead nodes: a and b with logs of their own, b also with some of c's.
func (w *world) prepare() {
	w.t.Helper()
	alone := func(name string) *Claimed {
		opts := w.options(name)
		opts.NoAdopt = true
		c, err := w.claim(w.store, opts)
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	w.write(alone("c"), 2)
	time.Sleep(2 * w.lease)
	b := w.mustClaim("b")
	w.write(b, 2)
	if err := b.Release(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	b, a := alone("b"), alone("a")
	w.write(b, 1)
	w.write(a, 2)
}

var errCrashed = errors.New("the process has crashed")

// crasher is the store as a process sees it that dies at its n-th request: the request is not made, or made and not
// answered; and none after it is made.
type crasher struct {
	store.Store
	answerless bool

	mu    sync.Mutex
	left  int
	calls int
}

// call makes a request, or not. The mutex is not held meanwhile: requests may wait.
func (c *crasher) call(op func()) error {
	c.mu.Lock()
	if c.left > 0 {
		c.left--
		c.calls++
	} else {
		c.mu.Unlock()
		return errCrashed
	}
	last := c.left == 0
	c.mu.Unlock()
	if !last || c.answerless {
		op()
	}
	// A request that was under way when the process died is not answered either.
	if last || c.crashed() {
		return errCrashed
	}
	return nil
}

func (c *crasher) crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left == 0
}

// crash kills the process now.
func (c *crasher) crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = 0
}

func (c *crasher) Get(ctx context.Context, key string) (o store.Object, err error) {
	if crash := c.call(func() { o, err = c.Store.Get(ctx, key) }); crash != nil {
		return store.Object{}, crash
	}
	return o, err
}

func (c *crasher) GetRange(ctx context.Context, key string, offset, length int64) (b []byte, err error) {
	if crash := c.call(func() { b, err = c.Store.GetRange(ctx, key, offset, length) }); crash != nil {
		return nil, crash
	}
	return b, err
}

func (c *crasher) Put(ctx context.Context, key string, data []byte, cond store.Condition) (etag string, err error) {
	if crash := c.call(func() { etag, err = c.Store.Put(ctx, key, data, cond) }); crash != nil {
		return "", crash
	}
	return etag, err
}

func (c *crasher) List(ctx context.Context, opts store.ListOptions) (p store.Page, err error) {
	if crash := c.call(func() { p, err = c.Store.List(ctx, opts) }); crash != nil {
		return store.Page{}, crash
	}
	return p, err
}

func (c *crasher) Delete(ctx context.Context, keys ...string) (err error) {
	if crash := c.call(func() { err = c.Store.Delete(ctx, keys...) }); crash != nil {
		return crash
	}
	return err
}

// pauser is the store as a process sees it that is stopped for a while at its n-th request: before or after it is made.
type pauser struct {
	store.Store
	left   int
	before bool
	pause  time.Duration
}

func (p *pauser) around(op func()) {
	p.left--
	if p.left == 0 && p.before {
		time.Sleep(p.pause)
	}
	op()
	if p.left == 0 && !p.before {
		time.Sleep(p.pause)
	}
}

func (p *pauser) Get(ctx context.Context, key string) (o store.Object, err error) {
	p.around(func() { o, err = p.Store.Get(ctx, key) })
	return o, err
}

func (p *pauser) Put(ctx context.Context, key string, data []byte, cond store.Condition) (etag string, err error) {
	p.around(func() { etag, err = p.Store.Put(context.WithoutCancel(ctx), key, data, cond) })
	return etag, err
}

func (p *pauser) List(ctx context.Context, opts store.ListOptions) (page store.Page, err error) {
	p.around(func() { page, err = p.Store.List(ctx, opts) })
	return page, err
}
