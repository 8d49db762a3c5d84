package wal

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Under a sustained load the budget bounds the commits; an idle log commits at once.
func TestBudgetBoundsCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, sink := newHooked(t), newSink()
		l := openLog(t, Options{Store: s, Rate: 10, Burst: 20})
		start := time.Now()
		n := 0
		for time.Since(start) < 10*time.Second {
			appendAll(t, l, sink, "record")
			n++
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		puts := s.puts
		s.mu.Unlock()
		if puts < 115 || puts > 121 {
			t.Errorf("%d commits in 10 s at 10 a second and a burst of 20", puts)
		}
		sink.wait(t, n)
		time.Sleep(time.Second)
		appended := time.Now()
		appendAll(t, l, sink, "late")
		synctest.Wait()
		if got := sink.entries(); len(got) != n+1 || time.Since(appended) != 0 {
			t.Errorf("an idle log took %v", time.Since(appended))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Entries of one caller keep their order and are never split, with many callers, sizes and kinds at once.
func TestConcurrentAppends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newHooked(t)
		s.onPut(func(n int, _ string, do func() (string, error)) (string, error) {
			time.Sleep(time.Duration(n*7919%5) * time.Millisecond)
			return do()
		})
		l := openLog(t, Options{Store: s, MaxBatchBytes: 2000, MaxInFlight: 3, LazyWindow: 50 * time.Millisecond})
		sinks := make([]*sink, 8)
		done := make(chan struct{})
		for i := range sinks {
			sinks[i] = newSink()
			go func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for n := range 200 {
					data := make([]byte, 2+r.IntN(500))
					if r.IntN(50) == 0 {
						data = make([]byte, 3000)
					}
					data[0], data[1] = byte(i), byte(n)
					if err := l.Append(&Entry{Data: data, Records: 1, Lazy: r.IntN(3) == 0, Sink: sinks[i]}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
				}
				done <- struct{}{}
			}()
		}
		for range sinks {
			<-done
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, s := range sinks {
			entries := s.entries()
			if len(entries) != 200 {
				t.Fatalf("caller %d got %d entries back", i, len(entries))
			}
			last := Position{}
			for n, e := range entries {
				if e.Err != nil || e.Data[1] != byte(n) || n > 0 && (e.Position.Offset < last.Offset || e.Position == last) {
					t.Fatalf("entry %d of caller %d is %d at %+v after %+v: %v", n, i, e.Data[1], e.Position, last, e.Err)
				}
				last = e.Position
			}
		}
	})
}

func TestEntryLimits(t *testing.T) {
	l := openLog(t, Options{Store: newMem(t), MaxEntryBytes: 10})
	for _, e := range []*Entry{{}, {Data: []byte("x")}, {Records: 1}, {Data: make([]byte, 11), Records: 1}} {
		if err := l.Append(e); err == nil || !strings.Contains(err.Error(), ErrEntry.Error()) {
			t.Errorf("appending %d records in %d bytes: %v", e.Records, len(e.Data), err)
		}
	}
	if err := l.Append(&Entry{Data: make([]byte, 10), Records: 1}); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOptionsValidate(t *testing.T) {
	_, err := Open(Options{Rate: -1, Burst: -1, MaxBatchBytes: -1, MaxEntryBytes: 1 << 40, MaxPendingBytes: -1, MaxInFlight: 17, Gather: 1.5, LazyWindow: -1})
	for _, part := range []string{"log kind", "node name", "epoch", "Store", "Rate", "Burst", "MaxBatchBytes", "MaxEntryBytes", "MaxPendingBytes", "MaxInFlight", "Gather", "LazyWindow"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newMem(t)
	for epoch := range Epoch(2) { // the second epoch's log goes on with the same metrics
		sink := newSink()
		l := openLog(t, Options{Store: s, ID: LogID{Kind: WriteAhead, Node: "n1", Epoch: epoch + 1}, Registerer: reg})
		appendAll(t, l, sink, "abc")
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	openLog(t, Options{Store: s, ID: LogID{Kind: Broadcast, Node: "n1", Epoch: 1}, Registerer: reg}).Close(t.Context())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName() + "/" + m.GetLabel()[0].GetValue()
			if m.Histogram != nil {
				values[name] = float64(m.Histogram.GetSampleCount())
			} else {
				values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{"sluice_log_commits_total/wal": 2, "sluice_log_committed_bytes_total/wal": 6, "sluice_log_committed_records_total/wal": 2,
		"sluice_log_batch_bytes/wal": 2, "sluice_log_batch_records/wal": 2, "sluice_log_commit_seconds/wal": 2, "sluice_log_pending_bytes/wal": 0, "sluice_log_read_backs_total/wal": 0,
		"sluice_log_repeated_creates_total/wal": 0, "sluice_log_commits_total/broadcast": 0} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

type countingSink struct {
	left chan int
	n    int
}

func (s *countingSink) Committed(entries []*Entry) {
	s.n -= len(entries)
	if s.n == 0 {
		s.left <- 0
	}
}

// BenchmarkAppendCommit measures what an entry costs from Append to Committed, in groups that wait for each other.
func BenchmarkAppendCommit(b *testing.B) {
	for _, c := range []struct {
		name         string
		size, window int
	}{{"128B", 128, 10000}, {"16B", 16, 10000}, {"1KiB", 1024, 10000}, {"128B-alone", 128, 1}} {
		b.Run(c.name, func(b *testing.B) {
			s := &discarding{}
			l := openLog(b, Options{Store: s})
			sink := &countingSink{left: make(chan int, 1)}
			data := make([]byte, c.size)
			entries := make([]Entry, c.window)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += c.window {
				sink.n = c.window
				for i := range entries {
					entries[i] = Entry{Data: data, Records: 1, Sink: sink}
					if err := l.Append(&entries[i]); err != nil {
						b.Fatal(err)
					}
				}
				<-sink.left
			}
			b.StopTimer()
			if err := l.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	s := newMem(b)
	sink := newSink()
	l := openLog(b, Options{Store: s, MaxBatchBytes: 1 << 20})
	data := make([]byte, 1024)
	const n = 32 << 10
	for range n {
		if err := l.Append(&Entry{Data: data, Records: 1, Sink: sink}); err != nil {
			b.Fatal(err)
		}
	}
	sink.wait(b, n)
	if err := l.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	end, _, err := FenceLog(b.Context(), s, testID, 0, heir)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(n << 10)
	for b.Loop() {
		if err := Replay(b.Context(), s, testID, 0, end, func(*Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
