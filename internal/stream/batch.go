package stream

import (
	"bytes"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// The messages of a batch (ADR-50) are checked as one: against what was accepted before, and against those of the batch
// before them.

// staging is what the messages of a batch that were checked so far are going to change.
type staging struct {
	ids      map[digest]bool
	subjects map[string]*stagedSubject
	expected map[string]uint64 // by subject: what an earlier message of the batch rightly took for its last sequence
	msgs     int64
	bytes    int64
}

type stagedSubject struct {
	msgs     int64
	counter  counter
	schedule bool
}

func newStaging() *staging {
	return &staging{ids: map[digest]bool{}, subjects: map[string]*stagedSubject{}, expected: map[string]uint64{}}
}

// AcceptBatch decides on all messages of an atomic batch: either all are accepted, one behind the other, or none is, and
// the error is that of the first that cannot be. need, if it is not 0, is the sequence of a message that has to be told
// first, as with [Accepted.Need]. Results share no memory with the State.
func (s *State) AcceptBatch(batch []Publish, now time.Time) (accepted []Accepted, need uint64, err *jserr.Error) {
	ns := max(now.UnixNano(), s.nextTime)
	g := newStaging()
	checked := make([]candidate, 0, len(batch))
	var size uint64
	for i := range batch {
		c := s.newCandidate(&batch[i], new(headers))
		c.text = bytes.Clone(c.text)
		if len(c.headers.expectedLastID) > 0 {
			return nil, 0, jserr.New(jserr.AtomicPublishUnsupportedHeaderBatch, "header", "Nats-Expected-Last-Msg-Id")
		}
		_, need, err := s.checkStaged(&c, g, ns)
		if err != nil || need > 0 {
			return nil, need, err
		}
		c.header = bytes.Clone(c.header)
		size += c.flying.size
		checked = append(checked, c)
	}
	if len(batch) > 0 && batch[0].Quota != nil {
		if err := batch[0].Quota(checked[0].text, size); err != nil {
			return nil, 0, err
		}
	}
	for i := range checked {
		accepted = append(accepted, s.take(&checked[i], ns))
	}
	return accepted, 0, nil
}

// AcceptFast decides on a message of a fast batch.
func (s *State) AcceptFast(p Publish, now time.Time) (Accepted, *jserr.Error) {
	ns := max(now.UnixNano(), s.nextTime)
	c := s.newCandidate(&p, &s.parsed)
	if len(c.text) > maxSubjectBytes {
		return Accepted{}, jserr.New(jserr.StreamMessageExceedsMaximum)
	}
	duplicate, need, err := s.checkStaged(&c, newStaging(), ns)
	switch {
	case duplicate > 0:
		return Accepted{Seq: duplicate, Subject: c.text, Duplicate: true, InFlight: duplicate > s.lastSeq}, nil
	case need > 0:
		return Accepted{Need: need}, nil
	case err != nil:
		return Accepted{}, err
	}
	if id := c.headers.expectedLastID; len(id) > 0 && !bytes.Equal(id, s.acceptedID) {
		return Accepted{}, jserr.New(jserr.StreamWrongLastMsgID, "id", string(s.acceptedID))
	}
	return s.take(&c, ns), nil
}

// checkStaged checks a message of a batch and stages it. duplicate is the original of a message whose id is known; it is
// an error, too.
func (s *State) checkStaged(c *candidate, g *staging, ns int64) (duplicate, need uint64, err *jserr.Error) {
	if len(c.text) > maxSubjectBytes {
		return 0, 0, jserr.New(jserr.StreamMessageExceedsMaximum)
	}
	if len(c.header) > 0 {
		if duplicate, err = s.checkStagedForm(c, g, ns); err != nil {
			return duplicate, 0, err
		}
	}
	staged := g.subjects[string(c.text)]
	if s.cfg.AllowMsgCounter {
		if c.increment == nil {
			return 0, 0, jserr.New(jserr.MessageIncrMissing)
		}
		var base counter
		if staged != nil {
			base = staged.counter
		} else if base, need = s.counterOf(c.text); need > 0 {
			return 0, need, nil
		}
		if err := s.addUp(c, base); err != nil {
			return 0, 0, err
		}
	}
	if len(c.header) > 0 {
		if err := s.checkStagedOrder(c, g, ns); err != nil {
			return 0, 0, err
		}
	}
	if err := s.finish(c); err != nil {
		return 0, 0, err
	}
	if staged == nil {
		staged = &stagedSubject{}
		g.subjects[string(c.text)] = staged
	}
	staged.msgs++
	staged.counter, staged.schedule = c.counter, c.flying.schedule
	g.msgs++
	g.bytes += int64(c.flying.size)
	return 0, 0, s.checkStagedRoom(c, g, staged)
}

// checkStagedForm checks what does not depend on what the stream holds, and the message's id.
func (s *State) checkStagedForm(c *candidate, g *staging, ns int64) (duplicate uint64, err *jserr.Error) {
	h := c.headers
	if len(c.header) > maxHeaderBytes {
		return 0, jserr.New(jserr.StreamHeaderExceedsMaximum)
	}
	if err := s.checkIncrement(c); err != nil {
		return 0, err
	}
	if err := s.checkAllowed(h); err != nil {
		return 0, err
	}
	if _, ok := parseTTL(h.ttl); !ok {
		if !s.cfg.AllowMsgTTL {
			return 0, jserr.New(jserr.MessageTTLDisabled)
		}
		return 0, jserr.New(jserr.MessageTTLInvalid)
	}
	if len(h.msgID) > 0 {
		id := digestOf(h.msgID)
		seq, known := s.dedup.find(id, ns)
		if known || g.ids[id] {
			return seq, jserr.New(jserr.AtomicPublishContainsDuplicateMessage)
		}
		g.ids[id] = true
	}
	if len(h.source) > 0 {
		return 0, jserr.New(jserr.MessageSourceHdrNotAllowed)
	}
	return 0, nil
}

// checkStagedOrder checks what depends on what came before.
func (s *State) checkStagedOrder(c *candidate, g *staging, ns int64) *jserr.Error {
	h := c.headers
	if len(h.expectedLast) > 0 {
		last := s.nextSeq - 1 + uint64(g.msgs)
		switch {
		case parseSequence(h.expectedLast) != last:
			return jserr.New(jserr.StreamWrongLastSequence, "seq", last)
		case g.msgs > 0: // only the first of a batch may say so
			return jserr.New(jserr.StreamWrongLastSequenceConstant)
		}
	}
	if err := s.checkStagedExpected(c, g); err != nil {
		return err
	}
	if err := s.checkStagedSchedule(c, g, ns); err != nil {
		return err
	}
	if err := s.checkRollup(h); err != nil {
		return err
	}
	switch parseRollup(h.rollup) {
	case rollupSubject:
		if g.subjects[string(c.text)] != nil {
			return jserr.New(jserr.StreamRollupFailed, "err", "batch rollup sub invalid")
		}
	case rollupAll:
		if g.msgs > 0 {
			return jserr.New(jserr.StreamRollupFailed, "err", "batch rollup all invalid")
		}
	}
	return nil
}

// checkStagedExpected compares what the publisher believes to be the last of a subject with what is. Nothing can be
// believed of a subject that the batch itself writes to.
func (s *State) checkStagedExpected(c *candidate, g *staging) *jserr.Error {
	h := c.headers
	if len(h.expectedLastOfSubject) == 0 {
		if len(h.expectedSubject) > 0 {
			return jserr.New(jserr.StreamExpectedLastSeqPerSubjectInvalid)
		}
		return nil
	}
	of := c.text
	if len(h.expectedSubject) > 0 {
		of = h.expectedSubject
	}
	if g.subjects[string(of)] != nil {
		return jserr.New(jserr.StreamWrongLastSequenceConstant)
	}
	last, ok := g.expected[string(of)]
	if !ok {
		last = s.acceptedLast(of)
	}
	if parseSequence(h.expectedLastOfSubject) != last {
		return jserr.New(jserr.StreamWrongLastSequence, "seq", last)
	}
	g.expected[string(of)] = last
	return nil
}

// checkStagedSchedule is checkSchedule where the schedule to end may be part of the batch.
func (s *State) checkStagedSchedule(c *candidate, g *staging, ns int64) *jserr.Error {
	h := c.headers
	staged := g.subjects[string(h.scheduler)]
	if len(h.scheduler) == 0 || staged == nil {
		return s.checkSchedule(c, ns)
	}
	// The subject's state in the batch counts, not the one in the stream.
	scheduler, next := h.scheduler, h.scheduleNext
	h.scheduler, h.scheduleNext = nil, nil
	err := s.checkSchedule(c, ns)
	h.scheduler, h.scheduleNext = scheduler, next
	if err == nil {
		err = s.checkScheduler(c, staged.schedule)
	}
	return err
}

// checkStagedRoom refuses what a stream with discard: new has no room for: in a batch nothing is pushed out.
func (s *State) checkStagedRoom(c *candidate, g *staging, staged *stagedSubject) *jserr.Error {
	if s.cfg.Discard != api.DiscardNew {
		return nil
	}
	full := func(text string) *jserr.Error { return jserr.New(jserr.StreamStoreFailed, "err", text) }
	s.refreshVirtual()
	switch {
	case s.cfg.MaxMsgs > 0 && s.virtual.msgs+g.msgs > s.cfg.MaxMsgs:
		return full(textMaxMsgs)
	case s.cfg.MaxBytes > 0 && s.virtual.bytes+g.bytes > s.cfg.MaxBytes:
		return full(textMaxBytes)
	case !s.cfg.DiscardNewPer || s.cfg.MaxMsgsPer <= 0 || len(c.headers.rollup) > 0:
		return nil
	}
	var have int64
	if id := s.names.find(c.text); id != 0 {
		have = int64(s.virtualCount(id))
	}
	if have+staged.msgs > s.cfg.MaxMsgsPer {
		return full(textMaxMsgsPerSubject)
	}
	return nil
}

// checkBatched refuses what no kind of batch may carry here: anything for a sealed stream, and messages beyond the quota
// or the stream's largest size.
func (s *State) checkBatched(p *Publish) *jserr.Error {
	if s.cfg.Sealed {
		return jserr.New(jserr.StreamSealed)
	}
	if p.Quota != nil {
		if err := p.Quota(p.Subject, s.accounted(len(p.Subject), len(p.Header), p.Size)); err != nil {
			return err
		}
	}
	if s.tooLarge(len(p.Header), p.Size) {
		return jserr.New(jserr.StreamMessageExceedsMaximum)
	}
	return nil
}
