package subject

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// subscription stands for what the broker keeps of one.
type subscription struct {
	pattern, queue string
	_              [8]uint64
}

func newSubscriptions(n int, format, queue string) []*subscription {
	subs := make([]*subscription, n)
	for i := range subs {
		subs[i] = &subscription{pattern: fmt.Sprintf(format, i), queue: queue}
	}
	return subs
}

func fill(b *testing.B, subs []*subscription) *Trie[*subscription] {
	b.Helper()
	trie := NewTrie[*subscription](TrieOptions{})
	for _, s := range subs {
		if _, err := trie.Insert(s.pattern, s.queue, s); err != nil {
			b.Fatal(err)
		}
	}
	return trie
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory reports what the index takes for a million subscriptions, beside the subscriptions.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for _, c := range []struct{ name, format, queue string }{
		{"literal", "foo.bar.%d", ""},
		{"literal-queue", "foo.bar.%d", "workers"},
		{"inbox", "_INBOX.pq7Zr4JfyvB9ZhzE%d.*", ""},
		{"wildcard", "foo.*.%d", ""},
		{"wildcard-queue", "foo.%d.>", "workers"},
	} {
		b.Run(c.name, func(b *testing.B) {
			subs := newSubscriptions(n, c.format, c.queue)
			before := heap()
			var trie *Trie[*subscription]
			for b.Loop() {
				trie = fill(b, subs)
			}
			b.ReportMetric(float64(heap()-before)/n, "B/sub")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/insert")
			runtime.KeepAlive(trie)
			runtime.KeepAlive(subs)
		})
	}
	b.Run("one-subject", func(b *testing.B) {
		subs := newSubscriptions(n, "foo.bar", "")
		before := heap()
		trie := fill(b, subs)
		for b.Loop() {
		}
		b.ReportMetric(float64(heap()-before)/n, "B/sub")
		runtime.KeepAlive(trie)
		runtime.KeepAlive(subs)
	})
	b.Run("empty", func(b *testing.B) {
		before := heap()
		tries := make([]*Trie[*subscription], 1000)
		for i := range tries {
			tries[i] = NewTrie[*subscription](TrieOptions{})
		}
		for b.Loop() {
		}
		b.ReportMetric(float64(heap()-before)/float64(len(tries)), "B/trie")
		runtime.KeepAlive(tries)
	})
}

// BenchmarkChurn is an Insert and a Remove beside a million live subscriptions.
func BenchmarkChurn(b *testing.B) {
	const n = 1_000_000
	for _, c := range []struct{ name, format string }{{"literal", "foo.bar.%d"}, {"wildcard", "foo.%d.*"}} {
		subs := newSubscriptions(n, c.format, "")
		trie := fill(b, subs)
		r := rand.New(rand.NewPCG(1, 1))
		order := make([]*subscription, 1<<17)
		for i := range order {
			order[i] = subs[r.IntN(n)]
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s := order[i%len(order)]
				trie.Remove(s.pattern, "", s)
				trie.Insert(s.pattern, "", s)
			}
		})
		// A client that subscribes to something new and drops it again: what requests with a subject of their own do.
		fresh := newSubscriptions(1<<17, strings.Replace(c.format, "%d", "f%d", 1), "")
		b.Run(c.name+"/fresh", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s, old := fresh[i%len(fresh)], fresh[(i+len(fresh)-1000)%len(fresh)]
				trie.Insert(s.pattern, "", s)
				trie.Remove(old.pattern, "", old)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(len(order)); pb.Next(); i++ {
					s := order[i%len(order)]
					trie.Remove(s.pattern, "", s)
					trie.Insert(s.pattern, "", s)
				}
			})
		})
	}
}

func benchmarkMatch(b *testing.B, trie *Trie[*subscription], subjects [][]byte, want int) {
	b.ReportAllocs()
	var r Result[*subscription]
	total := 0
	for i := 0; b.Loop(); i++ {
		trie.Match(subjects[i%len(subjects)], &r)
		total += len(r.Plain)
	}
	if got := float64(total) / float64(b.N); got < float64(want)-0.5 || got > float64(want)+0.5 {
		b.Errorf("%v matches, want %d", got, want)
	}
}

