package stream

import (
	"fmt"
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/subject"
)

// Message is a committed message. Its slices are read during the call only.
type Message struct {
	Seq     uint64
	Time    int64 // ns UTC
	Subject []byte
	Header  []byte
	Size    int // of the data, in bytes
	Place   Place
}

// Removed is a message that is gone.
type Removed struct {
	Seq     uint64
	Subject []byte // until the next call that changes the State
	Size    uint64 // as Bytes counts it
	Place   Place
}

// maxListed bounds the list of removed messages: what one change removes beyond it is only counted.
const maxListed = 1 << 16

// Effects are what a change did beside what was asked. They add up over several changes until Reset.
type Effects struct {
	// Removed lists the messages that are gone, in order of removal.
	Removed []Removed
	// Count of the removed messages. When it is more than len(Removed), there were too many to list (65,536): whoever
	// follows them looks at the State again ([State.Has], [State.Pending]).
	Count uint64
	// Republish is set when the stream republishes the message that was applied.
	Republish Republish
	// Each, when set, is called for every removed message instead of listing it. It must not change the State.
	Each func(Removed)
}

// Republish is the copy of a stored message that goes out on another subject. Its headers are those of the message and
// Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp and Nats-Last-Sequence.
type Republish struct {
	Subject     []byte // empty: nothing is republished; until Reset
	LastSeq     uint64 // of the message's own subject before it; 0: there was none
	HeadersOnly bool   // no data, but its size in Nats-Msg-Size
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Removed)
	*e = Effects{Removed: e.Removed[:0], Each: e.Each, Republish: Republish{Subject: e.Republish.Subject[:0]}}
}

// All reports whether Removed lists everything.
func (e *Effects) All() bool { return e.Each == nil && e.Count == uint64(len(e.Removed)) }

// full reports whether nobody hears of what else is removed.
func (e *Effects) full() bool { return e.Each == nil && len(e.Removed) >= maxListed }

func (e *Effects) add(r Removed) {
	e.Count++
	switch {
	case e.Each != nil:
		e.Each(r)
	case !e.full():
		e.Removed = append(e.Removed, r)
	}
}

// Apply makes a message visible and removes what the limits no longer allow. Messages come in order of sequence;
// anything else is ErrSequence and changes nothing. A replay calls it with the same messages, which nobody accepted
// from this State. A message without a subject is one that was unwanted when it was accepted: only its sequence counts.
func (s *State) Apply(m Message, e *Effects) error {
	if err := s.inOrder(&m); err != nil {
		return err
	}
	f, err := s.land(&m)
	if err != nil {
		return err
	}
	s.enter(&m, f, e)
	return nil
}

func (s *State) inOrder(m *Message) error {
	if m.Seq <= s.lastSeq || len(m.Subject) > maxSubjectBytes {
		return fmt.Errorf("%w: %d after %d", ErrSequence, m.Seq, s.lastSeq)
	}
	return nil
}

// enter puts a message among the visible ones.
func (s *State) enter(m *Message, f flying, e *Effects) {
	if f.unwanted {
		s.pass(m.Seq, m.Time, e)
		return
	}
	if s.republish != nil {
		s.republishOf(m, s.names.row(f.subject), e)
	}
	if s.log.live == 0 {
		s.firstSeq = m.Seq
	}
	s.lastSeq, s.lastTime = m.Seq, max(m.Time, s.lastTime)
	s.log.add(m.Seq, s.lastTime, f.subject, f.size, m.Place)
	s.bytes += f.size
	s.life.note(m.Seq, s.lastTime, &f)
	s.appendTo(f.subject, m.Seq)
	s.enforce(f, e)
	s.names.trim(f.subject)
	if f.scheduling || len(s.plans.bySubject) > 0 {
		h := parseHeaders(m.Header)
		s.noteSchedule(m, &h, e)
	}
}

// pass lets a sequence go by that has no message: it counts as one that is gone at once.
func (s *State) pass(seq uint64, t int64, e *Effects) {
	s.lastSeq, s.lastTime = seq, max(t, s.lastTime)
	if s.log.live == 0 {
		s.firstSeq = seq + 1
	}
	e.add(Removed{Seq: seq})
}

