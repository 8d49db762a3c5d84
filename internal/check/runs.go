package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// run is a run of sequences, both ends included.
type run struct{ first, last uint64 }

// runs is a set of sequences: ascending, disjoint and not adjacent. It takes 16 bytes a run, so a stream that lost
// nothing to deletes takes one, whatever its length.
type runs []run

// add puts the sequences first to last in.
func (r *runs) add(first, last uint64) {
	s := *r
	if n := len(s); n == 0 || s[n-1].last < first && s[n-1].last+1 < first {
		*r = append(s, run{first, last})
		return
	}
	i := sort.Search(len(s), func(i int) bool { return s[i].last >= first || s[i].last+1 == first })
	j := i
	for j < len(s) && (s[j].first <= last || s[j].first-1 == last) {
		first, last = min(first, s[j].first), max(last, s[j].last)
		j++
	}
	*r = slices.Replace(s, i, j, run{first, last})
}

// minus gives what is not in o.
func (r runs) minus(o runs) (left runs) {
	i := 0
	for _, x := range r {
		for i < len(o) && o[i].last < x.first {
			i++
		}
		at, done := x.first, false
		for j := i; j < len(o) && o[j].first <= x.last; j++ {
			if o[j].first > at {
				left = append(left, run{at, o[j].first - 1})
			}
			if o[j].last >= x.last {
				done = true
				break
			}
			at = max(at, o[j].last+1)
		}
		if !done {
			left = append(left, run{at, x.last})
		}
	}
	return left
}

// count is the number of sequences.
func (r runs) count() (n uint64) {
	for _, x := range r {
		n += x.last - x.first + 1
	}
	return n
}

// namedRuns is how many runs a text names.
const namedRuns = 8

// String names the first runs.
func (r runs) String() string {
	var b strings.Builder
	for i, x := range r {
		if i == namedRuns {
			fmt.Fprintf(&b, " and %d further runs", len(r)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if fmt.Fprintf(&b, "%d", x.first); x.last > x.first {
			fmt.Fprintf(&b, " to %d", x.last)
		}
	}
	return b.String()
}
