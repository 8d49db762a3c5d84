package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
)

func TestReadAsksTheStoreOnce(t *testing.T) {
	w := newWorld(t)
	object := w.object("segments/a", 1000)
	c := w.cache(Options{})
	for range 3 {
		want(t, c, "segments/a", Part{0, 100}, object)
		want(t, c, "segments/a", Part{100, 900}, object)
	}
	if gets := w.seen(); len(gets) != 2 {
		t.Errorf("%d GETs for 2 parts: %v", len(gets), gets)
	}
}

func TestReadErrors(t *testing.T) {
	w := newWorld(t)
	w.object("a", 1000)
	c := w.cache(Options{})
	cases := []struct {
		name, key string
		off, n    int64
		want      error
		gets      int
	}{
		{"no object", "b", 0, 10, store.ErrNotFound, 1},
		{"beyond the end", "a", 1000, 10, store.ErrInvalidRange, 1},
		{"over the end", "a", 995, 10, io.ErrUnexpectedEOF, 1},
		{"no bytes", "a", 0, 0, store.ErrInvalidRange, 0},
		{"before the start", "a", -1, 10, store.ErrInvalidRange, 0},
		{"overflow", "a", math.MaxInt64, 10, store.ErrInvalidRange, 0},
		{"too long", "a", 0, MaxPartBytes + 1, store.ErrInvalidRange, 0},
		{"bad key", "../a", 0, 10, store.ErrInvalidKey, 0},
		{"no key", "", 0, 10, store.ErrInvalidKey, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 { // an error is not kept
				data, err := c.Read(t.Context(), tc.key, tc.off, tc.n)
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.key) || data != nil {
					t.Errorf("%d bytes, %v; want %v that names %q", len(data), err, tc.want, tc.key)
				}
				if gets := w.seen(); len(gets) != tc.gets {
					t.Errorf("%d GETs, want %d", len(gets), tc.gets)
				}
			}
		})
	}
}

func TestStoreFaults(t *testing.T) {
	for rule, target := range map[string]error{
		"get * throttled times=1": store.ErrThrottled,
		"get * timeout times=1":   fault.ErrInjected,
		"get * torn times=1":      io.ErrUnexpectedEOF,
		"get * broken times=1":    io.ErrUnexpectedEOF,
	} {
		t.Run(rule, func(t *testing.T) {
			w := newWorld(t)
			object := w.object("a", 1000)
			faulty, err := fault.New(w.below, fault.Options{Rules: fault.MustParse(rule)})
			if err != nil {
				t.Fatal(err)
			}
			defer faulty.Close()
			w.next = faulty
			c := w.cache(Options{})
			if _, err := c.Read(t.Context(), "a", 0, 1000); !errors.Is(err, target) {
				t.Errorf("%v, want %v", err, target)
			}
			want(t, c, "a", Part{0, 1000}, object) // the store is well again
		})
	}
}

func TestConcurrentReadsShareAFetch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		object := w.object("a", 1000)
		w.next = slow{w.below, time.Second}
		c := w.cache(Options{})
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var readers sync.WaitGroup
		// The first one begins the fetch, and leaves.
		readers.Go(func() {
			if _, err := c.Read(impatient, "a", 0, 1000); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the deadline", err)
			}
		})
		synctest.Wait()
		for range 100 {
			readers.Go(func() { want(t, c, "a", Part{0, 1000}, object) })
		}
		readers.Wait()
		if gets := w.seen(); len(gets) != 1 {
			t.Errorf("%d GETs, want 1", len(gets))
		}
	})
}

func TestFetchEndsWhenNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		object := w.object("a", 1000)
		w.next = slow{w.below, time.Hour}
		c := w.cache(Options{Fetches: 1})
		for n := 1; n <= 3; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var readers sync.WaitGroup
			for i := range 5 {
				// One of two parts waits for the other's slot.
				readers.Go(func() {
					if _, err := c.Read(ctx, "a", int64(i%2)*100, 100); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v, want the deadline", err)
					}
				})
			}
			readers.Wait()
			cancel()
			synctest.Wait()
			if w.active != 0 || len(c.store.waiting) != 0 || len(c.flights) != 0 {
				t.Fatalf("%d GETs go on, %d wait, though nobody waits for them", w.active, len(c.store.waiting))
			}
			audit(t, c)
		}
		w.next = w.below
		want(t, c, "a", Part{0, 100}, object)
	})
}

