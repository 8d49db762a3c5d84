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
