package engine

import (
	"errors"
	"slices"

	"github.com/sluicemq/sluice/internal/wal"
)

// loan is an entry of one stream that goes to the log in a group with the entry of another: the two are in one object,
// so a crash has both or neither.
//
// # The order
//
// A stream's entries have to reach the log in the order in which the stream made them. So the stream that lends an
// entry puts it where it belongs, at the end of what it has sent, and holds back what follows, as it does for a
// checkpoint: see quiet.go. The borrower writes the group as one of its own entries, with all that goes for those: it
// waits behind earlier ones and is offered again while the log is full. As soon as the log has the group the lender
// goes on. A borrower that cannot go through with it gives the loan back, and the lender sends its entry alone.
//
// The borrower waits for nothing of the lender's, and the courier makes one loan at a time, so no two streams wait for
// each other.
type loan struct {
	lender *Stream
	entry  *entry
	handed chan<- error // is told once, when the log has taken the group or refused it for good; has room for it
}

// lend closes the chunk that is being built and lends it. The caller saw that the stream may accept.
func (s *Stream) lend(handed chan<- error) *loan {
	e := s.closeChunk()
	s.inFlightBytes += len(e.Data)
	s.sent = append(s.sent, e)
	s.lent = &loan{lender: s, entry: e, handed: handed}
	return s.lent
}

// offer hands an entry to the log, with the entry that was borrowed for it.
func (s *Stream) offer(e *entry) error {
	l := e.loan
	if l == nil {
		return s.log.Append(&e.Entry)
	}
	err := s.log.AppendGroup(&l.entry.Entry, &e.Entry)
	if errors.Is(err, wal.ErrFull) {
		return err
	}
	e.loan = nil
	if l.lender == s {
		s.loanOver(l, err)
	} else {
		l.lender.inbox.command(func() {
			l.lender.loanOver(l, err)
			l.lender.sendUnsent()
		})
	}
	l.handed <- err
	return err
}

// mayPass reports whether an entry need not be held back.
func (s *Stream) mayPass(e *entry) bool {
	if s.lent != nil {
		return e.loan == s.lent // the stream is its own borrower
	}
	return len(s.quiet) == 0 || s.ahead > 0
}

// loanOver ends a loan on the lender: the log has the entry, or err says why it never will.
func (s *Stream) loanOver(l *loan, err error) {
	if s.lent != l {
		return
	}
	s.lent = nil
	if err != nil {
		s.takeBack(l)
		l.entry.Err = err
		s.committed(l.entry)
	}
}

// takeBack takes a lent entry off the end of what was sent, since it was not. Nothing can have followed it.
func (s *Stream) takeBack(l *loan) {
	if n := len(s.sent) - 1; n >= 0 && s.sent[n] == l.entry {
		s.sent[n] = nil
		s.sent = s.sent[:n]
	}
}

// giveBack has the lender send its entry alone.
func (l *loan) giveBack() {
	l.lender.inbox.command(func() {
		s := l.lender
		if s.lent != l {
			return
		}
		s.lent = nil
		s.takeBack(l)
		s.unsent = slices.Insert(s.unsent, 0, l.entry)
		if len(s.quiet) > 0 {
			s.ahead++
		}
		s.sendUnsent()
	})
}

// errand has f run on the owner at every turn until it says that it is done: for what has to wait for its moment. It
// reports whether the stream has not ended; f may not be called any more when done is closed.
func (s *Stream) errand(f func() (done bool)) bool {
	return s.inbox.command(func() { s.errands = append(s.errands, f) })
}

func (s *Stream) runErrands() {
	if len(s.errands) > 0 {
		s.errands = slices.DeleteFunc(s.errands, func(f func() bool) bool { return f() })
	}
}
