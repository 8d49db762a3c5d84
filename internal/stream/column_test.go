package stream

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestColumn packs lists of every kind, several after another, and reads them back.
func TestColumn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		var words []uint64
		var packs []column
		var lists [][]uint64
		for range 3 {
			list := make([]uint64, 1+rng.IntN(blockMessages))
			v, step, spread := rng.Uint64()>>rng.IntN(64), rng.Uint64()>>rng.IntN(64), uint64(1)<<rng.IntN(64)
			ascends := true
			for i := range list {
				if next := v + rng.Uint64N(spread); round%2 == 0 {
					list[i] = next
				} else {
					list[i] = v
				}
				v += step
				ascends = ascends && (i == 0 || list[i] >= list[i-1])
			}
			var c column
			c, words = packColumn(words, list)
			packs, lists = append(packs, c), append(lists, list)
			if !ascends {
				continue
			}
			for _, want := range []uint64{0, math.MaxUint64, list[0], list[len(list)-1] + 1, list[rng.IntN(len(list))], list[0] + rng.Uint64N(spread)} {
				i, _ := slices.BinarySearch(list, want)
				if got := c.search(words, len(list), want); got != i {
					t.Fatalf("search %d in %v gives %d, want %d", want, list, got, i)
				}
			}
		}
		for k, list := range lists {
			for i, want := range list {
				if got := packs[k].at(words, i); got != want {
					t.Fatalf("%v: number %d is %d, want %d", list, i, got, want)
				}
			}
		}
	}
}

// TestColumnWidth: what is regular takes no bits, and what is nearly so takes few.
func TestColumnWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		number func(i int) uint64
		most   int
	}{
		"constant":           {func(int) uint64 { return 1 << 60 }, 0},
		"sequences":          {func(i int) uint64 { return 1<<40 + uint64(i) }, 0},
		"every third":        {func(i int) uint64 { return 1<<40 + 3*uint64(i) }, 0},
		"times a second off": {func(i int) uint64 { return 1<<60 + uint64(i)*1e12 + rng.Uint64N(1e9) }, 31},
		"small sizes":        {func(int) uint64 { return 100 + rng.Uint64N(100) }, 7},
	} {
		list := make([]uint64, 512)
		for i := range list {
			list[i] = c.number(i)
		}
		if packed, _ := packColumn(nil, list); int(packed.width) > c.most {
			t.Errorf("%s takes %d bits, want at most %d", name, packed.width, c.most)
		}
	}
}

func TestAbsent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + rng.IntN(300)
		var a absent
		there := make([]bool, n)
		for i := range there {
			there[i] = true
		}
		for range rng.IntN(2 * n) {
			i := rng.IntN(n)
			a.set(i, n)
			there[i] = false
		}
		for i := range n + 1 {
			next, gone := i, 0
			for next < n && !there[next] {
				next++
			}
			for k := i; k < n; k++ {
				if !there[k] {
					gone++
				}
			}
			previous := i - 1
			for previous >= 0 && !there[previous] {
				previous--
			}
			if a.next(i, n) != next || a.previous(i-1) != previous || a.count(i, n) != gone || i < n && a.has(i) == there[i] {
				t.Fatalf("at %d of %v: next %d, previous %d, %d gone; want %d, %d, %d", i, there, a.next(i, n), a.previous(i-1), a.count(i, n), next, previous, gone)
			}
		}
	}
}

func TestTally(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		var got tally
		var want []int
		for step := range 6000 {
			switch n := rng.IntN(10); {
			case n < 5 && step < 3000 || len(want) == 0:
				v := rng.IntN(512)
				got.push(v)
				want = append(want, v)
			case n < 8:
				i := rng.IntN(len(want))
				if rng.IntN(2) == 0 {
					i = 0
				}
				got.delete(i)
				want = slices.Delete(want, i, i+1)
			default:
				i, v := rng.IntN(len(want)), rng.IntN(100)
				got.add(i, v)
				want[i] += v
			}
			sum, at := uint64(0), rng.IntN(len(want)+1)
			for _, v := range want[:at] {
				sum += uint64(v)
			}
			if n := got.before(at); n != sum {
				t.Fatalf("step %d: %d before %d of %d, want %d", step, n, at, len(want), sum)
			}
		}
	}
}
