package stream

import "slices"

// tallyGroup is how many counts one sum covers.
const tallyGroup = 256

// tally is a list of counts whose sum behind any position is found by adding a few hundred numbers, however long it is.
type tally struct {
	counts  []uint32
	sums    []uint64 // of the groups; the first lacks its first skipped counts
	skipped int
}

func (t *tally) group(i int) int { return int(uint(i+t.skipped) / tallyGroup) }

func (t *tally) push(n int) {
	if g := t.group(len(t.counts)); g == len(t.sums) {
		t.sums = append(t.sums, 0)
	}
	t.sums[len(t.sums)-1] += uint64(n)
	t.counts = append(t.counts, uint32(n))
}

func (t *tally) add(i, n int) {
	t.sums[t.group(i)] += uint64(n)
	t.counts[i] += uint32(n)
}

// delete takes a count out. At the front it is cheap.
func (t *tally) delete(i int) {
	if i == 0 {
		t.sums[0] -= uint64(t.counts[0])
		t.counts = t.counts[1:]
		if t.skipped++; t.skipped == tallyGroup {
			t.sums, t.skipped = t.sums[1:], 0
		}
		return
	}
	t.counts = slices.Delete(t.counts, i, i+1)
	g := t.group(i)
	t.sums = t.sums[:g]
	for k := max(g*tallyGroup-t.skipped, 0); k < len(t.counts); k++ {
		if t.group(k) == len(t.sums) {
			t.sums = append(t.sums, 0)
		}
		t.sums[t.group(k)] += uint64(t.counts[k])
	}
}

// before adds up the counts in front of a position.
func (t *tally) before(i int) (n uint64) {
	g := t.group(i)
	for _, sum := range t.sums[:g] {
		n += sum
	}
	for k := max(g*tallyGroup-t.skipped, 0); k < i; k++ {
		n += uint64(t.counts[k])
	}
	return n
}
