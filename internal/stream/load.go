package stream

import (
	"errors"
	"fmt"
	"math"
)

// ErrLoad: what is loaded does not fit together: an ordinal that no subject has, or a subject that no stream keeps.
var ErrLoad = errors.New("stream: cannot load")

// Loader enters many messages that were visible before, as the index of a segment lists them: each with the ordinal of
// its subject in a dictionary, so that a subject is looked up once and not for each of its messages. It comes to the same
// as Recall of each in a stream without limits: what the limits removed is not to be loaded. A message costs a few tens of
// nanoseconds and is packed at once; beside the State a Loader holds 4 bytes for each subject of a dictionary.
//
// The last step is Close. Until then nothing but the Loader may use the State.
type Loader struct {
	state *State
	ids   []subjectID // by ordinal
	fresh bool        // a subject of the dictionary was new
}

// Load begins to load messages behind those that are there. In a State with messages in flight it is ErrSequence.
func (s *State) Load() (*Loader, error) {
	if s.flight.len() > 0 {
		return nil, fmt.Errorf("%w: loading while messages are in flight", ErrSequence)
	}
	s.log.eager = true
	return &Loader{state: s}, nil
}

// Dictionary begins another dictionary: its first subject has ordinal 0 again.
func (l *Loader) Dictionary() {
	l.forget()
	l.ids = l.ids[:0]
}

// Subject enters the dictionary's next subject, and gives its ordinal. It is fastest for subjects in bytewise order. Text is
// not kept. One without a message is forgotten.
func (l *Loader) Subject(text []byte) (ordinal uint32, err error) {
	if len(text) == 0 || len(text) > maxSubjectBytes || len(l.ids) == math.MaxUint32 {
		return 0, fmt.Errorf("%w: subject of %d bytes at ordinal %d", ErrLoad, len(text), len(l.ids))
	}
	before := l.state.names.count
	l.ids = append(l.ids, l.state.intern(text))
	l.fresh = l.fresh || l.state.names.count > before
	return uint32(len(l.ids) - 1), nil
}

// Message enters a message. Sequences ascend; anything else is ErrSequence. size is as Bytes counts it, and counted as at
// most 4 GiB. note is what AppendNote made of the message's header, empty as a rule: without it what the message says about
// its TTL, delete markers, schedules and id would be lost.
func (l *Loader) Message(seq uint64, time int64, size uint64, ordinal uint32, note []byte) error {
	s := l.state
	if seq <= s.lastSeq {
		return fmt.Errorf("%w: %d after %d", ErrSequence, seq, s.lastSeq)
	}
	if int(ordinal) >= len(l.ids) {
		return fmt.Errorf("%w: message %d has ordinal %d of %d subjects", ErrLoad, seq, ordinal, len(l.ids))
	}
	id := l.ids[ordinal]
	if s.log.live == 0 {
		s.firstSeq = seq
	}
	s.lastSeq, s.lastTime = seq, max(time, s.lastTime)
	s.log.add(seq, s.lastTime, id, size, 0)
	s.bytes += size
	s.appendTo(id, seq)
	if len(note) > 0 || len(s.plans.bySubject) > 0 {
		l.note(seq, time, id, note)
	}
	return nil
}

// note follows what a message's headers say.
func (l *Loader) note(seq uint64, time int64, id subjectID, note []byte) {
	s := l.state
	h := parseHeaders(note)
	f := flying{marker: h.isMarker()}
	f.ttl, _ = parseTTL(h.ttl)
	s.life.note(seq, s.lastTime, &f)
	if len(h.msgID) > 0 {
		s.dedup.expire(time)
		s.dedup.add(digestOf(h.msgID), seq, time)
	}
	if h.schedules() || len(s.plans.bySubject) > 0 {
		m := Message{Seq: seq, Time: time, Subject: s.names.text(id), Header: note}
		s.noteSchedule(&m, &h, &Effects{})
	}
}

// forget drops the subjects of a dictionary that no message has.
func (l *Loader) forget() {
	if !l.fresh {
		return
	}
	l.fresh = false
	for _, id := range l.ids {
		if t := &l.state.names; id < t.rows.n && t.row(id).count == 0 && t.used(id) {
			t.drop(id)
		}
	}
}

// Close ends the loading: the State can be used.
func (l *Loader) Close() {
	l.forget()
	s := l.state
	s.log.eager = false
	s.lastID, s.acceptedID = s.lastID[:0], s.acceptedID[:0]
	s.nextSeq, s.nextTime = max(s.nextSeq, s.lastSeq+1), max(s.nextTime, s.lastTime)
	s.virtual.stale = true
}
