package consumer

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// endless is a stream that has every sequence up to last.
type endless struct{ last uint64 }

func (s *endless) Next(from uint64) (uint64, bool)     { return from, from <= s.last }
func (s *endless) Pending(from uint64) uint64          { return s.last + 1 - min(from, s.last+1) }
func (s *endless) Last() uint64                        { return s.last }
func (s *endless) Bounds() (uint64, uint64)            { return 1, s.last }
func (s *endless) SeqAt(int64) uint64                  { return 1 }
func (s *endless) Has(seq uint64) bool                 { return seq <= s.last }
func (s *endless) LastPerSubject(upTo uint64) []uint64 { return []uint64{upTo} }

func benchConsumer(b *testing.B, raw string) *Consumer {
	return New(Options{Stream: "ORDERS", Name: "worker", Config: checkedConfig(b, raw), Created: epoch, Messages: &endless{1 << 60}}, epoch)
}

// BenchmarkDeliver is Peek and Take of one message.
func BenchmarkDeliver(b *testing.B) {
	for name, raw := range map[string]string{
		"pull-none":     `{"ack_policy":"none"}`,
		"push-none":     `{"ack_policy":"none","deliver_subject":"D","flow_control":true,"idle_heartbeat":5000000000}`,
		"pull-explicit": `{"ack_policy":"explicit","max_ack_pending":-1}`,
	} {
		b.Run(name, func(b *testing.B) {
			c := benchConsumer(b, raw)
			var fx Effects
			var d Dispatch
			c.Interest(true, epoch)
			c.Pull([]byte("reply"), []byte(`{"batch":1000000000}`), epoch, &fx)
			b.ReportAllocs()
			now := epoch
			for i := range b.N {
				seq, ok := c.Peek(now, &fx)
				if !ok || !c.Take(&d, Message{Seq: seq, Time: 1767323045000000000, Subject: 10, Data: 100}, now, &fx) {
					b.Fatal("nothing to deliver")
				}
				if len(fx.Statuses) > 0 {
					c.FlowControl([]byte(fx.Statuses[0].Reply), nil, now, &fx)
					fx.Reset()
				}
				if i%1000 == 999 && !c.ackNone {
					for c.pending.live > 0 {
						c.forget(c.pending.head)
					}
				}
			}
		})
	}
}

var shuffled = rand.New(rand.NewPCG(1, 1)).Perm(1000)

// BenchmarkAck is the acknowledgement of one message of a window of 1000, delivery included, in order and not.
func BenchmarkAck(b *testing.B) {
	for name, order := range map[string]func(i int) int{
		"in-order": func(i int) int { return i },
		"strides":  func(i int) int { return i * 389 % 1000 },
		"shuffled": func(i int) int { return shuffled[i] },
	} {
		b.Run(name, func(b *testing.B) {
			c := benchConsumer(b, `{"ack_policy":"explicit"}`)
			var fx Effects
			var d Dispatch
			c.Pull([]byte("reply"), []byte(`{"batch":1000000000}`), epoch, &fx)
			var subjects [1000][]byte
			b.ReportAllocs()
			now := epoch
			progress := make([]byte, 0, 1<<16)
			var acking time.Duration
			for n := 0; n < b.N; n += len(subjects) {
				for i := range subjects {
					seq, ok := c.Peek(now, &fx)
					if !ok || !c.Take(&d, Message{Seq: seq, Time: 1767323045000000000, Subject: 10, Data: 100}, now, &fx) {
						b.Fatal("nothing to deliver")
					}
					subjects[i] = append(subjects[i][:0], d.Reply...)
				}
				begin := time.Now()
				for i := range subjects {
					a, _ := ParseAckSubject(subjects[order(i)])
					if !c.Ack(&a, nil, nil, now, &fx) {
						b.Fatal("not acknowledged")
					}
				}
				acking += time.Since(begin)
				progress = c.Progress(progress[:0])
			}
			b.ReportMetric(float64(acking.Nanoseconds())/float64(b.N), "ns/ack")
		})
	}
}

func BenchmarkParseAckSubject(b *testing.B) {
	s := []byte("$JS.ACK.ORDERS.worker.1.123456.234567.1767323045000000000.1000")
	for range b.N {
		if _, ok := ParseAckSubject(s); !ok {
			b.Fatal("not parsed")
		}
	}
}

func BenchmarkPull(b *testing.B) {
	c := benchConsumer(b, `{"ack_policy":"none","max_waiting":1000000}`)
	c.messages = &endless{0}
	var fx Effects
	b.ReportAllocs()
	body := []byte(`{"expires":30000000000,"batch":100,"idle_heartbeat":5000000000}`)
	for range b.N {
		c.Pull([]byte("_INBOX.abcdefgh.1"), body, epoch, &fx)
		c.waiting.remove(c.waiting.head)
	}
}

// BenchmarkConsumers reports what 10,000 consumers with five pending messages each hold, and what asking each for its
// timer and ticking it costs.
func BenchmarkConsumers(b *testing.B) {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cfg := checkedConfig(b, `{"durable_name":"C","ack_policy":"explicit"}`)
	consumers := make([]*Consumer, n)
	var fx Effects
	var d Dispatch
	for i := range consumers {
		c := New(Options{Stream: "S", Name: "C", Config: cfg, Messages: &endless{1 << 40}}, epoch)
		c.Pull([]byte("r"), []byte("5"), epoch, &fx)
		for range 5 {
			seq, _ := c.Peek(epoch, &fx)
			c.Take(&d, Message{Seq: seq}, epoch, &fx)
		}
		c.Progress(nil)
		consumers[i] = c
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	now := epoch
	b.ResetTimer()
	for i := range b.N {
		now = now.Add(time.Millisecond)
		c := consumers[i%n]
		if at, ok := c.NextTimer(); ok && !at.After(now) {
			c.Tick(now, &fx)
			fx.Reset()
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/consumer")
	runtime.KeepAlive(consumers)
}
