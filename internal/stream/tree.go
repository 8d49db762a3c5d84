package stream

import (
	"slices"
	"sort"
)

// groupLeaves is how many leaves a group holds at most.
const groupLeaves = 512

// tree holds the subjects in bytewise order: leaves of up to 64 subjects, which are named by their place in a table so
// that a subject can tell where it is, in groups. It is what finds the subjects of a wildcard without looking at the
// others.
type tree struct {
	names  *names
	leaves paged[leaf]
	free   []uint32 // places in leaves
	groups [][]uint32
	near   spot    // where the last subject was added: the next is often there too
	room   []entry // for taking leaves apart
	texts  []byte
}

// spot is a leaf's place in the order.
type spot struct{ group, leaf int }

func (t *tree) ref(p spot) uint32  { return t.groups[p.group][p.leaf] }
func (t *tree) leafAt(p spot) leaf { return *t.leaves.at(t.ref(p)) }

// next is the spot behind p.
func (t *tree) next(p spot) (spot, bool) {
	if p.leaf++; p.leaf == len(t.groups[p.group]) {
		p = spot{p.group + 1, 0}
	}
	return p, p.group < len(t.groups)
}

// search gives the last leaf whose first subject is not greater than a text, or else the first. There is one.
func (t *tree) search(text []byte) spot {
	after := func(ref uint32) bool { return (*t.leaves.at(ref)).compare(0, text) > 0 }
	g := max(sort.Search(len(t.groups), func(i int) bool { return after(t.groups[i][0]) })-1, 0)
	group := t.groups[g]
	return spot{g, max(sort.Search(len(group), func(i int) bool { return after(group[i]) })-1, 0)}
}

// searchNear is search for subjects that come in order.
func (t *tree) searchNear(text []byte) spot {
	if p := t.near; p.group < len(t.groups) && p.leaf < len(t.groups[p.group]) && t.leafAt(p).compare(0, text) <= 0 {
		if next, more := t.next(p); !more || t.leafAt(next).compare(0, text) > 0 {
			return p
		}
	}
	t.near = t.search(text)
	return t.near
}

// add inserts a subject that is not there.
func (t *tree) add(id subjectID, text []byte) {
	if len(t.groups) == 0 {
		t.groups = [][]uint32{nil}
		t.replace(spot{}, 0, []entry{{id, text}})
		return
	}
	p := t.searchNear(text)
	ref := t.ref(p)
	l := t.leaves.at(ref)
	i := l.search(text)
	if grown, ok := l.insert(i, id, text); ok {
		*l = grown
		t.names.rows.at(id).leaf = ref
		return
	}
	if i == l.n() && i == leafSubjects { // subjects that come in order leave full leaves behind
		p.leaf++
		t.replace(p, 0, []entry{{id, text}})
		return
	}
	list := t.takeApart(*l)
	t.replace(p, 1, slices.Insert(list, i, entry{id, text}))
}

// takeApart lists the subjects of leaves. The list holds until the next.
func (t *tree) takeApart(leaves ...leaf) []entry {
	t.room, t.texts = t.room[:0], t.texts[:0]
	for _, l := range leaves {
		t.room, t.texts = l.appendEntries(t.room, t.texts)
	}
	return t.room
}

// replace puts subjects in the place of n leaves.
func (t *tree) replace(p spot, n int, list []entry) {
	group := t.groups[p.group]
	for _, ref := range group[p.leaf : p.leaf+n] {
		*t.leaves.at(ref) = nil
		t.free = append(t.free, ref)
	}
	var fresh []uint32
	if len(list) > 0 {
		fresh = t.build(nil, list)
	}
	group = slices.Replace(group, p.leaf, p.leaf+n, fresh...)
	t.groups[p.group] = group
	switch {
	case len(group) == 0:
		t.groups = slices.Delete(t.groups, p.group, p.group+1)
	case len(group) > groupLeaves:
		at := len(group) / 2
		if p.group == len(t.groups)-1 && p.leaf >= groupLeaves-1 {
			at = groupLeaves // in order
		}
		t.groups = slices.Insert(t.groups, p.group+1, slices.Clone(group[at:]))
		t.groups[p.group] = slices.Clone(group[:at])
	}
	if cap(t.room) > 4*leafSubjects || cap(t.texts) > 1<<16 {
		t.room, t.texts = nil, nil
	}
}

