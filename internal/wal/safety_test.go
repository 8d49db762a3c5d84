package wal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

var heir = Fence{Node: "n2", Epoch: 7, Heirs: []string{"n2"}}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(*testing.T)) { t.Helper(); synctest.Test(t, f) }

// committed gives the data of the entries that came back committed, and fails on one that came back twice.
func (s *sink) committed(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	seen := map[*Entry]bool{}
	for _, e := range s.entries() {
		if seen[e] {
			t.Errorf("entry %q came back twice", e.Data)
		}
		seen[e] = true
		if e.Err == nil {
			all.Write(e.Data)
		}
	}
	return all.String()
}

func fenceIt(t testing.TB, s store.Store, from Offset) Offset {
	t.Helper()
	end, existing, err := FenceLog(t.Context(), s, testID, from, heir)
	if err != nil || existing != nil {
		t.Fatalf("fence: end %d, existing %+v, %v", end, existing, err)
	}
	return end
}

// A writer is paused with writes under way and more to come; somebody takes over; the writer wakes.
func TestPausedWriterWakesAfterTakeover(t *testing.T) {
	for _, c := range []struct {
		name     string
		land     map[int]bool // which of the paused puts (from 1) land before the takeover
		truncate bool         // the new owner deletes what lies before the fence
		end      Offset
		commits  string
	}{
		{"none landed", nil, false, 1, "a"},
		{"the first landed", map[int]bool{1: true}, false, 2, "ab"},
		{"the second landed", map[int]bool{2: true}, false, 1, "a"},
		{"both landed", map[int]bool{1: true, 2: true}, false, 3, "abc"},
		{"none landed, truncated", nil, true, 1, "a"},
		{"the first landed, truncated", map[int]bool{1: true}, true, 2, "ab"},
		{"the second landed, truncated", map[int]bool{2: true}, true, 1, "a"},
		{"both landed, truncated", map[int]bool{1: true, 2: true}, true, 3, "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, sink := newHooked(t), newSink()
				l := openLog(t, Options{Store: s, MaxInFlight: 2})
				appendAll(t, l, sink, "a")
				synctest.Wait()
				wake := make(chan struct{})
				s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
					if c.land[n] {
						do() // it landed, the response comes after the pause, as a lost one
						<-wake
						return "", store.ErrUnknownOutcome
					}
					<-wake
					return do()
				})
				appendAll(t, l, sink, "b")
				synctest.Wait()
				appendAll(t, l, sink, "c")
				synctest.Wait()
				appendAll(t, l, sink, "d")

				successor := &hooked{Store: s.Store}
				end := fenceIt(t, successor, 0)
				got := replayed(t, successor, testID, 0, end)
				if end != c.end || got != c.commits {
					t.Errorf("the log ends at %d with %q, want %d with %q", end, got, c.end, c.commits)
				}
				if c.truncate {
					if err := Truncate(t.Context(), successor, testID, end); err != nil {
						t.Fatal(err)
					}
				}
				close(wake)
				<-l.Done()
				if acked := sink.committed(t); !strings.HasPrefix(got, acked) {
					t.Errorf("acknowledged %q, but the log holds %q", acked, got)
				}
				var fenced *FenceError
				if !errors.Is(l.Err(), ErrFenced) || !errors.As(l.Err(), &fenced) || fenced.Fence.Node != "n2" || fenced.Key != testID.Key(end) {
					t.Errorf("the writer died of %v", l.Err())
				}
				if n := len(sink.entries()); n != 4 {
					t.Errorf("%d entries came back, want 4", n)
				}
				if err := l.Append(&Entry{Data: []byte("x"), Records: 1}); !errors.Is(err, ErrFenced) {
					t.Errorf("append to a fenced log: %v", err)
				}
				// The fence stands, whatever landed.
				if again, existing, err := FenceLog(t.Context(), s, testID, c.end, heir); again != end || existing == nil || err != nil {
					t.Errorf("fencing again: %d, %+v, %v", again, existing, err)
				}
			})
		})
	}
}