// land takes the message off the queue in flight, or enters it on a replay.
func (s *State) land(m *Message) (flying, error) {
	if s.flight.len() > 0 {
		if oldest := s.flight.at(s.flight.head); oldest.seq != m.Seq {
			return flying{}, fmt.Errorf("%w: %d, but %d was accepted first", ErrSequence, m.Seq, oldest.seq)
		}
		f, ref := s.flight.pop()
		if !f.unwanted && s.names.row(f.subject).flight == ref {
			s.names.setFlight(f.subject, 0)
		}
		s.lastID = s.lastID[:0]
		if f.hasID {
			s.lastID = append(s.lastID, parseHeaders(m.Header).msgID...)
		}
		if !s.rollsUp() {
			f.rollup = rollupNone
		}
		return f, nil
	}
	f := flying{seq: m.Seq, size: s.accounted(len(m.Subject), len(m.Header), m.Size)}
	s.lastID = s.lastID[:0]
	if len(m.Header) > 0 {
		h := parseHeaders(m.Header)
		if s.rollsUp() {
			f.rollup = parseRollup(h.rollup)
		}
		f.ttl, _ = parseTTL(h.ttl)
		f.marker = h.isMarker()
		f.scheduling = h.schedules()
		if len(h.source) > 0 {
			s.noteSource(h.source)
		}
		if len(h.msgID) > 0 {
			s.lastID = append(s.lastID, h.msgID...)
			s.dedup.expire(m.Time)
			s.dedup.add(digestOf(h.msgID), m.Seq, m.Time)
		}
	}
	if f.unwanted = len(m.Subject) == 0; !f.unwanted {
		f.subject = s.intern(m.Subject)
	}
	s.acceptedID = append(s.acceptedID[:0], s.lastID...)
	s.nextSeq = max(s.nextSeq, m.Seq+1)
	s.nextTime = max(s.nextTime, m.Time)
	s.virtual.stale = true
	return f, nil
}

// intern finds or adds a subject.
func (s *State) intern(text []byte) subjectID {
	id, added := s.names.intern(text)
	if added && !s.stray {
		s.stray = !anyReaches(s.cfg.Subjects, text)
	}
	return id
}

func anyReaches(patterns []string, text []byte) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return subject.Match(text, p) })
}

// appendTo adds a sequence to its subject.
func (s *State) appendTo(id subjectID, seq uint64) {
	row := s.names.rows.at(id)
	if row.first == 0 {
		s.visible++
		row.first = seq
		if row.more != 0 {
			m := s.names.mores.at(row.more)
			m.last, m.count = seq, 1
		}
		return
	}
	m := s.names.more(row)
	m.count++
	if m.posting == 0 && m.count > 2 {
		m.posting = s.newPosting()
		p := s.postings.at(m.posting)
		p.add(row.first)
		p.add(m.last)
	}
	if m.posting != 0 {
		s.postings.at(m.posting).add(seq)
	}
	m.last = seq
}

// enforce removes what the new message f leaves no room for, and what it rolls up. The order is that of nats-server:
// a rollup finds what the limits have left.
func (s *State) enforce(f flying, e *Effects) {
	if limit := s.cfg.MaxMsgsPer; limit > 0 {
		s.removeOldest(f.subject, limit, e, true)
	}
	s.enforceTotals(e)
	switch f.rollup {
	case rollupSubject:
		s.removeOldest(f.subject, 1, e, true)
	case rollupAll:
		for s.log.live > 1 {
			s.removeSeq(s.firstSeq, e, true)
		}
	}
}

// enforceTotals removes the oldest messages beyond max_msgs and max_bytes.
func (s *State) enforceTotals(e *Effects) {
	if s.cfg.Discard != api.DiscardOld {
		return
	}
	for s.cfg.MaxMsgs > 0 && s.log.live > uint64(s.cfg.MaxMsgs) {
		s.removeSeq(s.firstSeq, e, true)
	}
	for s.cfg.MaxBytes > 0 && s.bytes > uint64(s.cfg.MaxBytes) && s.log.live > 0 {
		s.removeSeq(s.firstSeq, e, true)
	}
}
