package check

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Sets of runs are compared with plain sets.
func TestRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const size = 40
	draw := func() (r runs, plain [size + 1]bool) {
		for range random.IntN(12) {
			first := 1 + random.Uint64N(size)
			last := min(first+random.Uint64N(6), size)
			r.add(first, last)
			for i := first; i <= last; i++ {
				plain[i] = true
			}
		}
		return r, plain
	}
	for range 20_000 {
		a, inA := draw()
		b, inB := draw()
		var want runs
		for i := uint64(1); i <= size; i++ {
			if inA[i] && !inB[i] {
				want.add(i, i)
			}
		}
		if got := a.minus(b); !slices.Equal(got, want) {
			t.Fatalf("%v minus %v is %v, want %v", a, b, got, want)
		}
		var count uint64
		for i, in := range inA {
			if in {
				count++
			}
			if i > 0 && in != (len(runs{{uint64(i), uint64(i)}}.minus(a)) == 0) {
				t.Fatalf("%v: %d is %v", a, i, in)
			}
		}
		if a.count() != count {
			t.Fatalf("%v has %d, want %d", a, a.count(), count)
		}
		for i := 1; i < len(a); i++ {
			if a[i].first <= a[i-1].last+1 {
				t.Fatalf("%v is not in order", a)
			}
		}
	}
	var high runs
	high.add(1<<64-2, 1<<64-1)
	high.add(1, 1)
	if got := high.String(); got != "1, 18446744073709551614 to 18446744073709551615" {
		t.Error(got)
	}
}
