package stream

import (
	"math"
	"slices"
	"sort"
)

// runSequences is how many sequences a run holds at most.
const runSequences = 256

// posting lists the sequences of a subject's messages in order, for subjects with three messages or more: packed runs, 10
// to 16 bits a message where the subject's messages come about evenly, and behind them an open list of up to 256, 4 bytes
// a message. It answers where the next one is and how many follow without touching other subjects' messages.
type posting struct {
	runs []run
	open []uint32 // offsets from base
	base uint64
}

// run is a packed list of sequences, some of which may be gone.
type run struct {
	column column
	words  []uint64
	gone   absent
	last   uint64 // that is there
	n      uint16
	live   uint16
}

func (r *run) at(i int) uint64 { return r.column.at(r.words, i) }
func (r *run) first() uint64   { return r.at(r.gone.next(0, int(r.n))) }

// search gives the first position whose sequence is at least seq and there, or the number of positions.
func (r *run) search(seq uint64) int {
	return r.gone.next(r.column.search(r.words, int(r.n), seq), int(r.n))
}

// removeFirst removes a sequence if it is the first.
func (r *run) removeFirst(seq uint64) bool {
	i := r.gone.next(0, int(r.n))
	if r.at(i) != seq {
		return false
	}
	r.gone.set(i, int(r.n))
	r.live--
	return true
}

// from counts the sequences from a position on.
func (r *run) from(i int) int { return int(r.n) - i - r.gone.count(i, int(r.n)) }

// appendTo appends the sequences.
func (r *run) appendTo(list []uint64) []uint64 {
	for i, n := r.gone.next(0, int(r.n)), int(r.n); i < n; i = r.gone.next(i+1, n) {
		list = append(list, r.at(i))
	}
	return list
}

func packRun(list []uint64) run {
	r := run{n: uint16(len(list)), live: uint16(len(list)), last: list[len(list)-1]}
	room := packings.Get().(*packing)
	defer packings.Put(room)
	r.column, room.words = packColumn(room.words[:0], list)
	r.words = slices.Clone(room.words)
	return r
}

// add appends a sequence behind all others.
func (p *posting) add(seq uint64) {
	if len(p.open) == 0 {
		p.base = seq
	} else if len(p.open) == runSequences || seq-p.base > math.MaxUint32 {
		p.pack()
		p.base = seq
	}
	p.open = append(p.open, uint32(seq-p.base))
}

// pack makes a run of the open list.
func (p *posting) pack() {
	var room [runSequences]uint64
	list := room[:0]
	for _, o := range p.open {
		list = append(list, p.base+uint64(o))
	}
	p.runs = append(p.runs, packRun(list))
	p.open = p.open[:0]
}

func (p *posting) openAt(i int) uint64 { return p.base + uint64(p.open[i]) }

// openSearch gives the first position in the open list whose sequence is at least seq, or its length.
func (p *posting) openSearch(seq uint64) int {
	if seq <= p.base {
		return 0
	}
	return sort.Search(len(p.open), func(i int) bool { return p.openAt(i) >= seq })
}

// search gives the first run that ends at or behind seq, or the number of runs.
func (p *posting) search(seq uint64) int {
	n := len(p.runs)
	if n == 0 || seq > p.runs[n-1].last {
		return n
	}
	if seq <= p.runs[0].last {
		return 0
	}
	return sort.Search(n, func(i int) bool { return p.runs[i].last >= seq })
}

// first gives the first sequence of a posting that is not empty.
func (p *posting) first() uint64 {
	if len(p.runs) > 0 {
		return p.runs[0].first()
	}
	return p.openAt(0)
}

// last gives the last sequence of a posting that is not empty.
func (p *posting) last() uint64 {
	if n := len(p.open); n > 0 {
		return p.openAt(n - 1)
	}
	return p.runs[len(p.runs)-1].last
}

