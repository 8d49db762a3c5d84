package engine

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// A consumer with a dead-letter policy (docs/dead-letter.md) has what it gives up, and what is terminated, stored
// elsewhere as a letter. Storing the letter and settling the message are one: the target stream lends the entry with
// the letter, the source borrows it for the entry with the consumer's progress and the removal, and the log has both in
// one object. See loan, which keeps the order of both streams, and courier, which makes the rounds.
//
// A round:
//
//  1. The source's owner reads the next dead messages of the consumer and writes their letters.
//  2. The target's owner accepts them, as it accepts publishes: against its limits, with the next sequences. What it
//     refuses goes back and is tried again later.
//  3. The source's owner settles the messages and hands the group to the log.
//
// A crash before the object is there leaves the messages as they were, dead and pending in the consumer; one after it
// leaves the letters alone. A message that is acknowledged or removed between the first step and the third has a letter
// all the same, as if it had come just before.

const (
	// deadRound bounds the letters of a round, deadRoundBytes their bytes, but for one letter that is larger.
	deadRound      = 64
	deadRoundBytes = maxChunkBytes
	// Letters that were refused are tried again after deadRetryFirst, and ever longer, up to deadRetryLast.
	deadRetryFirst = time.Second
	deadRetryLast  = 30 * time.Second
)

// deadLetter is a letter that was written and has no place yet.
type deadLetter struct {
	consumer.DeadLetter
	subject      string // where it goes
	header, data []byte
	refused      error // why it found no place
}

// mourning is what a consumer knows of the letters of its dead. Its stream's owner's alone.
type mourning struct {
	policy  consumer.DeadLetterPolicy
	posted  bool      // the courier has the consumer on its list, or is with it
	again   bool      // this round, or the last one, is of letters that were refused before
	retryAt time.Time // when letters that were refused are due
	backOff time.Duration
	warned  bool // the log tells already that letters are refused
}

// applyDeadLetters takes over the policy of the consumer's and the stream's configuration.
func (c *Consumer) applyDeadLetters() {
	cfg := c.machine.Config()
	c.dead.policy = consumer.DeadLetters(c.stream.Config().Metadata, &cfg)
	c.dead.retryAt, c.dead.backOff = time.Time{}, 0
	c.machine.SetDeadLetters(c.dead.policy.Causes(), &c.stream.consumerFx)
}

// applyDeadLetters follows a change of the stream's default.
func (s *Stream) applyDeadLetters() {
	for _, c := range s.consumers {
		c.applyDeadLetters()
		c.changed(s.now)
	}
}

// postDead calls the courier when letters are due, and tells when some will be; zero: nothing is known to be.
func (c *Consumer) postDead(now time.Time) (at time.Time) {
	if c.dead.posted || !c.started || c.gone || c.dropping || c.stream.failed != nil || c.stream.deleting {
		return at
	}
	fresh, refused := c.machine.Dead()
	switch {
	case fresh, refused && !now.Before(c.dead.retryAt):
		c.dead.posted = true
		c.stream.engine.courier.call(c)
	case refused:
		at = c.dead.retryAt
	}
	return at
}

// writeDead writes the next letters and gives them to done, perhaps later, with those that cannot be written.
func (c *Consumer) writeDead(done func([]deadLetter)) {
	if c.gone || c.dropping || c.stream.failed != nil {
		done(nil)
		return
	}
	// Those that were refused have every other round when they are due.
	fresh, refused := c.machine.Dead()
	c.dead.again = refused && (!fresh || !c.dead.again && !c.stream.now.Before(c.dead.retryAt))
	r := &deadReading{consumer: c, dead: c.machine.DeadLetters(nil, deadRound, c.dead.again), done: done}
	r.next()
}

// deadReading reads dead messages one after the other.
type deadReading struct {
	consumer *Consumer
	dead     []consumer.DeadLetter // that are left
	bytes    int
	letters  []deadLetter
	done     func([]deadLetter)
}

// next goes on with the next message, which is in memory or has to be fetched.
func (r *deadReading) next() {
	c := r.consumer
	if len(r.dead) == 0 || r.bytes >= deadRoundBytes {
		c.changed(c.stream.now)
		r.done(r.letters)
		return
	}
	d := r.dead[0]
	r.dead = r.dead[1:]
	c.stream.read(d.Seq, func(m *record.StoredMessage, err error) {
		var gone *jserr.Error
		switch {
		case errors.As(err, &gone):
			c.machine.Vanished(d.Seq, &c.stream.consumerFx)
		case err != nil:
			r.letters = append(r.letters, deadLetter{DeadLetter: d, refused: err})
		case deadHopsOf(m.Header) >= maxDeadHops:
			c.machine.GiveUp(d.Seq)
			c.complain(d, fmt.Errorf("it was a dead letter %d times: it stays in the stream", maxDeadHops))
		default:
			r.write(d, m)
		}
		r.next()
	})
}

