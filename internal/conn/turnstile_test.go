package conn

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newTestTurnstile looks at the network after every run that took longer than run.
func newTestTurnstile(t *testing.T, turns int, run time.Duration) *turnstile {
	d := newTurnstile(turns)
	d.maxRun = run
	t.Cleanup(d.close)
	return d
}

// settled waits until nothing of a storm is left.
func (d *turnstile) settled() bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		d.mu.Lock()
		over := !d.looking && d.owed == 0 && d.next == 0 && len(d.waiting) == 0
		d.mu.Unlock()
		if over {
			return true
		}
	}
	return false
}

// TestTurnstile sends many through at once: never more than there are turns, all of them, and nothing stays behind.
func TestTurnstile(t *testing.T) {
	const many = 2000
	for _, turns := range []int{1, 3} {
		for _, run := range []time.Duration{-1, time.Microsecond, time.Hour} {
			for _, closed := range []bool{false, true} {
				d := newTestTurnstile(t, turns, run)
				var within, most atomic.Int64
				var all sync.WaitGroup
				for i := range many {
					all.Go(func() {
						d.turn()
						if n := within.Add(1); n > most.Load() {
							most.Store(n)
						}
						if i%16 == 0 {
							runtime.Gosched()
						}
						within.Add(-1)
						d.turnOver()
					})
					if closed && i == many/2 {
						d.close()
					}
				}
				all.Wait()
				if most.Load() > int64(turns) {
					t.Errorf("%d had one of %d turns at once", most.Load(), turns)
				}
				if !d.settled() || d.free != turns {
					t.Errorf("turns %d, run %v: %d of them are free, %d wait", turns, run, d.free, len(d.waiting)-d.next)
				}
			}
		}
	}
}

// TestTurnstileOrder lets those go first who came first.
func TestTurnstileOrder(t *testing.T) {
	d := newTestTurnstile(t, 1, -1)
	d.turn()
	var order []int // guarded by the turn
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			d.turn()
			order = append(order, i)
			d.turnOver()
		})
		for queued := false; !queued; runtime.Gosched() {
			d.mu.Lock()
			queued = len(d.waiting)-d.next > i
			d.mu.Unlock()
		}
	}
	d.turnOver()
	all.Wait()
	for i, n := range order {
		if i != n {
			t.Fatalf("number %d was the %dth", n, i)
		}
	}
}

// TestTurnstileLooks has input arrive while turn follows turn on the only processor: whoever reads it goes on after a few
// turns, not after all of them.
func TestTurnstileLooks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := newTestTurnstile(t, 1, -1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()

	const many, few = 4000, 100
	var done, written, seen atomic.Int64 // turns; how many when the input was written, and when it was read
	go func() {
		_, _ = in.Read(make([]byte, 1))
		seen.Store(done.Load())
	}()
	d.turn()
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			d.turn()
			for until := time.Now().Add(5 * time.Microsecond); time.Now().Before(until); {
			}
			if done.Add(1); i == 0 {
				written.Store(done.Load())
				_, _ = out.Write([]byte{0})
			}
			d.turnOver()
		})
	}
	for queued := 0; queued < many; runtime.Gosched() {
		d.mu.Lock()
		queued = len(d.waiting) - d.next
		d.mu.Unlock()
	}
	d.turnOver()
	all.Wait()
	if n := seen.Load() - written.Load(); n < 0 || n > few {
		t.Errorf("the input was read after %d turns of %d", n, many)
	}
}