// build makes leaves of subjects in order.
func (t *tree) build(refs []uint32, list []entry) []uint32 {
	l, ok := makeLeaf(list)
	if !ok {
		return t.build(t.build(refs, list[:len(list)/2]), list[len(list)/2:])
	}
	var ref uint32
	if n := len(t.free); n > 0 {
		ref, t.free = t.free[n-1], t.free[:n-1]
		*t.leaves.at(ref) = l
	} else {
		ref = t.leaves.add(l)
	}
	for _, e := range list {
		t.names.rows.at(e.id).leaf = ref
	}
	return append(refs, ref)
}

// remove takes out a subject that is there.
func (t *tree) remove(id subjectID, text []byte) {
	l := t.leaves.at(t.names.rows.at(id).leaf)
	if n := l.n() - 1; n >= leafThin || n > 0 && n%4 != 0 {
		*l = l.remove(l.position(id))
		return
	}
	p := t.search(text)
	if l.n() == 1 {
		t.replace(p, 1, nil)
		return
	}
	*l = l.remove(l.position(id))
	if group := t.groups[p.group]; p.leaf+1 < len(group) {
		t.join(p)
	} else if p.leaf > 0 {
		t.join(spot{p.group, p.leaf - 1})
	}
}

// join merges a leaf with the next of its group when both together are at most half full.
func (t *tree) join(p spot) {
	a, b := t.leafAt(p), t.leafAt(spot{p.group, p.leaf + 1})
	if a.n()+b.n() <= leafSubjects/2 {
		t.replace(p, 2, t.takeApart(a, b))
	}
}

// What the function that walk calls answers.
const (
	walkOn   = -1
	walkStop = -2
)

// walk visits the subjects in order. visit answers walkOn, walkStop, or a position: no subject that shares this one's
// bytes up to that position, inclusive, is wanted, and they are left out. visit must not change the table. What
// names.text gives of the subject that is visited holds until visit returns.
func (t *tree) walk(visit func(id subjectID) int) {
	if len(t.groups) == 0 {
		return
	}
	outer := t.names.shown
	defer func() { t.names.shown = outer }()
	var text []byte
	p, i := spot{}, 0
	for more := true; more; {
		l := t.leafAt(p)
		n := l.n()
		if i == n {
			p, more = t.next(p)
			i = 0
			continue
		}
		text = l.appendText(text[:0], i)
		id := l.id(i)
		t.names.shown = entry{id, text}
		answer := visit(id)
		if answer == walkStop {
			return
		}
		i++
		if answer >= 0 && answer < len(text) {
			p, i, more = t.skip(p, i, text[:answer+1])
		}
	}
}

// skip goes on from the i-th subject of a leaf to the next one that does not begin with a text.
func (t *tree) skip(p spot, i int, text []byte) (spot, int, bool) {
	l := t.leafAt(p)
	n := l.n()
	if i < n && !l.begins(i, text) {
		return p, i, true // as a rule
	}
	if !l.begins(n-1, text) {
		return p, i + sort.Search(n-i, func(k int) bool { return !l.begins(i+k, text) }), true
	}
	p, more := t.next(p)
	if !more || !t.leafAt(p).begins(0, text) {
		return p, 0, more
	}
	end := slices.Clone(text)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return p, 0, false
	}
	end[len(end)-1]++ // the least text behind all that begin with the other
	p = t.search(end)
	return p, t.leafAt(p).search(end), true
}
