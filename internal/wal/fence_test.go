package wal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// putBatch creates a batch as a writer would.
func putBatch(t testing.TB, s store.Store, id LogID, at Offset, data string) {
	t.Helper()
	b := &batch{entries: []*Entry{{Data: []byte(data), Records: 1}}, bytes: len(data), records: 1, offset: at, putID: PutID{byte(at) + 1}}
	if _, err := s.Put(t.Context(), id.Key(at), encodeBatch(nil, b, id, testTime, false), store.IfAbsent()); err != nil {
		t.Fatal(err)
	}
}

func TestFenceLogFindsTheEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		batches []Offset
		fence   Offset // an earlier fence of n1; none if 0
		from    Offset
		end     Offset
	}{
		{"empty", nil, 0, 0, 0},
		{"some", []Offset{0, 1, 2}, 0, 0, 3},
		{"from the start of the range", []Offset{5, 6}, 0, 5, 7},
		{"from its very end", []Offset{5, 6}, 0, 7, 7},
		{"garbage below the start", []Offset{1, 5, 6}, 0, 5, 7},
		{"gap with strays", []Offset{0, 1, 3, 4}, 0, 0, 2},
		{"nothing but strays", []Offset{1, 2, 3}, 0, 0, 0},
		{"fenced", []Offset{0, 1}, 2, 0, 2},
		{"fenced, strays right behind", []Offset{0, 1, 3, 4, 5}, 2, 0, 2},
		{"fenced, as many strays as there can be", []Offset{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, 1, 0, 1},
		{"fenced at once", []Offset{2, 3}, 1, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newMem(t)
			for _, at := range c.batches {
				putBatch(t, s, testID, at, fmt.Sprint(at))
			}
			if c.fence > 0 {
				f := Fence{Node: "n1", Epoch: 2, Heirs: []string{"n1", "n3"}}
				object, err := f.encode(testID, c.fence)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Put(t.Context(), testID.Key(c.fence), object, store.IfAbsent()); err != nil {
					t.Fatal(err)
				}
			}
			end, existing, err := FenceLog(t.Context(), s, testID, c.from, heir)
			if err != nil || end != c.end || (existing != nil) != (c.fence > 0) {
				t.Fatalf("end %d, existing %+v, %v, want end %d", end, existing, err, c.end)
			}
			if existing != nil && (existing.Node != "n1" || existing.Epoch != 2 || len(existing.Heirs) != 2) {
				t.Errorf("existing is %+v", existing)
			}
			again, existing, err := FenceLog(t.Context(), s, testID, c.from, Fence{Node: "n9", Epoch: 1})
			if err != nil || again != end || existing == nil || existing.Node == "n9" {
				t.Errorf("fencing again: end %d, existing %+v, %v", again, existing, err)
			}
		})
	}
}

func TestFenceLogRaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
			time.Sleep(time.Duration(n*31%7) * time.Millisecond)
			return do()
		})
		l := openLog(t, Options{Store: s, MaxBatchBytes: 1})
		for i := range 50 {
			appendAll(t, l, sink, fmt.Sprintf("<%d>", i))
		}
		type won struct {
			end      Offset
			existing *Fence
		}
		results := make(chan won)
		for n := range 5 {
			go func() {
				time.Sleep(time.Duration(20+n) * time.Millisecond)
				end, existing, err := FenceLog(t.Context(), s, testID, 0, Fence{Node: fmt.Sprint("n", n), Epoch: 1})
				if err != nil {
					t.Error(err)
				}
				results <- won{end, existing}
			}()
		}
		winners, ends := 0, map[Offset]bool{}
		for range 5 {
			r := <-results
			if r.existing == nil {
				winners++
			}
			ends[r.end] = true
		}
		if winners != 1 || len(ends) != 1 {
			t.Errorf("%d fencers won, the log ends at %v", winners, ends)
		}
		if err := l.Close(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("the writer ended with %v", err)
		}
		for end := range ends {
			if got := replayed(t, s, testID, 0, end); got == "" || got != sink.committed(t) {
				t.Errorf("replayed %q, acknowledged %q", got, sink.committed(t))
			}
		}
	})
}

func TestFenceLogResolvesItsOwnDoubts(t *testing.T) {
	for name, put := range map[string]func(n int, do func() (string, error)) (string, error){
		"lost response":      func(n int, do func() (string, error)) (string, error) { do(); return "", store.ErrUnknownOutcome },
		"412 on own success": func(n int, do func() (string, error)) (string, error) { do(); return do() },
		"lost request": func(n int, do func() (string, error)) (string, error) {
			if n == 1 {
				return "", store.ErrUnknownOutcome
			}
			return do()
		},
		"throttled": func(n int, do func() (string, error)) (string, error) {
			if n < 4 {
				return "", store.ErrThrottled
			}
			return do()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newHooked(t)
				putBatch(t, s.Store, testID, 0, "a")
				s.onPut(func(n int, _ string, do func() (string, error)) (string, error) { return put(n, do) })
				if end, existing, err := FenceLog(t.Context(), s, testID, 0, heir); end != 1 || existing != nil || err != nil {
					t.Errorf("end %d, existing %+v, %v", end, existing, err)
				}
			})
		})
	}
}