func (r *deadReading) write(d consumer.DeadLetter, m *record.StoredMessage) {
	c := r.consumer
	l := deadLetter{DeadLetter: d, header: deadHeader(c.stream, c, m, &d), data: bytes.Clone(m.Data)}
	var ok bool
	if l.subject, ok = c.dead.policy.Subject(c.stream.name, c.name, string(m.Subject)); !ok {
		l.refused = fmt.Errorf("%q is not a subject that a letter may go to", l.subject)
	}
	r.bytes += len(l.header) + len(l.data)
	r.letters = append(r.letters, l)
}

// acceptDead has the target accept letters, into the chunk that is being built, and tells how many. Those that it does
// not take are marked.
func (s *Stream) acceptDead(letters []deadLetter) (stored int) {
	for i := range letters {
		d := &letters[i]
		acc, err := s.state.Accept(stream.Publish{Subject: []byte(d.subject), Header: d.header, Size: len(d.data), Quota: s.share.check}, s.now)
		switch {
		case err != nil:
			d.refused = err
		case acc.Need > 0 || acc.Duplicate:
			d.refused = errors.New("the stream does not take letters")
		default:
			s.addAccepted(&acc, d.data)
			stored++
		}
	}
	return stored
}

// mayBury reports whether the progress that settles dead messages may be made now: it must not be in a checkpoint that
// goes to the log before it.
func (s *Stream) mayBury(l *loan) bool { return len(s.quiet) == 0 && (s.lent == nil || s.lent == l) }

// bury settles the messages of letters, in a group with the letters' entry unless l is nil. It returns false when the
// loan was not borrowed: there was nothing to write, or the stream ends. then hears when the messages are settled.
func (c *Consumer) bury(letters []deadLetter, l *loan, then func(error)) (grouped bool) {
	s := c.stream
	if s.failed != nil || s.deleting {
		then(errStreamEnded)
		return false
	}
	for i := range letters {
		seq := letters[i].Seq
		switch {
		case !c.gone && !c.dropping:
			c.machine.Buried(seq, &s.consumerFx)
		case s.Config().Retention == api.WorkQueuePolicy && s.state.Has(seq):
			s.goes(seq) // or the next consumer would have it beside the letter
		}
	}
	c.changed(s.now)
	data, records := s.progressRecords(nil)
	e := s.newEntry(data, records, false)
	s.appendSettled(e)
	if e.Records == 0 {
		then(nil)
		return false
	}
	e.loan = l
	e.then = append(e.then, then)
	s.write(e)
	return true
}

// publishDead publishes letters that no stream takes.
func (c *Consumer) publishDead(letters []deadLetter) {
	for i := range letters {
		l := &letters[i]
		c.stream.pub.Publish(broker.Msg{Subject: []byte(l.subject), Header: l.header, Data: l.data})
	}
}

// roundOver ends the courier's visit: letters that found no place wait.
func (c *Consumer) roundOver(letters []deadLetter) {
	c.dead.posted = false
	refused := 0
	for i := range letters {
		if l := &letters[i]; l.refused != nil {
			refused++
			c.machine.Refused(l.Seq)
			c.complain(l.DeadLetter, l.refused)
		}
	}
	now := c.stream.now
	switch {
	case c.dead.again && refused < len(letters):
		c.dead.retryAt, c.dead.backOff, c.dead.warned = time.Time{}, 0, refused > 0
	case refused > 0 && !now.Before(c.dead.retryAt):
		c.dead.backOff = min(max(2*c.dead.backOff, deadRetryFirst), deadRetryLast)
		c.dead.retryAt = now.Add(c.dead.backOff)
	}
	c.changed(now)
}

// complain tells of a letter that found no place: an advisory the first time, and a line in the log for the first one.
func (c *Consumer) complain(d consumer.DeadLetter, why error) {
	s := c.stream
	if !c.dead.again {
		s.advise(&consumer.Advisory{Kind: consumer.DeadLetterRefused, Consumer: c.name, StreamSeq: d.Seq, Deliveries: d.Deliveries, Reason: why.Error()}, s.now)
	}
	if !c.dead.warned {
		c.dead.warned = true
		s.engine.opts.Logger.Warn("a dead letter finds no place", "account", s.account.name, "stream", s.name, "consumer", c.name, "seq", d.Seq, "error", why)
	}
}
