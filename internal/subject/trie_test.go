package subject

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// model is the naive Trie: a list.
type model []Item[int]

func (m model) match(subject string) (items []Item[int]) {
	for _, it := range m {
		if naiveFilled(subject) && naiveMatch(naiveTokens(subject), naiveTokens(it.Pattern)) {
			items = append(items, it)
		}
	}
	return items
}

func (m model) group(pattern, queue string) (n int) {
	for _, it := range m {
		if it.Pattern == pattern && it.Queue == queue {
			n++
		}
	}
	return n
}

// flat lists a result as items without patterns.
func flat(r *Result[int]) (items []Item[int]) {
	for _, v := range r.Plain {
		items = append(items, Item[int]{Value: v})
	}
	for _, g := range r.Queues {
		for _, v := range g.Members {
			items = append(items, Item[int]{Queue: g.Name, Value: v})
		}
	}
	return items
}

func sorted(items []Item[int], patterns bool) []Item[int] {
	out := slices.Clone(items)
	for i := range out {
		if !patterns {
			out[i].Pattern = ""
		}
	}
	slices.SortFunc(out, func(a, b Item[int]) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Queue, b.Queue), a.Value-b.Value)
	})
	return out
}

// randomSubject draws from a small alphabet, so that things meet.
func randomSubject(r *rand.Rand, wild bool) string {
	tokens := make([]string, 1+r.IntN(5))
	for i := range tokens {
		tokens[i] = []string{"a", "b", "ab", "*a"}[r.IntN(4)]
		if wild && r.IntN(3) == 0 {
			tokens[i] = "*"
		}
	}
	if wild && r.IntN(4) == 0 {
		tokens[len(tokens)-1] = ">"
	}
	return strings.Join(tokens, ".")
}

func TestTrieAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		trie := NewTrie[int](TrieOptions{Shards: []int{1, 2, 64}[seed%3]})
		var m model
		var result Result[int]
		// Phases of growth and of decline, so that tables fill, empty and pack.
		for step := range 1500 {
			grow := step/400%2 == 0
			if draw := r.IntN(10); grow && draw < 7 || !grow && draw < 2 {
				it := Item[int]{randomSubject(r, r.IntN(2) == 0), []string{"", "", "q1", "q2"}[r.IntN(4)], r.IntN(4)}
				had, group := slices.Contains(m, it), m.group(it.Pattern, it.Queue)
				first, err := trie.Insert(it.Pattern, it.Queue, it.Value)
				if err != nil || first != (group == 0) {
					t.Fatalf("seed %d: Insert(%v) = %v, %v", seed, it, first, err)
				}
				if !had {
					m = append(m, it)
				}
			} else if len(m) > 0 {
				i := r.IntN(len(m))
				it := m[i]
				if r.IntN(10) == 0 {
					it.Value = 9
				} else {
					m = slices.Delete(m, i, i+1)
				}
				removed, last := trie.Remove(it.Pattern, it.Queue, it.Value)
				if removed != (it.Value != 9) || removed && last != (m.group(it.Pattern, it.Queue) == 0) {
					t.Fatalf("seed %d: Remove(%v) = %v, %v", seed, it, removed, last)
				}
			}
			checkAgainstModel(t, seed, trie, m, randomSubject(r, r.IntN(8) == 0), &result)
		}
		if got := sorted(slices.Collect(trie.All()), true); !slices.Equal(got, sorted(m, true)) {
			t.Fatalf("seed %d: All: %v, want %v", seed, got, m)
		}
		checkPatterns(t, seed, trie, m, r)
		for _, it := range m {
			trie.Remove(it.Pattern, it.Queue, it.Value)
		}
		checkEmpty(t, trie)
	}
}

func checkAgainstModel(t *testing.T, seed uint64, trie *Trie[int], m model, subject string, result *Result[int]) {
	t.Helper()
	want := m.match(subject)
	stamp := trie.MatchStamped([]byte(subject), result)
	if got := sorted(flat(result), false); !slices.Equal(got, sorted(want, false)) {
		t.Fatalf("seed %d: Match(%q) = %v, want %v of %v", seed, subject, got, want, m)
	}
	for i, g := range result.Queues {
		if len(g.Members) == 0 || slices.ContainsFunc(result.Queues[:i], func(o Group[int]) bool { return o.Name == g.Name }) {
			t.Fatalf("seed %d: groups of %q: %v", seed, subject, result.Queues)
		}
	}
	if got := trie.HasInterest([]byte(subject)); got != (len(want) > 0) || got == result.Empty() {
		t.Fatalf("seed %d: HasInterest(%q) = %v", seed, subject, got)
	}
	if !stamp.Holds() || trie.Count() != len(m) {
		t.Fatalf("seed %d: stamp holds %v, count %d, want %d", seed, stamp.Holds(), trie.Count(), len(m))
	}
}

