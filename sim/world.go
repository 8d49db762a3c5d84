package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/wal"
)

// options are what mutations change: a safeguard less, without touching the code under test.
type options struct {
	wrapStore     func(store.Store) store.Store
	wrapLog       func(*wal.Log) engine.Log
	wrapLink      func(store.Store) store.Store // as a process sees it
	truncateMore  int                           // offsets
	truncateFirst bool                          // before the head says so
	forgetEnd     bool                          // replay leaves the last batch of each log out
	keep          bool                          // everything that lands in the log, to be looked at
}

// world is the store, the node's lives one after the other, and the client.
type world struct {
	seed    uint64
	random  *rand.Rand
	plan    *plan
	opts    options
	journal journal
	audit   *audit
	faulty  *fault.Store

	requests sync.WaitGroup // of all links, under way
	current  *life          // nil: the node is down
	paused   []*life        // others took over from them
	lives    int
	runs     sync.Map // of the lives' numbers whose processes exist
	healed   atomic.Bool

	numbers   int // of messages
	operation int // of requests
	resent    []resend

	specs        []Spec
	incarnations int  // of the stream that comes and goes
	goes         bool // it is to be deleted, and is not known to be

	mu     sync.Mutex        // guards the following
	labels map[string]string // of the present incarnations of streams that come and go
	last   map[string]uint64 // the newest sequence that was acknowledged, by label and by label and subject
	faults []string
}

// resend is a message with an id that may be sent again.
type resend struct {
	number         int
	stream         *streamPlan
	label, subject string
}

func newWorld(seed uint64, opts options) (*world, error) {
	w := &world{
		seed: seed, random: rand.New(rand.NewPCG(seed, 0x51a1ce)), opts: opts,
		labels: map[string]string{}, last: map[string]uint64{},
	}
	w.journal.begun = time.Now()
	w.plan = newPlan(w.random)
	st, err := mem.New(mem.Options{})
	if err != nil {
		return nil, err
	}
	w.audit = newAudit(st)
	if opts.keep {
		if w.audit.all, err = mem.New(mem.Options{}); err != nil {
			return nil, err
		}
	}
	var next store.Store = w.audit
	if opts.wrapStore != nil {
		next = opts.wrapStore(next)
	}
	w.faulty, err = fault.New(next, fault.Options{Seed: seed})
	return w, err
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// label is the name of a stream in the history.
func (w *world) label(stream string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.labels[stream]; l != "" {
		return l
	}
	return stream
}

// setLabel names a stream's new incarnation; "": there is none.
func (w *world) setLabel(stream, label string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.labels[stream] = label
}

// newest notes the newest sequence that was acknowledged.
func (w *world) newest(label, subject string, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[label] = max(w.last[label], seq)
	w.last[label+" "+subject] = max(w.last[label+" "+subject], seq)
}

func (w *world) running(pid int) bool {
	_, ok := w.runs.Load(pid)
	return ok
}

// heal ends the store's troubles.
func (w *world) heal() {
	w.healed.Store(true)
	_ = w.faulty.SetRules(nil) // none is always valid
}

// names of the node: a start may take another one and adopt what the dead one left.
var names = []string{"a", "b"}

// revive starts the node until it runs. Store trouble may keep it down for a while; with the store well it must come up.
func (w *world) revive() bool {
	for _, p := range w.paused {
		p.contested.Store(true)
	}
	well := 0
	for attempt := 1; ; attempt++ {
		name := pick(w.random, names...)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		l, err := w.begin(ctx, name, pick(w.random, "here", "there"))
		cancel()
		if err == nil {
			w.current = l
			w.recreateVolatile()
			return true
		}
		w.journal.note(w.lives, "the start as %q failed: %v", name, err)
		if w.healed.Load() {
			if well++; well >= 3 {
				w.fault("the node does not start: %v", err)
				return false
			}
		}
		if attempt >= 4 {
			w.heal()
		}
		time.Sleep(time.Duration(w.random.Int64N(int64(20 * time.Second))))
	}
}

// crash kills the running process.
func (w *world) crash(how string) {
	l := w.current
	w.current = nil
	w.journal.add(Event{Kind: LifeEnded, Life: l.number, Text: how})
	l.kill()
}

// tend restarts a node that had to stop.
func (w *world) tend() bool {
	if l := w.current; l != nil && l.lost.Load() != nil {
		if !l.contested.Load() {
			w.fault("life %d had to stop, and nobody took over from it: %s", l.number, *l.lost.Load())
		}
		w.crash("had to stop: " + *l.lost.Load())
	}
	for i := 0; i < len(w.paused); {
		p := w.paused[i]
		if p.lost.Load() == nil || w.random.IntN(3) > 0 {
			i++
			continue
		}
		w.bury(i, "had to stop: "+*p.lost.Load())
	}
	return w.current != nil || w.revive()
}

// bury kills a process that others took over from.
func (w *world) bury(i int, how string) {
	p := w.paused[i]
	w.paused = append(w.paused[:i], w.paused[i+1:]...)
	w.journal.add(Event{Kind: LifeEnded, Life: p.number, Text: how})
	p.kill()
}
