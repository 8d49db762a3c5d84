package subject

import "strings"

// The roots of a wildcards table. A pattern hangs below the root for the number of literal tokens that it begins with;
// the first step from rootTwo takes two tokens at once.
const (
	rootNone = 0 // begins with a wildcard
	rootOne  = 1 // one literal token, then a wildcard
	rootTwo  = 2 // two or more literal tokens before the first wildcard
	numRoots = 3
)

// wildcards is a trie over the tokens of patterns that have wildcards.
//
// A pattern takes one node beyond what it shares with others: the remaining tokens of a pattern that shares no more
// stand in one node, its label, which is split when a second pattern comes along. Edges to literal children lie in one
// hash index for the whole table, keyed by parent and token, so that a node costs the same whether it has one child
// or a million.
type wildcards[T comparable] struct {
	edges hashIndex
	nodes []node[T]
	free  []uint32
}

// node is a step of the trie.
type node[T comparable] struct {
	// label is the text that leads here from the parent. It has further tokens only in a node without children. It is
	// empty in free nodes and roots. It shares memory with a pattern that was inserted.
	label    string
	values   values[T]
	parent   uint32
	star     uint32 // the child for "*", or 0
	tail     uint32 // the child for ">", or 0
	literals uint32 // how many other children there are
	holds    bool   // values has something
}

func (n *node[T]) prunable() bool {
	return !n.holds && n.star == 0 && n.tail == 0 && n.literals == 0
}

func edgeHash(parent uint32, token string) uint32 {
	const odd = 0x9E3779B97F4A7C15
	return uint32((hashOf(token) ^ uint64(parent)*odd) * odd >> 32)
}

// child follows a literal edge; 0 where there is none.
func (w *wildcards[T]) child(parent uint32, token string) uint32 {
	if w.edges.used == 0 {
		return 0
	}
	slots, h := w.edges.slots, edgeHash(parent, token)
	mask := uint32(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := slots[i]
		if s.ref == 0 {
			return 0
		}
		if s.hash == h {
			if n := &w.nodes[s.ref]; n.parent == parent && startsWith(n.label, token) {
				return s.ref
			}
		}
	}
}

// startsWith reports whether token is the beginning of label, at a token border.
func startsWith(label, token string) bool {
	return strings.HasPrefix(label, token) && (len(label) == len(token) || label[len(token)] == separator)
}

// step follows whichever edge a pattern's token names.
func (w *wildcards[T]) step(parent uint32, token string) uint32 {
	switch {
	case isStar(token):
		return w.nodes[parent].star
	case isTail(token):
		return w.nodes[parent].tail
	}
	return w.child(parent, token)
}

// match adds what reaches the rest of a subject from a node on, and reports whether there is anything; with r nil it
// stops at the first. The first step takes the given number of bytes, and rest is a subject without empty tokens.
func (w *wildcards[T]) match(at uint32, rest string, first int, r *Result[T]) (found bool) {
	for {
		n := &w.nodes[at]
		if n.tail != 0 {
			if found = true; r == nil {
				return true
			}
			w.nodes[n.tail].values.addTo(r)
		}
		if n.star != 0 && w.arrive(n.star, 1, rest, first, r) {
			if found = true; r == nil {
				return true
			}
		}
		if n.literals == 0 {
			return found
		}
		next := w.child(at, rest[:first])
		if next == 0 {
			return found
		}
		n = &w.nodes[next]
		if len(rest) == first || len(n.label) > first {
			return w.arrive(next, first, rest, first, r) || found
		}
		at, rest = next, rest[first+1:]
		first = tokenEnd(rest)
	}
}

// arrive is match at a node whose own token, the first labelled bytes of its label, has just taken the first bytes
// of rest.
func (w *wildcards[T]) arrive(at uint32, labelled int, rest string, first int, r *Result[T]) bool {
	n := &w.nodes[at]
	ended := len(rest) == first
	switch {
	case len(n.label) > labelled:
		if ended || !match(rest[first+1:], n.label[labelled+1:]) {
			return false
		}
	case !ended:
		rest = rest[first+1:]
		return w.match(at, rest, tokenEnd(rest), r)
	case !n.holds:
		return false
	}
	if r != nil {
		n.values.addTo(r)
	}
	return true
}

// insert adds v below a root; first is the length of the step from it.
func (w *wildcards[T]) insert(root uint32, pattern string, first int, group string, v T) (added, isFirst bool) {
	if len(w.nodes) == 0 {
		w.nodes = make([]node[T], numRoots, numRoots+1)
	}
	at, rest := root, pattern
	for {
		next := w.step(at, rest[:first])
		if next == 0 {
			leaf := node[T]{label: rest, values: newValues(group, v), holds: true, parent: at}
			w.link(w.place(leaf), first)
			return true, true
		}
		if label := w.nodes[next].label; len(label) > first && label != rest {
			w.split(next, first)
			next = w.step(at, rest[:first])
		}
		if n := &w.nodes[next]; n.label == rest {
			if n.holds {
				return n.values.add(group, v)
			}
			n.values, n.holds = newValues(group, v), true
			return true, true
		}
		at, rest = next, rest[first+1:]
		first = tokenEnd(rest)
	}
}

// split puts a node for the first token above one that has several, and leaves to that one the others. The values stay
// where they are, so that a scan under way neither misses them nor meets them twice.
func (w *wildcards[T]) split(at uint32, first int) {
	above := node[T]{label: w.nodes[at].label[:first], parent: w.nodes[at].parent}
	w.detach(at)
	middle := w.link(w.place(above), first)
	n := &w.nodes[at]
	n.label, n.parent = n.label[first+1:], middle
	w.link(at, tokenEnd(n.label))
}