func checkPatterns(t *testing.T, seed uint64, trie *Trie[int], m model, r *rand.Rand) {
	t.Helper()
	for range 200 {
		p := randomSubject(r, true)
		var overlapping, covered []Item[int]
		covers := false
		for _, it := range m {
			if naiveOverlap(naiveTokens(it.Pattern), naiveTokens(p)) {
				overlapping = append(overlapping, it)
			}
			if naiveSubset(naiveTokens(it.Pattern), naiveTokens(p)) {
				covered = append(covered, it)
			}
			covers = covers || naiveSubset(naiveTokens(p), naiveTokens(it.Pattern))
		}
		if got := sorted(slices.Collect(trie.Overlapping(p)), true); !slices.Equal(got, sorted(overlapping, true)) {
			t.Fatalf("seed %d: Overlapping(%q) = %v, want %v", seed, p, got, overlapping)
		}
		if got := sorted(slices.Collect(trie.CoveredBy(p)), true); !slices.Equal(got, sorted(covered, true)) {
			t.Fatalf("seed %d: CoveredBy(%q) = %v, want %v", seed, p, got, covered)
		}
		if got := trie.HasOverlap(p); got != (len(overlapping) > 0) {
			t.Fatalf("seed %d: HasOverlap(%q) = %v", seed, p, got)
		}
		if got := trie.Covers(p); got != covers {
			t.Fatalf("seed %d: Covers(%q) = %v of %v", seed, p, got, m)
		}
	}
}

// checkEmpty looks for anything left behind in the tables.
func checkEmpty(t *testing.T, trie *Trie[int]) {
	t.Helper()
	if trie.Count() != 0 {
		t.Fatalf("count %d", trie.Count())
	}
	for i := range trie.literals {
		if s := trie.literals[i].Load(); s != nil && (s.table.live() != 0 || s.table.index.used != 0 || len(s.table.entries) > 2*shrinkFrom) {
			t.Fatalf("literals left: %d entries, %d free, %d slots used", len(s.table.entries), len(s.table.free), s.table.index.used)
		}
	}
	for i := range trie.wildcards {
		if s := trie.wildcards[i].Load(); s != nil && len(s.table.nodes) > 0 {
			if len(s.table.nodes)-len(s.table.free) != numRoots || s.table.edges.used != 0 || len(s.table.nodes) > 2*shrinkFrom {
				t.Fatalf("nodes left: %d, %d free, %d edges", len(s.table.nodes), len(s.table.free), s.table.edges.used)
			}
		}
	}
}

func TestTrieInvalid(t *testing.T) {
	trie := NewTrie[int](TrieOptions{})
	for _, p := range []string{"", ".", "a..b", "a.", ".a", "a.>.b", ">."} {
		if _, err := trie.Insert(p, "", 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("Insert(%q): %v", p, err)
		}
		if removed, last := trie.Remove(p, "", 1); removed || last {
			t.Errorf("Remove(%q) = %v, %v", p, removed, last)
		}
		if trie.Covers(p) || trie.HasOverlap(p) {
			t.Errorf("%q is covered or overlaps", p)
		}
	}
	if _, err := trie.Insert(">", "", 1); err != nil {
		t.Fatal(err)
	}
	var r Result[int]
	for _, s := range []string{"", ".", "a..b", "a.", ".a"} {
		if trie.Match([]byte(s), &r); !r.Empty() || trie.HasInterest([]byte(s)) {
			t.Errorf("%q reaches %v", s, r)
		}
	}
	if trie.Match([]byte("a.*.>"), &r); len(r.Plain) != 1 {
		t.Errorf("a subject with wildcards reaches %v", r)
	}
}

func TestTrieLongPatterns(t *testing.T) {
	trie := NewTrie[int](TrieOptions{Shards: 1})
	long := strings.Repeat("x.", 3000)
	patterns := []string{long + "y", long + "*", long + ">", strings.Repeat("*.", 3000) + "y", strings.Repeat("*.", 2999) + "x.y"}
	for i, p := range patterns {
		if _, err := trie.Insert(p, "", i); err != nil {
			t.Fatal(err)
		}
	}
	var r Result[int]
	if trie.Match([]byte(long+"y"), &r); len(r.Plain) != len(patterns) {
		t.Errorf("reached %v", r.Plain)
	}
	for i, p := range patterns {
		if removed, last := trie.Remove(p, "", i); !removed || !last {
			t.Errorf("pattern %d was not there", i)
		}
	}
	checkEmpty(t, trie)
}

