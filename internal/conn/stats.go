package conn

import "sync/atomic"

// counters are the server's totals. They are touched once per chunk and receiver.
type counters struct {
	inMsgs, inBytes, outMsgs, outBytes atomic.Int64
	stalls                             atomic.Int64
	slow, stale                        atomic.Int64
	total                              atomic.Uint64
}

func (s *counters) received(msgs, bytes int64) {
	s.inMsgs.Add(msgs)
	s.inBytes.Add(bytes)
}

func (s *counters) delivered(msgs, bytes int64) {
	s.outMsgs.Add(msgs)
	s.outBytes.Add(bytes)
}
