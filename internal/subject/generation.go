package subject

import "sync/atomic"

// generations count the changes of a Trie, so that results kept above it can be told to be old.
//
// One counter for everything would let a single client that subscribes and unsubscribes flush every cache all the
// time. So a change counts in one counter only: that of the pattern's text where the pattern is literal; that of its
// first token, or of its first two, where a wildcard follows them; and in one for all patterns that begin with a
// wildcard. A subject depends on at most these four. All but the last are chosen by hash, so that strangers
// meet in a counter now and then, which costs a look-up and nothing else.
//
// Counters only grow, so the sum of four is unchanged exactly while each of them is.
type generations struct {
	counters []atomic.Uint64 // a power of two by hash, then atRoot, then one that stays 0
}

func newGenerations(hashed int) *generations {
	return &generations{counters: make([]atomic.Uint64, hashed+2)}
}

// literal and prefix take different bits, so that a literal does not meet what begins with it.
func (g *generations) literal(hash uint64) uint16 {
	return uint16(hash >> 32 & uint64(len(g.counters)-3))
}
func (g *generations) prefix(hash uint64) uint16 {
	return uint16(hash >> 16 & uint64(len(g.counters)-3))
}

func (g *generations) atRoot() uint16 { return uint16(len(g.counters) - 2) }
func (g *generations) never() uint16  { return uint16(len(g.counters) - 1) }

// Stamp tells whether a result of [Trie.Match] still holds: whether nobody has subscribed or unsubscribed since who
// could matter to its subject. The zero Stamp never holds. It may be copied, and it does not keep the Trie in memory.
type Stamp struct {
	of                *generations
	literal, one, two uint16
	sum               uint64
}

// Holds costs four atomic loads.
func (s *Stamp) Holds() bool { return s.of != nil && s.now() == s.sum }

func (s *Stamp) now() uint64 {
	c := s.of.counters
	return c[s.literal].Load() + c[s.one].Load() + c[s.two].Load() + c[len(c)-2].Load()
}
