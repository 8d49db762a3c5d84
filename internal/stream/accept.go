package stream

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// maxHeaderBytes is the longest header that a stream takes, as in NATS.
const maxHeaderBytes = math.MaxUint16

// Publish is a message that asks to be stored. Its slices are read during the call only.
type Publish struct {
	Subject []byte
	Header  []byte // a whole NATS header block, or empty
	Reply   []byte // where the acknowledgement goes, or empty
	Size    int    // of the data, in bytes
	// Quota, when set, decides whether there is room outside the stream for a message of this subject and size, as Bytes
	// counts it. It is asked about a publish that passed every check but those of discard: new.
	Quota func(subject []byte, size uint64) *jserr.Error
	// Wanted, when set, decides whether a message of this subject is kept.
	Wanted func(subject []byte) bool
}

// fastBatchReply ends the reply subjects of fast batch publishing.
var fastBatchReply = []byte(".$FI")

// Accepted is what became of a publish that was not refused.
type Accepted struct {
	Seq  uint64
	Time int64 // ns UTC; never less than that of the message before
	// Subject to store the message under: that of the publish, or what the stream's subject transform makes of it. It
	// holds until the next call that changes the State.
	Subject []byte
	// Duplicate: nothing is to be stored, since Seq bears the same Nats-Msg-Id within the window.
	Duplicate bool
	// Header to store the message with: that of the publish, or what the stream makes of it. It holds until the next call
	// that changes the State.
	Header []byte
	// Data to store, where it is not the publisher's: nil but in a stream of counters. Total is what the counter is then.
	Data  []byte
	Total string
	// Need: nothing is decided yet, since the message of this sequence has to be told first ([State.Learn]).
	Need uint64
	// Unwanted: the message is not kept, since no consumer wants it. It is to be stored without subject, header and data,
	// which keeps its sequence.
	Unwanted bool
	// InFlight, with Duplicate: the original is not committed yet, so its acknowledgement has to be waited for.
	InFlight bool
}

// candidate is a publish that is being checked, and what is to be stored of it.
type candidate struct {
	headers   *headers
	text      []byte // the subject
	header    []byte
	data      []byte // nil: as it was published
	size      int    // of the data
	increment *big.Int
	counter   counter
	flying    flying
}

// newCandidate begins the check of a publish. h takes its headers.
func (s *State) newCandidate(p *Publish, h *headers) candidate {
	c := candidate{text: s.transformed(p.Subject), header: p.Header, size: p.Size, headers: &noHeaders}
	if len(p.Header) > 0 {
		*h = parseHeaders(p.Header)
		c.headers = h
	}
	return c
}

// noHeaders are those of most messages. They are not changed.
var noHeaders headers

// Accept decides on a publish and gives it the next sequence. It checks against everything that was accepted before,
// committed or not. What it accepted must reach Apply, in this order, or the State is of no use any more.
func (s *State) Accept(p Publish, now time.Time) (Accepted, *jserr.Error) {
	c := s.newCandidate(&p, &s.parsed)
	if err := s.checkForm(&p, &c); err != nil {
		return Accepted{}, err
	}
	ns := max(now.UnixNano(), s.nextTime)
	if len(p.Header) > 0 {
		seq, err := s.checkHeaders(&c, ns)
		if err != nil {
			return Accepted{}, err
		}
		if seq > 0 {
			return Accepted{Seq: seq, Subject: c.text, Duplicate: true, InFlight: seq > s.lastSeq}, nil
		}
	}
	if s.cfg.AllowMsgCounter {
		if c.increment == nil {
			return Accepted{}, jserr.New(jserr.MessageIncrMissing)
		}
		base, need := s.counterOf(c.text)
		if need > 0 {
			return Accepted{Need: need}, nil
		}
		if err := s.addUp(&c, base); err != nil {
			return Accepted{}, err
		}
	}
	if err := s.finish(&c); err != nil {
		return Accepted{}, err
	}
	if p.Quota != nil {
		if err := p.Quota(c.text, c.flying.size); err != nil {
			return Accepted{}, err
		}
	}
	if s.cfg.Discard == api.DiscardNew {
		if err := s.checkRoom(s.names.find(c.text), c.flying.size, len(c.headers.rollup) > 0); err != nil {
			return Accepted{}, err
		}
	}
	// What rolls up, counts or schedules does so whether it is kept or not.
	c.flying.unwanted = p.Wanted != nil && !s.cfg.AllowMsgCounter && c.flying.rollup == rollupNone && !c.flying.scheduling && !p.Wanted(c.text)
	return s.take(&c, ns), nil
}

