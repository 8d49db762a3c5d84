package head

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/wal"
)

var (
	modelSeed  = flag.Int64("model-seed", -1, "run the model with this seed alone")
	modelSeeds = flag.Int("model-seeds", 60, "run the model with so many seeds")
)

// TestModel lets nodes start, write, stop beating, die, let go of records and shut down at random, over a store with
// all its faults, and then replays what is left. Whatever was acknowledged and not let go must be there once and in
// order, and nothing that was never appended.
func TestModel(t *testing.T) {
	seeds := make([]uint64, *modelSeeds)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	if *modelSeed >= 0 {
		seeds = []uint64{uint64(*modelSeed)}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, seed).run(40) })
		})
	}
}

const modelFaults = `
create wal/* lost p=0.05
create wal/* delayed p=0.05 after=700ms
create wal/* delayed p=0.03 after=8s
create wal/* duplicate p=0.05 after=9s
create wal/* own-retry p=0.05
put * conflict p=0.03
* * throttled p=0.03
put * timeout p=0.02
put * full p=0.01
get * torn p=0.02
get * broken p=0.02
* * slow after=200ms p=0.1
create wal/* slow after=3s p=0.02
replace heads/* lost p=0.05
replace heads/* delayed p=0.03 after=400ms
replace heads/* delayed p=0.02 after=5s
replace heads/* duplicate p=0.03 after=2s
replace heads/* own-retry p=0.05
create heads/* lost p=0.1
create heads/* own-retry p=0.1
delete * delayed p=0.1 after=6s
delete * lost p=0.05
`

type model struct {
	*world
	rng    *rand.Rand
	faulty *fault.Store
	live   []*process

	// mu guards the following.
	mu       sync.Mutex
	appended map[string]bool
	acked    []string
	letGo    map[string]bool // may be gone
}

// process is one start of a node.
type process struct {
	model   *model
	store   *crasher
	claimed *Claimed
	log     *wal.Log
	unbeat  context.CancelFunc
	beating chan struct{} // closed when it beats no more
	writing chan struct{} // closed when it writes no more
	quit    chan struct{}
	next    wal.Offset // below it everything is committed; guarded by model.mu
}

