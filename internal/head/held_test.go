package head

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
)

// faulty decorates the world's store.
func (w *world) faulty(rules string) *fault.Store {
	w.t.Helper()
	s, err := fault.New(w.store, fault.Options{Rules: fault.MustParse(rules)})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func setRules(t *testing.T, s *fault.Store, rules string) {
	t.Helper()
	if err := s.SetRules(fault.MustParse(rules)); err != nil {
		t.Fatal(err)
	}
}

// Whatever the answer to a write of a head that was made: it is known to be one's own, at once.
func TestOwnWritesOfHeads(t *testing.T) {
	for _, rules := range []string{"put heads/* lost", "put heads/* own-retry", "put heads/* lost\nget heads/* broken p=0.5",
		"put heads/* duplicate after=50ms", "put heads/* conflict p=0.5", "put heads/* delayed after=10ms p=0.5", "put heads/* throttled p=0.5",
		"put heads/* timeout p=0.5", "get heads/* torn p=0.2\nput heads/* lost"} {
		t.Run(strings.ReplaceAll(rules, "/", "|"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.faulty(rules)
				defer s.Close()
				var a *Claimed
				for epoch := range 5 {
					start := time.Now()
					c, err := w.claim(s, w.options("a"))
					if err != nil {
						t.Fatal(err)
					}
					if int(c.Epoch()) != epoch+1 || time.Since(start) >= w.lease {
						t.Errorf("epoch %d after %v, want %d", c.Epoch(), time.Since(start), epoch+1)
					}
					for range 20 {
						if err := c.Update(t.Context(), func(h *Head) { h.LinkAddress += "x" }); err != nil {
							t.Fatal(err)
						}
					}
					// Every change was made once.
					if got := c.Head().LinkAddress; got != strings.Repeat("x", 20) {
						t.Errorf("20 changes gave %d", len(got))
					}
					if err := c.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
					if a != nil {
						if err := a.Update(t.Context(), func(*Head) {}); !errors.Is(err, ErrReleased) {
							t.Errorf("update of an earlier claim: %v", err)
						}
					}
					a = c
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// A write that was given up in doubt lands later: the next one builds on it.
func TestUpdateAfterDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.faulty("")
		defer s.Close()
		c, err := w.claim(s, w.options("a"))
		if err != nil {
			t.Fatal(err)
		}
		setRules(t, s, "replace heads/* delayed after=2s times=1\nput heads/* timeout\nget heads/* broken")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = c.Update(ctx, func(h *Head) { h.ClientAddress = "doubt" })
		if err == nil || errors.Is(err, ErrLost) {
			t.Fatalf("update without an answer: %v", err)
		}
		setRules(t, s, "")
		time.Sleep(2 * time.Second)
		if err := c.Update(t.Context(), func(h *Head) { h.LinkAddress = h.ClientAddress + "ful" }); err != nil {
			t.Fatal(err)
		}
		if h := c.Head(); h.ClientAddress != "doubt" || h.LinkAddress != "doubtful" {
			t.Errorf("head is %+v", h)
		}
	})
}

func TestRunOutlivesTroubleAndTellsHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.faulty("")
		defer s.Close()
		c, err := w.claim(s, w.options("a"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(10 * w.lease)
		if d := c.Stale(); d > w.lease/2 {
			t.Errorf("stale for %v in good times", d)
		}
		counter := c.Head().Counter
		if counter < 25 || counter > 32 {
			t.Errorf("%d writes in ten leases of three intervals", counter)
		}
		setRules(t, s, "* heads/* timeout")
		time.Sleep(10 * w.lease)
		if d := c.Stale(); d < 10*w.lease || d > 11*w.lease {
			t.Errorf("stale for %v after ten leases without the store", d)
		}
		setRules(t, s, "")
		time.Sleep(w.lease)
		if d := c.Stale(); d > w.lease/2 {
			t.Errorf("stale for %v after the store has come back", d)
		}
		// Slow answers: what counts is when the write began.
		setRules(t, s, "replace heads/* slow after=2s")
		time.Sleep(2 * w.lease)
		if d := c.Stale(); d < 2*time.Second {
			t.Errorf("stale for %v while writes take 2s", d)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestRunEndsWhenTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.faulty("")
		defer s.Close()
		c, err := w.claim(s, w.options("a"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		setRules(t, s, "* heads/* timeout")
		time.Sleep(2 * w.lease)
		w.mustClaim("b")
		setRules(t, s, "")
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("run ended with %v", err)
		}
		if err := c.Update(t.Context(), func(*Head) {}); !errors.Is(err, ErrLost) {
			t.Errorf("update: %v", err)
		}
		if err := c.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
}

// A claim that takes longer than the lease is not taken for dead.
func TestLongClaimShowsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 8 { // each leaves an open range
			w.crashAfter(w.options("a"), func(h *Head) bool { return h.Node == "a" && h.Instance != "" })
		}
		s := w.faulty("create wal/* slow after=1s")
		defer s.Close()
		time.Sleep(w.lease)
		ended := make(chan error, 1)
		opts := w.options("a")
		go func() {
			c, err := Claim(t.Context(), s, opts)
			if err == nil {
				err = c.Update(t.Context(), func(*Head) {})
			}
			ended <- err
		}()
		time.Sleep(w.lease + time.Second)
		b, err := w.claim(w.store, w.options("b"))
		if err != nil || len(b.Logs()) > 0 {
			t.Errorf("the other node has %+v, %v", b.Logs(), err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the long claim: %v", err)
		}
	})
}

// crashAfter claims a name and dies right after a write that want accepts.
func (w *world) crashAfter(opts Options, want func(*Head) bool) {
	w.t.Helper()
	s := &crashingWhen{crasher: crasher{Store: w.store, left: math.MaxInt}, want: want}
	if _, err := w.claim(s, opts); !errors.Is(err, errCrashed) {
		w.t.Fatalf("claim: %v, want a crash", err)
	}
}

type crashingWhen struct {
	crasher
	want func(*Head) bool
}

func (c *crashingWhen) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	etag, err := c.crasher.Put(ctx, key, data, cond)
	if h, decodeErr := Decode(key, data); err == nil && decodeErr == nil && c.want(h) {
		c.crash()
		return "", errCrashed
	}
	return etag, err
}

func (w *world) headOf(node string) *Head {
	w.t.Helper()
	for _, h := range w.readHeads() {
		if h.Node == node {
			return h
		}
	}
	return nil
}

// added accepts the write of taker's head by which it lists ranges of node.
func added(taker, node string) func(*Head) bool {
	return func(h *Head) bool {
		return h.Node == taker && slices.Contains(sources(h.Logs), node)
	}
}

// The adopter dies after it has listed the ranges; it starts again and adopts nobody: the move is over all the same.
func TestMoveIsEndedByItsTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(w.mustClaim("c"), 2)
		w.crashAfter(w.options("b"), added("b", "c"))
		if h := w.headOf("c"); h.TakenBy == nil || len(h.Logs) == 0 {
			t.Fatalf("the crash came too late: %+v", h)
		}
		opts := w.options("b")
		opts.NoAdopt = true
		time.Sleep(w.lease)
		b, err := w.claim(w.store, opts)
		if err != nil {
			t.Fatal(err)
		}
		if h := w.headOf("c"); h.TakenBy != nil || len(h.Logs) != 0 || !h.Released {
			t.Errorf("the head that was moved is %+v", h)
		}
		w.write(b, 1)
		w.compact(b)
		time.Sleep(2 * w.lease)
		w.verify()
	})
}

