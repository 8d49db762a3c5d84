package stream

import (
	"encoding/binary"
	"errors"
	"slices"
)

// MaxListedIDs is how many message ids AppendIDs lists at most: about 1.3 MB.
const MaxListedIDs = 1 << 16

// ErrIDs: the bytes are no list of message ids.
var ErrIDs = errors.New("stream: malformed list of message ids")

// AppendIDs appends the message ids that the dedup window remembers of visible messages at a time (ns UTC), also of those
// that are gone: uvarint count; each 16 bytes digest, uvarint sequence - the one before, varint time - the one before.
// all is false where there are more, and the oldest were left out.
func (s *State) AppendIDs(dst []byte, now int64) (b []byte, n int, all bool) {
	d := &s.dedup
	d.expire(now)
	from, to := d.head, d.tail
	for to > from && d.at(to-1).seq > s.lastSeq {
		to--
	}
	all = to-from <= MaxListedIDs
	if !all {
		from = to - MaxListedIDs
	}
	return d.appendRange(dst, from, to), int(to - from), all
}

// RestoreIDs has the dedup window remember the ids of a list as well. Nothing is in flight.
func (s *State) RestoreIDs(list []byte) error {
	n, w := binary.Uvarint(list)
	if w <= 0 || n > MaxListedIDs {
		return ErrIDs
	}
	list = list[w:]
	d := &s.dedup
	all := make([]remembered, 0, int(n)+d.len())
	for pos := d.head; pos != d.tail; pos++ {
		all = append(all, *d.at(pos))
	}
	var r remembered
	for range n {
		if len(list) < 16 {
			return ErrIDs
		}
		r.id = digest{binary.LittleEndian.Uint64(list), binary.LittleEndian.Uint64(list[8:])}
		seq, w := binary.Uvarint(list[16:])
		if w <= 0 {
			return ErrIDs
		}
		list = list[16+w:]
		time, w := binary.Varint(list)
		if w <= 0 {
			return ErrIDs
		}
		list = list[w:]
		r.seq, r.time = r.seq+seq, r.time+time
		all = append(all, r)
	}
	if len(list) > 0 {
		return ErrIDs
	}
	slices.SortStableFunc(all, func(x, y remembered) int {
		switch {
		case x.seq < y.seq:
			return -1
		case x.seq > y.seq:
			return 1
		}
		return 0
	})
	d.resize(0)
	for i, r := range all {
		if i == 0 || r.seq != all[i-1].seq {
			d.add(r.id, r.seq, r.time)
		}
	}
	return nil
}
