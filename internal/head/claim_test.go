package head

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/wal"
)

func TestClaimFirstAndNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.mustClaim("a")
		if a.Epoch() != 1 || len(a.Logs()) != 0 {
			t.Fatalf("first claim: epoch %d, logs %+v", a.Epoch(), a.Logs())
		}
		w.write(a, 3)
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		b := w.mustClaim("a")
		want := []LogRange{{Node: "a", Epoch: 1, End: 3}}
		if b.Epoch() != 2 || !slices.Equal(b.Logs(), want) || time.Since(start) != 0 {
			t.Fatalf("second claim: epoch %d, logs %+v, after %v", b.Epoch(), b.Logs(), time.Since(start))
		}
		if got := w.replay(b); !slices.Equal(got, w.acked) {
			t.Errorf("replayed %q, want %q", got, w.acked)
		}
		// An epoch without records leaves nothing to replay.
		if err := b.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := w.mustClaim("a"); c.Epoch() != 3 || !slices.Equal(c.Logs(), want) {
			t.Errorf("third claim: epoch %d, logs %+v", c.Epoch(), c.Logs())
		}
		if err := a.Update(t.Context(), func(*Head) {}); !errors.Is(err, ErrReleased) {
			t.Errorf("update after release: %v", err)
		}
	})
}

func TestClaimAdoptsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.mustClaim("a")
		w.write(a, 2)
		start := time.Now()
		b := w.mustClaim("b")
		if d := time.Since(start); d < w.lease || d > w.lease+w.lease/5 {
			t.Errorf("adopting took %v, want a lease of %v", d, w.lease)
		}
		if got := w.replay(b); !slices.Equal(got, w.acked) {
			t.Errorf("replayed %q, want %q", got, w.acked)
		}
		if err := a.Update(t.Context(), func(*Head) {}); !errors.Is(err, ErrLost) {
			t.Errorf("update of the dead node's head: %v", err)
		}
		w.write(b, 2)
		w.verify()
	})
}

func TestClaimLeavesTheLivingAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.mustClaim("a")
		w.write(a, 2)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		start := time.Now()
		b := w.mustClaim("b")
		if d := time.Since(start); len(b.Logs()) != 0 || d > 3*w.lease/2/3 {
			t.Errorf("logs %+v after %v, want none as soon as the other's heartbeat was seen", b.Logs(), d)
		}
		time.Sleep(10 * w.lease)
		if s := a.Stale(); s > w.lease/2 {
			t.Errorf("heartbeats are %v old", s)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the living node lost its head: %v", err)
		}
		w.write(b, 1)
		w.verify()
	})
}

func TestClaimNames(t *testing.T) {
	type node struct {
		host     string
		runs     bool // its process id
		beats    bool
		released bool
	}
	for _, c := range []struct {
		name   string
		nodes  map[string]node
		names  []string
		want   string // "" is ErrNameInUse
		waited time.Duration
	}{
		{"free", nil, []string{"a"}, "a", 0},
		{"released", map[string]node{"a": {host: "x", runs: true, released: true}}, []string{"a", "a-2"}, "a", 0},
		{"configured, lives", map[string]node{"a": {host: "x", beats: true}}, []string{"a"}, "", time.Second},
		{"configured, lives here", map[string]node{"a": {host: "me", runs: true, beats: true}}, []string{"a"}, "", time.Second},
		{"configured, silent", map[string]node{"a": {host: "x"}}, []string{"a"}, "a", 3 * time.Second},
		{"configured, its process is gone", map[string]node{"a": {host: "me"}}, []string{"a"}, "a", 0},
		{"candidates, its process is gone", map[string]node{"a": {host: "me"}}, []string{"a", "a-2"}, "a", 0},
		{"candidates, its process runs", map[string]node{"a": {host: "me", runs: true, beats: true}}, []string{"a", "a-2"}, "a-2", 0},
		{"candidates, lives elsewhere", map[string]node{"a": {host: "x", beats: true}}, []string{"a", "a-2"}, "a-2", time.Second},
		{"candidates, silent elsewhere", map[string]node{"a": {host: "x"}}, []string{"a", "a-2"}, "a", 3 * time.Second},
		{"candidates, all live", map[string]node{"a": {host: "me", runs: true, beats: true}, "a-2": {host: "x", beats: true}}, []string{"a", "a-2"}, "", time.Second},
		{"candidates, second is dead", map[string]node{"a": {host: "me", runs: true, beats: true}, "a-2": {host: "me"}}, []string{"a", "a-2"}, "a-2", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				pids := map[int]bool{}
				for name, n := range c.nodes {
					opts := w.options(name)
					opts.NoAdopt, opts.Host, opts.PID = true, n.host, 100+len(pids)
					pids[opts.PID] = n.runs
					held, err := w.claim(w.store, opts)
					if err != nil {
						t.Fatal(err)
					}
					if n.beats {
						go held.Run(ctx)
					}
					if n.released {
						if err := held.Release(ctx); err != nil {
							t.Fatal(err)
						}
					}
				}
				opts := w.options(c.names...)
				opts.NoAdopt, opts.Host, opts.PIDRuns = true, "me", func(pid int) bool { return pids[pid] }
				start := time.Now()
				got, err := w.claim(w.store, opts)
				if d := time.Since(start); d < c.waited-w.lease/20 || d > c.waited+w.lease/10 {
					t.Errorf("it took %v, want about %v", d, c.waited)
				}
				switch {
				case c.want == "" && !errors.Is(err, ErrNameInUse):
					t.Errorf("claimed %v, %v, want ErrNameInUse", got, err)
				case c.want != "" && (err != nil || got.Node() != c.want):
					t.Errorf("claimed %v, %v, want %q", got, err, c.want)
				}
			})
		})
	}
}