func TestFetchesAreBoundedAndFair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.object("a", 200)
		w.next = slow{w.below, time.Second}
		c := w.cache(Options{})
		var readers sync.WaitGroup
		for i := range 200 {
			readers.Go(func() {
				if _, err := c.Read(t.Context(), "a", int64(i), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // so they come in order
		}
		readers.Wait()
		if w.most != DefaultFetches {
			t.Errorf("%d GETs at once, want %d", w.most, DefaultFetches)
		}
		for i, g := range w.seen() {
			// Those of one second may overtake each other, those of different seconds not.
			if int(g.part.Offset)/DefaultFetches != i/DefaultFetches {
				t.Errorf("GET %d is that of read %d", i, g.part.Offset)
			}
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		object := w.object("a", 100)
		w.next = slow{w.below, time.Second}
		c := w.cache(Options{Waiters: 10})
		var readers sync.WaitGroup
		for i := range 10 {
			readers.Go(func() { want(t, c, "a", Part{int64(i % 5), 1}, object) })
		}
		synctest.Wait()
		for _, off := range []int64{0, 50} {
			if _, err := c.Read(t.Context(), "a", off, 1); !errors.Is(err, ErrBusy) {
				t.Errorf("%v, want ErrBusy", err)
			}
		}
		readers.Wait()
		want(t, c, "a", Part{50, 1}, object)
	})
}

// Sizes, keys and what is asked for at once are driven to every bound while faults happen; audit compares the books.
func TestMemoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		const size = 4 * mib
		objects := map[string][]byte{}
		for i := range 6 {
			key := fmt.Sprintf("segments/%s%d", strings.Repeat("x", i*30), i)
			objects[key] = w.object(key, size)
		}
		faulty, err := fault.New(w.below, fault.Options{Seed: 7, Rules: fault.MustParse(
			"get * broken p=0.05\nget * torn p=0.05\nget * slow after=20ms p=0.5")})
		if err != nil {
			t.Fatal(err)
		}
		defer faulty.Close()
		w.next = faulty
		c := w.cache(Options{MemoryBytes: 2 * mib, Fetches: 4})
		var users sync.WaitGroup
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-time.After(5 * time.Millisecond):
					audit(t, c)
				case <-stop:
					return
				}
			}
		}()
		for user := range 20 {
			rng := rand.New(rand.NewPCG(uint64(user), 1))
			users.Go(func() {
				r := c.Reader()
				defer r.Close()
				for key, object := range objects {
					parts := pages(size, []int64{3 * kib, 40 * kib, 100 * kib, 300 * kib, 2 * mib}[rng.IntN(5)])
					at := rng.IntN(len(parts))
					for range 20 {
						p := parts[at]
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(100)+1)*time.Millisecond)
						data, err := r.Read(ctx, key, p, parts[at+1:])
						cancel()
						if err == nil && string(data) != string(object[p.Offset:p.end()]) {
							t.Errorf("%s %v: other bytes than the object's", key, p)
						}
						switch rng.IntN(40) {
						case 0:
							c.Forget(key)
						case 1:
							c.Drop(key, p, data)
						case 2:
							c.ForgetPrefix("segments/xxx")
						case 3, 4:
							at = rng.IntN(len(parts))
						default:
							at = (at + 1) % len(parts)
						}
						time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
					}
				}
			})
		}
		users.Wait()
		close(stop)
		synctest.Wait()
		if c.ahead != 0 || len(c.readers) != 0 {
			t.Errorf("%d bytes ahead, %d Readers, though all are closed", c.ahead, len(c.readers))
		}
	})
}

func TestTooLargeToKeep(t *testing.T) {
	w := newWorld(t)
	object := w.object("a", 2*mib)
	c := w.cache(Options{MemoryBytes: mib})
	small, large := Part{0, mib / 8}, Part{0, mib/8 + 1}
	for range 2 {
		want(t, c, "a", small, object)
		want(t, c, "a", large, object)
		want(t, c, "a", Part{0, 2 * mib}, object) // larger than the memory
	}
	if gets := w.seen(); len(gets) != 5 {
		t.Errorf("%d GETs, want 5: one of the part that is kept, two of each other", len(gets))
	}
}

