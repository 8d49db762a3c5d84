package wal

import (
	"testing"
	"time"
)

// answering is a publisher that sends its next record a while after the last one was acknowledged.
type answering struct {
	acked chan struct{}
	times []time.Duration // from Append to Committed
}

func (p *answering) Committed([]*Entry) { p.acked <- struct{}{} }

func (p *answering) run(t *testing.T, l *Log, answer time.Duration, records int) {
	for range records {
		time.Sleep(answer)
		began := time.Now()
		if err := l.Append(&Entry{Data: []byte("record"), Records: 1, Sink: p}); err != nil {
			t.Error(err)
			return
		}
		<-p.acked
		p.times = append(p.times, time.Since(began))
	}
}

// Publishers that wait for each acknowledgement share every commit, rather than have one of them go first each time and
// all others wait for the commit after; a lone one waits for nobody.
func TestGather(t *testing.T) {
	const commit, records = time.Millisecond, 100
	for _, tc := range []struct {
		name        string
		publishers  int
		gather      float64
		commits     int           // for all records, at most
		least, most time.Duration // that a record takes
	}{
		{"sixteen, no wait", 16, 0, 2 * records, commit, 2 * commit},
		{"sixteen, half a commit", 16, 0.5, records + 3, commit, commit + 200*time.Microsecond},
		{"one", 1, 0.5, records, commit, commit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newHooked(t)
				s.onPut(func(_ int, _ string, do func() (string, error)) (string, error) {
					time.Sleep(commit)
					return do()
				})
				l := openLog(t, Options{Store: s, MaxInFlight: 1, Gather: tc.gather})
				publishers, done := make([]*answering, tc.publishers), make(chan struct{})
				for i := range publishers {
					p := &answering{acked: make(chan struct{}, 1)}
					publishers[i] = p
					go func() {
						p.run(t, l, time.Duration(50+10*i)*time.Microsecond, records)
						done <- struct{}{}
					}()
				}
				for range publishers {
					<-done
				}
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if s.puts > tc.commits {
					t.Errorf("%d commits for %d records of each of %d publishers, want at most %d", s.puts, records, tc.publishers, tc.commits)
				}
				for _, p := range publishers {
					for n, took := range p.times[2 : records-1] { // while the log knows them and nobody has left
						if took < tc.least || took > tc.most {
							t.Fatalf("record %d took %v, want %v to %v", n, took, tc.least, tc.most)
						}
					}
				}
			})
		})
	}
}
