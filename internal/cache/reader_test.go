package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// play reads the parts in order through a Reader, and compares.
func play(t *testing.T, r *Reader, key string, parts []Part, object []byte) {
	t.Helper()
	for i, p := range parts {
		data, err := r.Read(t.Context(), key, p, parts[i+1:])
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != string(object[p.Offset:p.end()]) {
			t.Fatalf("%s %v: other bytes than the object's", key, p)
		}
	}
}

func TestReadingInOrderTakesFewGets(t *testing.T) {
	const size = 32 * mib
	for _, page := range []int64{7 * kib, 98 * kib, 480 * kib, 3 * mib, 8 * mib} {
		t.Run(fmt.Sprint(page/kib, "KiB"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				object := w.object("a", size)
				w.next = slow{w.below, 30 * time.Millisecond}
				c := w.cache(Options{})
				r := c.Reader()
				defer r.Close()
				play(t, r, "a", pages(size, page), object)
				gets, read := w.seen(), int64(0)
				for _, g := range gets {
					read += g.part.Length
					if g.part.Length > longRun {
						t.Errorf("a GET of %d bytes", g.part.Length)
					}
				}
				if len(gets) > size/firstRun || read != size {
					t.Errorf("%d GETs of %d bytes for %d MiB, want at most one for 4 MiB, and no byte twice", len(gets), read, size/mib)
				}
			})
		})
	}
}

// What follows is under way while the user still has something to read: it does not wait for each GET.
func TestReadAheadHidesTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 64 * mib
		w := newWorld(t)
		w.object("a", size)
		w.next = slow{w.below, 100 * time.Millisecond}
		c := w.cache(Options{})
		r := c.Reader()
		defer r.Close()
		parts, waited := pages(size, 128*kib), 0
		for i, p := range parts {
			began := time.Now()
			if _, err := r.Read(t.Context(), "a", p, parts[i+1:]); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > 0 {
				waited++
			}
			time.Sleep(4 * time.Millisecond) // 32 parts of 128 KiB are 4 MiB and 128 ms
		}
		if waited > 2 {
			t.Errorf("waited for %d parts, want the first two at most", waited)
		}
	})
}

func TestReadingOnInTheNextObject(t *testing.T) {
	w := newWorld(t)
	c := w.cache(Options{})
	r := c.Reader()
	defer r.Close()
	const size = 2 * mib
	for n := range 8 {
		key := fmt.Sprint("a/", n)
		play(t, r, key, pages(size, 64*kib), w.object(key, size))
	}
	if gets := w.seen(); len(gets) > 8+1 {
		t.Errorf("%d GETs for 8 objects, want one each and one more to begin", len(gets))
	}
}

func TestNoReadAhead(t *testing.T) {
	const size = 16 * mib
	parts := pages(size, 128*kib)
	order := func(at ...int) []int { return at }
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(len(parts))
	backwards := make([]int, len(parts))
	for i := range backwards {
		backwards[i] = len(parts) - 1 - i
	}
	for name, at := range map[string][]int{
		"random": shuffled, "backwards": backwards, "one": order(5), "the same again": order(5, 5, 5), "with gaps": order(0, 2, 4, 6, 8),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.object("a", size)
			c := w.cache(Options{})
			r := c.Reader()
			last := -2
			runs := 0
			for _, i := range at {
				if i == last+1 {
					runs++ // by chance
				}
				if _, err := r.Read(t.Context(), "a", parts[i], parts[i+1:]); err != nil {
					t.Fatal(err)
				}
				last = i
			}
			r.Close()
			c.running.Wait()
			long := 0
			for _, g := range w.seen() {
				if g.part.Length > parts[0].Length {
					long++
				}
			}
			if long > 2*runs {
				t.Errorf("%d GETs of more than was asked for, by %d runs", long, runs)
			}
		})
	}
}

// following that cannot be right is only not read ahead.
func TestStrangeFollowing(t *testing.T) {
	w := newWorld(t)
	object := w.object("a", mib)
	c := w.cache(Options{})
	for _, following := range [][]Part{
		{{200, 0}, {200, 100}}, {{200, -100}}, {{200, 1 << 62}}, {{100, 100}}, {{300, 100}}, {{200, mib}}, {{200, 100}, {300, 2 * mib}},
	} {
		r := c.Reader()
		for _, p := range []Part{{0, 100}, {100, 100}} {
			data, err := r.Read(t.Context(), "a", p, append([]Part{{100, 100}}, following...)[p.Offset/100:])
			if err != nil || string(data) != string(object[p.Offset:p.end()]) {
				t.Errorf("%v: %v", following, err)
			}
		}
		r.Close()
		c.Forget("a")
	}
}

func TestThousandConsumersReadHistoryOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, objects, consumers = 16 * mib, 4, 1000
		w := newWorld(t)
		content := map[string][]byte{}
		for n := range objects {
			key := fmt.Sprint("a/", n)
			content[key] = w.object(key, size)
		}
		w.next = slow{w.below, 50 * time.Millisecond}
		c := w.cache(Options{})
		parts := pages(size, 480*kib)
		var users sync.WaitGroup
		for user := range consumers {
			rng := rand.New(rand.NewPCG(uint64(user), 3))
			users.Go(func() {
				r := c.Reader()
				defer r.Close()
				for n := range objects {
					key := fmt.Sprint("a/", n)
					for i, p := range parts {
						data, err := r.Read(t.Context(), key, p, parts[i+1:])
						if err != nil || data[0] != content[key][p.Offset] || int64(len(data)) != p.Length {
							t.Errorf("%s %v: %v", key, p, err)
							return
						}
						time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
					}
				}
			})
		}
		users.Wait()
		gets, read := w.seen(), int64(0)
		for _, g := range gets {
			read += g.part.Length
		}
		if read != size*objects {
			t.Errorf("%d bytes were read of %d: some pages more than once", read, size*objects)
		}
		if len(gets) > size*objects/firstRun {
			t.Errorf("%d GETs for %d MiB, want at most one for 4 MiB", len(gets), size*objects/mib)
		}
		t.Logf("%d consumers, %d MiB, %d GETs", consumers, size*objects/mib, len(gets))
	})
}

// Readers at places of their own share the room for what is read ahead; those that stand still give it up for others.
func TestReadAheadIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, users = 16 * mib, 12
		w := newWorld(t)
		w.next = slow{w.below, 10 * time.Millisecond}
		c := w.cache(Options{MemoryBytes: 64 * mib})
		parts := pages(size, 256*kib)
		step := func(r *Reader, key string, i int) {
			t.Helper()
			if _, err := r.Read(t.Context(), key, parts[i], parts[i+1:]); err != nil {
				t.Fatal(err)
			}
			audit(t, c)
		}
		var readers []*Reader
		for n := range users {
			key := fmt.Sprint("a/", n)
			w.object(key, size)
			r := c.Reader()
			readers = append(readers, r)
			for i := range 3 {
				step(r, key, i)
				if held := readAheadOf(r); held > 12*mib+mib {
					t.Errorf("a Reader holds %d bytes", held)
				}
			}
		}
		synctest.Wait()
		audit(t, c)
		if c.ahead < c.aheadMax/2 {
			t.Errorf("%d bytes of %d are used; the test shows nothing", c.ahead, c.aheadMax)
		}
		before := len(c.readers)
		w.seen()
		time.Sleep(staleAfter)
		w.object("late", size)
		late := c.Reader()
		for i := range 3 {
			step(late, "late", i)
		}
		time.Sleep(time.Second)
		if gets := w.seen(); len(gets) > 3 || gets[len(gets)-1].part.Length < firstRun/2 {
			t.Errorf("while %d others stood still, a Reader read by GETs %v", before, gets)
		}
		late.Close()
		for _, r := range readers {
			r.Close()
		}
		if c.ahead != 0 || len(c.readers) != 0 {
			t.Errorf("%d bytes ahead, %d Readers, though all are closed", c.ahead, len(c.readers))
		}
	})
}

func readAheadOf(r *Reader) (bytes int64) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	for _, f := range r.fetches {
		bytes += f.ahead
	}
	return bytes + r.owned.bytes
}

func TestTurningElsewhereEndsReadAhead(t *testing.T) {
	for name, turn := range map[string]func(r *Reader, parts []Part){
		"close": func(r *Reader, _ []Part) { r.Close() },
		"seek": func(r *Reader, parts []Part) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, _ = r.Read(ctx, "a", parts[len(parts)-1], nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const size = 64 * mib
				w := newWorld(t)
				w.object("a", size)
				c := w.cache(Options{})
				r := c.Reader()
				parts := pages(size, 128*kib)
				for i := range 2 {
					if _, err := r.Read(t.Context(), "a", parts[i], parts[i+1:]); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				w.next = slow{w.below, time.Hour}
				for i := 2; i < len(parts) && w.active == 0; i++ {
					if _, err := r.Read(t.Context(), "a", parts[i], parts[i+1:]); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if w.active == 0 || c.ahead == 0 {
					t.Fatal("nothing is read ahead; the test shows nothing")
				}
				turn(r, parts)
				synctest.Wait()
				if w.active != 0 || c.ahead != 0 {
					t.Errorf("%d GETs go on, %d bytes are ahead, for nobody", w.active, c.ahead)
				}
			})
		})
	}
}

// Someone who waits for a part that another reads ahead gets it, whatever becomes of the other.
func TestReadAheadServesOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 64 * mib
		w := newWorld(t)
		object := w.object("a", size)
		w.next = slow{w.below, time.Second}
		c := w.cache(Options{})
		r := c.Reader()
		parts := pages(size, 128*kib)
		play(t, r, "a", parts[:1], object)
		if _, err := r.Read(t.Context(), "a", parts[0], parts[1:]); err != nil {
			t.Fatal(err)
		}
		var users sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		users.Go(func() { _, _ = r.Read(ctx, "a", parts[1], parts[2:]) })
		synctest.Wait()
		users.Go(func() { want(t, c, "a", parts[10], object) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		r.Close()
		users.Wait()
		want(t, c, "a", parts[11], object)
		audit(t, c)
	})
}