// checkForm refuses what the stream does not take whatever it holds.
func (s *State) checkForm(p *Publish, c *candidate) *jserr.Error {
	switch {
	case s.cfg.Sealed:
		return jserr.New(jserr.StreamSealed)
	case s.tooLarge(len(p.Header), p.Size), len(c.text) > maxSubjectBytes:
		return jserr.New(jserr.StreamMessageExceedsMaximum)
	case bytes.HasSuffix(p.Reply, fastBatchReply):
		return jserr.New(jserr.BatchPublishDisabled)
	case len(c.headers.batch) > 0:
		return jserr.New(jserr.AtomicPublishDisabled)
	case len(p.Header) > maxHeaderBytes:
		return jserr.New(jserr.StreamHeaderExceedsMaximum)
	}
	return nil
}

// checkHeaders decides on what the headers ask for. A duplicate gives the sequence of its original.
func (s *State) checkHeaders(c *candidate, ns int64) (duplicate uint64, err *jserr.Error) {
	h := c.headers
	if err := s.checkIncrement(c); err != nil {
		return 0, err
	}
	if err := s.checkAllowed(h); err != nil {
		return 0, err
	}
	if err := s.checkExpected(c.text, h); err != nil {
		return 0, err
	}
	if err := s.checkSchedule(c, ns); err != nil {
		return 0, err
	}
	if len(h.source) > 0 {
		return 0, jserr.New(jserr.MessageSourceHdrNotAllowed)
	}
	if len(h.msgID) > 0 {
		if seq, ok := s.dedup.find(digestOf(h.msgID), ns); ok {
			return seq, nil
		}
	}
	if len(h.expectedLastID) > 0 && !bytes.Equal(h.expectedLastID, s.acceptedID) {
		return 0, jserr.New(jserr.StreamWrongLastMsgID, "id", string(s.acceptedID))
	}
	return 0, s.checkRollup(h)
}

// finish works out what is known of a message while it is in flight.
func (s *State) finish(c *candidate) *jserr.Error {
	h, f := c.headers, &c.flying
	var ok bool
	if f.ttl, ok = parseTTL(h.ttl); !ok {
		return jserr.New(jserr.MessageTTLInvalid)
	}
	c.header = s.leastTTL(c.header, f)
	f.rollup = parseRollup(h.rollup)
	f.marker = h.isMarker()
	f.scheduling, f.schedule = h.schedules(), len(h.schedule) > 0
	f.size = s.accounted(len(c.text), len(c.header), c.size)
	return nil
}

// take enters a candidate that passed every check.
func (s *State) take(c *candidate, ns int64) Accepted {
	a := s.admit(c.text, c.flying, c.headers.msgID, ns)
	a.Header, a.Data = c.header, c.data
	if c.counter.total != nil {
		c.counter.seq = a.Seq
		s.remember(c.text, c.counter)
		a.Total = c.counter.total.String()
	}
	return a
}

// admit enters a message. f says what is to be known of it while it is in flight.
func (s *State) admit(text []byte, f flying, msgID []byte, ns int64) Accepted {
	f.seq, f.hasID = s.nextSeq, len(msgID) > 0
	if f.unwanted {
		f.size = 0
		s.flight.push(f)
	} else {
		s.takeOff(text, f)
	}
	if f.hasID {
		s.dedup.add(digestOf(msgID), f.seq, ns)
	}
	s.acceptedID = append(s.acceptedID[:0], msgID...)
	s.nextSeq++
	s.nextTime = ns
	return Accepted{Seq: f.seq, Time: ns, Subject: text, Unwanted: f.unwanted}
}

