package stream

import (
	"math"
	"slices"
	"sort"
)

// runSequences is how many sequences a run holds at most.
const runSequences = 256

// posting lists the sequences of a subject's messages in order, for subjects with three messages or more: runs of 4
// bytes a message. It answers where the next one is and how many follow without touching other subjects' messages.
type posting struct{ runs []run }

type run struct {
	base    uint64
	offsets []uint32
}

func (r *run) first() uint64 { return r.base + uint64(r.offsets[0]) }
func (r *run) last() uint64  { return r.base + uint64(r.offsets[len(r.offsets)-1]) }
func (r *run) search(seq uint64) int {
	if seq <= r.base {
		return 0
	}
	return sort.Search(len(r.offsets), func(i int) bool { return r.base+uint64(r.offsets[i]) >= seq })
}

// add appends a sequence behind all others.
func (p *posting) add(seq uint64) {
	n := len(p.runs)
	if n == 0 || len(p.runs[n-1].offsets) >= runSequences || seq-p.runs[n-1].base > math.MaxUint32 {
		p.runs = append(p.runs, run{base: seq})
		if n > 0 {
			p.runs[n].offsets = make([]uint32, 0, runSequences)
		}
		n++
	}
	r := &p.runs[n-1]
	r.offsets = append(r.offsets, uint32(seq-r.base))
}

// search gives the first run that ends at or behind seq, or the number of runs.
func (p *posting) search(seq uint64) int {
	n := len(p.runs)
	if n > 0 && seq <= p.runs[0].last() {
		return 0
	}
	return sort.Search(n, func(i int) bool { return p.runs[i].last() >= seq })
}

// remove takes a sequence out that is there.
func (p *posting) remove(seq uint64) {
	i := p.search(seq)
	if i == len(p.runs) {
		return
	}
	r := &p.runs[i]
	k := r.search(seq)
	if k == len(r.offsets) || r.base+uint64(r.offsets[k]) != seq {
		return
	}
	r.offsets = slices.Delete(r.offsets, k, k+1)
	if len(r.offsets) == 0 {
		if i == 0 {
			p.runs[0] = run{}
			p.runs = p.runs[1:]
			return
		}
		p.runs = slices.Delete(p.runs, i, i+1)
		return
	}
	// Not the first run: retention eats it from the front.
	if i > 0 && !p.join(i) && i > 1 {
		p.join(i - 1)
	}
}

// join merges a run with the next when both together are at most half full.
func (p *posting) join(i int) bool {
	if i+1 >= len(p.runs) {
		return false
	}
	a, b := &p.runs[i], &p.runs[i+1]
	if len(a.offsets)+len(b.offsets) > runSequences/2 || b.last()-a.base > math.MaxUint32 {
		return false
	}
	shift := uint32(b.base - a.base)
	for _, o := range b.offsets {
		a.offsets = append(a.offsets, o+shift)
	}
	p.runs = slices.Delete(p.runs, i+1, i+2)
	return true
}

// next gives the first sequence that is at least seq.
func (p *posting) next(seq uint64) (uint64, bool) {
	i := p.search(seq)
	if i == len(p.runs) {
		return 0, false
	}
	r := &p.runs[i]
	return r.base + uint64(r.offsets[r.search(seq)]), true
}

// previous gives the last sequence that is at most seq.
func (p *posting) previous(seq uint64) (uint64, bool) {
	i := p.search(seq)
	if i < len(p.runs) {
		r := &p.runs[i]
		k := r.search(seq)
		if r.base+uint64(r.offsets[k]) == seq {
			return seq, true
		}
		if k > 0 {
			return r.base + uint64(r.offsets[k-1]), true
		}
	}
	if i == 0 {
		return 0, false
	}
	return p.runs[i-1].last(), true
}

// from counts the sequences that are at least seq, of which there are count in all.
func (p *posting) from(seq uint64, count uint32) uint64 {
	i := p.search(seq)
	if i == len(p.runs) {
		return 0
	}
	k := p.runs[i].search(seq)
	if i < len(p.runs)/2 {
		n := k
		for j := range p.runs[:i] {
			n += len(p.runs[j].offsets)
		}
		return uint64(count) - uint64(n)
	}
	n := len(p.runs[i].offsets) - k
	for j := i + 1; j < len(p.runs); j++ {
		n += len(p.runs[j].offsets)
	}
	return uint64(n)
}

// fromEnd gives the k-th last sequence; 0 is the last.
func (p *posting) fromEnd(k int) (uint64, bool) {
	for i := len(p.runs) - 1; i >= 0; i-- {
		r := &p.runs[i]
		if k < len(r.offsets) {
			return r.base + uint64(r.offsets[len(r.offsets)-1-k]), true
		}
		k -= len(r.offsets)
	}
	return 0, false
}
