//go:build unix

package dir

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

// BenchmarkPut measures the latency of durable writes as one writer and several in parallel see it.
func BenchmarkPut(b *testing.B) {
	for _, cond := range []store.Condition{store.IfAbsent(), store.Always()} {
		for _, size := range []int{1 << 10, 1 << 20} {
			for _, writers := range []int{1, 8} {
				b.Run(fmt.Sprintf("%v/%d/writers=%d", cond, size, writers), func(b *testing.B) {
					s := open(b, Options{})
					data := storetest.Pattern(1, size)
					var next atomic.Int64
					var mu sync.Mutex
					var times []time.Duration
					b.SetBytes(int64(size))
					var wg sync.WaitGroup
					for range writers {
						wg.Go(func() {
							for {
								n := next.Add(1)
								if n > int64(b.N) {
									return
								}
								began := time.Now()
								_, err := s.Put(b.Context(), fmt.Sprintf("wal/node/00000001/%08x", n), data, cond)
								took := time.Since(began)
								if err != nil {
									b.Error(err)
									return
								}
								mu.Lock()
								times = append(times, took)
								mu.Unlock()
							}
						})
					}
					wg.Wait()
					slices.Sort(times)
					b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
					b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
				})
			}
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, Options{})
	put(b, s, "wal/node/00000001/0", string(storetest.Pattern(1, 1<<10)), store.IfAbsent())
	for b.Loop() {
		if _, err := s.Get(b.Context(), "wal/node/00000001/0"); err != nil {
			b.Fatal(err)
		}
	}
}