func newModel(t *testing.T, seed uint64) *model {
	w := newWorld(t)
	faulty, err := fault.New(w.store, fault.Options{Rules: fault.MustParse(modelFaults), Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return &model{world: w, rng: rand.New(rand.NewPCG(seed, 2)), faulty: faulty, appended: map[string]bool{}, letGo: map[string]bool{}}
}

func (m *model) run(steps int) {
	for range steps {
		switch n := m.rng.IntN(12); {
		case n < 2 || len(m.live) == 0:
			m.start(1)
		case n < 3:
			m.start(2)
		case n < 5:
			m.kill(m.pick())
		case n < 6:
			m.pick().unbeat() // it lives on and writes, cut off from its head
		case n < 8:
			m.compact(m.pick())
		case n < 9:
			m.release(m.pick())
		default:
			time.Sleep(time.Duration(m.rng.Int64N(int64(2 * m.lease))))
		}
		m.forget()
	}
	for _, p := range slices.Clone(m.live) {
		m.kill(p)
	}
	if err := m.faulty.SetRules(nil); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(time.Minute) // what is delayed lands
	if err := m.faulty.Close(); err != nil {
		m.t.Error(err)
	}
	m.check()
	m.verify()
}

func (m *model) pick() *process { return m.live[m.rng.IntN(len(m.live))] }

// start claims nodes, several at once, some of which die at it.
func (m *model) start(n int) {
	claims := make([]chan *process, n)
	for i := range claims {
		c := make(chan *process, 1)
		claims[i] = c
		opts := m.options([]string{"a", "b", "c"}[m.rng.IntN(3)])
		opts.NoAdopt = m.rng.IntN(4) == 0
		s := &crasher{Store: m.faulty, left: math.MaxInt, answerless: m.rng.IntN(2) == 0}
		if m.rng.IntN(3) == 0 {
			s.left = 1 + m.rng.IntN(50)
		}
		r := rand.New(rand.NewPCG(m.rng.Uint64(), 3))
		go func() {
			held, err := Claim(m.t.Context(), s, opts)
			if err != nil {
				if !s.crashed() && !errors.Is(err, ErrNameInUse) && !errors.Is(err, ErrLost) {
					m.t.Errorf("claim: %v", err)
				}
				c <- nil
				return
			}
			c <- m.begin(s, held, r)
		}()
	}
	for _, c := range claims {
		if p := <-c; p != nil {
			id := wal.LogID{Kind: wal.WriteAhead, Node: p.claimed.Node(), Epoch: p.claimed.Epoch()}
			if _, ok := m.epochs[id]; ok {
				m.t.Errorf("%s was handed out twice", id)
			}
			m.epochs[id] = nil
			m.live = append(m.live, p)
		}
	}
}

// begin makes a claimed node beat and write.
func (m *model) begin(s *crasher, held *Claimed, r *rand.Rand) *process {
	p := &process{model: m, store: s, claimed: held, beating: make(chan struct{}), writing: make(chan struct{}), quit: make(chan struct{})}
	var err error
	p.log, err = wal.Open(wal.Options{Store: s, ID: wal.LogID{Kind: wal.WriteAhead, Node: held.Node(), Epoch: held.Epoch()},
		MaxBatchBytes: 60, ResolveTimeout: 30 * time.Second})
	if err != nil {
		m.t.Error(err)
		return nil
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	p.unbeat = cancel
	go func() {
		defer close(p.beating)
		if err := held.Run(ctx); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrReleased) {
			m.t.Errorf("heartbeat: %v", err)
		}
	}()
	go p.write(r)
	return p
}

// write appends until the log has ended or the process is to stop.
func (p *process) write(r *rand.Rand) {
	defer close(p.writing)
	m := p.model
	for n := 0; ; n++ {
		data := fmt.Sprintf("%s/%d/%06d", p.claimed.Node(), p.claimed.Epoch(), n)
		m.mu.Lock()
		m.appended[data] = true
		m.mu.Unlock()
		if err := p.log.Append(&wal.Entry{Data: []byte(data + ";"), Records: 1, Lazy: r.IntN(4) == 0, Sink: p}); err != nil {
			return
		}
		select {
		case <-p.quit:
			return
		case <-p.log.Done():
			return
		case <-time.After(time.Duration(r.Int64N(int64(300 * time.Millisecond)))):
		}
	}
}

// Committed notes what was acknowledged. A process that has crashed acknowledges nothing.
func (p *process) Committed(entries []*wal.Entry) {
	m := p.model
	if p.store.crashed() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if e.Err == nil {
			m.acked = append(m.acked, strings.TrimSuffix(string(e.Data), ";"))
			p.next = e.Position.Offset // all of the batch is committed, but its offset is the safe bound
		}
	}
}

// kill crashes a process and waits until nothing of it is left.
func (m *model) kill(p *process) {
	p.store.crash()
	close(p.quit)
	p.unbeat()
	<-p.beating
	<-p.writing
	ctx, cancel := context.WithCancel(m.t.Context())
	cancel()
	if err := p.log.Close(ctx); err == nil && p.log.PendingBytes() > 0 {
		m.t.Error("the log of a crashed process closed without an error")
	}
	m.live = slices.DeleteFunc(m.live, func(o *process) bool { return o == p })
}

// release shuts a process down cleanly, as far as the others let it.
func (m *model) release(p *process) {
	close(p.quit)
	<-p.writing
	if err := p.log.Close(m.t.Context()); err != nil && !errors.Is(err, wal.ErrFenced) && !errors.Is(err, wal.ErrUnresolved) && !p.store.crashed() {
		m.t.Errorf("close: %v", err)
	}
	if err := p.claimed.Release(m.t.Context()); err != nil && !errors.Is(err, ErrLost) && !p.store.crashed() {
		m.t.Errorf("release: %v", err)
	}
	p.unbeat()
	<-p.beating
	m.live = slices.DeleteFunc(m.live, func(o *process) bool { return o == p })
}

// forget removes processes that were fenced: they stop by themselves.
func (m *model) forget() {
	for _, p := range slices.Clone(m.live) {
		select {
		case <-p.log.Done():
			if err := p.log.Err(); !errors.Is(err, wal.ErrFenced) && !errors.Is(err, wal.ErrUnresolved) && !p.store.crashed() {
				m.t.Errorf("a log died of %v", err)
			}
			m.kill(p)
		default:
		}
	}
}

// compact lets go of the beginning of one of a process's ranges, as if its records were in segments.
func (m *model) compact(p *process) {
	logs := p.claimed.Head().Logs
	r := logs[m.rng.IntN(len(logs))]
	end := r.End
	if r.Open {
		m.mu.Lock()
		end = p.next
		m.mu.Unlock()
	}
	if end <= r.Start {
		return
	}
	start := r.Start + 1 + wal.Offset(m.rng.Int64N(int64(end-r.Start)))
	var gone []string
	err := wal.Replay(m.t.Context(), m.store, r.ID(), r.Start, start, func(b *wal.Batch) error {
		gone = append(gone, entriesOf(b)...)
		return nil
	})
	if err != nil {
		// Only somebody else's truncation can be the reason: this process has lost its head and does not know yet.
		if p.claimed.Update(m.t.Context(), func(*Head) {}) == nil {
			m.t.Errorf("replay of a range that is ours: %v", err)
		}
		return
	}
	err = p.claimed.Update(m.t.Context(), func(h *Head) { h.Advance(r.Node, r.Epoch, start) })
	if errors.Is(err, ErrLost) {
		return
	}
	m.mu.Lock()
	for _, data := range gone {
		m.letGo[data] = true
	}
	m.mu.Unlock()
	if err == nil {
		_ = wal.Truncate(m.t.Context(), p.store, r.ID(), start) // may fail half-way
	}
}

func entriesOf(b *wal.Batch) []string {
	return strings.Split(strings.TrimSuffix(string(b.Body), ";"), ";")
}

// verify replays everything by a last node.
func (m *model) verify() {
	c, err := m.claim(m.store, m.options("verifier"))
	if err != nil {
		m.t.Fatalf("the last claim: %v", err)
	}
	seen := map[string]bool{}
	last := map[string]string{}
	for _, r := range c.Logs() {
		err := wal.Replay(m.t.Context(), m.store, r.ID(), r.Start, r.End, func(b *wal.Batch) error {
			for _, data := range entriesOf(b) {
				log := data[:strings.LastIndexByte(data, '/')]
				if !m.appended[data] || seen[data] || data <= last[log] {
					m.t.Errorf("replayed %q after %q: appended %v, replayed before %v", data, last[log], m.appended[data], seen[data])
				}
				seen[data], last[log] = true, data
			}
			return nil
		})
		if err != nil {
			m.t.Errorf("replay %+v: %v", r, err)
		}
	}
	lost, missing := 0, ""
	for _, data := range m.acked {
		if !seen[data] && !m.letGo[data] {
			lost++
			missing = data
		}
	}
	if lost > 0 {
		m.t.Errorf("%d of %d acknowledged entries are lost, for example %q", lost, len(m.acked), missing)
	}
	m.t.Logf("%d appended, %d acknowledged, %d let go, %d replayed, %d epochs", len(m.appended), len(m.acked), len(m.letGo), len(seen), len(m.epochs))
}
