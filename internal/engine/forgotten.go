package engine

import "time"

// forgetting is what was last told of message ids that are forgotten before their window ends.
type forgetting struct {
	told uint64
	at   time.Time
}

// warnForgotten tells, now and then, that the duplicate window is larger than what is remembered of it: then a message
// may be stored twice.
func (s *Stream) warnForgotten() {
	n := s.state.Forgotten()
	if n == s.forgetting.told || s.now.Sub(s.forgetting.at) < warnEvery {
		return
	}
	s.engine.opts.Logger.Warn("JetStream forgets message ids before their duplicate window ends, since there are too many",
		"account", s.account.name, "stream", s.name, "window", s.Config().Duplicates, "forgotten", n-s.forgetting.told)
	s.forgetting = forgetting{n, s.now}
}