// remove takes a sequence out that is there.
func (p *posting) remove(seq uint64) {
	if len(p.runs) > 0 && p.runs[0].removeFirst(seq) {
		if p.runs[0].live == 0 {
			p.runs[0] = run{}
			p.runs = p.runs[1:]
		}
		return
	}
	i := p.search(seq)
	if i == len(p.runs) {
		if k := p.openSearch(seq); k < len(p.open) && p.openAt(k) == seq {
			if p.open = slices.Delete(p.open, k, k+1); cap(p.open) > 8*len(p.open)+8 {
				p.open = slices.Clone(p.open)
			}
		}
		return
	}
	r := &p.runs[i]
	k := r.search(seq)
	if k == int(r.n) || r.at(k) != seq {
		return
	}
	r.gone.set(k, int(r.n))
	if r.live--; r.live > 0 && seq == r.last {
		r.last = r.at(r.gone.previous(k))
	}
	switch {
	case r.live == 0 && i == 0:
		p.runs[0] = run{}
		p.runs = p.runs[1:]
	case r.live == 0:
		p.runs = slices.Delete(p.runs, i, i+1)
	case i > 0 && r.live < r.n/2 && !p.join(i) && !p.join(i-1):
		// Not the first run: retention eats it from the front.
		var room [runSequences]uint64
		*r = packRun(r.appendTo(room[:0]))
	}
}

// join merges a run with the next when both together are at most half full.
func (p *posting) join(i int) bool {
	if i+1 >= len(p.runs) {
		return false
	}
	a, b := &p.runs[i], &p.runs[i+1]
	if a.live+b.live > runSequences/2 {
		return false
	}
	var room [runSequences]uint64
	*a = packRun(b.appendTo(a.appendTo(room[:0])))
	p.runs = slices.Delete(p.runs, i+1, i+2)
	return true
}

// next gives the first sequence that is at least seq.
func (p *posting) next(seq uint64) (uint64, bool) {
	if i := p.search(seq); i < len(p.runs) {
		r := &p.runs[i]
		return r.at(r.search(seq)), true
	}
	if k := p.openSearch(seq); k < len(p.open) {
		return p.openAt(k), true
	}
	return 0, false
}

// previous gives the last sequence that is at most seq.
func (p *posting) previous(seq uint64) (uint64, bool) {
	i := p.search(seq)
	if i == len(p.runs) {
		k := p.openSearch(seq)
		if k < len(p.open) && p.openAt(k) == seq {
			return seq, true
		}
		if k > 0 {
			return p.openAt(k - 1), true
		}
	} else {
		r := &p.runs[i]
		k := r.search(seq)
		if r.at(k) == seq {
			return seq, true
		}
		if k = r.gone.previous(k - 1); k >= 0 {
			return r.at(k), true
		}
	}
	if i == 0 {
		return 0, false
	}
	return p.runs[i-1].last, true
}

// from counts the sequences that are at least seq, of which there are count in all.
func (p *posting) from(seq uint64, count uint32) uint64 {
	i := p.search(seq)
	if i == len(p.runs) {
		return uint64(len(p.open) - p.openSearch(seq))
	}
	r := &p.runs[i]
	rest := r.from(r.search(seq))
	if i < len(p.runs)/2 {
		n := int(r.live) - rest
		for j := range p.runs[:i] {
			n += int(p.runs[j].live)
		}
		return uint64(count) - uint64(n)
	}
	for j := range p.runs[i+1:] {
		rest += int(p.runs[i+1+j].live)
	}
	return uint64(rest + len(p.open))
}

// fromEnd gives the k-th last sequence; 0 is the last.
func (p *posting) fromEnd(k int) (uint64, bool) {
	if n := len(p.open); k < n {
		return p.openAt(n - 1 - k), true
	}
	k -= len(p.open)
	for i := len(p.runs) - 1; i >= 0; i-- {
		r := &p.runs[i]
		if k >= int(r.live) {
			k -= int(r.live)
			continue
		}
		at := r.gone.previous(int(r.n) - 1)
		for ; k > 0; k-- {
			at = r.gone.previous(at - 1)
		}
		return r.at(at), true
	}
	return 0, false
}
