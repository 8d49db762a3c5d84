package subject

import "slices"

// indexedFrom is how many values a bag holds before it keeps a map of their positions. Below it a scan is as fast.
const indexedFrom = 64

// values are all subscriptions of one pattern. The one that matters for memory is a single value without a queue
// group, which needs no memory of its own; many is nil then.
type values[T comparable] struct {
	one  T
	many *set[T]
}

// set holds the values of a pattern that has several, or that has queue groups.
type set[T comparable] struct {
	plain  bag[T]
	queues []queue[T]
}

// queue is a queue group's members under one pattern.
type queue[T comparable] struct {
	name    string
	members bag[T]
}

// newValues holds a first value.
func newValues[T comparable](group string, v T) values[T] {
	if group == "" {
		return values[T]{one: v}
	}
	many := &set[T]{}
	many.add(group, v)
	return values[T]{many: many}
}

// add puts v in. It reports false where v was there; first tells that the group was empty before.
func (vs *values[T]) add(group string, v T) (added, first bool) {
	if vs.many == nil {
		if group == "" && vs.one == v {
			return false, false
		}
		var zero T
		vs.many = &set[T]{}
		vs.many.add("", vs.one)
		vs.one = zero
	}
	return vs.many.add(group, v)
}

// remove takes v out. It reports false where v was not there; last tells that the group is empty now, and none that
// there is nothing left at all, so that the values are to be thrown away.
func (vs *values[T]) remove(group string, v T) (removed, last, none bool) {
	if vs.many == nil {
		removed = group == "" && vs.one == v
		return removed, removed, removed
	}
	removed, last = vs.many.remove(group, v)
	m := vs.many
	switch {
	case len(m.queues) > 0:
	case len(m.plain.items) == 0:
		none = true
	case len(m.plain.items) == 1:
		vs.one, vs.many = m.plain.items[0], nil
	}
	return removed, last, none
}

func (vs *values[T]) addTo(r *Result[T]) {
	if vs.many == nil {
		r.Plain = append(r.Plain, vs.one)
		return
	}
	r.Plain = append(r.Plain, vs.many.plain.items...)
	for i := range vs.many.queues {
		q := &vs.many.queues[i]
		g := r.group(q.name)
		g.Members = append(g.Members, q.members.items...)
	}
}

// each calls fn for every value with its queue group.
func (vs *values[T]) each(fn func(group string, v T)) {
	if vs.many == nil {
		fn("", vs.one)
		return
	}
	for _, v := range vs.many.plain.items {
		fn("", v)
	}
	for i := range vs.many.queues {
		for _, v := range vs.many.queues[i].members.items {
			fn(vs.many.queues[i].name, v)
		}
	}
}

func (s *set[T]) add(group string, v T) (added, first bool) {
	b := &s.plain
	if group != "" {
		i := s.find(group)
		if i < 0 {
			i = len(s.queues)
			s.queues = append(s.queues, queue[T]{name: group})
		}
		b = &s.queues[i].members
	}
	added = b.add(v)
	return added, added && len(b.items) == 1
}

func (s *set[T]) remove(group string, v T) (removed, last bool) {
	if group == "" {
		removed = s.plain.remove(v)
		return removed, len(s.plain.items) == 0
	}
	i := s.find(group)
	if i < 0 || !s.queues[i].members.remove(v) {
		return false, false
	}
	if len(s.queues[i].members.items) > 0 {
		return true, false
	}
	s.queues = slices.Delete(s.queues, i, i+1)
	return true, true
}

func (s *set[T]) find(group string) int {
	for i := range s.queues {
		if s.queues[i].name == group {
			return i
		}
	}
	return -1
}

// bag is an unordered set that can be copied out in one go, and that stays fast with a hundred thousand members.
type bag[T comparable] struct {
	items []T
	at    map[T]uint32 // the position of every item; nil in small bags
}

func (b *bag[T]) add(v T) bool {
	if b.position(v) >= 0 {
		return false
	}
	b.items = append(b.items, v)
	switch {
	case b.at != nil:
		b.at[v] = uint32(len(b.items) - 1)
	case len(b.items) > indexedFrom:
		b.at = make(map[T]uint32, 2*len(b.items))
		for i, item := range b.items {
			b.at[item] = uint32(i)
		}
	}
	return true
}

func (b *bag[T]) remove(v T) bool {
	i, end := b.position(v), len(b.items)-1
	if i < 0 {
		return false
	}
	var zero T
	moved := b.items[end]
	b.items[i], b.items[end] = moved, zero
	b.items = b.items[:end]
	if b.at != nil {
		b.at[moved] = uint32(i)
		delete(b.at, v)
	}
	b.shrink()
	return true
}

// shrink gives memory back once three quarters of a large bag are gone.
func (b *bag[T]) shrink() {
	if cap(b.items) <= indexedFrom || len(b.items) > cap(b.items)/4 {
		return
	}
	b.items = append(make([]T, 0, 2*len(b.items)), b.items...)
	b.at = nil
	if len(b.items) > indexedFrom/2 {
		b.at = make(map[T]uint32, 2*len(b.items))
		for i, item := range b.items {
			b.at[item] = uint32(i)
		}
	}
}

func (b *bag[T]) position(v T) int {
	if b.at != nil {
		if i, ok := b.at[v]; ok {
			return int(i)
		}
		return -1
	}
	return slices.Index(b.items, v)
}
