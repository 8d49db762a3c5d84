package conn

import (
	"os"
	"sync"
	"time"
)

// maxRun bounds how long turns follow each other before the network is looked at. It is what a storm may add to the
// latency of everybody else.
const maxRun = 100 * time.Microsecond

// turnstile lets connections come in and leave by turns, so that ten thousand who do so at once leave the server to
// those that are there already. Turns are given in the order in which they were asked for, half as many at a time as
// there are processors.
//
// That bound is not enough. A processor of the runtime looks for input when it has nothing else to run, so one that goes
// from turn to turn does so every 10 ms only. Therefore a run of turns ends after maxRun, and the next begins when a byte
// has gone through a pipe: it comes back with whatever else the network brings, behind what came earlier.
type turnstile struct {
	maxRun time.Duration

	mu      sync.Mutex // guards all below
	free    int        // turns that nobody has
	waiting []chan struct{}
	next    int       // the first in waiting; no more wait than there are connections and listeners
	since   time.Time // when the network was last looked at, as far as we know

	looking bool // look runs
	called  bool // there is a byte for it in the pipe
	owed    int  // turns that it gives when it has the byte
	pipe    [2]*os.File
	broken  bool // there is no pipe: all turns follow each other
}

func newTurnstile(turns int) *turnstile { return &turnstile{maxRun: maxRun, free: max(1, turns)} }

// turn waits until the connection may come in or leave. Nobody may wait for anything else with a turn.
func (t *turnstile) turn() {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	ready := make(chan struct{})
	t.waiting = append(t.waiting, ready)
	t.mu.Unlock()
	<-ready
}

// turnOver gives the turn to whoever waits longest.
func (t *turnstile) turnOver() {
	t.mu.Lock()
	call := false
	switch {
	case t.next == len(t.waiting):
		t.free++
		call = t.looking // to end
	case t.broken || time.Since(t.since) < t.maxRun:
		t.pass()
	default:
		t.owed++
		call = t.looking
		if !t.looking {
			t.looking = true
			go t.look()
		}
	}
	// Without a pipe look has only been started, and gives what is owed anyway.
	pipe := t.pipe[1]
	call = call && !t.called && pipe != nil
	t.called = t.called || call
	t.mu.Unlock()
	if call {
		// It fails when close was called, and then the read fails too.
		_, _ = pipe.Write([]byte{0})
	}
}

// pass lets the next one through, if there is one. mu is held.
func (t *turnstile) pass() {
	if t.next == len(t.waiting) {
		t.free++
		return
	}
	close(t.waiting[t.next])
	t.waiting[t.next] = nil
	if t.next++; t.next > len(t.waiting)/2 {
		n := copy(t.waiting, t.waiting[t.next:])
		clear(t.waiting[n:])
		t.waiting, t.next = t.waiting[:n], 0
	}
}

// look gives turns after the network was looked at, as long as somebody waits.
func (t *turnstile) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		t.called = false
		t.since = time.Now()
		for ; t.owed > 0; t.owed-- {
			t.pass()
		}
		if t.next == len(t.waiting) || !t.open() {
			t.looking = false
			return
		}
		t.mu.Unlock()
		_, err := t.pipe[0].Read(make([]byte, 1))
		t.mu.Lock()
		if err != nil {
			t.broken = true
		}
	}
}

// open sees to it that there is a pipe. mu is held.
func (t *turnstile) open() bool {
	if t.pipe[0] == nil && !t.broken {
		var err error
		t.pipe[0], t.pipe[1], err = os.Pipe()
		t.broken = err != nil
	}
	return !t.broken
}

// close gives the pipe back. Turns are given as before.
func (t *turnstile) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
	for _, end := range t.pipe {
		if end != nil {
			end.Close()
		}
	}
}
