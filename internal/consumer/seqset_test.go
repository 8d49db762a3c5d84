package consumer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSeqSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s seqSet
		naive := map[uint64]bool{}
		for range 200 {
			seq := 1 + rng.Uint64N(60)
			switch rng.IntN(8) {
			case 0, 1, 2:
				s.add(seq)
				naive[seq] = true
			case 3, 4:
				if s.remove(seq) != naive[seq] {
					t.Fatalf("removing %d from %v", seq, s.spans)
				}
				delete(naive, seq)
			case 5:
				r := span{seq, seq + rng.Uint64N(10)}
				s.addSpan(r)
				for q := r.lo; q <= r.hi; q++ {
					naive[q] = true
				}
			case 6:
				r := span{seq, seq + rng.Uint64N(10)}
				s.removeSpan(r)
				for q := r.lo; q <= r.hi; q++ {
					delete(naive, q)
				}
			case 7:
				if cut := rng.Uint64N(20); rng.IntN(4) == 0 {
					s.removeBelow(cut)
					for q := range naive {
						if q < cut {
							delete(naive, q)
						}
					}
				}
			}
			n := uint64(0)
			for q := range uint64(80) {
				if s.has(q) != naive[q] {
					t.Fatalf("has(%d) is %v in %v", q, s.has(q), s.spans)
				}
				if naive[q] {
					n++
				}
			}
			if s.count != n {
				t.Fatalf("count is %d, not %d", s.count, n)
			}
			for i := 1; i < len(s.spans); i++ {
				if s.spans[i].lo <= s.spans[i-1].hi+1 {
					t.Fatalf("spans touch: %v", s.spans)
				}
			}
		}
	}
}

func TestSeqSetAtTheEnd(t *testing.T) {
	const last = ^uint64(0)
	var s seqSet
	s.addSpan(span{last - 1, last})
	s.addSpan(span{0, 3})
	s.add(last)
	if s.count != 6 || !s.has(last) || !s.has(0) || s.has(4) {
		t.Fatalf("%v, %d", s.spans, s.count)
	}
	s.removeSpan(span{2, last - 1})
	if want := []span{{0, 1}, {last, last}}; !slices.Equal(s.spans, want) {
		t.Fatalf("%v", s.spans)
	}
}
