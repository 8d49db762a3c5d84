//go:build unix

package segment

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has used so far: figures of a machine that is shared are worth nothing by the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchMessages gives n messages of size bytes of JSON-like data, half of it random, with a thousand subjects.
func benchMessages(n, size int) []Message {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]Message, n)
	now := int64(1_767_225_600_000_000_000)
	for i := range out {
		now += 20_000 + r.Int64N(20_000)
		data := fmt.Appendf(nil, `{"id":%d,"amount":%d,"state":"accepted","note":"`, i, r.IntN(1e6))
		for len(data) < size/2 {
			data = append(data, "the same words "...)
		}
		for len(data) < size {
			data = append(data, 'a'+byte(r.IntN(26)))
		}
		out[i] = Message{Seq: uint64(i + 1), Time: now, Subject: fmt.Appendf(nil, "orders.%d.accepted", r.IntN(1000)), Data: data[:size]}
	}
	return out
}

func benchWrite(b *testing.B, w io.Writer, key []byte, messages []Message) Info {
	sw, err := NewWriter(w, Options{Stream: "S", Key: key})
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range messages {
		if err := sw.Add(m); err != nil {
			b.Fatal(err)
		}
	}
	info, err := sw.Close()
	if err != nil {
		b.Fatal(err)
	}
	return info
}

// BenchmarkSegment measures what docs/format/segment.md shows: writing, reading in order and at random, and the index.
func BenchmarkSegment(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
		size int
		key  []byte
	}{
		{"128B", 200_000, 128, nil},
		{"128B-encrypted", 200_000, 128, testKey[:16]},
		{"4KiB", 10_000, 4096, nil},
	} {
		messages := benchMessages(c.n, c.size)
		var object bytes.Buffer
		info := benchWrite(b, &object, c.key, messages)
		raw := object.Bytes()
		index := raw[info.IndexAt : info.IndexAt+info.IndexSize]
		perMessage := func(b *testing.B, begin time.Duration) {
			b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N)/float64(c.n), "cpu-ns/msg")
		}
		b.Run(c.name+"/write", func(b *testing.B) {
			begin := cpuTime(b)
			for b.Loop() {
				benchWrite(b, io.Discard, c.key, messages)
			}
			perMessage(b, begin)
			b.ReportMetric(float64(info.Size)/float64(c.n), "object-B/msg")
			b.ReportMetric(float64(info.IndexSize)/float64(c.n), "index-B/msg")
		})
		b.Run(c.name+"/parse", func(b *testing.B) {
			begin := cpuTime(b)
			for b.Loop() {
				if _, err := ParseIndex(index, c.key); err != nil {
					b.Fatal(err)
				}
			}
			perMessage(b, begin)
		})
		ix, err := ParseIndex(index, c.key)
		if err != nil {
			b.Fatal(err)
		}
		body := func(g Group) []byte { return raw[g.Offset : g.Offset+g.Size()] }
		b.Run(c.name+"/sequential", func(b *testing.B) {
			bytes := 0
			begin := cpuTime(b)
			for b.Loop() {
				for _, g := range ix.Groups() {
					block, err := ix.Decode(g.Number, body(g))
					if err != nil {
						b.Fatal(err)
					}
					for m := range block.Messages(0) {
						bytes += len(m.Data)
					}
				}
			}
			perMessage(b, begin)
		})
		b.Run(c.name+"/random", func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 4))
			var fetched int64
			for b.Loop() {
				seq := 1 + r.Uint64N(uint64(c.n))
				g := ix.Groups()[ix.Find(seq)]
				fetched += g.Size()
				block, err := ix.Decode(g.Number, body(g))
				if err != nil {
					b.Fatal(err)
				}
				if i, found := block.Find(seq); !found || block.At(i).Seq != seq {
					b.Fatal(seq)
				}
			}
			b.ReportMetric(float64(fetched)/float64(b.N)/1024, "KiB/read")
		})
		b.Run(c.name+"/rows", func(b *testing.B) {
			sum := uint64(0)
			begin := cpuTime(b)
			for b.Loop() {
				for row := range ix.Rows(0) {
					sum += row.Size
				}
			}
			perMessage(b, begin)
		})
	}
}