func TestScanLeavesWhatIsUsed(t *testing.T) {
	w := newWorld(t)
	hot, cold := w.object("hot", mib), w.object("cold", 20*mib)
	c := w.cache(Options{MemoryBytes: 4 * mib})
	hotParts := pages(mib, 64*kib)
	for range 3 {
		for _, p := range hotParts {
			want(t, c, "hot", p, hot)
		}
	}
	r := c.Reader()
	parts := pages(20*mib, 64*kib)
	for i, p := range parts {
		if _, err := r.Read(t.Context(), "cold", p, parts[i+1:]); err != nil {
			t.Fatal(err)
		}
		want(t, c, "cold", p, cold) // the scan looks twice: still a scan
	}
	w.seen()
	for _, p := range hotParts {
		want(t, c, "hot", p, hot)
	}
	if gets := w.seen(); len(gets) > 0 {
		t.Errorf("%d of %d parts in use were pushed out by a scan", len(gets), len(hotParts))
	}
}

func TestStoreGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		object := w.object("a", 100*kib)
		c := w.cache(Options{Folder: t.TempDir()})
		parts := pages(100*kib, kib)
		for _, p := range parts[:50] {
			want(t, c, "a", p, object)
		}
		synctest.Wait()
		for _, p := range parts[:25] {
			forgetInMemory(c, "a", p) // those are on the disk only
		}
		w.seen()
		w.next = slow{w.below, 1000 * time.Hour}
		var hanging sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for _, p := range parts[50:] {
			hanging.Go(func() { _, _ = c.Read(ctx, "a", p.Offset, p.Length) })
		}
		synctest.Wait()
		began := time.Now()
		for _, p := range parts[:50] {
			want(t, c, "a", p, object)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited %v for parts that are kept", waited)
		}
		if gets := w.seen(); len(gets) != DefaultFetches {
			t.Errorf("%d GETs, want those that hang", len(gets))
		}
		cancel()
		hanging.Wait()
	})
}

func forgetInMemory(c *Cache, key string, p Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, found := c.memory.entries.get(key, p); found {
		c.release(e)
		c.memory.drop(e)
	}
}

func TestDrop(t *testing.T) {
	w := newWorld(t)
	object := w.object("a", 1000)
	c := w.cache(Options{Folder: t.TempDir()})
	p := Part{0, 1000}
	first := want(t, c, "a", p, object)
	c.Drop("a", p, first)
	second := want(t, c, "a", p, object)
	if gets := w.seen(); len(gets) != 2 {
		t.Errorf("%d GETs, want 2", len(gets))
	}
	c.Drop("a", p, first) // late: the second bytes are not those
	c.Drop("a", Part{1, 2}, nil)
	c.Drop("b", p, nil)
	third := want(t, c, "a", p, object)
	if gets := w.seen(); len(gets) != 0 || &third[0] != &second[0] {
		t.Errorf("%d GETs after dropping what had been replaced", len(gets))
	}
}

