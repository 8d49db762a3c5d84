package subject

import "slices"

// Result is what a subject reaches. It belongs to the caller and is meant to be used again: [Trie.Match] clears it
// first and then fills the memory that it has, so that a warm Result makes matching free of allocation.
type Result[T comparable] struct {
	// Plain are the values without a queue group, in no particular order.
	Plain []T
	// Queues are the queue groups, each with its members under all the patterns that match, in no particular order.
	Queues []Group[T]
}

// Group is a queue group: one of its members is to get the message.
type Group[T comparable] struct {
	Name    string
	Members []T
}

// Reset empties r and keeps its memory. The old values stay reachable until they are overwritten.
func (r *Result[T]) Reset() {
	r.Plain = r.Plain[:0]
	r.Queues = r.Queues[:0]
}

// Empty reports whether the subject reaches nobody.
func (r *Result[T]) Empty() bool { return len(r.Plain) == 0 && len(r.Queues) == 0 }

// Clone copies r into memory of exactly its size: for a cache that keeps results.
func (r *Result[T]) Clone() Result[T] {
	var c Result[T]
	if len(r.Plain) > 0 {
		c.Plain = slices.Clone(r.Plain)
	}
	if len(r.Queues) > 0 {
		c.Queues = make([]Group[T], len(r.Queues))
		for i, g := range r.Queues {
			c.Queues[i] = Group[T]{Name: g.Name, Members: slices.Clone(g.Members)}
		}
	}
	return c
}

// group finds or makes the group of that name.
func (r *Result[T]) group(name string) *Group[T] {
	for i := range r.Queues {
		if r.Queues[i].Name == name {
			return &r.Queues[i]
		}
	}
	n := len(r.Queues)
	if n < cap(r.Queues) {
		// The member slice that an earlier match left here is used again.
		r.Queues = r.Queues[:n+1]
	} else {
		r.Queues = append(r.Queues, Group[T]{})
	}
	g := &r.Queues[n]
	g.Name, g.Members = name, g.Members[:0]
	return g
}