// The dead writer's put is delivered late, after takeover and garbage collection, when no writer waits for it any more.
func TestDelayedPutOfADeadWriterFindsTheFence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		l := openLog(t, Options{Store: s})
		appendAll(t, l, sink, "a")
		synctest.Wait()
		var delayed func() (string, error)
		s.onPut(func(_ int, _ string, do func() (string, error)) (string, error) {
			delayed = do
			return "", store.ErrUnknownOutcome
		})
		s.onGet(func(int, string) error { return errors.New("unreachable") })
		appendAll(t, l, sink, "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("close: %v", err)
		}

		end := fenceIt(t, s.Store, 0)
		if err := Truncate(t.Context(), s.Store, testID, end); err != nil {
			t.Fatal(err)
		}
		if _, err := delayed(); !errors.Is(err, store.ErrPrecondition) {
			t.Errorf("the delayed put gave %v", err)
		}
		if acked := sink.committed(t); acked != "a" {
			t.Errorf("acknowledged %q", acked)
		}
		if _, err := ReadBatch(t.Context(), s.Store, testID, end); !errors.Is(err, ErrFenced) {
			t.Errorf("at the end lies %v", err)
		}
	})
}

// A duplicate of a put below the log's start lands after garbage collection: it adds nothing, and goes with the next.
func TestDuplicateLandsAfterTruncation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		var duplicates []func() (string, error)
		s.onPut(func(_ int, _ string, do func() (string, error)) (string, error) {
			duplicates = append(duplicates, do)
			return do()
		})
		l := openLog(t, Options{Store: s})
		for _, d := range []string{"a", "b", "c"} {
			appendAll(t, l, sink, d)
			synctest.Wait()
		}
		if err := Truncate(t.Context(), s, testID, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := duplicates[0](); err != nil {
			t.Errorf("the duplicate did not land: %v", err)
		}
		if _, err := duplicates[2](); !errors.Is(err, store.ErrPrecondition) {
			t.Errorf("a duplicate of what is there landed: %v", err)
		}
		s.onPut(nil)
		end := fenceIt(t, s, 2)
		if got := replayed(t, s, testID, 2, end); end != 3 || got != "c" {
			t.Errorf("the log ends at %d with %q", end, got)
		}
		if err := Truncate(t.Context(), s, testID, 3); err != nil {
			t.Fatal(err)
		}
		page, err := s.List(t.Context(), store.ListOptions{Prefix: "wal/"})
		if err != nil || len(page.Objects) != 1 || page.Objects[0].Key != testID.Key(3) {
			t.Errorf("left are %v, %v, want the fence", page.Objects, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Whatever the answer to a put that landed, and however often the client below repeated it: it is one's own.
func TestOwnPutsAreNotLostRaces(t *testing.T) {
	lost := errors.New("no answer")
	for _, c := range []struct {
		name string
		put  func(n int, do func() (string, error)) (string, error)
		get  func(n int) error
	}{
		{"lost response", func(n int, do func() (string, error)) (string, error) { do(); return "", store.ErrUnknownOutcome }, nil},
		{"412 on the client's own repetition", func(n int, do func() (string, error)) (string, error) { do(); return do() }, nil},
		{"lost request", func(n int, do func() (string, error)) (string, error) {
			if n%2 == 1 {
				return "", store.ErrUnknownOutcome
			}
			return do()
		}, nil},
		{"lands late, while it is read back", func(n int, do func() (string, error)) (string, error) {
			if n%2 == 1 {
				go do()
				return "", store.ErrUnknownOutcome
			}
			return do()
		}, nil},
		{"lands late, before it is repeated", func(n int, do func() (string, error)) (string, error) {
			if n%2 == 1 {
				go func() {
					time.Sleep(5 * time.Millisecond)
					do()
				}()
				return "", store.ErrUnknownOutcome
			}
			time.Sleep(10 * time.Millisecond)
			return do()
		}, nil},
		{"time-out of the context", func(n int, do func() (string, error)) (string, error) { do(); return "", context.DeadlineExceeded }, nil},
		{"the read-back fails too", func(n int, do func() (string, error)) (string, error) { do(); return "", store.ErrUnknownOutcome },
			func(n int) error {
				if n%3 != 0 {
					return lost
				}
				return nil
			}},
		{"throttled for a minute", func(n int, do func() (string, error)) (string, error) {
			if n < 30 {
				return "", store.ErrThrottled
			}
			return do()
		}, nil},
		{"full for a while", func(n int, do func() (string, error)) (string, error) {
			if n < 20 {
				return "", store.ErrFull
			}
			return do()
		}, nil},
		{"an error without a name", func(n int, do func() (string, error)) (string, error) {
			if n%4 != 0 {
				return "", errors.New("connection refused")
			}
			return do()
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, sink := newHooked(t), newSink()
				s.onPut(func(n int, _ string, do func() (string, error)) (string, error) { return c.put(n, do) })
				if c.get != nil {
					s.onGet(func(n int, _ string) error { return c.get(n) })
				}
				l := openLog(t, Options{Store: s, MaxBatchBytes: 10, MaxInFlight: 1})
				var want strings.Builder
				for i := range 50 {
					d := fmt.Sprintf("<%d>", i)
					want.WriteString(d)
					appendAll(t, l, sink, d)
					time.Sleep(time.Duration(i%3) * time.Millisecond)
				}
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := sink.committed(t); got != want.String() {
					t.Errorf("acknowledged %q, want %q", got, want.String())
				}
				end := fenceIt(t, s.Store, 0)
				if got := replayed(t, s.Store, testID, 0, end); got != want.String() {
					t.Errorf("replayed %q, want %q", got, want.String())
				}
			})
		})
	}
}

// While an outcome is unresolved nothing is acknowledged, Append pushes back, and in the end the log dies.
func TestUnresolvedOutcomeStopsAcknowledging(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
			if n == 2 {
				return "", store.ErrUnknownOutcome
			}
			return do()
		})
		s.onGet(func(int, string) error { return errors.New("unreachable") })
		l := openLog(t, Options{Store: s, ResolveTimeout: 30 * time.Second, MaxPendingBytes: 1000})
		for _, d := range []string{"a", "b", "c", "d"} {
			appendAll(t, l, sink, d)
			synctest.Wait()
		}
		time.Sleep(29 * time.Second)
		if got := sink.committed(t); got != "a" || len(sink.entries()) != 1 {
			t.Errorf("acknowledged %q", got)
		}
		if d := l.Stalled(); d != 29*time.Second {
			t.Errorf("stalled for %v", d)
		}
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			err = l.Append(&Entry{Data: []byte("e"), Records: 1, Sink: sink})
		}
		if !errors.Is(err, ErrFull) {
			t.Errorf("append while nothing is committed: %v", err)
		}
		time.Sleep(time.Second)
		<-l.Done()
		if !errors.Is(l.Err(), ErrUnresolved) || !strings.Contains(l.Err().Error(), testID.Key(1)) {
			t.Errorf("it died of %v", l.Err())
		}
		entries := sink.entries()
		for i, e := range entries[1:] {
			if !errors.Is(e.Err, ErrUnresolved) {
				t.Errorf("entry %d came back with %v", i+1, e.Err)
			}
		}
		if l.PendingBytes() != 0 || len(entries) < 5 || string(entries[4].Data) != "e" {
			t.Errorf("%d entries came back, %d bytes are pending", len(entries), l.PendingBytes())
		}
	})
}

