package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// pausing is a store as a process sees it that is paused at one request: that one, and all that follow, are made when
// the process wakes up.
type pausing struct {
	*troubled
	paused, awake chan struct{} // closed when it is
}

func newPausing(st store.Store) *pausing {
	// What is severed is cut off from there on; here, that is a pause.
	return &pausing{troubled: &troubled{Store: st, kind: severed}, paused: make(chan struct{}), awake: make(chan struct{})}
}

// pass waits while the process is paused.
func (s *pausing) pass(what, k string) {
	hit, err := s.judge(what, k)
	if hit {
		close(s.paused)
	}
	if hit || err != nil {
		<-s.awake
	}
}

// Put implements store.Store.
func (s *pausing) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	s.pass("put", k)
	return s.Store.Put(context.WithoutCancel(ctx), k, data, cond)
}

// Delete implements store.Store.
func (s *pausing) Delete(ctx context.Context, keys ...string) error {
	s.pass("delete", keys[0])
	return s.Store.Delete(context.WithoutCancel(ctx), keys...)
}

// Get implements store.Store.
func (s *pausing) Get(ctx context.Context, k string) (store.Object, error) {
	s.pass("get", k)
	return s.Store.Get(context.WithoutCancel(ctx), k)
}

// GetRange implements store.Store.
func (s *pausing) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	s.pass("get range", k)
	return s.Store.GetRange(context.WithoutCancel(ctx), k, offset, length)
}

// List implements store.Store.
func (s *pausing) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	s.pass("list", opts.Prefix)
	return s.Store.List(context.WithoutCancel(ctx), opts)
}

// headed makes the engine that starts next prove its life, and truncate, by a head: it can do neither once another has
// taken over.
func (w *world) headed() {
	epoch, truncate := w.epoch+1, w.opts.Truncate
	alive := func(context.Context) error {
		if w.epoch != epoch {
			return errors.New("the head is another's")
		}
		return nil
	}
	w.opts.Alive = alive
	w.opts.Truncate = func(ctx context.Context, log wal.LogID, before wal.Offset) error {
		if err := alive(ctx); err != nil {
			return err
		}
		return truncate(ctx, log, before)
	}
}

// succeed takes over from the running engine, which goes on.
func (w *world) succeed() {
	w.t.Helper()
	id := w.log.ID()
	end, _, err := wal.FenceLog(w.t.Context(), w.store, id, w.from, wal.Fence{Node: "n", Epoch: w.epoch + 1, Heirs: []string{"n"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ranges = append(w.ranges, LogRange{Log: id, From: w.from, To: end})
	w.from = 0
}

// A process is paused at any request of its housekeeper, another takes its streams over and keeps house itself, for
// longer than the grace period; then the first wakes up and goes on. It harms nothing.
func TestAnOwnerWakesUp(t *testing.T) {
	total := 0
	bubble(t, func(t *testing.T, w *world) { total, _ = wokenUp(t, w, 0, true) })
	if total < 30 {
		t.Fatalf("%d requests", total)
	}
	for _, busy := range []bool{false, true} {
		for at := 1; at <= total; at++ {
			struck := ""
			bubble(t, func(t *testing.T, w *world) { _, struck = wokenUp(t, w, at, busy) })
			if t.Failed() {
				t.Fatalf("request %d of %d: %s; the successor is busy: %v", at, total, struck, busy)
			}
		}
	}
}

func wokenUp(t *testing.T, w *world, at int, busy bool) (count int, struck string) {
	w.historic()
	w.opts.CompactBytes = 2 << 10
	truncate := w.opts.Truncate
	base := w.store
	st := newPausing(base)
	w.store = st
	w.headed()
	w.start()
	cfg := fileStream
	cfg.Duplicates = time.Second
	w.create(cfg)
	gone := cfg
	gone.Name, gone.Subjects = "GONE", []string{"gone.>"}
	w.create(gone)
	st.arm(at)
	first := *w
	done := make(chan struct{})
	go func() {
		defer close(done)
		keepingHouse(t, &first, st.troubled)
	}()
	select {
	case <-st.paused:
	case <-done:
		return st.heal()
	}
	w.store, w.opts.Truncate = base, truncate
	w.succeed()
	w.headed()
	w.start()
	time.Sleep(5 * time.Hour) // the first has come to where it is paused in everything that it does
	live := lives(t, w.stream("S"))
	w.holds(t, "after the takeover", live)
	if busy {
		w.renewed(t)
		w.tended()
		if len(live) > 3 {
			if err := w.stream("S").DeleteMessage(t.Context(), live[2]); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		w.renewed(t)
		w.tended()
	}
	live = lives(t, w.stream("S"))
	w.holds(t, "before the first wakes up", live)
	count, struck = st.heal()
	close(st.awake)
	<-done
	for range 3 { // it does not know better yet
		for _, s := range first.account.list() {
			first.engine.wantsCare(s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		first.engine.Trim(ctx)
		first.engine.Tidy(ctx)
		cancel()
		time.Sleep(2 * time.Minute) // the grace period
	}
	w.holds(t, "after the first woke up", live)
	w.nothingAstray(t, true)
	first.end()
	w.renewed(t)
	w.tended()
	live = lives(t, w.stream("S"))
	w.holds(t, "in the end", live)
	w.crash()
	w.opts.Truncate = truncate
	w.headed()
	w.start()
	w.holds(t, "after the last start", live)
	w.renewed(t)
	w.tended()
	for _, k := range w.strays(t) {
		if !strings.Contains(k, "/GONE/") || at == 0 {
			t.Errorf("nothing refers to %s", k)
		}
	}
	if n := len(lives(t, w.stream("S"))); n != len(live)+1 || slices.Contains(live, 0) {
		t.Errorf("%d messages, want %d", n, len(live)+1)
	}
	return count, struck
}
