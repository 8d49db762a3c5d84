package stream

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// A mirror keeps the sequences and times of its origin, so where to go on reading is its own last sequence. A stream with
// sources gives sequences of its own; where to go on with each source is in the header Nats-Stream-Source of the newest
// message that came from it:
//
//	<source> <sequence there> <filters> <destinations> <subject there>[ <identity of the stream there>]
//
// where the first, third and fourth part name the source among those of the stream. The State keeps these positions, since
// the messages that told them may be gone.

// SourceHeader is the header that tells where a sourced message comes from.
const SourceHeader = "Nats-Stream-Source"

// SourcePosition is how far a source was read.
type SourcePosition struct {
	Seq      uint64 `json:"seq"`                // of the newest message that was accepted, in its own stream; 0: none
	Identity string `json:"identity,omitempty"` // of that stream, which tells it from a later one of its name; empty: unknown
}

// maxStraySources is how many sources are remembered that the configuration does not name: it did once, or it may when
// messages that came through a mirror or a backup are the stream's own.
const maxStraySources = 1024

// hashLength is that of names and identities that are made of a hash, as in NATS.
const hashLength = 8

const hashDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ShortHash makes a short text of letters and digits out of another, as NATS does.
func ShortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	b := sum[:hashLength]
	for i := range b {
		b[i] = hashDigits[int(b[i])%len(hashDigits)]
	}
	return string(b)
}

// sourceName names the stream that a source reads.
func sourceName(src *api.StreamSource) string {
	if src.External != nil {
		return src.Name + ":" + ShortHash(src.External.ApiPrefix)
	}
	return src.Name
}

// SourceKey names a source among those of a stream: three parts with a blank between.
func SourceKey(src *api.StreamSource) string {
	name := sourceName(src)
	if src.Consumer != nil {
		name += ":C=" + ShortHash(src.Consumer.Name)
	}
	if len(src.SubjectTransforms) == 0 {
		return name + " " + orAll(src.FilterSubject) + " " + everySubject
	}
	var filters, destinations []string
	for _, t := range src.SubjectTransforms {
		filters = append(filters, orAll(t.Source))
		destinations = append(destinations, orAll(t.Destination))
	}
	return name + " " + strings.Join(filters, "\f") + " " + strings.Join(destinations, "\f")
}

// AppendSource writes the value of a source header.
func AppendSource(dst []byte, key string, at SourcePosition, subj []byte) []byte {
	name, rest, _ := strings.Cut(key, " ")
	dst = append(append(dst, name...), ' ')
	dst = strconv.AppendUint(dst, at.Seq, 10)
	dst = append(append(dst, ' '), rest...)
	dst = append(append(dst, ' '), subj...)
	if at.Identity != "" {
		dst = append(append(dst, ' '), at.Identity...)
	}
	return dst
}

// parseSource reads the value of a source header. The key is appended to dst. Values in the forms before NATS 2.10, which
// do not tell sources of one stream apart, are not understood.
func parseSource(dst, value []byte) (key []byte, at SourcePosition, ok bool) {
	parts := bytes.Split(value, []byte{' '})
	if len(parts) < 4 {
		return dst, at, false
	}
	dst = append(append(dst, parts[0]...), ' ')
	dst = append(append(dst, parts[2]...), ' ')
	dst = append(dst, parts[3]...)
	at.Seq = parseSequence(parts[1])
	if len(parts) >= 6 {
		at.Identity = string(parts[5])
	}
	return dst, at, int64(at.Seq) > 0
}

// keepSources makes room for the positions of the configuration's sources.
func (s *State) keepSources(cfg *api.StreamConfig) {
	if len(cfg.Sources) == 0 && len(s.positions) == 0 {
		return
	}
	named := map[string]bool{}
	for _, src := range cfg.Sources {
		named[SourceKey(src)] = true
	}
	s.strays = 0
	for key := range s.positions {
		if !named[key] {
			s.strays++
		}
	}
	if s.strays > maxStraySources {
		s.strays = 0
		maps.DeleteFunc(s.positions, func(key string, _ *SourcePosition) bool { return !named[key] })
	}
	if s.positions == nil {
		s.positions = map[string]*SourcePosition{}
	}
	for key := range named {
		if s.positions[key] == nil {
			s.positions[key] = &SourcePosition{}
		}
	}
}

// Source tells how far a source was read, messages included that are accepted and not visible yet.
func (s *State) Source(key string) SourcePosition {
	if at := s.positions[key]; at != nil {
		return *at
	}
	return SourcePosition{}
}

