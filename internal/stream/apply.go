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

func (e *Effects) add(r Removed) {
	e.Count++
	switch {
	case e.Each != nil:
		e.Each(r)
	case len(e.Removed) < maxListed:
		e.Removed = append(e.Removed, r)
	}
}

// Apply makes a message visible and removes what the limits no longer allow. Messages come in order of sequence;
// anything else is ErrSequence and changes nothing. A replay calls it with the same messages, which nobody accepted
// from this State.
func (s *State) Apply(m Message, e *Effects) error {
	if m.Seq <= s.lastSeq || len(m.Subject) > maxSubjectBytes {
		return fmt.Errorf("%w: %d after %d", ErrSequence, m.Seq, s.lastSeq)
	}
	f, err := s.land(&m)
	if err != nil {
		return err
	}
	row := s.names.row(f.subject)
	if s.republish != nil {
		s.republishOf(&m, row, e)
	}
	if s.log.live == 0 {
		s.firstSeq = m.Seq
	}
	s.lastSeq, s.lastTime = m.Seq, max(m.Time, s.lastTime)
	s.log.add(m.Seq, s.lastTime, f.subject, f.size, m.Place)
	s.bytes += f.size
	s.life.note(m.Seq, s.lastTime, &f)
	s.appendTo(row, m.Seq)
	s.enforce(f, row, e)
	if f.scheduling || len(s.plans.bySubject) > 0 {
		h := parseHeaders(m.Header)
		s.noteSchedule(&m, &h, e)
	}
	return nil
}

// land takes the message off the queue in flight, or enters it on a replay.
func (s *State) land(m *Message) (flying, error) {
	if s.flight.len() > 0 {
		if oldest := s.flight.at(s.flight.head); oldest.seq != m.Seq {
			return flying{}, fmt.Errorf("%w: %d, but %d was accepted first", ErrSequence, m.Seq, oldest.seq)
		}
		f, ref := s.flight.pop()
		if row := s.names.row(f.subject); row.flight == ref {
			row.flight = 0
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
	f.subject = s.intern(m.Subject)
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
func (s *State) appendTo(row *name, seq uint64) {
	row.count++
	if row.count == 1 {
		row.first, row.last = seq, seq
		s.visible++
		return
	}
	if row.posting == 0 && row.count > 2 {
		row.posting = s.newPosting()
		p := s.postings.at(row.posting)
		p.add(row.first)
		p.add(row.last)
	}
	if row.posting != 0 {
		s.postings.at(row.posting).add(seq)
	}
	row.last = seq
}

// enforce removes what the new message f leaves no room for, and what it rolls up. The order is that of nats-server:
// a rollup finds what the limits have left.
func (s *State) enforce(f flying, row *name, e *Effects) {
	if limit := s.cfg.MaxMsgsPer; limit > 0 {
		for int64(row.count) > limit {
			s.removeSeq(row.first, e, true)
		}
	}
	s.enforceTotals(e)
	switch f.rollup {
	case rollupSubject:
		for row.count > 1 {
			s.removeSeq(row.first, e, true)
		}
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
