package conn

// ring remembers the connections that were closed last, up to its size.
type ring struct {
	size  int
	list  []Snapshot
	next  int
	total uint64
}

func (r *ring) add(s Snapshot) {
	r.total++
	switch {
	case r.size == 0:
	case len(r.list) < r.size:
		r.list = append(r.list, s)
	default:
		r.list[r.next] = s
		r.next = (r.next + 1) % r.size
	}
}

// all gives them, the oldest first.
func (r *ring) all() []Snapshot {
	out := make([]Snapshot, 0, len(r.list))
	return append(append(out, r.list[r.next:]...), r.list[:r.next]...)
}