// TestTrieFanOut: many values under one pattern come and go quickly, and the memory goes too.
func TestTrieFanOut(t *testing.T) {
	const n = 20_000
	trie := NewTrie[int](TrieOptions{})
	for i := range n {
		for _, queue := range []string{"", "workers"} {
			if _, err := trie.Insert("news.*", queue, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	var r Result[int]
	if trie.Match([]byte("news.today"), &r); len(r.Plain) != n || len(r.Queues) != 1 || len(r.Queues[0].Members) != n {
		t.Fatalf("reached %d plain, %d groups", len(r.Plain), len(r.Queues))
	}
	c := r.Clone()
	for i := range n {
		for _, queue := range []string{"", "workers"} {
			if removed, last := trie.Remove("news.*", queue, i); !removed || last != (i == n-1) {
				t.Fatalf("Remove %d: %v, %v", i, removed, last)
			}
		}
		if i == n-3 {
			if trie.Match([]byte("news.today"), &r); len(r.Plain) != 2 || len(r.Queues[0].Members) != 2 {
				t.Fatalf("reached %v", flat(&r))
			}
		}
	}
	if len(c.Plain) != n || len(c.Queues[0].Members) != n {
		t.Error("a clone changed")
	}
	checkEmpty(t, trie)
}

// TestStamp: what does not concern a subject leaves its stamp alone, all else does not.
func TestStamp(t *testing.T) {
	trie := NewTrie[int](TrieOptions{Shards: 1024})
	var r Result[int]
	subject := []byte("orders.eu.12345")
	var zero Stamp
	if zero.Holds() {
		t.Error("the zero stamp holds")
	}
	for _, p := range []string{"orders.eu.12345", "orders.eu.*", "orders.eu.>", "orders.*.12345", "orders.>", "*.eu.12345", ">"} {
		for _, change := range []func(){
			func() { trie.Insert(p, "", 1) },
			func() { trie.Remove(p, "", 1) },
		} {
			stamp, generation := trie.MatchStamped(subject, &r), trie.Generation(subject)
			if !stamp.Holds() || generation != trie.Generation(subject) {
				t.Fatalf("%q: the stamp does not hold", p)
			}
			if change(); stamp.Holds() || generation == trie.Generation(subject) {
				t.Errorf("%q: the stamp still holds", p)
			}
		}
	}
	stamp := trie.MatchStamped(subject, &r)
	trie.Remove("orders.eu.12345", "", 1)
	trie.Insert("orders.eu", "", 1)
	trie.Insert("orders.eu", "", 1)
	if !stamp.Holds() {
		t.Error("something that cannot match made the stamp old") // or two of a few hashes met in 8192 counters
	}
	stamps, flushed := make([]Stamp, 100), 0
	for i := range stamps {
		stamps[i] = trie.MatchStamped(fmt.Appendf(nil, "app%d.x.y", i), &r)
	}
	for i := range 50 {
		trie.Insert(fmt.Sprintf("_INBOX.%d.*", i), "", 1)
		trie.Insert(fmt.Sprintf("other.%d", i), "", 1)
	}
	for i := range stamps {
		if !stamps[i].Holds() {
			flushed++
		}
	}
	// Each of 100 stamps with 3 counters of 8192 meets one of 100 changes with a chance of about 4 %.
	if flushed > 30 {
		t.Errorf("churn elsewhere made %d of 100 stamps old", flushed)
	}
}

// TestTrieConcurrent: every writer's own patterns are right at any time, whatever the others do, a held stamp
// never hides a change, and a walk sees what stays.
func TestTrieConcurrent(t *testing.T) {
	const writers, steps = 4, 3000
	trie := NewTrie[int](TrieOptions{Shards: 4})
	stay := map[string]bool{}
	for i := range 300 {
		p := []string{fmt.Sprintf("stay.x%d", i), fmt.Sprintf("stay.x%d.*.y", i), fmt.Sprintf("*.stay%d", i)}[i%3]
		stay[p] = true
		trie.Insert(p, "", -1)
	}
	var done atomic.Bool
	var wg, walkers sync.WaitGroup
	walkers.Go(func() {
		for !done.Load() {
			seen := map[string]int{}
			for it := range trie.All() {
				seen[it.Pattern]++
			}
			for p := range stay {
				if seen[p] != 1 {
					t.Errorf("a walk met %q %d times", p, seen[p])
					return
				}
			}
		}
	})
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			var result Result[int]
			mine := map[string]bool{}
			for range steps {
				subject := fmt.Sprintf("%s.w%d.%d", []string{"stay", "a"}[r.IntN(2)], w, r.IntN(40))
				pattern := subject
				if r.IntN(2) == 0 {
					pattern = subject + ".>"
					subject += ".z"
				}
				stamp := trie.MatchStamped([]byte(subject), &result)
				if got := slices.Contains(result.Plain, w); got != mine[pattern] {
					t.Errorf("%q reached: %v, want %v", subject, got, mine[pattern])
					return
				}
				if mine[pattern] {
					trie.Remove(pattern, "", w)
				} else {
					trie.Insert(pattern, "", w)
				}
				mine[pattern] = !mine[pattern]
				if stamp.Holds() || trie.HasInterest([]byte(subject)) != mine[pattern] {
					t.Errorf("%q: the stamp holds: %v", subject, stamp.Holds())
					return
				}
			}
		})
	}
	wg.Wait()
	done.Store(true)
	walkers.Wait()
}

