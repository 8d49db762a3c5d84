package stream

import (
	"errors"
	"math"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// removeSeq takes a message out and reports whether it was there. foreseen tells that the forecast of what is in
// flight counted on it.
func (s *State) removeSeq(seq uint64, e *Effects, foreseen bool) bool {
	c, ok := s.log.find(seq)
	if !ok {
		return false
	}
	id, size := s.log.subject(c), s.log.size(c)
	removed := Removed{Seq: seq, Subject: s.names.text(id), Size: size, Place: s.log.place(c)}
	if !foreseen {
		s.forgetVirtual(s.names.row(id), size)
	}
	s.log.remove(c)
	s.bytes -= size
	s.takeFrom(id, seq)
	if seq == s.firstSeq {
		s.findFirst()
	}
	s.life.sweep(s)
	if len(s.plans.bySeq) > 0 {
		s.plans.drop(s.plans.bySeq[seq])
	}
	e.add(removed)
	return true
}

// takeFrom removes a sequence from its subject, and the subject with its last message.
func (s *State) takeFrom(id subjectID, seq uint64) {
	row := s.names.rows.at(id)
	if row.more == 0 {
		row.first = 0
		s.visible--
		s.names.drop(id)
		return
	}
	m := s.names.mores.at(row.more)
	m.count--
	if m.count == 0 {
		row.first, m.last = 0, 0
		s.dropPosting(m)
		s.visible--
		if !s.flight.holds(m.flight) {
			s.names.drop(id)
		}
		return
	}
	if m.posting == 0 { // two were there
		if seq == row.first {
			row.first = m.last
		} else {
			m.last = row.first
		}
		s.names.trim(id)
		return
	}
	p := s.postings.at(m.posting)
	p.remove(seq)
	switch seq {
	case row.first:
		row.first = p.first()
	case m.last:
		m.last = p.last()
	}
	if m.count == 1 {
		s.dropPosting(m)
		s.names.trim(id)
	}
}

func (s *State) newPosting() uint32 {
	if i := s.freePosting; i != 0 {
		p := s.postings.at(i)
		s.freePosting = uint32(p.base)
		*p = posting{}
		return i
	}
	if s.postings.n == 0 {
		s.postings.add(posting{}) // 0 is none
	}
	return s.postings.add(posting{})
}

func (s *State) dropPosting(m *nameMore) {
	if m.posting == 0 {
		return
	}
	*s.postings.at(m.posting) = posting{base: uint64(s.freePosting)}
	s.freePosting = m.posting
	m.posting = 0
}

// removeOldest removes the oldest messages of a subject, of which keep are to stay: at least one, so that the subject does.
func (s *State) removeOldest(id subjectID, keep int64, e *Effects, foreseen bool) {
	for row := s.names.row(id); int64(row.count) > keep; row = s.names.row(id) {
		s.removeSeq(row.first, e, foreseen)
	}
}

// findFirst moves firstSeq to the first message that is there.
func (s *State) findFirst() {
	s.firstSeq = s.lastSeq + 1
	if c, ok := s.log.first(); ok {
		s.firstSeq = s.log.seq(c)
	}
}

// CheckDelete decides on the deletion of a message through the API. Errors are *jserr.Error.
func (s *State) CheckDelete(seq uint64) error {
	switch {
	case s.cfg.Sealed:
		return jserr.New(jserr.StreamSealed)
	case s.cfg.DenyDelete:
		return jserr.New(jserr.StreamMsgDeleteFailed, "err", "message delete not permitted")
	case seq > s.lastSeq && s.cfg.Storage == api.FileStorage: // as nats-server's file storage answers
		return jserr.New(jserr.StreamMsgDeleteFailed, "err", "stream store EOF")
	case (seq == 0 || seq < s.firstSeq) && s.cfg.Storage == api.FileStorage:
		return jserr.New(jserr.StreamMsgDeleteFailed, "err", "no message found")
	case !s.Has(seq):
		return jserr.New(jserr.SequenceNotFound, "seq", seq)
	}
	return nil
}

// Delete removes one message and reports whether it was there: a delete through the API, or the removal of a message
// that interest or work-queue retention has no use for any more.
func (s *State) Delete(seq uint64, e *Effects) bool {
	return s.removeSeq(seq, e, false)
}

// Purge says what to remove: the messages of Subject ("" is all of them, wildcards are allowed) whose sequence is less
// than Upto (0: whatever it is), except the newest Keep.
type Purge struct {
	Subject    string
	Upto, Keep uint64
}

// AcceptPurge decides on a purge through the API; errors are *jserr.Error. A purge up to a sequence that is not reached yet makes the next
// message take that sequence, so messages accepted after AcceptPurge must be applied after Purge.
func (s *State) AcceptPurge(p Purge) error {
	switch {
	case p.Upto > 0 && p.Keep > 0:
		return jserr.New(jserr.BadRequest)
	case s.cfg.Sealed:
		return jserr.New(jserr.StreamSealed)
	case s.cfg.DenyPurge:
		return jserr.New(jserr.StreamPurgeFailed, "err", "stream purge not permitted")
	}
	if p.everything() {
		s.nextSeq = max(s.nextSeq, p.Upto)
	}
	return nil
}

func (p Purge) everything() bool { return p.Subject == "" || p.Subject == ">" }

// Purge removes messages by rule and counts them. What is accepted and not visible yet is not touched.
func (s *State) Purge(p Purge, e *Effects) (purged uint64) {
	if p.Upto == 1 {
		return 0
	}
	if p.everything() && p.Keep == 0 {
		purged = s.removeBelow(p.uptoOrEnd(), e)
		if p.Upto > s.lastSeq+1 {
			s.skipTo(p.Upto)
		}
		return purged
	}
	var f *Filter
	if !p.everything() {
		var err error
		if f, err = CompileFilter(p.Subject); err != nil {
			return 0
		}
	}
	left := uint64(math.MaxUint64)
	if p.Keep > 0 {
		n := s.Pending(f, 0)
		if p.Keep >= n {
			return 0
		}
		left = n - p.Keep
	}
	end := min(p.uptoOrEnd(), s.lastSeq+1)
	for seq := s.firstSeq; purged < left; {
		m, ok := s.Next(f, seq)
		if !ok || m.Seq >= end {
			break
		}
		s.removeSeq(m.Seq, e, false)
		purged++
		seq = m.Seq + 1
	}
	return purged
}

func (p Purge) uptoOrEnd() uint64 {
	if p.Upto == 0 {
		return math.MaxUint64
	}
	return p.Upto
}

// clearFrom is how many messages are worth a new, empty index rather than being taken out one by one.
const clearFrom = 1024

// removeBelow removes every message whose sequence is less than seq.
func (s *State) removeBelow(seq uint64, e *Effects) (n uint64) {
	if seq > s.lastSeq && s.log.live >= clearFrom {
		return s.clear(e)
	}
	for s.log.live > 0 && s.firstSeq < seq {
		s.removeSeq(s.firstSeq, e, false)
		n++
	}
	return n
}

// clear removes every message at once: what is in flight moves to a new table of subjects, and the old index goes as a
// whole.
func (s *State) clear(e *Effects) uint64 {
	log, old := s.log, s.names
	s.log, s.bytes, s.visible = messages{}, 0, 0
	s.postings, s.freePosting = paged[posting]{}, 0
	s.names = names{freed: old.freed + 1}
	s.names.init()
	s.life, s.plans = lifetimes{}, schedules{}
	s.stray, s.virtual.stale = false, true
	for pos := s.flight.head; pos != s.flight.tail; pos = (pos + 1) & positionMask {
		f := s.flight.at(pos)
		if f.unwanted {
			continue
		}
		f.subject = s.intern(old.text(f.subject))
		s.names.setFlight(f.subject, pos+1)
	}
	s.findFirst()
	for c, ok := log.first(); ok; c, ok = log.after(c) {
		if e.full() {
			e.Count++
			continue
		}
		e.add(Removed{Seq: log.seq(c), Subject: old.text(log.subject(c)), Size: log.size(c), Place: log.place(c)})
	}
	return log.live
}

// skipTo makes seq the next sequence of an empty stream.
func (s *State) skipTo(seq uint64) {
	s.firstSeq, s.lastSeq = seq, seq-1
	s.nextSeq = max(s.nextSeq, seq)
}

// UpdateConfig changes the configuration to one that CheckUpdate returned, and enforces limits that became lower.
func (s *State) UpdateConfig(cfg api.StreamConfig, e *Effects) error {
	old := s.cfg
	if err := s.configure(cfg); err != nil {
		return err
	}
	if s.stray || !coveredBy(old.Subjects, cfg.Subjects) {
		s.findStray()
	}
	s.flight.countRollups(s.rollsUp())
	s.enforceTotals(e)
	if limit := cfg.MaxMsgsPer; limit > 0 && (old.MaxMsgsPer <= 0 || limit < old.MaxMsgsPer) {
		s.enforcePerSubject(limit, e)
	}
	return nil
}

// findStray looks whether a message has a subject that the configuration does not cover.
func (s *State) findStray() {
	s.stray = false
	s.names.tree.walk(func(id subjectID) int {
		if !anyReaches(s.cfg.Subjects, s.names.text(id)) {
			s.stray = true
			return walkStop
		}
		return walkOn
	})
}

// enforcePerSubject removes the oldest messages of subjects with more than limit.
func (s *State) enforcePerSubject(limit int64, e *Effects) {
	for id := subjectID(1); id < s.names.rows.n; id++ {
		s.removeOldest(id, limit, e, false)
	}
}

// coveredBy reports whether each pattern of as is within one of bs.
func coveredBy(as, bs []string) bool {
	for _, a := range as {
		within := false
		for _, b := range bs {
			within = within || subject.IsSubset(a, b)
		}
		if !within {
			return false
		}
	}
	return true
}

var errNoSubject = errors.New("stream: not a valid subject")
