package protocol

import (
	"fmt"
	"hash/maphash"
)

// Start is one process of a setting: it may begin its claim at any time.
type Start struct {
	Node    int  // 0 to 1
	Adopts  bool // it takes the other node for dead
	Appends int  // records, at most 3
}

// Setting is what is explored. The first process owns the stream at the start and runs node x, the others come later;
// two starts of one node are one process and its successor, or two that think the other dead.
type Setting struct {
	Name     string
	Starts   []Start // at most 3
	GiveUp   bool    // claims may fail half-way and release their heads
	Rounds   int     // compactions and collections that each process may begin
	Faults   int     // of the network, in all
	Pipeline int     // puts that a log may have under way
}

// Result is what an exploration found.
type Result struct {
	States  int    // different ones
	Stores  int    // different contents of the store, from each of which a recovery was run
	Depth   int    // steps of the longest way that had to be taken to reach a state
	Broken  string // the shortest way to a violation, step by step; "" if there is none
	Partial bool   // the limit of states ended it

	phases [phases]bool // some process was in
	chores [chores]bool
}

// Explore visits every state that a setting can reach, the nearest first, without the safeguards in missing. It ends
// with the first violation, to which there is no shorter way, or at limit states (0: no limit). A state is kept as 64
// bits of a hash, so in 10 million states the chance that one is overlooked is about 1 in 400,000.
func Explore(s Setting, limit int, missing ...Safeguard) Result {
	x := &explorer{seed: maphash.MakeSeed(), run: run{setting: s}}
	for _, m := range missing {
		x.run.missing[m] = true
	}
	return x.explore(limit)
}

// run is one step being taken: the world that it changes, and the choices that it makes.
type run struct {
	w          *world
	setting    Setting
	missing    [safeguards]bool
	choices    choices
	who        uint8
	faulty     bool // writes may have fates
	impossible bool // what was picked cannot happen
	tracing    bool
	said       []string
}

func (r *run) pick(n int) int { return r.choices.pick(n) }

func (r *run) appendsOf(p *process) int {
	if p.id > maxProcesses {
		return 0
	}
	return r.setting.Starts[p.id-1].Appends
}

// choices goes through all the ways in which a step can go: the code of a step picks as it goes along, and is run again
// until every combination has been picked.
type choices struct {
	picked, of []int
	at         int
}

func (c *choices) pick(n int) int {
	if n < 2 {
		return 0
	}
	if c.at == len(c.picked) {
		c.picked, c.of = append(c.picked, 0), append(c.of, n)
	}
	c.at++
	return c.picked[c.at-1]
}

// next moves to the next combination; false when there is none left.
func (c *choices) next() bool {
	c.at = 0
	for n := len(c.picked); n > 0; n-- {
		if c.picked[n-1]++; c.picked[n-1] < c.of[n-1] {
			return true
		}
		c.picked, c.of = c.picked[:n-1], c.of[:n-1]
	}
	return false
}

type explorer struct {
	run    run
	seed   maphash.Seed
	seen   set // of states
	judged set // of stores
	to     world
}

func (x *explorer) hash(w *world) uint64 { return maphash.Comparable(x.seed, *w) }

// initial is the state in which the first process owns the empty stream.
func (x *explorer) initial() world {
	w := world{faults: uint8(x.run.setting.Faults)}
	w.manifest = manifest{counter: 1, by: 1}
	h := head{epoch: 1, counter: 1, instance: 1, generation: 1}
	h.insert(0, logRange{log: logOf(0, 1), open: true})
	w.heads[0] = h
	for i := range w.processes {
		p := &w.processes[i]
		p.id = uint8(i + 1)
		if i >= len(x.run.setting.Starts) {
			p.phase = stopped
			continue
		}
		s := x.run.setting.Starts[i]
		p.node, p.phase = uint8(s.Node), taking
		if s.Adopts {
			p.adopts = 1 << (1 - s.Node)
		}
		if x.run.missing[FreezeFirst] {
			p.phase = reading
		}
	}
	p := &w.processes[0]
	p.phase, p.head, p.epoch, p.generation, p.manifest = serving, h, 1, 1, w.manifest
	p.beginWriting(0, x.run.setting.Starts[0].Appends)
	return w
}

