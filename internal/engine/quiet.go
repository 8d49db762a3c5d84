package engine

import "context"

// A checkpoint says what all records before it add up to. A record that is in the log's hands lies before it and has
// had no effect yet: what it deletes, changes or adds is not in the state that the checkpoint is made from, and replay,
// which may begin at the checkpoint, would lose it. So a checkpoint is made at a quiet moment, when everything that the
// stream has handed to the log is committed. What comes meanwhile is held back: entries wait in unsent, publishes in
// the inbox, and the consumers' progress in their machines.

// whenQuiet runs f on the owner when nothing of the stream is on its way to the log. f gets an error if that moment
// will not come.
func (s *Stream) whenQuiet(f func(error)) {
	s.seal()
	if len(s.quiet) == 0 {
		s.ahead = len(s.unsent)
	}
	s.quiet = append(s.quiet, f)
	s.lookQuiet()
}

// holding reports whether entries are held back: until the stream is quiet, or has back what it lent (see loan).
func (s *Stream) holding() bool { return len(s.quiet) > 0 || s.lent != nil }

// lookQuiet does what waited for a quiet moment, if this is one.
func (s *Stream) lookQuiet() {
	if len(s.quiet) == 0 || s.ahead > 0 || len(s.sent) > 0 {
		return
	}
	s.endQuiet(s.failed)
	s.sendUnsent()
}

// endQuiet runs what waited. Entries that were held back follow those that it writes.
func (s *Stream) endQuiet(err error) {
	waiting, held := s.quiet, s.unsent
	s.quiet, s.unsent, s.ahead = nil, nil, 0
	for _, f := range waiting {
		f(err)
	}
	s.unsent = append(s.unsent, held...)
}

// doQuiet is doCommitted for an entry that is made at a quiet moment.
func (s *Stream) doQuiet(ctx context.Context, f func() (*entry, error)) error {
	result := make(chan error, 1)
	queued := s.inbox.command(func() {
		s.whenQuiet(func(err error) {
			if err != nil {
				result <- err
				return
			}
			s.commit(f, result)
		})
	})
	if !queued {
		return errStreamEnded
	}
	return s.await(ctx, result)
}
