package stream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

// filledState holds n messages of as many subjects in random order, a millisecond apart on average.
func filledState(b *testing.B, n, subjects int, change func(*api.StreamConfig)) *State {
	b.Helper()
	s := benchState(b, change)
	rng := rand.New(rand.NewPCG(1, 2))
	var e Effects
	var name []byte
	at := int64(1_700_000_000_000_000_000)
	for i := range n {
		name = fmt.Appendf(name[:0], "orders.%d.created", rng.IntN(subjects))
		at += rng.Int64N(2_000_000)
		e.Reset()
		if err := s.Apply(Message{Seq: uint64(i + 1), Time: at, Subject: name, Size: 100 + rng.IntN(900)}, &e); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkNext is a consumer that reads a million messages in order.
func BenchmarkNext(b *testing.B) {
	s := filledState(b, 1_000_000, 1000, nil)
	for _, pattern := range []string{">", "orders.7.created", "orders.*.created", "orders.7.*"} {
		f, err := CompileFilter(pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(pattern, func(b *testing.B) {
			b.ReportAllocs()
			from := uint64(0)
			for b.Loop() {
				m, ok := s.Next(f, from)
				if from = m.Seq + 1; !ok {
					from = 0
				}
			}
		})
	}
}

// BenchmarkPending counts from random places.
func BenchmarkPending(b *testing.B) {
	s := filledState(b, 1_000_000, 1000, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, pattern := range []string{">", "orders.7.created", "orders.7.*", "orders.*.created.>"} {
		f, err := CompileFilter(pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(pattern, func(b *testing.B) {
			for b.Loop() {
				s.Pending(f, rng.Uint64N(1_000_000))
			}
		})
	}
}

// BenchmarkMeta reads messages at random.
func BenchmarkMeta(b *testing.B) {
	s := filledState(b, 1_000_000, 1000, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	for b.Loop() {
		s.Meta(1 + rng.Uint64N(1_000_000))
	}
}

// BenchmarkRemove takes a million messages out, from the front and in any order.
func BenchmarkRemove(b *testing.B) {
	const n = 1_000_000
	rng := rand.New(rand.NewPCG(3, 4))
	order := rng.Perm(n)
	for _, random := range []bool{false, true} {
		b.Run(map[bool]string{false: "front", true: "random"}[random], func(b *testing.B) {
			var s *State
			var e Effects
			for i := range b.N {
				if i%n == 0 {
					b.StopTimer()
					s = nil
					runtime.GC()
					s = filledState(b, n, 1000, nil)
					b.StartTimer()
				}
				seq := uint64(i%n + 1)
				if random {
					seq = uint64(order[i%n] + 1)
				}
				e.Reset()
				s.Delete(seq, &e)
			}
		})
	}
}

// BenchmarkWorkQueue appends at the end and removes near the front in loose order.
func BenchmarkWorkQueue(b *testing.B) {
	s := filledState(b, 10_000, 100, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	names := make([][]byte, 100)
	for i := range names {
		names[i] = fmt.Appendf(nil, "orders.%d.created", i)
	}
	var e Effects
	seq, at := s.LastSeq(), s.LastTime()
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		seq++
		at += 1000
		e.Reset()
		if err := s.Apply(Message{Seq: seq, Time: at, Subject: names[seq%100], Size: 100}, &e); err != nil {
			b.Fatal(err)
		}
		m, _ := s.Next(nil, s.FirstSeq()+rng.Uint64N(1000))
		s.Delete(m.Seq, &e)
	}
}

// BenchmarkKV gives random keys new values, with a history of one.
func BenchmarkKV(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			s := filledState(b, 2*keys, keys, func(c *api.StreamConfig) { c.MaxMsgsPer = 1 })
			rng := rand.New(rand.NewPCG(3, 4))
			var e Effects
			var name []byte
			seq, at := s.LastSeq(), s.LastTime()
			b.ResetTimer()
			b.ReportAllocs()
			for b.Loop() {
				name = fmt.Appendf(name[:0], "orders.%d.created", rng.IntN(keys))
				seq++
				at += 1000
				e.Reset()
				if err := s.Apply(Message{Seq: seq, Time: at, Subject: name, Size: 100}, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewSubject applies messages of subjects that are all new, in random order.
func BenchmarkNewSubject(b *testing.B) {
	s := benchState(b, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	var e Effects
	var name []byte
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		name = fmt.Appendf(name[:0], "orders.%016x.created", rng.Uint64())
		e.Reset()
		if err := s.Apply(Message{Seq: seq, Time: int64(seq) * 1000, Subject: name, Size: 100}, &e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFootprint measures what the index holds of a message.
func BenchmarkFootprint(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		names func(i int, rng *rand.Rand) string
	}{
		{"1M_subjects_dense", 1_000_000, func(i int, _ *rand.Rand) string { return fmt.Sprintf("devices.eu.%08d.temperature", i) }},
		{"1M_subjects_random", 1_000_000, func(_ int, rng *rand.Rand) string { return fmt.Sprintf("devices.%013x.temp", rng.Uint64N(1<<52)) }},
		{"5M_messages_1000_subjects", 5_000_000, func(_ int, rng *rand.Rand) string { return fmt.Sprintf("orders.%d.created", rng.IntN(1000)) }},
		{"5M_messages_1M_subjects", 5_000_000, func(_ int, rng *rand.Rand) string { return fmt.Sprintf("orders.%d.created", rng.IntN(1_000_000)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(7, 8))
			before := heapInUse()
			s := benchState(b, func(c *api.StreamConfig) { c.Subjects = []string{"devices.>", "orders.>"} })
			var e Effects
			var name []byte
			at := int64(1_700_000_000_000_000_000)
			for i := range c.n {
				name = append(name[:0], c.names(i, rng)...)
				at += rng.Int64N(2_000_000)
				if err := s.Apply(Message{Seq: uint64(i + 1), Time: at, Subject: name, Size: 100 + rng.IntN(900)}, &e); err != nil {
					b.Fatal(err)
				}
			}
			held := heapInUse() - before
			for b.Loop() {
				runtime.KeepAlive(s)
			}
			b.ReportMetric(float64(held)/float64(c.n), "B/message")
			b.ReportMetric(float64(held)/float64(s.NumSubjects()), "B/subject")
		})
	}
}

// BenchmarkLoad enters messages as a segment's index lists them.
func BenchmarkLoad(b *testing.B) {
	for _, subjects := range []int{10, 1000} {
		b.Run(fmt.Sprint(subjects), func(b *testing.B) {
			l, err := benchState(b, nil).Load()
			if err != nil {
				b.Fatal(err)
			}
			for i := range subjects {
				if _, err := l.Subject(fmt.Appendf(nil, "orders.%04d", i)); err != nil {
					b.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			ordinals := make([]uint32, 1<<16)
			for i := range ordinals {
				ordinals[i] = rng.Uint32N(uint32(subjects))
			}
			seq, at := uint64(0), int64(1_700_000_000_000_000_000)
			b.ReportAllocs()
			for b.Loop() {
				seq++
				at += int64(seq % 1024 * 1000)
				if err := l.Message(seq, at, 100+seq%900, ordinals[seq%(1<<16)], nil); err != nil {
					b.Fatal(err)
				}
			}
			l.Close()
		})
	}
}
