package stream

import (
	"errors"
	"math"
	"slices"
)

// Meta is what the index knows of a message.
type Meta struct {
	Seq     uint64
	Time    int64  // ns UTC
	Size    uint64 // as Bytes counts it
	Subject []byte // until the next call that changes the State
	Place   Place
}

// Has reports whether there is a message.
func (s *State) Has(seq uint64) bool {
	_, ok := s.log.find(seq)
	return ok
}

// Meta gives a message.
func (s *State) Meta(seq uint64) (Meta, bool) {
	c, ok := s.log.find(seq)
	if !ok {
		return Meta{}, false
	}
	return s.metaAt(c), true
}

func (s *State) metaAt(c cursor) Meta {
	b := s.log.blocks[c.block]
	return Meta{
		Seq:     b.seq(c.row),
		Time:    b.time(c.row),
		Size:    b.size(c.row),
		Subject: s.names.text(b.subject(c.row)),
		Place:   b.placeOf(c.row),
	}
}

// SetPlace notes where a message's bytes lie and reports whether there is such a message.
func (s *State) SetPlace(seq uint64, p Place) bool {
	c, ok := s.log.find(seq)
	if ok {
		s.log.blocks[c.block].place(c.row, p)
	}
	return ok
}

func (s *State) sizeOf(seq uint64) uint64 {
	c, ok := s.log.find(seq)
	if !ok {
		return 0
	}
	return s.log.size(c)
}

// fromEnd gives the k-th last visible message of a subject; 0 is the last.
func (s *State) fromEnd(row name, k int) (uint64, bool) {
	switch {
	case k < 0 || k >= int(row.count):
		return 0, false
	case k == 0:
		return row.last, true
	case row.posting == 0:
		return row.first, true
	}
	return s.postings.at(row.posting).fromEnd(k)
}

// nextOf gives the first sequence of a subject that is at least from.
func (s *State) nextOf(row name, from uint64) (uint64, bool) {
	switch {
	case row.count == 0 || from > row.last:
		return 0, false
	case from <= row.first:
		return row.first, true
	case row.posting == 0 || from == row.last:
		return row.last, true
	}
	return s.postings.at(row.posting).next(from)
}

// previousOf gives the last sequence of a subject that is at most upto.
func (s *State) previousOf(row name, upto uint64) (uint64, bool) {
	switch {
	case row.count == 0 || upto < row.first:
		return 0, false
	case upto >= row.last:
		return row.last, true
	case row.posting == 0:
		return row.first, true
	}
	return s.postings.at(row.posting).previous(upto)
}

// countOf counts the messages of a subject whose sequence is at least from.
func (s *State) countOf(row name, from uint64) uint64 {
	switch {
	case row.count == 0 || from > row.last:
		return 0
	case from <= row.first:
		return uint64(row.count)
	case row.posting == 0:
		return 1
	}
	return s.postings.at(row.posting).from(from, row.count)
}

const (
	// scanAhead is how many messages a wildcard looks at one by one before it asks the subjects that match.
	scanAhead = 128
	// fewSubjects is how many matching subjects are worth asking one by one for each message.
	fewSubjects = 1024
	// scanLong is how many messages are looked at before all matching subjects are asked, however many.
	scanLong = 1 << 15
)

// Next gives the first message that passes a filter and whose sequence is at least from. For literal filters it is
// O(log n). For wildcards it looks at the next messages, and where none of them passes it asks the subjects that
// match, so that it never scans a stream for a rare subject.
func (s *State) Next(f *Filter, from uint64) (Meta, bool) {
	if from > s.lastSeq {
		return Meta{}, false
	}
	if f.everything(s) {
		c, ok := s.log.seek(from)
		if !ok {
			return Meta{}, false
		}
		return s.metaAt(c), true
	}
	if f.literal {
		return s.nextLiteral(f, from)
	}
	return s.nextWildcard(f, from)
}

