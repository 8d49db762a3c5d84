package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
)

var testID = LogID{Kind: WriteAhead, Node: "n1", Epoch: 1}

// sink gathers what became of entries.
type sink struct {
	mu      sync.Mutex
	got     []*Entry
	arrived chan struct{} // has an element when got has changed
}

func newSink() *sink { return &sink{arrived: make(chan struct{}, 1)} }

func (s *sink) Committed(entries []*Entry) {
	s.mu.Lock()
	s.got = append(s.got, entries...)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *sink) entries() []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Entry(nil), s.got...)
}

// wait waits until n entries have come back.
func (s *sink) wait(t testing.TB, n int) []*Entry {
	t.Helper()
	for {
		if got := s.entries(); len(got) >= n {
			return got
		}
		select {
		case <-s.arrived:
		case <-time.After(time.Minute):
			t.Fatalf("%d entries came back within a minute, want %d", len(s.entries()), n)
		}
	}
}

func newMem(t testing.TB) *mem.Store {
	t.Helper()
	s, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openLog(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.ID == (LogID{}) {
		opts.ID = testID
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendAll(t testing.TB, l *Log, s Sink, data ...string) {
	t.Helper()
	for _, d := range data {
		if err := l.Append(&Entry{Data: []byte(d), Records: 1, Sink: s}); err != nil {
			t.Fatalf("append %q: %v", d, err)
		}
	}
}

// replayed gives the bodies of a log, joined.
func replayed(t testing.TB, s store.Store, id LogID, from, to Offset) string {
	t.Helper()
	var all bytes.Buffer
	next := from
	err := Replay(t.Context(), s, id, from, to, func(b *Batch) error {
		if b.Offset != next {
			t.Errorf("batch %d came when %d was due", b.Offset, next)
		}
		next++
		all.Write(b.Body)
		return nil
	})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return all.String()
}

func TestAppendCommitReplay(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprintf("compress=%v", compress), func(t *testing.T) {
			s, sink := newMem(t), newSink()
			l := openLog(t, Options{Store: s, MaxBatchBytes: 1000, Compress: compress})
			want := ""
			for i := range 500 {
				d := fmt.Sprintf("record %d;", i)
				want += d
				appendAll(t, l, sink, d)
			}
			got := sink.wait(t, 500)
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := l.Append(&Entry{Data: []byte("x"), Records: 1}); !errors.Is(err, ErrClosed) {
				t.Errorf("append after close: %v", err)
			}
			end, existing, err := FenceLog(t.Context(), s, testID, 0, Fence{Node: "n1", Epoch: 2, Heirs: []string{"n1"}})
			if err != nil || existing != nil {
				t.Fatal(end, existing, err)
			}
			if all := replayed(t, s, testID, 0, end); all != want {
				t.Errorf("replayed %q, want %q", all, want)
			}
			for i, e := range got {
				b, err := ReadBatch(t.Context(), s, testID, e.Position.Offset)
				if err != nil {
					t.Fatal(err)
				}
				at := b.Body[e.Position.Byte:]
				if e.Err != nil || e.Position.Epoch != 1 || !bytes.HasPrefix(at, e.Data) || string(e.Data) != fmt.Sprintf("record %d;", i) {
					t.Fatalf("entry %d is %q at %+v: %v", i, e.Data, e.Position, e.Err)
				}
			}
			if int(end) > 500 || end < 5 {
				t.Errorf("%d batches for 500 entries of 9 bytes", end)
			}
		})
	}
}

func TestCloseFlushesLazyEntriesAndLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails when a goroutine is left
		s, sink := newMem(t), newSink()
		l := openLog(t, Options{Store: s, Rate: 1, Burst: 1, LazyWindow: time.Hour})
		if err := l.Append(&Entry{Data: []byte("lazy"), Records: 1, Lazy: true, Sink: sink}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(sink.entries()); n != 0 {
			t.Fatal("a lazy entry started a commit")
		}
		start := time.Now()
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := sink.entries(); len(got) != 1 || got[0].Err != nil || time.Since(start) != 0 {
			t.Errorf("%d entries came back after %v", len(got), time.Since(start))
		}
	})
}
