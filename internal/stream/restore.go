package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// ErrSnapshot: the bytes are not a snapshot that this version wrote. Nothing may be concluded from them, least of all
// that the stream is empty.
var ErrSnapshot = errors.New("stream: not a valid snapshot")

// ErrSnapshotVersion: a newer version wrote the snapshot.
var ErrSnapshotVersion = errors.New("stream: snapshot of an unknown version")

// Restore makes a State from a snapshot. It does not keep b.
func Restore(b []byte) (*State, error) {
	if len(b) < 1+crc32.Size {
		return nil, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(b))
	}
	if b[0] != snapshotVersion {
		return nil, fmt.Errorf("%w: %d", ErrSnapshotVersion, b[0])
	}
	body, sum := b[:len(b)-crc32.Size], binary.LittleEndian.Uint32(b[len(b)-crc32.Size:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum", ErrSnapshot)
	}
	return restoreBody(body[1:])
}

func restoreBody(b []byte) (*State, error) {
	r := &reader{rest: b}
	created := time.Unix(0, r.signed()).UTC()
	raw := r.text()
	if r.err != nil {
		return nil, r.err
	}
	var cfg api.StreamConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return nil, fmt.Errorf("%w: configuration: %w", ErrSnapshot, err)
	}
	s, err := New(cfg, created)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	s.firstSeq, s.lastSeq, s.lastTime = r.unsigned(), r.unsigned(), r.signed()
	s.lastID = append(s.lastID, r.text()...)
	ids := r.subjects(s)
	r.messages(s, ids)
	r.remembered(s)
	r.lifetimes(s)
	if r.err == nil && len(r.rest) > 0 {
		r.fail("bytes behind the end")
	}
	if r.err != nil {
		return nil, r.err
	}
	s.acceptedID = append(s.acceptedID, s.lastID...)
	s.nextSeq, s.nextTime = s.lastSeq+1, s.lastTime
	return s, nil
}

// reader takes a snapshot apart. After a failure it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrSnapshot, what)
	}
	r.rest = nil
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() []byte {
	n := r.unsigned()
	if n > uint64(len(r.rest)) {
		r.fail("text")
		return nil
	}
	t := r.rest[:n]
	r.rest = r.rest[n:]
	return t
}

// count reads how many things of at least least bytes follow.
func (r *reader) count(least uint64) int {
	n := r.unsigned()
	if n > uint64(len(r.rest))/least {
		r.fail("count")
		return 0
	}
	return int(n)
}

func (r *reader) subjects(s *State) []subjectID {
	n := r.count(2)
	ids := make([]subjectID, 0, n)
	var text []byte
	for range n {
		shared := r.unsigned()
		rest := r.text()
		if shared > uint64(len(text)) || int(shared)+len(rest) > maxSubjectBytes {
			r.fail("subject")
		}
		if r.err != nil {
			return ids
		}
		text = append(text[:shared], rest...)
		before := s.names.count
		ids = append(ids, s.intern(text))
		if s.names.count == before {
			r.fail("subject twice")
		}
	}
	return ids
}

func (r *reader) messages(s *State, ids []subjectID) {
	n := r.count(4)
	places := r.unsigned() == 1
	s.log.eager = true
	defer func() { s.log.eager = false }()
	var seq uint64
	var at int64
	for range n {
		step, dt := r.unsigned(), r.signed()
		size, position := r.unsigned(), r.unsigned()
		var place Place
		if places {
			place = Place(r.unsigned())
		}
		switch {
		case r.err != nil:
			return
		case step == 0 || step > math.MaxUint64-seq || seq+step > s.lastSeq:
			r.fail("sequence")
		case seq > 0 && dt < 0:
			r.fail("time goes backwards")
		case size > math.MaxUint32 || position >= uint64(len(ids)):
			r.fail("message")
		}
		if r.err != nil {
			return
		}
		seq, at = seq+step, at+dt
		s.log.add(seq, at, ids[position], size, place)
		s.bytes += size
		s.appendTo(ids[position], seq)
	}
	switch {
	case r.err != nil:
	case s.visible != len(ids):
		r.fail("subject without a message")
	case n == 0 && s.firstSeq != s.lastSeq+1, s.lastSeq == math.MaxUint64, at > s.lastTime:
		r.fail("bounds")
	case n > 0:
		s.findFirst()
	}
}

func (r *reader) remembered(s *State) {
	n := r.count(18)
	var seq uint64
	var at int64
	for range n {
		if len(r.rest) < 16 {
			r.fail("message id")
			return
		}
		id := digest{binary.LittleEndian.Uint64(r.rest), binary.LittleEndian.Uint64(r.rest[8:])}
		r.rest = r.rest[16:]
		seq += r.unsigned()
		at += r.signed()
		if r.err != nil {
			return
		}
		s.dedup.add(id, seq, at)
	}
}

func (r *reader) lifetimes(s *State) {
	n := r.count(2)
	var seq uint64
	for range n {
		seq = r.next(s, seq)
		at := r.signed()
		if r.err != nil {
			return
		}
		s.life.deadlines.push(deadline{at, seq})
	}
	for _, set := range []*seqSet{&s.life.never, &s.life.markers} {
		n, seq = r.count(1), 0
		for range n {
			if seq = r.next(s, seq); r.err != nil {
				return
			}
			*set = append(*set, seq)
		}
	}
	n, seq = r.count(2), 0
	for range n {
		seq = r.next(s, seq)
		at := r.signed()
		if m, ok := s.Meta(seq); ok && r.err == nil {
			s.plans.set(seq, string(m.Subject), at)
		}
	}
}

// next reads the sequence of a message that is there, behind another.
func (r *reader) next(s *State, before uint64) uint64 {
	step := r.unsigned()
	seq := before + step
	if r.err == nil && (step == 0 || seq < before || !s.Has(seq)) {
		r.fail("sequence of no message")
	}
	return seq
}
