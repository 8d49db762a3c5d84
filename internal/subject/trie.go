package subject

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// ErrInvalid is the error for patterns that [ValidPattern] refuses.
var ErrInvalid = errors.New("subject: invalid subject")

// Trie is the subscription index of an account: it holds values under patterns, each value plain or in a queue group,
// and tells which of them a subject reaches.
//
// # How it is laid out
//
// Patterns without wildcards lie in hash tables, all others in tries over tokens (see wildcards). Both are split into
// shards by hash, each with a lock of its own: a literal by its whole text, a pattern with a wildcard by the literal
// tokens that it begins with, at most two; those that begin with a wildcard share one shard. A look-up therefore
// visits at most four shards, and those that hold nothing cost no lock. A shard is made when it is first needed.
//
// # Concurrency
//
// All methods may be called at any time from any goroutine. Readers hold a shard's read lock for the look-up in that
// shard only, writers its write lock for one change. No lock is held while the caller's code runs, nor two at once. A
// Match sees every Insert and Remove that returned before it began; of those that run beside it, it may see some and not others.
//
// Above it, a publisher is expected to keep results, and to ask a [Stamp] whether they still hold.
//
// # Memory
//
// Beside the values themselves, a pattern with one plain value costs about 55 bytes where it is literal and 85 where it
// has wildcards; a further value of a pattern about 10 bytes, or 50 where there are more than 64; a queue group about 120. An
// empty Trie takes 6 KB with 64 shards, and 300 bytes with one. The bytes of patterns are not copied: see Insert. Tables
// grow and shrink shard by shard, so that no single change takes long.
type Trie[T comparable] struct {
	shardBits   uint
	literals    []atomic.Pointer[shard[literals[T]]]
	wildcards   []atomic.Pointer[shard[wildcards[T]]] // the last one is for patterns that begin with a wildcard
	generations *generations
}

// shard is a table and its lock.
type shard[Table any] struct {
	mu       sync.RWMutex
	table    Table
	scanners int          // scans under way: nothing may move
	count    atomic.Int64 // values in the table; written under mu
}

// TrieOptions are the choices for a Trie.
type TrieOptions struct {
	// Shards is how many parts may be written at the same time; it is rounded up to a power of two, at most 1024.
	// 0 means 64. A Trie that is small, or that is written once, does with 1.
	Shards int
}

const (
	defaultShards       = 64
	maxShards           = 1024
	generationsPerShard = 8
)

func (o *TrieOptions) setDefaults() {
	if o.Shards <= 0 {
		o.Shards = defaultShards
	}
	o.Shards = 1 << bits.Len(uint(min(o.Shards, maxShards)-1))
}

// NewTrie makes an empty Trie.
func NewTrie[T comparable](opts TrieOptions) *Trie[T] {
	opts.setDefaults()
	return &Trie[T]{
		shardBits:   uint(bits.TrailingZeros(uint(opts.Shards))),
		literals:    make([]atomic.Pointer[shard[literals[T]]], opts.Shards),
		wildcards:   make([]atomic.Pointer[shard[wildcards[T]]], opts.Shards+1),
		generations: newGenerations(opts.Shards * generationsPerShard),
	}
}

// shardOf takes the highest bits of a hash: the tables use the lower ones.
func (t *Trie[T]) shardOf(hash uint64) int { return int(hash >> 1 >> (63 - t.shardBits)) }

// place is where a pattern belongs.
type place struct {
	shape
	hash       uint64 // of the literal, or of the literal tokens that it begins with
	shard      int
	generation uint16
}

func (t *Trie[T]) placeOf(pattern string) (p place, err error) {
	var ok bool
	if p.shape, ok = shapeOfPattern(pattern); !ok {
		return p, fmt.Errorf("%w: %q", ErrInvalid, pattern)
	}
	switch {
	case !p.wild:
		p.hash = hashOf(pattern)
		p.generation = t.generations.literal(p.hash)
	case p.root == rootNone:
		p.shard, p.generation = len(t.wildcards)-1, t.generations.atRoot()
		return p, nil
	default:
		p.hash = hashOf(pattern[:p.step])
		p.generation = t.generations.prefix(p.hash)
	}
	p.shard = t.shardOf(p.hash)
	return p, nil
}

// Insert adds a value under a pattern; queue is its queue group, or empty. The same value counts once for a pattern
// and queue, however often it is inserted. first tells that pattern and queue had no value before.
//
// The Trie keeps both strings: give it ones that do not hang on to a larger buffer, best those that the value itself
// refers to. The error wraps [ErrInvalid].
func (t *Trie[T]) Insert(pattern, queue string, v T) (first bool, err error) {
	p, err := t.placeOf(pattern)
	if err != nil {
		return false, err
	}
	var added bool
	if p.wild {
		s := made(&t.wildcards[p.shard])
		s.mu.Lock()
		defer s.mu.Unlock()
		added, first = s.table.insert(p.root, pattern, p.step, queue, v)
		t.changed(added, 1, &s.count, p)
		return first, nil
	}
	s := made(&t.literals[p.shard])
	s.mu.Lock()
	defer s.mu.Unlock()
	added, first = s.table.insert(p.hash, pattern, queue, v)
	t.changed(added, 1, &s.count, p)
	return first, nil
}

