package consumer

import (
	"slices"
	"sort"
)

// span is a run of sequences, both ends included.
type span struct{ lo, hi uint64 }

// seqSet is a set of sequences as ascending spans that do not touch. Adding in ascending order and removing from the
// front are cheap.
type seqSet struct {
	spans []span
	count uint64
}

// at gives the index of the first span that ends at or above seq.
func (s *seqSet) at(seq uint64) int {
	if n := len(s.spans); n == 0 || s.spans[n-1].hi < seq {
		return n
	}
	return sort.Search(len(s.spans), func(i int) bool { return s.spans[i].hi >= seq })
}

func (s *seqSet) has(seq uint64) bool {
	if s.count == 0 {
		return false
	}
	i := s.at(seq)
	return i < len(s.spans) && s.spans[i].lo <= seq
}

func (s *seqSet) add(seq uint64) { s.addSpan(span{seq, seq}) }

// addSpan adds a run.
func (s *seqSet) addSpan(n span) {
	// Every span that overlaps or touches n is merged into it.
	i := 0
	if n.lo > 0 {
		i = s.at(n.lo - 1)
	}
	j := i
	for ; j < len(s.spans) && (n.hi == ^uint64(0) || s.spans[j].lo <= n.hi+1); j++ {
		n.lo, n.hi = min(n.lo, s.spans[j].lo), max(n.hi, s.spans[j].hi)
		s.count -= s.spans[j].hi - s.spans[j].lo + 1
	}
	s.spans = slices.Replace(s.spans, i, j, n)
	s.count += n.hi - n.lo + 1
}

// remove takes one sequence out and reports whether it was in.
func (s *seqSet) remove(seq uint64) bool {
	if !s.has(seq) {
		return false
	}
	i := s.at(seq)
	old := s.spans[i]
	s.count--
	switch {
	case old.lo == old.hi && i == 0:
		s.spans = s.spans[1:]
	case old.lo == old.hi:
		s.spans = slices.Delete(s.spans, i, i+1)
	case seq == old.lo:
		s.spans[i].lo++
	case seq == old.hi:
		s.spans[i].hi--
	default:
		s.spans[i].hi = seq - 1
		s.spans = slices.Insert(s.spans, i+1, span{seq + 1, old.hi})
	}
	if len(s.spans) == 0 {
		s.spans = nil
	}
	return true
}

// below tells how many sequences are lower than seq.
func (s *seqSet) below(seq uint64) (n uint64) {
	for _, sp := range s.spans {
		if sp.lo >= seq {
			break
		}
		n += min(sp.hi, seq-1) - sp.lo + 1
	}
	return n
}

// removeBelow takes out what is lower than seq.
func (s *seqSet) removeBelow(seq uint64) {
	s.count -= s.below(seq)
	i := s.at(seq)
	s.spans = slices.Clone(s.spans[i:])
	if len(s.spans) > 0 {
		s.spans[0].lo = max(s.spans[0].lo, seq)
	} else {
		s.spans = nil
	}
}

// removeSpan takes a run out.
func (s *seqSet) removeSpan(r span) {
	kept := make([]span, 0, len(s.spans)+1)
	s.count = 0
	keep := func(lo, hi uint64) {
		if lo <= hi {
			kept = append(kept, span{lo, hi})
			s.count += hi - lo + 1
		}
	}
	for _, sp := range s.spans {
		if sp.hi < r.lo || sp.lo > r.hi {
			keep(sp.lo, sp.hi)
			continue
		}
		if sp.lo < r.lo {
			keep(sp.lo, r.lo-1)
		}
		if sp.hi > r.hi {
			keep(r.hi+1, sp.hi)
		}
	}
	s.spans = kept
}