func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.object("s/a/1", 1000)
		w.object("s/a/2", 1000)
		w.object("s/b/1", 1000)
		c := w.cache(Options{Folder: t.TempDir()})
		read := func(key string) {
			t.Helper()
			if _, err := c.Read(t.Context(), key, 0, 1000); err != nil {
				t.Error(err)
			}
		}
		gets := func(n int) {
			t.Helper()
			for _, key := range []string{"s/a/1", "s/a/2", "s/b/1"} {
				read(key)
			}
			if seen := w.seen(); len(seen) != n {
				t.Errorf("GETs %v, want %d", seen, n)
			}
			synctest.Wait()
		}
		gets(3)
		gets(0)
		c.Forget("s/a/1", "s/b")
		gets(1)
		c.ForgetPrefix("s/a/")
		gets(2)
		// Under way: who asked before gets it, who asks later does not.
		c.Forget("s/a/1")
		w.next = slow{w.below, time.Second}
		var reader sync.WaitGroup
		reader.Go(func() { read("s/a/1") })
		synctest.Wait()
		c.Forget("s/a/1")
		if err := w.below.Delete(t.Context(), "s/a/1"); err != nil {
			t.Fatal(err)
		}
		replaced := w.object("s/a/1", 1000)
		read("s/a/1")
		reader.Wait()
		if seen := w.seen(); len(seen) != 2 {
			t.Errorf("GETs %v, want 2", seen)
		}
		synctest.Wait()
		forgetInMemory(c, "s/a/1", Part{0, 1000})
		want(t, c, "s/a/1", Part{0, 1000}, replaced)
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.object("a", 100)
		w.next = slow{w.below, time.Hour}
		c := w.cache(Options{Fetches: 2})
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() {
				if _, err := c.Read(t.Context(), "a", int64(i), 1); !errors.Is(err, ErrClosed) {
					t.Errorf("%v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		c.Forget("a") // does not forget who waits
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		readers.Wait()
		if _, err := c.Read(t.Context(), "a", 0, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
}

func TestHitAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	w.object("a", 1000)
	c := w.cache(Options{Registerer: prometheus.NewRegistry()})
	r := c.Reader()
	parts := pages(1000, 100)
	allocs := testing.AllocsPerRun(100, func() {
		for i, p := range parts {
			_, err := c.Read(t.Context(), "a", p.Offset, p.Length)
			_, err2 := r.Read(t.Context(), "a", p, parts[i+1:])
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestOptions(t *testing.T) {
	bad := Options{MemoryBytes: 1, DiskBytes: -1, Fetches: -1, Waiters: -1, DiskFiles: -1, DiskPause: -1}
	_, err := New(newWorld(t), bad)
	for _, name := range []string{"MemoryBytes", "DiskBytes", "Fetches", "Waiters", "DiskFiles", "DiskPause"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	object := w.object("a", 16*mib)
	registry := prometheus.NewRegistry()
	c := w.cache(Options{Registerer: registry})
	want(t, c, "a", Part{0, 100}, object)
	want(t, c, "a", Part{0, 100}, object)
	r := c.Reader()
	parts := pages(16*mib, 128*kib)
	for i, p := range parts[:3] {
		if _, err := r.Read(t.Context(), "a", p, parts[i+1:]); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	c.running.Wait()
	for _, m := range []struct {
		name, label string
		least, most float64
	}{
		{"sluice_cache_hits_total", "memory", 1, 3},
		{"sluice_cache_misses_total", "", 3, 4},
		{"sluice_cache_gets_total", "", 3, 5},
		{"sluice_cache_read_bytes_total", "memory", 100, 400 * kib},
		{"sluice_cache_read_bytes_total", "store", 256 * kib, 16 * mib},
		{"sluice_cache_parts", "memory", 4, 128},
		{"sluice_cache_bytes", "memory", 384 * kib, 16 * mib},
		{"sluice_cache_readahead_parts_total", "used", 0, 1},
	} {
		if v := value(t, registry, m.name, m.label); v < m.least || v > m.most {
			t.Errorf("%s %s is %v, want %v to %v", m.name, m.label, v, m.least, m.most)
		}
	}
	if _, err := New(w, Options{Registerer: registry}); err != nil {
		t.Errorf("a second cache on a registerer: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if v := value(t, registry, "sluice_cache_bytes", "memory"); v != 0 {
		t.Errorf("a closed cache shows %v bytes", v)
	}
}

func BenchmarkHit(b *testing.B) {
	w := newWorld(&testing.T{})
	w.object("streams/ACCOUNT/ORDERS/segments/0000000000000001", mib)
	c, err := New(w, Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	parts := pages(mib, 64*kib)
	const key = "streams/ACCOUNT/ORDERS/segments/0000000000000001"
	b.Run("cache", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			p := parts[i%len(parts)]
			if _, err := c.Read(b.Context(), key, p.Offset, p.Length); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reader", func(b *testing.B) {
		b.ReportAllocs()
		r := c.Reader()
		for i := 0; b.Loop(); i++ {
			i := i % len(parts)
			if _, err := r.Read(b.Context(), key, parts[i], parts[i+1:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