// takeOff puts a message that is going to be kept in flight.
func (s *State) takeOff(text []byte, f flying) {
	f.subject = s.intern(text)
	if s.cfg.Discard == api.DiscardNew {
		s.forecast(&f)
	}
	f.previous = s.names.row(f.subject).flight
	s.names.setFlight(f.subject, s.flight.push(f))
}

func (s *State) tooLarge(header, data int) bool {
	limit := int(s.cfg.MaxMsgSize)
	return limit >= 0 && header+data > limit
}

// checkAllowed refuses what is not for this stream, or needs a feature that is off.
func (s *State) checkAllowed(h *headers) *jserr.Error {
	if len(h.expectedStream) > 0 && string(h.expectedStream) != s.cfg.Name {
		return jserr.New(jserr.StreamNotMatch)
	}
	if seconds, ok := parseTTL(h.ttl); ok && seconds != 0 && !s.cfg.AllowMsgTTL {
		return jserr.New(jserr.MessageTTLDisabled)
	}
	return nil
}

// checkExpected compares what the publisher believes to be last with what is.
func (s *State) checkExpected(text []byte, h *headers) *jserr.Error {
	switch {
	case len(h.expectedLastOfSubject) > 0:
		of := text
		if len(h.expectedSubject) > 0 {
			of = h.expectedSubject
		}
		last := s.acceptedLast(of)
		if parseSequence(h.expectedLastOfSubject) != last {
			return jserr.New(jserr.StreamWrongLastSequence, "seq", last)
		}
	case len(h.expectedSubject) > 0:
		return jserr.New(jserr.StreamExpectedLastSeqPerSubjectInvalid)
	}
	if len(h.expectedLast) > 0 && parseSequence(h.expectedLast) != s.nextSeq-1 {
		return jserr.New(jserr.StreamWrongLastSequence, "seq", s.nextSeq-1)
	}
	return nil
}

// rollsUp reports whether a message may remove the ones before it. What counts is the configuration at the time when
// the message is applied, so that a replay decides alike.
func (s *State) rollsUp() bool { return s.cfg.RollupAllowed && !s.cfg.DenyPurge }

func (s *State) checkRollup(h *headers) *jserr.Error {
	roll := parseRollup(h.rollup)
	switch {
	case roll == rollupNone:
	case !s.rollsUp():
		return jserr.New(jserr.StreamRollupFailed, "err", "rollup not permitted")
	case roll == rollupInvalid:
		value := string(bytes.ToLower(h.rollup))
		return jserr.New(jserr.StreamRollupFailed, "err", "rollup value invalid: "+strconv.Quote(value))
	}
	return nil
}

// acceptedLast is the sequence of the last message of a subject, or of a wildcard, that was accepted and not rolled up
// since; 0 when there is none. Removal by the stream's limits shows only when it happens.
func (s *State) acceptedLast(of []byte) uint64 {
	if subject.HasWildcard(of) {
		return s.acceptedLastMatch(of)
	}
	id := s.names.find(of)
	if id == 0 {
		return 0
	}
	row := s.names.row(id)
	last := row.last
	if s.flight.holds(row.flight) {
		last = s.flight.at(row.flight - 1).seq
	}
	if last < s.flight.rolledAll {
		return 0
	}
	return last
}

func (s *State) acceptedLastMatch(pattern []byte) uint64 {
	if string(pattern) == everySubject {
		// As in nats-server: the very last sequence, if its message still exists.
		if last := s.nextSeq - 1; s.flight.len() > 0 || s.Has(last) {
			return last
		}
		return 0
	}
	f, err := CompileFilter(string(pattern))
	if err != nil {
		return 0
	}
	var last uint64
	for pos := s.flight.head; pos != s.flight.tail; pos = (pos + 1) & positionMask {
		if m := s.flight.at(pos); !m.unwanted && f.Match(s.names.text(m.subject)) {
			last = m.seq
		}
	}
	if last == 0 {
		if m, ok := s.Last(f, 0); ok {
			last = m.Seq
		}
	}
	if last < s.flight.rolledAll {
		return 0
	}
	return last
}