// successors calls fn with every state that one step leads to, until it answers false. The state is fn's until it
// returns.
func (x *explorer) successors(from *world, fn func(*world) bool) {
	r := &x.run
	r.choices, r.faulty = choices{picked: r.choices.picked[:0], of: r.choices.of[:0]}, true
	to := &x.to
	for {
		*to = *from
		r.w, r.impossible, r.said, r.who = to, false, r.said[:0], 0
		ok := false
		if n := len(r.setting.Starts); from.nLate > 0 {
			if i := r.pick(n + 1); i < n {
				ok = r.act(&to.processes[i])
			} else {
				ok = r.landLate()
			}
		} else {
			ok = r.act(&to.processes[r.pick(n)])
		}
		if ok && !r.impossible && !fn(to) {
			return
		}
		if !r.choices.next() {
			return
		}
	}
}

// judge looks at a state.
func (x *explorer) judge(w *world) {
	if w.broken.rule == 0 {
		x.judgeStore(w)
	}
}

// explore goes through the states breadth first. The parents of all states, by their number, tell the way to one.
func (x *explorer) explore(limit int) (res Result) {
	start := x.initial()
	x.seen.add(x.hash(&start))
	hashes, parents := []uint64{x.hash(&start)}, []int32{-1}
	var level, next frontier
	level.add(&start)
	for first := 0; level.n > 0; res.Depth++ {
		next.n = 0
		for i := range level.n {
			x.successors(level.at(i), func(to *world) bool {
				h := x.hash(to)
				if !x.seen.add(h) {
					return true
				}
				hashes, parents = append(hashes, h), append(parents, int32(first+i))
				for _, p := range to.processes {
					res.phases[p.phase], res.chores[p.chore] = true, true
				}
				if x.judge(to); to.broken.rule != 0 {
					res.Stores = x.judged.n
					res.Broken = x.trace(way(hashes, parents), to.broken)
					return false
				}
				next.add(to)
				return true
			})
			res.Partial = res.Broken == "" && limit > 0 && len(hashes) >= limit
			if res.Broken != "" || res.Partial {
				res.Depth++
				next.n = 0
				break
			}
		}
		first += level.n
		level, next = next, level
	}
	res.States, res.Stores = len(hashes), max(res.Stores, x.judged.n)
	return res
}

// frontier is the states of one depth, in blocks, so that it grows without being copied.
type frontier struct {
	blocks []*[1 << 10]world
	n      int
}

func (f *frontier) add(w *world) {
	if f.n>>10 == len(f.blocks) {
		f.blocks = append(f.blocks, new([1 << 10]world))
	}
	*f.at(f.n) = *w
	f.n++
}

func (f *frontier) at(i int) *world { return &f.blocks[i>>10][i&(1<<10-1)] }

// way gives the hashes of the states that lead to the newest one.
func way(hashes []uint64, parents []int32) (w []uint64) {
	for i := int32(len(hashes) - 1); parents[i] >= 0; i = parents[i] {
		w = append(w, hashes[i])
	}
	for i, j := 0, len(w)-1; i < j; i, j = i+1, j-1 {
		w[i], w[j] = w[j], w[i]
	}
	return w
}

// String gives the figures.
func (r Result) String() string {
	return fmt.Sprintf("%d states, %d stores recovered from, %d steps deep", r.States, r.Stores, r.Depth)
}

// set is an open-addressing set of hashes: 8 bytes a slot, at most three quarters full.
type set struct {
	slots []uint64
	n     int
}

// add reports whether h was not there.
func (s *set) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if 4*s.n >= 3*len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(1<<10, 2*len(old)))
		for _, o := range old {
			if o != 0 {
				s.slots[s.place(o)] = o
			}
		}
	}
	i := s.place(h)
	if s.slots[i] == h {
		return false
	}
	s.slots[i] = h
	s.n++
	return true
}

// place finds the slot of h, or the free one where it belongs.
func (s *set) place(h uint64) int {
	mask := len(s.slots) - 1
	i := int(h>>7) & mask
	for s.slots[i] != 0 && s.slots[i] != h {
		i = (i + 1) & mask
	}
	return i
}

func (s *set) clear() { s.slots, s.n = nil, 0 }