// BenchmarkMatchLiteral looks for one of many literals in random order, so that little of it is in the CPU's caches.
func BenchmarkMatchLiteral(b *testing.B) {
	for _, n := range []int{1, 100_000, 1_000_000} {
		subs := newSubscriptions(n, "foo.bar.%d", "")
		trie := fill(b, subs)
		r := rand.New(rand.NewPCG(1, 1))
		// The subjects lie side by side in the order of their use, as they do in a connection's read buffer.
		subjects, buffer := make([][]byte, 0, n), make([]byte, 0, 20*n)
		for _, i := range r.Perm(n) {
			start := len(buffer)
			buffer = append(buffer, subs[i].pattern...)
			subjects = append(subjects, buffer[start:])
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkMatch(b, trie, subjects, 1) })
		trie.Insert("_INBOX.abc.*", "", subs[0])
		trie.Insert("*.monitor", "", subs[0])
		b.Run(fmt.Sprint(n, "/wildcards-elsewhere"), func(b *testing.B) { benchmarkMatch(b, trie, subjects, 1) })
		b.Run(fmt.Sprint(n, "/parallel"), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				var r Result[*subscription]
				for i := rand.IntN(n); pb.Next(); i++ {
					trie.Match(subjects[i%n], &r)
				}
			})
		})
	}
}

// wildcardCase is 10,000 patterns of which ten match each of the subjects.
func wildcardCase() (patterns []string, subjects [][]byte) {
	for i := range 1000 {
		a, c := i/100, i%100
		for _, format := range []string{
			"app.%[1]d.%[2]d.>", "app.%[1]d.%[2]d.*.*", "app.%[1]d.*.x.>", "app.*.%[2]d.x.*", "*.%[1]d.%[2]d.>",
			"*.%[1]d.%[2]d.x.*", "app.%[1]d.%[2]d.x.*", "app.*.%[2]d.*.y", "*.*.%[2]d.x.y", "app.%[1]d.%[2]d.*.y",
		} {
			patterns = append(patterns, fmt.Sprintf(format, a, c))
		}
		subjects = append(subjects, fmt.Appendf(nil, "app.%d.%d.x.y", a, c))
	}
	return patterns, subjects
}

func BenchmarkMatchWildcards(b *testing.B) {
	var subs []*subscription
	var subjects [][]byte
	seen := map[string]bool{}
	patterns, subjects := wildcardCase()
	for _, p := range patterns {
		if !seen[p] {
			subs = append(subs, &subscription{pattern: p})
			seen[p] = true
		}
	}
	for i := len(subs); i < 10_000; i++ {
		subs = append(subs, &subscription{pattern: fmt.Sprintf("other.%d.*.x.>", i)})
	}
	trie := fill(b, subs)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
	b.Run("ten", func(b *testing.B) { benchmarkMatch(b, trie, subjects, 10) })
	inboxes := newSubscriptions(100_000, "_INBOX.pq7Zr4JfyvB9ZhzE%d.*", "")
	subjects = nil
	for i := range inboxes {
		trie.Insert(inboxes[i].pattern, "", inboxes[i])
		subjects = append(subjects, fmt.Appendf(nil, "_INBOX.pq7Zr4JfyvB9ZhzE%d.Xy7", i))
	}
	b.Run("inbox-of-100000", func(b *testing.B) { benchmarkMatch(b, trie, subjects, 1) })
}

func BenchmarkStamp(b *testing.B) {
	trie := fill(b, newSubscriptions(1000, "foo.bar.%d", ""))
	var r Result[*subscription]
	subject := []byte("foo.bar.12345")
	b.Run("holds", func(b *testing.B) {
		stamp := trie.MatchStamped(subject, &r)
		for b.Loop() {
			if !stamp.Holds() {
				b.Fatal("does not hold")
			}
		}
	})
	b.Run("generation", func(b *testing.B) {
		for b.Loop() {
			trie.Generation(subject)
		}
	})
	b.Run("match-nobody", func(b *testing.B) {
		for b.Loop() {
			trie.Match(subject, &r)
		}
	})
}

func BenchmarkRelations(b *testing.B) {
	subject, pattern := []byte("orders.eu.12345.shipped"), []byte("orders.*.12345.>")
	b.Run("valid", func(b *testing.B) {
		for b.Loop() {
			Valid(subject)
		}
	})
	b.Run("valid-publish", func(b *testing.B) {
		for b.Loop() {
			ValidPublish(subject)
		}
	})
	b.Run("match", func(b *testing.B) {
		for b.Loop() {
			Match(subject, pattern)
		}
	})
}