// TestScanKeepsStill: a walk in the midst of which everything else goes meets what stays once.
func TestScanKeepsStill(t *testing.T) {
	for _, forms := range [][2]string{{"k.%d", "k.%d.more.*"}, {"k.%d.*", "k.%d.*.more.*"}, {"*.%d.b.>", "*.%d.b.more.>"}} {
		form := forms[0]
		trie := NewTrie[int](TrieOptions{Shards: 1})
		for i := range 4000 {
			trie.Insert(fmt.Sprintf(form, i), "", i)
		}
		seen, started := map[int]int{}, false
		for it := range trie.All() {
			seen[it.Value]++
			if !started {
				started = true
				for i := range 4000 {
					if i%100 != 0 {
						trie.Remove(fmt.Sprintf(form, i), "", i)
					} else {
						trie.Insert(fmt.Sprintf(forms[1], i), "", 10_000+i) // splits nodes
					}
				}
			}
		}
		for i := 0; i < 4000; i += 100 {
			if seen[i] != 1 {
				t.Errorf("%s: %d was met %d times", form, i, seen[i])
			}
		}
		if trie.Count() != 80 {
			t.Errorf("%s: count %d", form, trie.Count())
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	trie := NewTrie[int](TrieOptions{})
	for i, p := range []string{"a.b.c", "a.b.*", "a.>", "*.b.c", ">"} {
		trie.Insert(p, "", i)
		trie.Insert(p, "q", i)
		trie.Insert(p, "r", i)
	}
	var r Result[int]
	subject := []byte("a.b.c")
	if got := testing.AllocsPerRun(100, func() {
		stamp := trie.MatchStamped(subject, &r)
		if len(r.Plain) != 5 || len(r.Queues) != 2 || !stamp.Holds() || !trie.HasInterest(subject) {
			t.Fatal("wrong answer")
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// FuzzTrie reads a script: a line is an operation (+ and - plain, q and d in a queue group, all else only looks)
// and a pattern.
func FuzzTrie(f *testing.F) {
	f.Add("+a.b\n+a.*\n+a.*.c\n-a.*\n?a.b.c")
	f.Add("+x.y.*\nqx.y.*\n+x.y.z.>\n-x.y.*\n+>\n+*\n?x\ndx.y.*")
	f.Fuzz(func(t *testing.T, script string) {
		trie := NewTrie[int](TrieOptions{Shards: 2})
		var m model
		var result Result[int]
		for i, line := range strings.Split(script, "\n") {
			if line == "" || i > 200 {
				continue
			}
			it := Item[int]{Pattern: line[1:]}
			if line[0] == 'q' || line[0] == 'd' {
				it.Queue = "q"
			}
			at := slices.Index(m, it)
			switch line[0] {
			case '-', 'd':
				if removed, _ := trie.Remove(it.Pattern, it.Queue, 0); removed != (at >= 0) {
					t.Fatalf("Remove(%v) = %v", it, removed)
				}
				if at >= 0 {
					m = slices.Delete(m, at, at+1)
				}
			case '+', 'q':
				_, err := trie.Insert(it.Pattern, it.Queue, 0)
				if (err == nil) != naiveValidPattern(it.Pattern) {
					t.Fatalf("Insert(%v): %v", it, err)
				}
				if err == nil && at < 0 {
					m = append(m, it)
				}
			}
			checkAgainstModel(t, 0, trie, m, it.Pattern, &result)
		}
		for len(m) > 0 {
			checkAgainstModel(t, 0, trie, m, m[0].Pattern, &result)
			trie.Remove(m[0].Pattern, m[0].Queue, 0)
			m = m[1:]
		}
		checkEmpty(t, trie)
	})
}
