package stream

import (
	"bytes"
	"math"
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
}

// fastBatchReply ends the reply subjects of fast batch publishing, which no stream allows yet.
var fastBatchReply = []byte(".$FI")

// errSourceHeader is not in the published table of errors; nats-server 2.15 has it.
var errSourceHeader = &jserr.Error{Code: 10227, Status: 400, Description: "message stream source header is not allowed"}

// Accepted is what became of a publish that was not refused.
type Accepted struct {
	Seq  uint64
	Time int64 // ns UTC; never less than that of the message before
	// Subject to store the message under: that of the publish, or what the stream's subject transform makes of it. It
	// holds until the next call that changes the State.
	Subject []byte
	// Duplicate: nothing is to be stored, since Seq bears the same Nats-Msg-Id within the window.
	Duplicate bool
	// InFlight, with Duplicate: the original is not committed yet, so its acknowledgement has to be waited for.
	InFlight bool
}

// Accept decides on a publish and gives it the next sequence. It checks against everything that was accepted before,
// committed or not. What it accepted must reach Apply, in this order, or the State is of no use any more.
func (s *State) Accept(p Publish, now time.Time) (Accepted, *jserr.Error) {
	var h headers
	if len(p.Header) > 0 {
		h = parseHeaders(p.Header)
	}
	text := s.transformed(p.Subject)
	switch {
	case s.cfg.Sealed:
		return Accepted{}, jserr.New(jserr.StreamSealed)
	case bytes.HasSuffix(p.Reply, fastBatchReply):
		return Accepted{}, jserr.New(jserr.BatchPublishDisabled)
	case len(h.batch) > 0:
		return Accepted{}, jserr.New(jserr.AtomicPublishDisabled)
	case s.tooLarge(&p), len(text) > maxSubjectBytes:
		return Accepted{}, jserr.New(jserr.StreamMessageExceedsMaximum)
	case len(p.Header) > maxHeaderBytes:
		return Accepted{}, jserr.New(jserr.StreamHeaderExceedsMaximum)
	}
	ns := max(now.UnixNano(), s.nextTime)
	var roll rollup
	if len(p.Header) > 0 {
		if err := s.checkUnsupported(&h); err != nil {
			return Accepted{}, err
		}
		if err := s.checkExpected(text, &h); err != nil {
			return Accepted{}, err
		}
		if len(h.source) > 0 {
			return Accepted{}, errSourceHeader
		}
		if len(h.msgID) > 0 {
			if seq, ok := s.dedup.find(digestOf(h.msgID), ns); ok {
				return Accepted{Seq: seq, Subject: text, Duplicate: true, InFlight: seq > s.lastSeq}, nil
			}
		}
		if len(h.expectedLastID) > 0 && !bytes.Equal(h.expectedLastID, s.acceptedID) {
			return Accepted{}, jserr.New(jserr.StreamWrongLastMsgID, "id", string(s.acceptedID))
		}
		var err *jserr.Error
		if roll, err = s.checkRollup(&h); err != nil {
			return Accepted{}, err
		}
		if _, ok := parseTTL(h.ttl); !ok {
			return Accepted{}, jserr.New(jserr.MessageTTLInvalid)
		}
	}
	size := s.accounted(len(text), len(p.Header), p.Size)
	if p.Quota != nil {
		if err := p.Quota(text, size); err != nil {
			return Accepted{}, err
		}
	}
	if s.cfg.Discard == api.DiscardNew {
		if err := s.checkRoom(s.names.find(text), size, len(h.rollup) > 0); err != nil {
			return Accepted{}, err
		}
	}
	return s.admit(text, size, roll, h.msgID, ns), nil
}

// admit enters a publish that passed every check.
func (s *State) admit(text []byte, size uint64, roll rollup, msgID []byte, ns int64) Accepted {
	id := s.intern(text)
	f := flying{seq: s.nextSeq, size: size, subject: id, rollup: roll, hasID: len(msgID) > 0}
	if s.cfg.Discard == api.DiscardNew {
		s.forecast(&f)
	}
	row := s.names.row(id)
	f.previous = row.flight
	row.flight = s.flight.push(f)
	if f.hasID {
		s.dedup.add(digestOf(msgID), f.seq, ns)
	}
	s.acceptedID = append(s.acceptedID[:0], msgID...)
	s.nextSeq++
	s.nextTime = ns
	return Accepted{Seq: f.seq, Time: ns, Subject: text}
}

func (s *State) tooLarge(p *Publish) bool {
	limit := int(s.cfg.MaxMsgSize)
	return limit >= 0 && len(p.Header)+p.Size > limit
}

// checkUnsupported refuses what needs a feature that is off in every stream. nats-server refuses the same where the
// stream does not allow it.
func (s *State) checkUnsupported(h *headers) *jserr.Error {
	switch {
	case len(h.increment) > 0 && !isInteger(h.increment):
		return jserr.New(jserr.MessageIncrInvalid)
	case len(h.increment) > 0:
		return jserr.New(jserr.MessageIncrDisabled)
	case len(h.expectedStream) > 0 && string(h.expectedStream) != s.cfg.Name:
		return jserr.New(jserr.StreamNotMatch)
	}
	if seconds, ok := parseTTL(h.ttl); ok && seconds != 0 {
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
	switch {
	case len(h.schedule) > 0:
		return jserr.New(jserr.MessageSchedulesDisabled)
	case len(h.scheduleNext) > 0, len(h.scheduler) > 0:
		return s.checkScheduler(text, h)
	}
	return nil
}

// checkScheduler refuses the headers that only a stream with schedules takes.
func (s *State) checkScheduler(text []byte, h *headers) *jserr.Error {
	if string(h.scheduleNext) != "purge" || len(h.scheduler) == 0 ||
		bytes.Equal(h.scheduler, text) || !subject.ValidPublish(h.scheduler) {
		return jserr.New(jserr.MessageSchedulesSchedulerInvalid)
	}
	return jserr.New(jserr.MessageSchedulesDisabled)
}

// rollsUp reports whether a message may remove the ones before it. What counts is the configuration at the time when
// the message is applied, so that a replay decides alike.
func (s *State) rollsUp() bool { return s.cfg.RollupAllowed && !s.cfg.DenyPurge }

func (s *State) checkRollup(h *headers) (rollup, *jserr.Error) {
	roll := parseRollup(h.rollup)
	switch {
	case roll == rollupNone:
		return roll, nil
	case !s.rollsUp():
		return roll, jserr.New(jserr.StreamRollupFailed, "err", "rollup not permitted")
	case roll == rollupInvalid:
		value := string(bytes.ToLower(h.rollup))
		return roll, jserr.New(jserr.StreamRollupFailed, "err", "rollup value invalid: "+strconv.Quote(value))
	}
	return roll, nil
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
		if m := s.flight.at(pos); f.Match(s.names.text(m.subject)) {
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
