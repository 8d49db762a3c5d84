package subject

import (
	"iter"
	"sync/atomic"
)

// scanChunk is how many places of a table are looked at under one hold of its lock: tens of microseconds.
const scanChunk = 512

// Item is one value with what it was inserted under.
type Item[T comparable] struct {
	Pattern, Queue string
	Value          T
}

// All walks over everything, in no particular order. It yields what is there throughout the walk exactly once, and
// what comes or goes meanwhile at most once. The caller may change the Trie as it walks. Cost: the size of the Trie.
func (t *Trie[T]) All() iter.Seq[Item[T]] {
	return t.scan(func(string) bool { return true })
}

// Overlapping walks over the values whose patterns could match a subject that the given pattern matches too, as All does.
// It looks at every pattern of the Trie: HasOverlap and Covers are the ones for every day.
func (t *Trie[T]) Overlapping(pattern string) iter.Seq[Item[T]] {
	return t.scan(func(p string) bool { return overlap(p, pattern) })
}

// CoveredBy walks over the values whose patterns match only what the given pattern matches too, at the same cost.
func (t *Trie[T]) CoveredBy(pattern string) iter.Seq[Item[T]] {
	return t.scan(func(p string) bool { return isSubset(p, pattern) })
}

// HasOverlap reports whether there is any value that Overlapping would yield.
func (t *Trie[T]) HasOverlap(pattern string) bool {
	if !wellFormed(pattern) {
		return false
	}
	if !hasWildcard(pattern) {
		to, ok := routeOf(pattern)
		return ok && t.match(pattern, to, nil)
	}
	for range t.Overlapping(pattern) {
		return true
	}
	return false
}

// Covers reports whether a single pattern of the Trie matches everything that the given pattern matches. It costs as
// much as a look-up.
func (t *Trie[T]) Covers(pattern string) bool {
	p, err := t.placeOf(pattern)
	if err != nil {
		return false
	}
	if !p.wild {
		to, ok := routeOf(pattern)
		return ok && t.match(pattern, to, nil)
	}
	if coversIn(t.wildcards[len(t.wildcards)-1].Load(), rootNone, pattern, tokenEnd(pattern)) {
		return true
	}
	// A pattern that covers this one begins with no more literal tokens than it does.
	if p.root >= rootOne && coversIn(t.wildcards[t.shardOf(hashOf(pattern[:p.one]))].Load(), rootOne, pattern, p.one) {
		return true
	}
	return p.root >= rootTwo && coversIn(t.wildcards[p.shard].Load(), rootTwo, pattern, p.two)
}

func coversIn[T comparable](s *shard[wildcards[T]], root uint32, pattern string, first int) bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.covers(root, pattern, first)
}

func (t *Trie[T]) scan(want func(pattern string) bool) iter.Seq[Item[T]] {
	return func(yield func(Item[T]) bool) {
		for i := range t.literals {
			if !scanShard(&t.literals[i], (*literals[T]).scan, want, yield) {
				return
			}
		}
		for i := range t.wildcards {
			if !scanShard(&t.wildcards[i], (*wildcards[T]).scan, want, yield) {
				return
			}
		}
	}
}

// scanShard yields what is wanted of one shard, and reports whether to go on. It copies a chunk at a time, so that the
// lock is held neither for long nor while the caller works.
func scanShard[T comparable, Table any](
	p *atomic.Pointer[shard[Table]],
	scan func(table *Table, at, n int, fn func(string, *values[T])) int,
	want func(string) bool,
	yield func(Item[T]) bool,
) bool {
	s := p.Load()
	if s == nil || s.count.Load() == 0 {
		return true
	}
	s.mu.Lock()
	s.scanners++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.scanners--
		s.mu.Unlock()
	}()
	var items []Item[T]
	for at := 0; ; {
		items = items[:0]
		s.mu.RLock()
		at = scan(&s.table, at, scanChunk, func(pattern string, vs *values[T]) {
			if want(pattern) {
				vs.each(func(queue string, v T) {
					items = append(items, Item[T]{Pattern: pattern, Queue: queue, Value: v})
				})
			}
		})
		s.mu.RUnlock()
		for _, item := range items {
			if !yield(item) {
				return false
			}
		}
		if at == 0 {
			return true
		}
	}
}
