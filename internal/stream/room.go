package stream

import (
	"github.com/sluicemq/sluice/internal/jserr"
)

// virtual is how full a stream with discard: new is going to be once everything in flight is visible. Publishes are
// checked against it: were they checked against what is visible, a burst in flight would overshoot the limit.
type virtual struct {
	msgs  int64
	bytes int64
	// stale: a change that does not come from the queue in flight made the numbers wrong; they are counted again
	// when they are needed.
	stale bool
}

// The texts of nats-server's store, as StreamStoreFailed carries them.
const (
	textMaxMsgs           = "maximum messages exceeded"
	textMaxBytes          = "maximum bytes exceeded"
	textMaxMsgsPerSubject = "maximum messages per subject exceeded"
)

// checkRoom refuses a message that a full stream has no room for.
func (s *State) checkRoom(id subjectID, size uint64, hasRollup bool) *jserr.Error {
	full := func(text string) *jserr.Error { return jserr.New(jserr.StreamStoreFailed, "err", text) }
	s.refreshVirtual()
	perSubject := s.cfg.MaxMsgsPer > 0
	atLimit := perSubject && id != 0 && int64(s.virtualCount(id)) >= s.cfg.MaxMsgsPer
	if atLimit && s.cfg.DiscardNewPer && !hasRollup {
		return full(textMaxMsgsPerSubject)
	}
	if s.cfg.MaxMsgs > 0 && s.virtual.msgs >= s.cfg.MaxMsgs && !atLimit {
		return full(textMaxMsgs)
	}
	if s.cfg.MaxBytes > 0 && s.virtual.bytes+int64(size) > s.cfg.MaxBytes {
		// At a subject's limit the message takes the place of the subject's oldest.
		if !atLimit || s.virtualOldest(id) < size {
			return full(textMaxBytes)
		}
	}
	return nil
}

// virtualCount is how many messages a subject is going to have.
func (s *State) virtualCount(id subjectID) uint32 {
	row := s.names.row(id)
	if s.flight.holds(row.flight) {
		if f := s.flight.at(row.flight - 1); f.seq >= s.flight.rolledAll {
			return f.count
		}
		return 0
	}
	if s.flight.rolledAll != 0 {
		return 0
	}
	return row.count
}

// virtualOldest is the size of the message that one more of the subject, which is at its limit, is going to push out.
func (s *State) virtualOldest(id subjectID) uint64 {
	row := s.names.row(id)
	left := int(s.cfg.MaxMsgsPer)
	for ref := row.flight; s.flight.holds(ref); {
		f := s.flight.at(ref - 1)
		if left--; left == 0 {
			return f.size
		}
		ref = f.previous
	}
	seq, ok := s.fromEnd(row, left-1)
	if !ok {
		return 0
	}
	return s.sizeOf(seq)
}

// forecast counts what an accepted message, not yet in the queue, is going to change.
func (s *State) forecast(f *flying) {
	s.refreshVirtual()
	count, roll := s.virtualCount(f.subject), f.rollup
	if !s.rollsUp() {
		roll = rollupNone
	}
	switch {
	case roll == rollupAll:
		s.virtual.msgs, s.virtual.bytes, count = 0, 0, 0
	case roll == rollupSubject:
		s.virtual.msgs -= int64(count)
		s.virtual.bytes -= int64(s.virtualBytes(f.subject, count))
		count = 0
	case s.cfg.MaxMsgsPer > 0 && int64(count) >= s.cfg.MaxMsgsPer:
		s.virtual.msgs--
		s.virtual.bytes -= int64(s.virtualOldest(f.subject))
		count--
	}
	s.virtual.msgs++
	s.virtual.bytes += int64(f.size)
	f.count = count + 1
}

// virtualBytes is the size of the newest count messages that a subject is going to have.
func (s *State) virtualBytes(id subjectID, count uint32) (n uint64) {
	row := s.names.row(id)
	left := int(count)
	for ref := row.flight; left > 0 && s.flight.holds(ref); left-- {
		f := s.flight.at(ref - 1)
		n += f.size
		ref = f.previous
	}
	for k := range left {
		if seq, ok := s.fromEnd(row, k); ok {
			n += s.sizeOf(seq)
		}
	}
	return n
}

// refreshVirtual counts again, message by message, after a change that forecast did not see.
func (s *State) refreshVirtual() {
	if !s.virtual.stale {
		return
	}
	s.virtual = virtual{msgs: int64(s.log.live), bytes: int64(s.bytes)}
	if s.flight.len() == 0 {
		return
	}
	s.replayFlight()
}

// replayFlight forecasts the whole queue in order. To each message the queue looks as it did when it was accepted:
// its subject's newest is the one before it.
func (s *State) replayFlight() {
	q := &s.flight
	tail, rolledAll := q.tail, uint64(0)
	for pos := q.head; pos != tail; pos = (pos + 1) & positionMask {
		f := q.at(pos)
		if f.unwanted {
			continue
		}
		newest := s.names.row(f.subject).flight
		s.names.setFlight(f.subject, f.previous)
		q.tail, q.rolledAll = pos, rolledAll
		s.forecast(f)
		s.names.setFlight(f.subject, newest)
		if f.rollup == rollupAll && !q.ignore {
			rolledAll = f.seq
		}
	}
	q.tail, q.rolledAll = tail, rolledAll
}

// forgetVirtual follows a removal that does not come from the queue in flight.
func (s *State) forgetVirtual(row name, size uint64) {
	switch {
	case s.virtual.stale:
	case s.flight.rollups == 0 && (s.cfg.MaxMsgsPer <= 0 && !s.rollsUp() || !s.flight.holds(row.flight)):
		s.virtual.msgs--
		s.virtual.bytes -= int64(size)
	default:
		s.virtual.stale = true
	}
}
