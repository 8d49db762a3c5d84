package stream

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPosting compares a posting with a sorted slice, through gaps of billions and runs that thin out.
func TestPosting(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 5 {
		var p posting
		var want []uint64
		seq := uint64(0)
		for range 3000 {
			if seq += 1 + rng.Uint64N(3); rng.IntN(500) == 0 {
				seq += 1 << 33
			}
			p.add(seq)
			want = append(want, seq)
		}
		for len(want) > 0 {
			at := want[rng.IntN(len(want))] + rng.Uint64N(3) - 1
			i, _ := slices.BinarySearch(want, at)
			next, ok := p.next(at)
			if ok != (i < len(want)) || ok && next != want[i] {
				t.Fatalf("next from %d is %d, %t", at, next, ok)
			}
			if n := p.from(at, uint32(len(want))); n != uint64(len(want)-i) {
				t.Fatalf("%d from %d on, want %d", n, at, len(want)-i)
			}
			j, exact := slices.BinarySearch(want, at)
			if exact {
				j++
			}
			if previous, ok := p.previous(at); ok != (j > 0) || ok && previous != want[j-1] {
				t.Fatalf("previous of %d is %d, %t", at, previous, ok)
			}
			k := rng.IntN(len(want) + 1)
			if got, ok := p.fromEnd(k); ok != (k < len(want)) || ok && got != want[len(want)-1-k] {
				t.Fatalf("%d from the end is %d, %t", k, got, ok)
			}
			for range 1 + len(want)/100 {
				i := 0 // mostly the oldest, as retention does
				if rng.IntN(3) > 0 {
					i = rng.IntN(len(want))
				}
				p.remove(want[i])
				p.remove(want[i]) // is not there any more
				if want = slices.Delete(want, i, i+1); len(want) == 0 {
					break
				}
			}
		}
		if len(p.runs) != 0 {
			t.Fatalf("%d runs are left of nothing", len(p.runs))
		}
	}
}