// Sources lists the positions of all sources by their keys.
func (s *State) Sources() map[string]SourcePosition {
	all := map[string]SourcePosition{}
	for key, at := range s.positions {
		if at.Seq > 0 {
			all[key] = *at
		}
	}
	return all
}

// SetSources is for a replay: it takes over what Sources told.
func (s *State) SetSources(all map[string]SourcePosition) {
	if s.positions == nil {
		s.positions = map[string]*SourcePosition{}
	}
	for key, at := range all {
		s.positions[key] = &at
	}
	s.keepSources(&s.cfg)
}

// noteSource follows the source header of a message that was not accepted as a source's: a replay applies it, or it comes
// through a mirror.
func (s *State) noteSource(value []byte) {
	var scratch [256]byte
	key, at, ok := parseSource(scratch[:0], value)
	if !ok {
		return
	}
	p := s.positions[string(key)]
	if p == nil {
		if s.strays >= maxStraySources {
			return
		}
		if s.positions == nil {
			s.positions = map[string]*SourcePosition{}
		}
		p = &SourcePosition{}
		s.positions[string(key)] = p
		s.strays++
	}
	*p = at
}

// AcceptSkip gives up the sequences up to last for a mirror that has no messages: its origin has none of them. A Purge up
// to last+1 must follow.
func (s *State) AcceptSkip(last uint64) { s.nextSeq = max(s.nextSeq, last+1) }

// AcceptMirrored decides on a message of a mirror's origin, which keeps its sequence and its time. Sequences may be left
// out. Of the checks of [State.Accept] those hold that are about the message itself and about room: what the publisher
// expected was for the origin to decide. It must reach Apply in order.
func (s *State) AcceptMirrored(p Publish, seq uint64, at int64) (Accepted, *jserr.Error) {
	if seq < s.nextSeq {
		return Accepted{}, jserr.New(jserr.StreamSequenceNotMatch)
	}
	c := s.newCandidate(&p, &s.parsed)
	if err := s.checkSourced(&p, &c); err != nil {
		return Accepted{}, err
	}
	if len(c.headers.source) > 0 {
		s.noteSource(c.headers.source)
	}
	s.nextSeq = seq
	return s.take(&c, max(at, s.nextTime)), nil
}

// AcceptSourced decides on a message of a source, whose header tells the position. It is a message of this stream from
// here on, with a sequence and a time of its own; beside the checks of AcceptMirrored, its message id is one like any
// other. subj and data are what it is at the source: a stream of counters needs to know.
func (s *State) AcceptSourced(p Publish, key string, at SourcePosition, subj, data []byte, now time.Time) (Accepted, *jserr.Error) {
	c := s.newCandidate(&p, &s.parsed)
	ns := max(now.UnixNano(), s.nextTime)
	if len(c.headers.msgID) > 0 {
		if seq, ok := s.dedup.find(digestOf(c.headers.msgID), ns); ok {
			return Accepted{Seq: seq, Subject: c.text, Duplicate: true, InFlight: seq > s.lastSeq}, nil
		}
	}
	if s.cfg.AllowMsgCounter {
		if need, err := s.countSourced(&c, subj, data, key); err != nil || need > 0 {
			return Accepted{Need: need}, err
		}
	}
	if err := s.checkSourced(&p, &c); err != nil {
		return Accepted{}, err
	}
	if pos := s.positions[key]; pos != nil {
		*pos = at
	}
	return s.take(&c, ns), nil
}

// checkSourced makes the checks that hold for what another stream has accepted before.
func (s *State) checkSourced(p *Publish, c *candidate) *jserr.Error {
	switch {
	case s.cfg.Sealed:
		return jserr.New(jserr.StreamSealed)
	case s.tooLarge(len(p.Header), p.Size), len(c.text) > maxSubjectBytes:
		return jserr.New(jserr.StreamMessageExceedsMaximum)
	case len(p.Header) > maxHeaderBytes:
		return jserr.New(jserr.StreamHeaderExceedsMaximum)
	}
	if err := s.finish(c); err != nil {
		return err
	}
	if c.flying.rollup == rollupInvalid {
		c.flying.rollup = rollupNone
	}
	if p.Quota != nil {
		if err := p.Quota(c.text, c.flying.size); err != nil {
			return err
		}
	}
	if s.cfg.Discard == api.DiscardNew {
		return s.checkRoom(s.names.find(c.text), c.flying.size, len(c.headers.rollup) > 0)
	}
	return nil
}