// Objects land in any order; entries are acknowledged in order.
func TestOutOfOrderCompletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
			etag, err := do()
			time.Sleep(time.Duration(n*7919%13) * time.Second)
			return etag, err
		})
		l := openLog(t, Options{Store: s, MaxInFlight: 8, MaxBatchBytes: 1})
		var want strings.Builder
		for i := range 100 {
			d := fmt.Sprintf("<%d>", i)
			want.WriteString(d)
			appendAll(t, l, sink, d)
		}
		for len(sink.entries()) < 100 {
			if got := sink.committed(t); !strings.HasPrefix(want.String(), got) {
				t.Fatalf("acknowledged %q", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err := l.Close(t.Context()); err != nil || sink.committed(t) != want.String() {
			t.Errorf("acknowledged %q, %v", sink.committed(t), err)
		}
	})
}

// Two writers of one epoch must not be: if they are, the second to come dies.
func TestTwoWritersOfOneEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink1, sink2 := newMem(t), newSink(), newSink()
		first, second := openLog(t, Options{Store: s}), openLog(t, Options{Store: s})
		appendAll(t, first, sink1, "a")
		synctest.Wait()
		appendAll(t, second, sink2, "b")
		<-second.Done()
		if !errors.Is(second.Err(), ErrLost) || sink2.committed(t) != "" || sink1.committed(t) != "a" {
			t.Errorf("the second died of %v; acknowledged %q and %q", second.Err(), sink1.committed(t), sink2.committed(t))
		}
		if err := first.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
