package stream

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// A message goes by itself when max_age or its own Nats-TTL says so, whichever comes first; "Nats-TTL: never" spares it
// from max_age. With subject_delete_marker_ttl, the last message of a subject does not just go: a delete marker, a
// message without data that rolls its subject up, takes its place, so that who follows the subject hears of it. A marker
// goes without a trace when its own TTL is over. See ADR-43 and ADR-48.
//
// What goes is decided by [State.Due] and takes place when the records of it are applied: a replay repeats it without a
// clock.

// lifetimes is what the headers of visible messages say about how long they stay. Entries of messages that are gone are
// swept out when they could be the greater part; so it takes at most 32 bytes for each visible message.
type lifetimes struct {
	deadlines deadlines // of messages with a TTL
	never     seqSet    // messages that max_age spares
	markers   seqSet    // delete markers, and what counts as one
	// spared: of the messages before this sequence only those are left that never go by max_age.
	spared uint64
	// aged: max_age has been through the messages before this sequence. Those that are there still never go by it, or
	// are going already.
	aged uint64
}

// sweepFrom is from how many entries on lists are swept.
const sweepFrom = 1024

// note enters what a message's headers said.
func (l *lifetimes) note(seq uint64, at int64, f *flying) {
	switch {
	case f.ttl < 0:
		l.never = append(l.never, seq)
	case f.ttl > 0 && f.ttl <= (math.MaxInt64-at)/int64(time.Second):
		l.deadlines.push(deadline{at + f.ttl*int64(time.Second), seq})
	}
	if f.marker {
		l.markers = append(l.markers, seq)
	}
}

// sweep forgets messages that are gone, where they could be the greater part.
func (l *lifetimes) sweep(s *State) {
	most := int(2*s.log.live) + sweepFrom
	if len(l.deadlines) > most {
		l.deadlines = slices.DeleteFunc(l.deadlines, func(d deadline) bool { return !s.Has(d.seq) })
		l.deadlines = slices.Clone(l.deadlines)
		l.deadlines.order()
	}
	for _, set := range []*seqSet{&l.never, &l.markers} {
		if len(*set) > most {
			*set = slices.Clone(slices.DeleteFunc(*set, func(seq uint64) bool { return !s.Has(seq) }))
		}
	}
}

// seqSet is a set of sequences, ascending.
type seqSet []uint64

func (s seqSet) has(seq uint64) bool {
	if len(s) == 0 || seq > s[len(s)-1] {
		return false
	}
	_, ok := slices.BinarySearch(s, seq)
	return ok
}

// deadline is when a message goes, in ns UTC.
type deadline struct {
	at  int64
	seq uint64
}

// deadlines is a heap: the first is the next to go.
type deadlines []deadline

func (h *deadlines) push(d deadline) {
	*h = append(*h, d)
	list := *h
	for i := len(list) - 1; i > 0; {
		up := (i - 1) / 2
		if list[up].at <= list[i].at {
			return
		}
		list[up], list[i] = list[i], list[up]
		i = up
	}
}

func (h *deadlines) pop() deadline {
	list := *h
	first, last := list[0], len(list)-1
	list[0] = list[last]
	*h = list[:last]
	h.sink(0)
	if last == 0 {
		*h = nil
	}
	return first
}

func (h *deadlines) sink(i int) {
	list := *h
	for {
		down := 2*i + 1
		if down+1 < len(list) && list[down+1].at < list[down].at {
			down++
		}
		if down >= len(list) || list[i].at <= list[down].at {
			return
		}
		list[i], list[down] = list[down], list[i]
		i = down
	}
}

// order makes any list a heap.
func (h *deadlines) order() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// Due is what goes at a time. Its slices may be used again.
type Due struct {
	// Before: messages whose sequence is less go by max_age ([State.ExpireBefore]); 0: none do.
	Before uint64
	// Seqs go one by one ([State.Delete]).
	Seqs []uint64
	// Markers are messages that are replaced ([State.AcceptMarker]).
	Markers []uint64
}

// Empty reports whether nothing goes.
func (d *Due) Empty() bool { return d.Before == 0 && len(d.Seqs) == 0 && len(d.Markers) == 0 }

// keepsAll: a sealed stream takes no markers, and so nothing that would leave one goes.
func (s *State) keepsAll() bool { return s.cfg.Sealed && s.cfg.SubjectDeleteMarkerTTL > 0 }

// NextExpiry is when the next message is to go; zero when none is. Nothing needs to run then: messages go when Due is
// asked. It may be early, when that message is gone by then.
func (s *State) NextExpiry() time.Time {
	if s.keepsAll() {
		return time.Time{}
	}
	next := int64(math.MaxInt64)
	if s.cfg.MaxAge > 0 {
		if c, ok := s.firstAging(); ok {
			next = s.log.time(c) + s.cfg.MaxAge.Nanoseconds()
		}
	}
	if s.cfg.AllowMsgTTL && len(s.life.deadlines) > 0 {
		next = min(next, s.life.deadlines[0].at)
	}
	if next == math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, next)
}

// firstAging is the first message that max_age has not been through.
func (s *State) firstAging() (cursor, bool) {
	c, ok := s.log.seek(max(s.life.aged, s.firstSeq))
	for ok && s.life.never.has(s.log.seq(c)) {
		s.life.aged = s.log.seq(c) + 1
		c, ok = s.log.after(c)
	}
	return c, ok
}