// place finds room for a node.
func (w *wildcards[T]) place(n node[T]) (at uint32) {
	if k := len(w.free); k > 0 {
		at, w.free = w.free[k-1], w.free[:k-1]
		w.nodes[at] = n
		return at
	}
	w.nodes = append(w.nodes, n)
	return uint32(len(w.nodes) - 1)
}

// link gives a node its edge; first is the length of its own token.
func (w *wildcards[T]) link(at uint32, first int) uint32 {
	n := &w.nodes[at]
	parent, token := &w.nodes[n.parent], n.label[:first]
	switch {
	case isStar(token):
		parent.star = at
	case isTail(token):
		parent.tail = at
	default:
		parent.literals++
		w.edges.add(edgeHash(n.parent, token), at)
	}
	return at
}

// detach takes a node's edge away.
func (w *wildcards[T]) detach(at uint32) {
	n := &w.nodes[at]
	parent := &w.nodes[n.parent]
	switch at {
	case parent.star:
		parent.star = 0
	case parent.tail:
		parent.tail = 0
	default:
		parent.literals--
		w.edges.remove(edgeHash(n.parent, n.label[:w.ownToken(at)]), at)
	}
}

// ownToken is the length of the part of a node's label that its edge is known by.
func (w *wildcards[T]) ownToken(at uint32) int {
	n := &w.nodes[at]
	end := tokenEnd(n.label)
	if n.parent == rootTwo {
		end += 1 + tokenEnd(n.label[end+1:])
	}
	return end
}

func (w *wildcards[T]) remove(root uint32, pattern string, first int, group string, v T) (removed, last bool) {
	if len(w.nodes) == 0 {
		return false, false
	}
	at, rest := root, pattern
	for {
		at = w.step(at, rest[:first])
		if at == 0 {
			return false, false
		}
		n := &w.nodes[at]
		if n.label == rest {
			break
		}
		if len(n.label) > first {
			return false, false
		}
		rest = rest[first+1:]
		first = tokenEnd(rest)
	}
	n := &w.nodes[at]
	if !n.holds {
		return false, false
	}
	removed, last, none := n.values.remove(group, v)
	if !none {
		return removed, last
	}
	n.values, n.holds = values[T]{}, false
	for at >= numRoots && w.nodes[at].prunable() {
		parent := w.nodes[at].parent
		w.detach(at)
		w.nodes[at] = node[T]{}
		w.free = append(w.free, at)
		at = parent
	}
	return removed, last
}

// shrink packs the table when three quarters of it are free. Nodes move.
func (w *wildcards[T]) shrink() {
	live := len(w.nodes) - len(w.free)
	if len(w.nodes) <= shrinkFrom || live > len(w.nodes)/4 {
		return
	}
	moved := make([]uint32, len(w.nodes))
	packed := wildcards[T]{edges: indexFor(live), nodes: make([]node[T], 0, 2*live)}
	for i := range w.nodes {
		if i < numRoots || w.nodes[i].label != "" {
			moved[i] = uint32(len(packed.nodes))
			packed.nodes = append(packed.nodes, w.nodes[i])
		}
	}
	for i := range packed.nodes {
		n := &packed.nodes[i]
		n.parent, n.star, n.tail = moved[n.parent], moved[n.star], moved[n.tail]
	}
	for i := numRoots; i < len(packed.nodes); i++ {
		at := uint32(i)
		n := &packed.nodes[i]
		if parent := &packed.nodes[n.parent]; parent.star != at && parent.tail != at {
			packed.edges.add(edgeHash(n.parent, n.label[:packed.ownToken(at)]), at)
		}
	}
	*w = packed
}

// pattern is the whole text that leads to a node.
func (w *wildcards[T]) pattern(at uint32) string {
	var labels []string
	for ; at >= numRoots; at = w.nodes[at].parent {
		labels = append(labels, w.nodes[at].label)
	}
	var b strings.Builder
	for i := len(labels) - 1; i >= 0; i-- {
		b.WriteString(labels[i])
		if i > 0 {
			b.WriteByte(separator)
		}
	}
	return b.String()
}

// scan is as for literals.
func (w *wildcards[T]) scan(at, n int, fn func(pattern string, vs *values[T])) (next int) {
	end := min(at+n, len(w.nodes))
	for i := at; i < end; i++ {
		if w.nodes[i].holds {
			fn(w.pattern(uint32(i)), &w.nodes[i].values)
		}
	}
	if end == len(w.nodes) {
		return 0
	}
	return end
}

// covers reports whether a pattern of the table reaches everything that the given one reaches.
func (w *wildcards[T]) covers(at uint32, rest string, first int) bool {
	if len(w.nodes) == 0 {
		return false
	}
	n := &w.nodes[at]
	if n.tail != 0 {
		return true
	}
	token := rest[:first]
	if isTail(token) {
		return false
	}
	if n.star != 0 && w.coversFrom(n.star, 1, rest, first) {
		return true
	}
	if isStar(token) {
		return false
	}
	next := w.child(at, token)
	return next != 0 && w.coversFrom(next, first, rest, first)
}

// coversFrom is to covers what arrive is to match.
func (w *wildcards[T]) coversFrom(at uint32, labelled int, rest string, first int) bool {
	n := &w.nodes[at]
	ended := len(rest) == first
	if len(n.label) > labelled {
		return !ended && isSubset(rest[first+1:], n.label[labelled+1:])
	}
	if ended {
		return n.holds
	}
	rest = rest[first+1:]
	return w.covers(at, rest, tokenEnd(rest))
}