// A batch lands between the listing and the creation of the fence: it belongs to the log.
func TestFenceLogAfterALateBatch(t *testing.T) {
	s := newHooked(t)
	putBatch(t, s.Store, testID, 0, "a")
	var once sync.Once
	s.onPut(func(_ int, _ string, do func() (string, error)) (string, error) {
		once.Do(func() { putBatch(t, s.Store, testID, 1, "b"); putBatch(t, s.Store, testID, 2, "c") })
		return do()
	})
	if end := fenceIt(t, s, 0); end != 3 {
		t.Errorf("end %d, want 3", end)
	}
}

func TestFenceLogNeverSkipsWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct {
		object func([]byte) []byte
		err    error
	}{
		"corrupt": {func(b []byte) []byte { b[20] ^= 1; return b }, ErrCorrupt},
		"newer":   {func(b []byte) []byte { b[4] = 9; return b }, ErrNewerFormat},
		"empty":   {func(b []byte) []byte { return nil }, ErrCorrupt},
		"foreign": {func(b []byte) []byte { return []byte("hello") }, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newMem(t)
				b := &batch{entries: []*Entry{{Data: []byte("x"), Records: 1}}, bytes: 1, records: 1}
				if _, err := s.Put(t.Context(), testID.Key(0), c.object(encodeBatch(nil, b, testID, testTime, false)), store.IfAbsent()); err != nil {
					t.Fatal(err)
				}
				_, _, err := FenceLog(t.Context(), s, testID, 0, heir)
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), testID.Key(0)) {
					t.Errorf("fencing gave %v", err)
				}
				if _, err := s.Get(t.Context(), testID.Key(1)); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("it went on to the next offset: %v", err)
				}
				if err := Truncate(t.Context(), s, testID, 1); !errors.Is(err, c.err) {
					t.Errorf("truncating gave %v", err)
				}
				if _, err := s.Get(t.Context(), testID.Key(0)); err != nil {
					t.Errorf("it was deleted: %v", err)
				}
			})
		})
	}
}

func TestFenceTooLarge(t *testing.T) {
	if _, _, err := FenceLog(t.Context(), newMem(t), testID, 0, Fence{Node: "n", Heirs: []string{strings.Repeat("x", MaxFenceBytes)}}); err == nil {
		t.Error("a fence that the readers would not take for one was created")
	}
}

func TestTruncate(t *testing.T) {
	s := newMem(t)
	other := testID
	other.Epoch = 2
	for at := range Offset(2500) {
		putBatch(t, s, testID, at, fmt.Sprint(at))
	}
	putBatch(t, s, other, 0, "other")
	end := fenceIt(t, s, 0)
	count := func() int {
		n := 0
		if err := listLog(t.Context(), s, testID, 0, func(Offset, int64) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		before Offset
		left   int
	}{{0, 2501}, {3, 2498}, {3, 2498}, {2100, 401}, {2500, 1}, {2500, 1}} {
		if err := Truncate(t.Context(), s, testID, c.before); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != c.left {
			t.Errorf("%d objects are left below %d, want %d", n, c.before, c.left)
		}
	}
	// A caller's error must not cost the fence, even with strays behind it.
	putBatch(t, s, testID, end+1, "stray")
	for range 2 {
		if err := Truncate(t.Context(), s, testID, end+10); err != nil || count() != 1 {
			t.Errorf("truncating beyond the fence: %v, %d objects are left", err, count())
		}
	}
	if _, err := ReadBatch(t.Context(), s, testID, end); !errors.Is(err, ErrFenced) {
		t.Errorf("the fence: %v", err)
	}
	if _, err := ReadBatch(t.Context(), s, other, 0); err != nil {
		t.Errorf("the other log: %v", err)
	}
}

func TestTruncateGoesOnAfterACrash(t *testing.T) {
	s := newMem(t)
	for at := range Offset(40) {
		putBatch(t, s, testID, at, "x")
	}
	if err := s.Delete(t.Context(), testID.Key(3), testID.Key(0), testID.Key(19)); err != nil {
		t.Fatal(err)
	}
	if err := Truncate(t.Context(), s, testID, 20); err != nil {
		t.Fatal(err)
	}
	if end := fenceIt(t, s, 20); end != 40 {
		t.Errorf("end %d", end)
	}
}

func TestBubbleLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMem(t)
		for at := range Offset(30) {
			putBatch(t, s, testID, at, "x")
		}
		stop := errors.New("stop")
		err := Replay(t.Context(), s, testID, 0, 30, func(b *Batch) error {
			if b.Offset == 7 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("replay gave %v", err)
		}
		synctest.Wait() // the bubble fails if a read-ahead is still there when the test ends
	})
}