func (s *State) nextLiteral(f *Filter, from uint64) (Meta, bool) {
	best := uint64(math.MaxUint64)
	for i := range f.patterns {
		id := s.names.find(f.patterns[i].text)
		if id == 0 {
			continue
		}
		if seq, ok := s.nextOf(s.names.row(id), from); ok {
			best = min(best, seq)
		}
	}
	return s.Meta(best)
}

func (s *State) nextWildcard(f *Filter, from uint64) (Meta, bool) {
	f.attach(s)
	c, ok := s.log.seek(from)
	if !ok {
		return Meta{}, false
	}
	c, found, more := s.scan(f, c, scanAhead)
	if found || !more {
		return s.metaIf(c, found)
	}
	m := &f.memo
	if budget := m.budget(); m.through == 0 || s.log.seq(c) > m.through+budget {
		s.listFew(f)
	}
	for {
		if m.tooMany {
			return s.nextOfMany(f, c)
		}
		if at := s.log.seq(c); at <= m.through {
			if seq, ok := s.nextOfFew(f, at); ok {
				return s.Meta(seq)
			}
			if c, ok = s.log.seek(m.through + 1); !ok {
				return Meta{}, false
			}
		}
		// Messages that came after the list was made. A new list is made when they cost more than it.
		if c, found, more = s.scan(f, c, int(m.budget())); found || !more {
			return s.metaIf(c, found)
		}
		s.listFew(f)
	}
}

// nextOfFew asks the listed subjects for a message from at on that was there when they were listed.
func (s *State) nextOfFew(f *Filter, at uint64) (uint64, bool) {
	best := uint64(math.MaxUint64)
	for _, id := range f.memo.few {
		if row := s.names.row(id); row.first < best {
			if seq, ok := s.nextOf(row, at); ok && seq <= f.memo.through {
				best = min(best, seq)
			}
		}
	}
	return best, best != math.MaxUint64
}

// nextOfMany is for wildcards that many subjects match: as a rule one of them is near.
func (s *State) nextOfMany(f *Filter, c cursor) (Meta, bool) {
	c, found, more := s.scan(f, c, scanLong)
	if found || !more {
		return s.metaIf(c, found)
	}
	at, best := s.log.seq(c), uint64(math.MaxUint64)
	f.walk(s, func(_ subjectID, row name) bool {
		if seq, ok := s.nextOf(row, at); ok {
			best = min(best, seq)
		}
		return true
	})
	return s.Meta(best)
}

func (s *State) metaIf(c cursor, found bool) (Meta, bool) {
	if !found {
		return Meta{}, false
	}
	return s.metaAt(c), true
}

// scan looks at up to n messages from c on. When it found none, c is where to go on, if more are there.
func (s *State) scan(f *Filter, c cursor, n int) (at cursor, found, more bool) {
	for ok := true; ok; c, ok = s.log.after(c) {
		if n--; n < 0 {
			return c, false, true
		}
		if f.passes(s, s.log.subject(c)) {
			return c, true, true
		}
	}
	return c, false, false
}

// listFew lists the subjects that pass, unless they are too many.
func (s *State) listFew(f *Filter) {
	m := &f.memo
	m.few, m.tooMany, m.through = m.few[:0], false, s.lastSeq
	m.walked = f.walk(s, func(id subjectID, _ name) bool {
		if len(m.few) == fewSubjects {
			m.few, m.tooMany = nil, true
			return false
		}
		m.few = append(m.few, id)
		return true
	})
}

// Last gives the last message that passes a filter and whose sequence is at most upto; upto 0 sets no bound.
func (s *State) Last(f *Filter, upto uint64) (Meta, bool) {
	if upto == 0 {
		upto = math.MaxUint64
	}
	if f.everything(s) {
		c, ok := s.log.seekBack(upto)
		if !ok {
			return Meta{}, false
		}
		return s.metaAt(c), true
	}
	if !f.literal {
		// The last is often near.
		c, ok := s.log.seekBack(upto)
		for n := scanAhead; ok && n > 0; n-- {
			if f.passes(s, s.log.subject(c)) {
				return s.metaAt(c), true
			}
			c, ok = s.log.before(c)
		}
		if !ok {
			return Meta{}, false
		}
	}
	var best uint64
	f.walk(s, func(_ subjectID, row name) bool {
		if seq, ok := s.previousOf(row, upto); ok {
			best = max(best, seq)
		}
		return true
	})
	return s.Meta(best)
}

