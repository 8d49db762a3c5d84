package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/sluicemq/sluice/internal/subject"
)

// TestNames adds and removes thousands of subjects in random order: the hash index grows, moves and shrinks, and the
// tree keeps the order of bytes.
func TestNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table names
	table.init()
	ids := map[string]subjectID{}
	var order []string
	add := func() {
		text := fmt.Sprintf("%s.%d", randomSubject(rng), rng.IntN(100_000))
		id, added := table.intern([]byte(text))
		if old, ok := ids[text]; ok == added || ok && old != id {
			t.Fatalf("intern %s gives %d, %t; it was %d, %t", text, id, added, old, ok)
		}
		if added {
			ids[text] = id
			order = append(order, text)
		}
	}
	remove := func() {
		i := rng.IntN(len(order))
		text := order[i]
		order[i] = order[len(order)-1]
		order = order[:len(order)-1]
		table.drop(ids[text])
		delete(ids, text)
		if id := table.find([]byte(text)); id != 0 {
			t.Fatalf("%s is still there", text)
		}
	}
	for phase, share := range []int{90, 50, 10, 70, 5} {
		for range 6000 {
			if rng.IntN(100) < share || len(order) == 0 {
				add()
			} else {
				remove()
			}
		}
		for text, id := range ids {
			if got := table.find([]byte(text)); got != id || string(table.text(id)) != text {
				t.Fatalf("phase %d: %s is %d, want %d", phase, text, got, id)
			}
		}
		var walked []string
		table.tree.walk(func(id subjectID) int {
			walked = append(walked, string(table.text(id)))
			return walkOn
		})
		sorted := slices.Clone(order)
		sort.Strings(sorted)
		if !slices.Equal(walked, sorted) {
			t.Fatalf("phase %d: the tree has %d subjects, want %d, or another order", phase, len(walked), len(sorted))
		}
		if table.count != len(order) {
			t.Fatalf("count is %d, want %d", table.count, len(order))
		}
	}
}

// TestWalkSkips: a wildcard looks at few of the subjects that it does not match.
func TestWalkSkips(t *testing.T) {
	var table names
	table.init()
	for i := range 10_000 {
		table.intern(fmt.Appendf(nil, "orders.%d.created", i))
		table.intern(fmt.Appendf(nil, "events.%d.seen.by.%d", i, i%7))
	}
	table.intern([]byte("orders.77.paid"))
	for _, c := range []struct {
		pattern       string
		matches, most int
	}{
		{"orders.77.*", 2, 40},
		{"orders.77.>", 2, 40},
		{"orders.*.paid", 1, 10_100},
		{"events.5.seen.by.*", 1, 40},
		{"none.>", 0, 10},
		{"orders", 0, 10},
		{"*.77.paid", 1, 100},
	} {
		matches, looked := 0, 0
		table.tree.walk(func(id subjectID) int {
			looked++
			at := matchFrom([]byte(c.pattern), table.text(id))
			if at == matched {
				matches++
			}
			return at
		})
		if matches != c.matches || looked > c.most {
			t.Errorf("%s: %d matches and %d looked at, want %d and at most %d", c.pattern, matches, looked, c.matches, c.most)
		}
	}
}

// FuzzMatch compares the matcher of this package, which also tells what to skip, with the one of package subject.
func FuzzMatch(f *testing.F) {
	for _, c := range [][3]string{
		{"a.*.c", "a.b.c", "a.b.d"}, {"a.>", "a", "a.b"}, {"*", "a", "a.b"}, {"a*.b", "a*.b", "ab.b"}, {">", "x", "y.z"},
		{"a.b", "a.bc", "a.b.c"}, {"*.*", "a.", ".b"},
	} {
		f.Add(c[0], c[1], c[2])
	}
	f.Fuzz(func(t *testing.T, pattern, a, b string) {
		if !subject.ValidPattern(pattern) || !subject.ValidPattern(a) || !subject.ValidPattern(b) {
			t.Skip()
		}
		at := matchFrom([]byte(pattern), []byte(a))
		if (at == matched) != subject.Match(a, pattern) {
			t.Fatalf("%q matches %q: %d", pattern, a, at)
		}
		if at >= 0 && at < len(a) && at < len(b) && a[:at+1] == b[:at+1] && subject.Match(b, pattern) {
			t.Fatalf("%q does not match %q because of byte %d, but %q", pattern, a, at, b)
		}
	})
}