// A claim is killed at each of its requests in turn, and others follow; each combination of names takes every second
// request, so that all together are quick. Whatever happened, nothing that was acknowledged is lost or doubled, no epoch
// is handed out twice, and no head keeps a range that another has.
func TestClaimCrashedAtEveryRequest(t *testing.T) {
	for _, first := range []string{"a", "b", "c", "d"} {
		for _, then := range []string{"a", "b", "c", "d", "e"} {
			for _, answerless := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,%s,%v", first, then, answerless), func(t *testing.T) {
					for at := 1 + (len(first+then)+int(then[0]))%2; ; at += 2 {
						crashed := false
						synctest.Test(t, func(t *testing.T) {
							w := newWorld(t)
							w.prepare()
							crashed = crashAt(w, first, at, answerless)
							// The next one crashes too, a bit later, and then one is left alone.
							crashAt(w, then, at/2+3, !answerless)
							c := w.mustClaim(then)
							w.write(c, 1)
							w.compact(c)
							w.verify()
						})
						if t.Failed() || !crashed {
							if !t.Failed() && at < 10 {
								t.Errorf("a claim took only %d requests", at)
							}
							return
						}
					}
				})
			}
		}
	}
}

// A claim stops at each of its requests in turn, for less and for more than the lease, while another node starts. Each
// combination of names takes every third request, so that all together are quick.
func TestClaimPausedAtEveryRequest(t *testing.T) {
	for _, paused := range []string{"a", "b", "c", "d"} {
		for _, other := range []string{"a", "b", "c", "e"} {
			for variant := range 8 {
				t.Run(fmt.Sprintf("%s,%s,%d", paused, other, variant), func(t *testing.T) {
					for at := 1 + (variant+len(paused+other)+int(other[0]))%3; ; at += 3 {
						reached := false
						synctest.Test(t, func(t *testing.T) {
							w := newWorld(t)
							w.prepare()
							s := &pauser{Store: w.store, left: at, before: variant&1 == 0, pause: w.lease / 2}
							if variant&2 != 0 {
								s.pause = 2 * w.lease
							}
							opts, otherOpts := w.options(paused), w.options(other)
							otherOpts.NoAdopt = variant&4 != 0
							done := make(chan error)
							go func() {
								_, err := Claim(t.Context(), s, opts)
								done <- err
							}()
							time.Sleep(w.lease + w.lease/4) // the pauses come once the dead are known to be dead
							c, otherErr := Claim(t.Context(), w.store, otherOpts)
							err := <-done
							for _, err := range []error{err, otherErr} {
								if err != nil && !errors.Is(err, ErrNameInUse) && !errors.Is(err, ErrLost) {
									t.Errorf("claim: %v", err)
								}
							}
							if err != nil && otherErr != nil {
								t.Errorf("neither claim succeeded: %v; %v", err, otherErr)
							}
							w.check()
							if c != nil && c.Update(t.Context(), func(*Head) {}) == nil {
								w.write(c, 1)
								w.compact(c)
							}
							time.Sleep(2 * w.lease)
							w.verify()
							reached = s.left <= 0
						})
						if t.Failed() || !reached {
							return
						}
					}
				})
			}
		}
	}
}

// crashAt claims a name and dies at a request; false if the claim needed fewer. What it has written by then counts.
func crashAt(w *world, name string, at int, answerless bool) (crashed bool) {
	s := &crasher{Store: w.store, left: at, answerless: answerless}
	c, err := w.claim(s, w.options(name))
	if err == nil {
		s.left = math.MaxInt
		w.write(c, 1)
		return false
	}
	if !errors.Is(err, errCrashed) {
		w.t.Errorf("claim %q, to crash at %d: %v", name, at, err)
	}
	w.check()
	return true
}

func TestUpdateMovesStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.mustClaim("a")
		w.write(a, 4)
		if err := a.Update(t.Context(), func(h *Head) { h.Advance("a", 1, 2) }); err != nil {
			t.Fatal(err)
		}
		a.Release(t.Context())
		b := w.mustClaim("a")
		want := []LogRange{{Node: "a", Epoch: 1, Start: 2, End: 4}}
		if !slices.Equal(b.Logs(), want) {
			t.Errorf("logs %+v, want %+v", b.Logs(), want)
		}
		err := b.Update(t.Context(), func(h *Head) {
			h.Advance("a", 1, 9) // beyond the end
			h.Advance("a", 2, 5) // its own: stays open
			h.Advance("z", 2, 5)
		})
		if err != nil {
			t.Fatal(err)
		}
		want = []LogRange{{Node: "a", Epoch: 2, Start: 5, Open: true}}
		if !slices.Equal(b.Head().Logs, want) {
			t.Errorf("logs %+v, want %+v", b.Head().Logs, want)
		}
		got, err := heads{w.store}.get(t.Context(), "a")
		if err != nil || !slices.Equal(got.head.Logs, b.Head().Logs) {
			t.Errorf("stored are %+v, %v", got.head, err)
		}
	})
}

func TestIDOfRange(t *testing.T) {
	r := LogRange{Node: "n", Epoch: 7}
	got, want := r.ID(), wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: 7}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