// Pending counts the messages that pass a filter and whose sequence is at least from. It is exact whatever was deleted.
// A wildcard costs a step for each subject that matches, or for each message from there on if those are fewer.
func (s *State) Pending(f *Filter, from uint64) (n uint64) {
	if from > s.lastSeq {
		return 0
	}
	rest := s.log.live
	if from > s.firstSeq {
		rest = s.log.from(from)
	}
	if f.everything(s) || rest == 0 {
		return rest
	}
	if !f.literal && rest <= scanAhead {
		return s.scanPending(f, from)
	}
	if !f.literal {
		if m := &f.memo; m.through == 0 || s.lastSeq > m.through+m.budget() {
			s.listFew(f)
		}
		if m := &f.memo; !m.tooMany {
			for _, id := range m.few {
				row := s.names.row(id)
				n += s.countOf(row, from) - s.countOf(row, max(from, m.through+1))
			}
			return n + s.scanPending(f, max(from, m.through+1))
		}
	}
	f.walk(s, func(_ subjectID, row name) bool {
		n += s.countOf(row, from)
		return true
	})
	return n
}

// scanPending counts by looking at every message from from on.
func (s *State) scanPending(f *Filter, from uint64) (n uint64) {
	for c, ok := s.log.seek(from); ok; c, ok = s.log.after(c) {
		if f.passes(s, s.log.subject(c)) {
			n++
		}
	}
	return n
}

// ErrTooMany: more messages were found than the caller allows.
var ErrTooMany = errors.New("stream: too many results")

// LastPerSubject appends the sequences of the last message of each subject that passes, as of upto (0: now), in order.
// More than most of them (0: no bound) are ErrTooMany.
func (s *State) LastPerSubject(dst []uint64, f *Filter, upto uint64, most int) ([]uint64, error) {
	if upto == 0 {
		upto = math.MaxUint64
	}
	start, over := len(dst), false
	f.walk(s, func(_ subjectID, row name) bool {
		seq, ok := s.previousOf(row, upto)
		if !ok {
			return true
		}
		if over = most > 0 && len(dst)-start == most; over {
			return false
		}
		dst = append(dst, seq)
		return true
	})
	if over {
		return dst[:start], ErrTooMany
	}
	slices.Sort(dst[start:])
	return dst, nil
}

// SubjectCount is a subject with the number of its messages.
type SubjectCount struct {
	Subject string
	Msgs    uint64
}

// MaxSubjectDetails is how many subjects NATS reports at once.
const MaxSubjectDetails = 100_000

// Subjects lists the subjects that pass, in bytewise order, from position offset on and at most limit of them. total
// counts all that pass.
func (s *State) Subjects(f *Filter, offset, limit int) (page []SubjectCount, total int) {
	f.walk(s, func(id subjectID, row name) bool {
		if total >= offset && len(page) < limit {
			page = append(page, SubjectCount{string(s.names.text(id)), uint64(row.count)})
		}
		total++
		return true
	})
	return page, total
}

// SeqAt gives the first message that was accepted at a time (ns UTC) or later; LastSeq+1 when there is none.
func (s *State) SeqAt(ns int64) uint64 {
	if c, ok := s.log.seekTime(ns); ok {
		return s.log.seq(c)
	}
	return s.lastSeq + 1
}

// Deleted calls yield for each range of sequences, between the first message and the last sequence, that have no
// message: from first to last, inclusive.
func (s *State) Deleted(yield func(first, last uint64) bool) {
	next := s.firstSeq
	for c, ok := s.log.seek(next); ok; c, ok = s.log.after(c) {
		seq := s.log.seq(c)
		if seq > next && !yield(next, seq-1) {
			return
		}
		next = seq + 1
	}
	if next <= s.lastSeq {
		yield(next, s.lastSeq)
	}
}
