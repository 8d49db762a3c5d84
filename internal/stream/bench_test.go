package stream

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func benchState(b *testing.B, change func(*api.StreamConfig)) *State {
	b.Helper()
	cfg := api.StreamConfig{Name: "S", Subjects: []string{"orders.>"}}
	if change != nil {
		change(&cfg)
	}
	cfg, err := CheckConfig(cfg, Limits{}, false)
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(cfg, time.Unix(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkAcceptApply is the cost of a publish in the state machine, with 100 messages in flight.
func BenchmarkAcceptApply(b *testing.B) {
	cases := []struct {
		name     string
		subjects int
		ids      bool
		change   func(*api.StreamConfig)
	}{
		{"10subjects", 10, false, nil},
		{"10subjects/ids", 10, true, nil},
		{"10subjects/max_msgs", 10, false, func(c *api.StreamConfig) { c.MaxMsgs = 100_000 }},
		{"10subjects/discard_new", 10, false, func(c *api.StreamConfig) { c.MaxMsgs, c.Discard = 1<<40, api.DiscardNew }},
		{"100000subjects/max_per_1", 100_000, false, func(c *api.StreamConfig) { c.MaxMsgsPer = 1 }},
		{"100000subjects/max_per_5", 100_000, false, func(c *api.StreamConfig) { c.MaxMsgsPer = 5 }},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			s := benchState(b, c.change)
			names := make([][]byte, c.subjects)
			for i := range names {
				names[i] = fmt.Appendf(nil, "orders.%d.created", i)
			}
			header := []byte("NATS/1.0\r\nNats-Msg-Id: 0000000000000000\r\n\r\n")
			now := time.Unix(1000, 0)
			var e Effects
			const flight = 100
			queue := make([]Message, 0, flight)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				p := Publish{Subject: names[i*7919%len(names)], Size: 128}
				if c.ids {
					for k, v := len(header)-5, i; v > 0; k, v = k-1, v/10 {
						header[k] = byte('0' + v%10)
					}
					p.Header = header
					now = now.Add(time.Millisecond)
				}
				a, err := s.Accept(p, now)
				if err != nil {
					b.Fatal(err)
				}
				queue = append(queue, Message{Seq: a.Seq, Time: a.Time, Subject: p.Subject, Header: p.Header, Size: 128})
				if len(queue) == flight {
					for _, m := range queue {
						e.Reset()
						if err := s.Apply(m, &e); err != nil {
							b.Fatal(err)
						}
					}
					queue = queue[:0]
				}
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory measures what a million subjects with a message each, and a million messages of ten subjects, hold.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for _, subjects := range []int{n, 10} {
		b.Run(fmt.Sprint(subjects, "subjects"), func(b *testing.B) {
			before := heapInUse()
			s := benchState(b, nil)
			var e Effects
			var name []byte
			names := 0
			for i := range n {
				name = fmt.Appendf(name[:0], "orders.%d.created", i*7919%subjects)
				names += len(name)
				if err := s.Apply(Message{Seq: uint64(i + 1), Time: int64(i), Subject: name, Size: 128}, &e); err != nil {
					b.Fatal(err)
				}
			}
			held := heapInUse() - before
			for b.Loop() {
				runtime.KeepAlive(s)
			}
			b.ReportMetric(float64(held)/n, "B/message")
			b.ReportMetric(float64(names)/n, "B/name")
		})
	}
}

// BenchmarkNextRare looks for 10 messages among ten million of a million subjects.
func BenchmarkNextRare(b *testing.B) {
	s := benchState(b, nil)
	var e Effects
	var name []byte
	const n, rare = 10_000_000, 1_000_000
	for i := range n {
		name = fmt.Appendf(name[:0], "orders.%d.created", i%1_000_000)
		if i%rare == rare/2 {
			name = fmt.Appendf(name[:0], "orders.%d.rare", i)
		}
		if err := s.Apply(Message{Seq: uint64(i + 1), Time: int64(i), Subject: name, Size: 128}, &e); err != nil {
			b.Fatal(err)
		}
	}
	for _, pattern := range []string{"orders.500000.rare", "orders.*.rare"} {
		f, err := CompileFilter(pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("Next/"+pattern, func(b *testing.B) {
			from := uint64(0)
			for b.Loop() {
				m, ok := s.Next(f, from)
				if from = m.Seq + 1; !ok {
					from = 0
				}
			}
		})
		b.Run("Pending/"+pattern, func(b *testing.B) {
			for b.Loop() {
				s.Pending(f, n/2)
			}
		})
	}
}