// Due tells what goes at a time, and forgets message ids beyond their window. What it tells must be carried out, before
// the next call; it is not told again. Single messages are at most most at a time: what remains is due at once.
func (s *State) Due(now time.Time, most int, d *Due) {
	*d = Due{Seqs: d.Seqs[:0], Markers: d.Markers[:0]}
	s.dedup.expire(now.UnixNano())
	if s.keepsAll() {
		return
	}
	going := map[subjectID]uint32{} // messages of a subject that are told already
	if s.cfg.MaxAge > 0 {
		s.dueByAge(now.Add(-s.cfg.MaxAge).UnixNano(), most, d, going)
	}
	if s.cfg.AllowMsgTTL {
		s.dueByTTL(now.UnixNano(), most, d, going)
	}
}

// dueByAge tells the messages that were accepted at a time or before.
func (s *State) dueByAge(limit int64, most int, d *Due, going map[subjectID]uint32) {
	c, ok := s.firstAging()
	if !ok {
		return
	}
	if s.log.time(c) > limit {
		return
	}
	if s.cfg.SubjectDeleteMarkerTTL <= 0 {
		d.Before = s.SeqAt(limit + 1)
		s.life.aged = d.Before
		return
	}
	for ok && len(d.Seqs)+len(d.Markers) < most {
		if s.log.time(c) > limit {
			return
		}
		seq := s.log.seq(c)
		if !s.life.never.has(seq) {
			s.replaceOrRemove(seq, s.log.subject(c), d, going)
		}
		s.life.aged = seq + 1
		c, ok = s.log.after(c)
	}
}

// dueByTTL tells the messages whose TTL is over.
func (s *State) dueByTTL(now int64, most int, d *Due, going map[subjectID]uint32) {
	from := len(d.Seqs)
	for len(s.life.deadlines) > 0 && s.life.deadlines[0].at <= now && len(d.Seqs)+len(d.Markers) < most {
		seq := s.life.deadlines.pop().seq
		// What max_age has told goes by that.
		if seq >= s.life.aged && s.Has(seq) {
			d.Seqs = append(d.Seqs, seq)
		}
	}
	slices.Sort(d.Seqs[from:])
	if s.cfg.SubjectDeleteMarkerTTL <= 0 {
		return
	}
	over := slices.Clone(d.Seqs[from:])
	d.Seqs = d.Seqs[:from]
	for _, seq := range over {
		c, _ := s.log.find(seq)
		s.replaceOrRemove(seq, s.log.subject(c), d, going)
	}
}

// replaceOrRemove decides how a message goes where delete markers are wanted: the last of its subject is replaced, unless
// it is a marker itself.
func (s *State) replaceOrRemove(seq uint64, id subjectID, d *Due, going map[subjectID]uint32) {
	row := s.names.row(id)
	last := row.count-going[id] == 1 && !s.flight.holds(row.flight)
	going[id]++
	if last && !s.life.markers.has(seq) {
		d.Markers = append(d.Markers, seq)
	} else {
		d.Seqs = append(d.Seqs, seq)
	}
}

// leastTTL raises a TTL to that of delete markers, where an older message of the subject could outlive the newer one and
// stand in the way of its marker. It gives the header to store.
func (s *State) leastTTL(header []byte, f *flying) []byte {
	least := int64(s.cfg.SubjectDeleteMarkerTTL / time.Second)
	if f.ttl <= 0 || f.ttl >= least || s.cfg.MaxMsgsPer == 1 {
		return header
	}
	f.ttl = least
	s.header = appendWithout(s.header[:0], header, "Nats-TTL")
	s.header = appendField(s.header, "Nats-TTL", strconv.FormatInt(least, 10))
	return s.header
}

// AcceptMarker accepts the delete marker that takes the place of a message that Due told. It must be stored with the
// header in the result, and without data.
func (s *State) AcceptMarker(seq uint64, now time.Time) (Accepted, bool) {
	c, ok := s.log.find(seq)
	if !ok {
		return Accepted{}, false
	}
	ttl := s.cfg.SubjectDeleteMarkerTTL.Truncate(time.Second)
	s.header = fmt.Appendf(s.header[:0], "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %s\r\nNats-Rollup: sub\r\n\r\n", ttl)
	text := s.names.text(s.log.subject(c))
	f := flying{size: s.accounted(len(text), len(s.header), 0), rollup: rollupSubject, ttl: int64(ttl / time.Second), marker: true}
	a := s.admit(text, f, nil, max(now.UnixNano(), s.nextTime))
	a.Header = s.header
	return a, true
}

// ExpireBefore removes the messages whose sequence is less than first, but for those that never expire.
func (s *State) ExpireBefore(first uint64, e *Effects) uint64 {
	if len(s.life.never) == 0 || s.life.never[0] >= first {
		return s.removeBelow(first, e)
	}
	var n uint64
	for c, ok := s.log.seek(s.life.spared); ok; {
		seq := s.log.seq(c)
		if seq >= first {
			break
		}
		if s.life.never.has(seq) {
			c, ok = s.log.after(c)
			continue
		}
		s.removeSeq(seq, e, false)
		n++
		c, ok = s.log.seek(seq + 1)
	}
	s.life.spared = max(s.life.spared, first)
	return n
}

// RemoveBefore removes the messages whose sequence is less than first.
func (s *State) RemoveBefore(first uint64, e *Effects) uint64 { return s.removeBelow(first, e) }