// Remove takes out what Insert added. removed is false where there is no such value; last tells that pattern and
// queue have no value any more.
func (t *Trie[T]) Remove(pattern, queue string, v T) (removed, last bool) {
	p, err := t.placeOf(pattern)
	if err != nil {
		return false, false
	}
	if p.wild {
		s := t.wildcards[p.shard].Load()
		if s == nil {
			return false, false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if removed, last = s.table.remove(p.root, pattern, p.step, queue, v); s.scanners == 0 {
			s.table.shrink()
		}
		t.changed(removed, -1, &s.count, p)
		return removed, last
	}
	s := t.literals[p.shard].Load()
	if s == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if removed, last = s.table.remove(p.hash, pattern, queue, v); s.scanners == 0 {
		s.table.shrink()
	}
	t.changed(removed, -1, &s.count, p)
	return removed, last
}

// changed counts a change that was made; the shard's lock is held.
func (t *Trie[T]) changed(really bool, delta int64, count *atomic.Int64, p place) {
	if !really {
		return
	}
	count.Add(delta)
	// After the change, so that whoever sees the new number sees the change too.
	t.generations.counters[p.generation].Add(1)
}

// made gives the shard, which the first to need it makes.
func made[Table any](p *atomic.Pointer[shard[Table]]) *shard[Table] {
	if s := p.Load(); s != nil {
		return s
	}
	p.CompareAndSwap(nil, new(shard[Table]))
	return p.Load()
}

// Count is how many values there are. It asks every shard, but takes no lock.
func (t *Trie[T]) Count() (n int) {
	for i := range t.literals {
		n += t.literals[i].Load().values()
	}
	for i := range t.wildcards {
		n += t.wildcards[i].Load().values()
	}
	return n
}

func (s *shard[Table]) values() int {
	if s == nil {
		return 0
	}
	return int(s.count.Load())
}

// route is where the patterns may lie that match a subject.
type route struct {
	shape
	literal, first, second uint64 // hashes: of the subject, of its first token, of its first two
}

func routeOf(subject string) (r route, ok bool) {
	if r.shape, ok = shapeOfSubject(subject); !ok {
		return r, false
	}
	r.literal = hashOf(subject)
	if r.one > 0 {
		r.first = hashOf(subject[:r.one])
	}
	if r.two > 0 {
		r.second = hashOf(subject[:r.two])
	}
	return r, true
}

// Match finds all values that the subject reaches. It clears r and fills it; the values of a queue group come together,
// whichever pattern each of them stands under. A subject with empty tokens reaches nobody, and wildcards in it count
// as ordinary tokens. It keeps nothing of the subject, and does not allocate once r is large enough.
func (t *Trie[T]) Match(subject []byte, r *Result[T]) {
	r.Reset()
	if to, ok := routeOf(view(subject)); ok {
		t.match(view(subject), to, r)
	}
}

// MatchStamped is Match for those who keep the result: it is right for as long as the stamp holds.
func (t *Trie[T]) MatchStamped(subject []byte, r *Result[T]) Stamp {
	r.Reset()
	to, ok := routeOf(view(subject))
	// Before the look-up: a change in between then makes the result look old, where it could only look new otherwise.
	stamp := t.stamp(to)
	if ok {
		t.match(view(subject), to, r)
	}
	return stamp
}

// HasInterest reports whether the subject reaches anybody.
func (t *Trie[T]) HasInterest(subject []byte) bool {
	to, ok := routeOf(view(subject))
	return ok && t.match(view(subject), to, nil)
}

// Generation is a number that changes whenever somebody subscribes or unsubscribes who could matter to the subject,
// and at times when it was somebody else. A [Stamp] does the same at less cost.
func (t *Trie[T]) Generation(subject []byte) uint64 {
	to, _ := routeOf(view(subject))
	stamp := t.stamp(to)
	return stamp.sum
}

func (t *Trie[T]) stamp(to route) Stamp {
	g := t.generations
	s := Stamp{of: g, literal: g.literal(to.literal), one: g.never(), two: g.never()}
	if to.one > 0 {
		s.one = g.prefix(to.first)
	}
	if to.two > 0 {
		s.two = g.prefix(to.second)
	}
	s.sum = s.now()
	return s
}

// match adds to r what a subject without empty tokens reaches; with r nil it stops at the first.
func (t *Trie[T]) match(subject string, to route, r *Result[T]) (found bool) {
	if s := t.literals[t.shardOf(to.literal)].Load(); s != nil && s.count.Load() > 0 {
		s.mu.RLock()
		if at := s.table.find(to.literal, subject); at != 0 {
			found = true
			if r != nil {
				s.table.entries[at].values.addTo(r)
			}
		}
		s.mu.RUnlock()
	}
	if found && r == nil {
		return true
	}
	if s := t.wildcards[len(t.wildcards)-1].Load(); s != nil {
		found = matchIn(s, rootNone, subject, tokenEnd(subject), r) || found
	}
	if to.one > 0 {
		if s := t.wildcards[t.shardOf(to.first)].Load(); s != nil {
			found = matchIn(s, rootOne, subject, to.one, r) || found
		}
	}
	if to.two > 0 {
		if s := t.wildcards[t.shardOf(to.second)].Load(); s != nil {
			found = matchIn(s, rootTwo, subject, to.two, r) || found
		}
	}
	return found
}

func matchIn[T comparable](s *shard[wildcards[T]], root uint32, subject string, first int, r *Result[T]) (found bool) {
	if s.count.Load() == 0 {
		return false
	}
	s.mu.RLock()
	found = s.table.match(root, subject, first, r)
	s.mu.RUnlock()
	return found
}