// The adopter dies after it has listed the ranges; a second one moves its list on and dies before it looks at the head
// that the ranges came from; whose node starts again.
func TestMoveIsEndedByTheTakersTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(w.mustClaim("c"), 2)
		opts := w.options("b")
		opts.Host = "shared"
		w.crashAfter(opts, added("b", "c"))
		opts = w.options("a")
		opts.Host, opts.PIDRuns = "shared", func(int) bool { return false } // so b is looked at before c
		w.crashAfter(opts, func(h *Head) bool { return h.Node == "b" && len(h.Logs) == 0 })
		w.check()
		opts = w.options("c")
		opts.NoAdopt = true
		c, err := w.claim(w.store, opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Logs()) != 0 {
			t.Errorf("it is to replay %+v, which others have", c.Logs())
		}
		w.write(c, 1)
		time.Sleep(2 * w.lease)
		w.verify()
	})
}

// The adopter has marked a head and is dead; the marked node starts again, adopts nobody, and keeps its ranges; the
// adopter wakes and must not add them.
func TestMarkOfADeadTakerIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(w.mustClaim("c"), 2)
		opts := w.options("b")
		s := &pausingWhen{Store: w.store, want: func(h *Head) bool { return h.Node == "c" && h.TakenBy != nil }, pause: 4 * w.lease}
		ended := make(chan error, 1)
		go func() {
			_, err := Claim(t.Context(), s, opts)
			ended <- err
		}()
		time.Sleep(w.lease + w.lease/2)
		if h := w.headOf("c"); h.TakenBy == nil {
			t.Fatalf("not marked: %+v", h)
		}
		opts = w.options("c")
		opts.NoAdopt = true
		c, err := w.claim(w.store, opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.replay(c); !slices.Equal(got, w.acked) {
			t.Errorf("replayed %q, want %q", got, w.acked)
		}
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("the adopter woke to %v", err)
		}
		w.check()
		w.write(c, 1)
		time.Sleep(2 * w.lease)
		w.verify()
	})
}

// pausingWhen stops after a write that want accepts.
type pausingWhen struct {
	store.Store
	want  func(*Head) bool
	pause time.Duration
}

func (p *pausingWhen) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	etag, err := p.Store.Put(ctx, key, data, cond)
	if h, decodeErr := Decode(key, data); err == nil && decodeErr == nil && p.want(h) {
		time.Sleep(p.pause)
	}
	return etag, err
}

// A truncation moves the start of a log and deletes what lies below while another node looks at its head: the fence
// must not end up below the start.
func TestTruncationWhileBeingAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.mustClaim("a")
		w.write(a, 5)
		// The adopter has seen the head and judged it; before it marks it, the owner moves the start.
		s := &beforeWrite{Store: w.store, want: func(h *Head) bool { return h.Node == "a" && h.TakenBy != nil }, do: func() {
			if err := a.Update(t.Context(), func(h *Head) { h.Advance("a", 1, 3) }); err != nil {
				t.Error(err)
			}
			if err := w.store.Delete(t.Context(), LogRange{Node: "a", Epoch: 1}.ID().Key(0)); err != nil {
				t.Error(err)
			}
		}}
		b, err := w.claim(s, w.options("b"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Logs() {
			if r.Node == "a" && (r.Start != 3 || r.End != 5) {
				t.Errorf("it adopted %+v, want 3 to 5", r)
			}
		}
	})
}

// beforeWrite does something once before a write that want accepts.
type beforeWrite struct {
	store.Store
	want func(*Head) bool
	do   func()
}

func (b *beforeWrite) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if h, err := Decode(key, data); err == nil && b.do != nil && b.want(h) {
		do := b.do
		b.do = nil
		do()
	}
	return b.Store.Put(ctx, key, data, cond)
}
