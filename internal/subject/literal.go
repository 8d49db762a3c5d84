package subject

// shrinkFrom is the table size below which nothing is given back.
const shrinkFrom = 64

// literals maps patterns without wildcards to their values. Entries lie densely in one slice.
type literals[T comparable] struct {
	index   hashIndex
	entries []literal[T] // entries[0] is not used, since 0 means none
	free    []uint32     // entries that may be used again
}

// literal is an entry; the key of a free one is empty.
type literal[T comparable] struct {
	key    string
	values values[T]
}

func (l *literals[T]) live() int { return max(len(l.entries)-1, 0) - len(l.free) }

// find gives the entry of key, or 0.
func (l *literals[T]) find(hash uint64, key string) uint32 {
	if l.index.used == 0 {
		return 0
	}
	slots, h := l.index.slots, uint32(hash)
	mask := uint32(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := slots[i]
		if s.ref == 0 || s.hash == h && l.entries[s.ref].key == key {
			return s.ref
		}
	}
}

func (l *literals[T]) insert(hash uint64, key, group string, v T) (added, first bool) {
	if at := l.find(hash, key); at != 0 {
		return l.entries[at].values.add(group, v)
	}
	entry := literal[T]{key: key, values: newValues(group, v)}
	var at uint32
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
		l.entries[at] = entry
	} else {
		if len(l.entries) == 0 {
			l.entries = make([]literal[T], 1, 4)
		}
		at = uint32(len(l.entries))
		l.entries = append(l.entries, entry)
	}
	l.index.add(uint32(hash), at)
	return true, true
}

func (l *literals[T]) remove(hash uint64, key, group string, v T) (removed, last bool) {
	at := l.find(hash, key)
	if at == 0 {
		return false, false
	}
	removed, last, none := l.entries[at].values.remove(group, v)
	if none {
		l.index.remove(uint32(hash), at)
		l.entries[at] = literal[T]{}
		l.free = append(l.free, at)
	}
	return removed, last
}

// shrink packs the table when three quarters of it are free. Entries move.
func (l *literals[T]) shrink() {
	live := l.live()
	if len(l.entries) <= shrinkFrom || live > len(l.entries)/4 {
		return
	}
	packed := literals[T]{index: indexFor(live), entries: make([]literal[T], 1, 2*live+1)}
	for i := range l.entries {
		if e := &l.entries[i]; e.key != "" {
			packed.index.add(uint32(hashOf(e.key)), uint32(len(packed.entries)))
			packed.entries = append(packed.entries, *e)
		}
	}
	*l = packed
}

// scan calls fn for the patterns among the n entries from position at on, and tells where the next scan begins; 0
// means that there is nothing more.
func (l *literals[T]) scan(at, n int, fn func(pattern string, vs *values[T])) (next int) {
	end := min(at+n, len(l.entries))
	for i := at; i < end; i++ {
		if e := &l.entries[i]; e.key != "" {
			fn(e.key, &e.values)
		}
	}
	if end == len(l.entries) {
		return 0
	}
	return end
}
