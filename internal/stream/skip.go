package stream

// Skip gives up the sequences up to last, which no message will have: the next one is last+1. What is in flight must
// have become visible before. It is part of a replay, or of a restore.
func (s *State) Skip(last uint64) {
	if last <= s.lastSeq {
		return
	}
	if s.log.live == 0 {
		s.firstSeq = last + 1
	}
	s.lastSeq = last
	s.nextSeq = max(s.nextSeq, last+1)
	s.virtual.stale = true
}

// SetLast says when the last message was accepted (ns UTC), and its id: it may be gone, or have been recalled.
func (s *State) SetLast(ns int64, id string) {
	s.lastTime, s.nextTime = max(s.lastTime, ns), max(s.nextTime, ns)
	s.lastID = append(s.lastID[:0], id...)
	s.acceptedID = append(s.acceptedID[:0], id...)
}

// LastID is the Nats-Msg-Id of the last message.
func (s *State) LastID() string { return string(s.lastID) }
