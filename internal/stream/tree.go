package stream

import "math/bits"

// tree holds the subjects in bytewise order: a crit-bit tree (D. J. Bernstein, https://cr.yp.to/critbit.html). A node
// tells at which bit the subjects below it first differ, so n subjects need n-1 nodes of 12 bytes and no keys. It is
// what finds the subjects of a wildcard without looking at the others.
//
// Bits are numbered 16 a byte: first whether there is a byte at all, which sorts a subject before its continuations,
// then the byte's eight bits from the highest.
type tree struct {
	names *names
	nodes paged[node]
	free  []uint32
	root  uint32 // of either kind; 0 when empty
}

type node struct {
	child [2]uint32 // subject id<<1 | 1, or position of a node + 1 << 1
	bit   uint32
}

func leafRef(id subjectID) uint32     { return id<<1 | 1 }
func nodeRef(i uint32) uint32         { return (i + 1) << 1 }
func isLeaf(ref uint32) bool          { return ref&1 == 1 }
func (t *tree) node(ref uint32) *node { return t.nodes.at(ref>>1 - 1) }

// side is the value of a bit of a text: 0 or 1.
func side(text []byte, bit uint32) int {
	i := int(bit >> 4)
	if i >= len(text) {
		return 0
	}
	n := bit & 15
	if n == 0 {
		return 1
	}
	return int(text[i]>>(8-n)) & 1
}

// firstDifference is the first bit in which two different texts differ.
func firstDifference(a, b []byte) uint32 {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return uint32(i) << 4
	}
	return uint32(i)<<4 | uint32(bits.LeadingZeros8(a[i]^b[i])+1)
}

// add inserts a subject that is not there.
func (t *tree) add(id subjectID) {
	if t.root == 0 {
		t.root = leafRef(id)
		return
	}
	text := t.names.text(id)
	ref := t.root
	for !isLeaf(ref) {
		n := t.node(ref)
		ref = n.child[side(text, n.bit)]
	}
	bit := firstDifference(text, t.names.text(ref>>1))
	var fresh uint32
	if k := len(t.free); k > 0 {
		fresh, t.free = t.free[k-1], t.free[:k-1]
	} else {
		fresh = nodeRef(t.nodes.add(node{}))
	}
	at := &t.root
	for !isLeaf(*at) {
		n := t.node(*at)
		if n.bit > bit {
			break
		}
		at = &n.child[side(text, n.bit)]
	}
	n := t.node(fresh)
	n.bit = bit
	own := side(text, bit)
	n.child[own], n.child[1-own] = leafRef(id), *at
	*at = fresh
}

// remove takes out a subject that is there and whose text can still be read.
func (t *tree) remove(id subjectID) {
	text := t.names.text(id)
	var parent *uint32
	at := &t.root
	own := 0
	for !isLeaf(*at) {
		n := t.node(*at)
		parent, own = at, side(text, n.bit)
		at = &n.child[own]
	}
	if parent == nil {
		t.root = 0
		return
	}
	ref := *parent
	n := t.node(ref)
	*parent = n.child[1-own]
	*n = node{}
	t.free = append(t.free, ref)
}

// What the function that walk calls answers.
const (
	walkOn   = -1
	walkStop = -2
)

// walk visits the subjects in order. visit answers walkOn, walkStop, or a position: no subject that shares this one's
// bytes up to that position, inclusive, is wanted, and they are left out. visit must not change the table.
func (t *tree) walk(visit func(id subjectID) int) {
	if t.root == 0 {
		return
	}
	type pending struct{ ref, bit uint32 }
	var space [64]pending
	stack := space[:0]
	ref := t.root
	for {
		for !isLeaf(ref) {
			n := t.node(ref)
			stack = append(stack, pending{n.child[1], n.bit})
			ref = n.child[0]
		}
		answer := visit(ref >> 1)
		if answer == walkStop {
			return
		}
		for answer >= 0 && len(stack) > 0 && int(stack[len(stack)-1].bit>>4) > answer {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			return
		}
		ref = stack[len(stack)-1].ref
		stack = stack[:len(stack)-1]
	}
}
