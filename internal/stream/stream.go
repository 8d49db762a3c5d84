// Package stream is the state machine of a JetStream stream: which messages there are, which publishes it takes, and
// what each change makes of it.
//
// It is pure. One goroutine owns a [State]; there are no locks, no I/O and no clock: time comes as an argument. A
// message passes it twice. [State.Accept] checks a publish against everything that was accepted before, committed or
// not, and gives it a sequence and a time. [State.Apply] makes it visible once it is committed, enforces the limits and
// tells what had to go. Apply depends on nothing but the configuration and what was applied before, in order, so that
// a replay of the log gives the same state. Deletes, purges and expiry are such changes too.
//
// Bodies lie elsewhere. Here is only what finding and accounting need, packed: 5 to 10 bytes a message where subjects are few,
// most of them for its time, and about 35 bytes a subject beside what its name does not share with its neighbours'. A
// subject with three messages or more takes 100 bytes more. The newest 2,560 messages are not packed yet: 24 bytes each.
//
// Slices of bytes that a State hands out (subjects) belong to it and hold until the next call that changes it.
package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/subject"
)

// ErrSequence: a message was applied out of order.
var ErrSequence = errors.New("stream: sequence out of order")

// Place says where a message's bytes lie, in terms of whoever sets it.
type Place uint64

// State is a stream.
type State struct {
	cfg     api.StreamConfig
	created time.Time

	// What is visible.
	firstSeq    uint64 // lastSeq+1 when empty
	lastSeq     uint64
	lastTime    int64
	bytes       uint64
	log         messages
	names       names
	postings    paged[posting]
	freePosting uint32 // the base of each that is free leads to the next
	visible     int    // subjects with at least one message
	lastID      []byte // Nats-Msg-Id of the last message; empty when it had none
	life        lifetimes
	plans       schedules

	// What is accepted.
	flight     inFlight
	nextSeq    uint64
	nextTime   int64 // the least time that the next message may bear
	acceptedID []byte
	dedup      dedup
	virtual    virtual
	counters   map[string]counter         // by subject, in a stream of counters
	positions  map[string]*SourcePosition // by the key of the source
	strays     int                        // of those that the configuration does not name

	transform *subject.Transform
	republish *subject.Transform
	scratch   []byte // for transformed subjects
	header    []byte // of what was accepted last, where it is not the publisher's
	parsed    headers
	// stray: a message may lie here whose subject the configuration's subjects do not cover.
	stray bool
	// edits counts changes of configuration, for what Filters remember.
	edits uint64
}

// New makes the state of a new stream. cfg is as CheckConfig returned it.
func New(cfg api.StreamConfig, created time.Time) (*State, error) {
	s := &State{created: created.UTC(), dedup: dedup{most: maxRemembered}}
	s.names.init()
	if err := s.configure(cfg); err != nil {
		return nil, err
	}
	s.nextSeq = max(cfg.FirstSeq, 1)
	s.firstSeq, s.lastSeq = s.nextSeq, s.nextSeq-1
	return s, nil
}

// configure takes a configuration and prepares what follows from it.
func (s *State) configure(cfg api.StreamConfig) (err error) {
	var transform, republish *subject.Transform
	if t := cfg.SubjectTransform; t != nil {
		if transform, err = subject.NewTransform(t.Source, t.Destination); err != nil {
			return fmt.Errorf("stream: subject transform: %w", err)
		}
	}
	if r := cfg.RePublish; r != nil && r.Destination != "" {
		if republish, err = subject.NewTransform(r.Source, r.Destination); err != nil {
			return fmt.Errorf("stream: republish: %w", err)
		}
	}
	s.cfg, s.transform, s.republish = cfg, transform, republish
	s.keepSources(&cfg)
	s.dedup.window = cfg.Duplicates.Nanoseconds()
	s.edits++
	s.virtual.stale = true
	return nil
}

// Config is the stream's configuration. Its slices and maps are not to be changed.
func (s *State) Config() api.StreamConfig { return s.cfg }

// Created says when the stream was created.
func (s *State) Created() time.Time { return s.created }

// FirstSeq is the sequence of the first message; LastSeq+1 when there is none.
func (s *State) FirstSeq() uint64 { return s.firstSeq }

// LastSeq is the sequence of the last message that became visible, whether or not it still exists.
func (s *State) LastSeq() uint64 { return s.lastSeq }

// LastTime is when the last visible message was accepted, in ns; 0 before the first.
func (s *State) LastTime() int64 { return s.lastTime }

// FirstTime is the time of the first message, in ns; 0 when there is none.
func (s *State) FirstTime() int64 {
	if m, ok := s.Meta(s.firstSeq); ok {
		return m.Time
	}
	return 0
}

// Msgs counts the visible messages.
func (s *State) Msgs() uint64 { return s.log.live }

// Bytes is their size as NATS accounts it: data, header, subject and a fixed part a message.
func (s *State) Bytes() uint64 { return s.bytes }

// AcceptedBytes is Bytes and what is accepted and not visible yet.
func (s *State) AcceptedBytes() uint64 { return s.bytes + s.flight.bytes }

// NumSubjects counts the subjects of visible messages.
func (s *State) NumSubjects() int { return s.visible }

// NumDeleted counts the sequences between the first and the last that have no message.
func (s *State) NumDeleted() uint64 { return s.lastSeq + 1 - s.firstSeq - s.log.live }

// AcceptedSeq is the last sequence that was given to a publish, visible or not.
func (s *State) AcceptedSeq() uint64 { return s.nextSeq - 1 }

// InFlight counts the messages that are accepted and not yet visible.
func (s *State) InFlight() int { return s.flight.len() }

// Forgotten counts the message ids that were forgotten before their window ended, since there were more than 4,194,304.
func (s *State) Forgotten() uint64 { return s.dedup.forgotten }

// accounted is the size of a message as the storage type counts it in NATS.
func (s *State) accounted(subjectLen, headerLen, dataLen int) uint64 {
	if s.cfg.Storage == api.MemoryStorage {
		return uint64(subjectLen) + uint64(headerLen) + uint64(dataLen) + 16
	}
	return StoredSize(subjectLen, headerLen, dataLen)
}

// StoredSize is what a message counts for in a stream with storage: file. NATS writes 30 bytes around a message, and 4
// more where it has a header.
func StoredSize(subjectLen, headerLen, dataLen int) uint64 {
	n := uint64(subjectLen) + uint64(headerLen) + uint64(dataLen) + 30
	if headerLen > 0 {
		n += 4
	}
	return n
}
