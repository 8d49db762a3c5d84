package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// LogRange is a part of a log that recovery replays.
type LogRange struct {
	Log      wal.LogID
	From, To wal.Offset
}

// Recover puts the streams back together from the logs that this node continues, in order. It runs before Start, and
// nothing else runs meanwhile. A record that is not understood ends it: what cannot be read must not be lost at the
// next rewrite.
func (e *Engine) Recover(ctx context.Context, ranges []LogRange) error {
	r := &recovery{engine: e, streams: map[record.StreamID]*Stream{}, deleted: map[record.StreamID]bool{}, now: time.Now()}
	for _, lr := range ranges {
		err := wal.Replay(ctx, e.opts.Store, lr.Log, lr.From, lr.To, func(b *wal.Batch) error {
			if err := r.batch(b); err != nil {
				return fmt.Errorf("engine: replaying %s: %w", b.ID.Key(b.Offset), err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range r.streams {
		s.now = r.now
		s.effects.Each = s.removed
		for _, c := range s.consumers {
			c.machine.Resume(r.now)
		}
	}
	return nil
}

// recovery replays batches into streams that nobody runs yet.
type recovery struct {
	engine  *Engine
	streams map[record.StreamID]*Stream
	deleted map[record.StreamID]bool
	now     time.Time
	run     *chunk // takes the messages that follow each other in the batch
	runOf   *Stream
	runAt   int // where it begins in the body
}

func (r *recovery) batch(b *wal.Batch) error {
	rest := b.Body
	for len(rest) > 0 {
		at := len(b.Body) - len(rest)
		rec, next, err := record.Next(rest)
		if err != nil {
			return err
		}
		rest = next
		s := r.streams[rec.Stream]
		if r.run != nil && (rec.Kind != record.Message || s != r.runOf) {
			r.endRun(b, at)
		}
		if s == nil && rec.Kind != record.StreamConfig {
			if !r.deleted[rec.Stream] {
				return fmt.Errorf("record of kind %d of stream %d, which nothing created", rec.Kind, rec.Stream)
			}
			continue // it was on its way when the stream was deleted
		}
		if rec.Kind == record.Message {
			err = r.message(s, rec.Body, at)
		} else {
			err = r.control(s, rec)
		}
		if err != nil {
			return fmt.Errorf("record of kind %d at byte %d: %w", rec.Kind, at, err)
		}
	}
	r.endRun(b, len(b.Body))
	return nil
}

// message replays one message into the chunk that is being gathered.
func (r *recovery) message(s *Stream, body []byte, at int) error {
	m, err := record.ParseMessage(body)
	if err != nil {
		return err
	}
	if r.run == nil {
		r.run, r.runOf, r.runAt = &chunk{first: m.Seq}, s, at
		s.tail.push(r.run)
	}
	if m.Seq != r.run.first+uint64(r.run.count) {
		return fmt.Errorf("stream %s: sequence %d follows %d", s.name, m.Seq, r.run.last())
	}
	r.run.offsets = append(r.run.offsets, uint32(at-r.runAt))
	r.run.count++
	r.run.live++
	s.effects.Reset()
	return s.state.Apply(stream.Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Size: len(m.Data)}, &s.effects)
}

// endRun completes a chunk. Its bytes are copied out of the batch, which would otherwise be kept whole for them.
func (r *recovery) endRun(b *wal.Batch, end int) {
	c, s := r.run, r.runOf
	if c == nil {
		return
	}
	r.run, r.runOf = nil, nil
	c.bytes = end - r.runAt
	c.place = place{log: b.ID, pos: wal.Position{Epoch: b.ID.Epoch, Offset: b.Offset, Byte: uint32(r.runAt)}}
	if c.live > 0 {
		data := append([]byte(nil), b.Body[r.runAt:end]...)
		c.data.Store(&data)
		s.tail.count(c)
	}
}

// control replays a record that is not a message.
func (r *recovery) control(s *Stream, rec record.Record) error {
	if s != nil {
		s.effects.Reset()
	}
	switch rec.Kind {
	case record.StreamConfig:
		return r.streamConfig(s, rec)
	case record.StreamDelete:
		s.account.forget(s)
		s.tail.release()
		delete(r.streams, rec.Stream)
		r.deleted[rec.Stream] = true
		return nil
	case record.MessageDelete:
		seqs, err := record.ParseSeqs(rec.Body)
		for _, seq := range seqs {
			s.state.Delete(seq, &s.effects)
		}
		return err
	case record.Purge:
		p, err := record.ParsePurge(rec.Body)
		if err == nil {
			s.state.Purge(stream.Purge(p), &s.effects)
		}
		return err
	case record.Expire:
		first, err := record.ParseExpire(rec.Body)
		if err == nil {
			s.state.ExpireBefore(first, &s.effects)
		}
		return err
	case record.ConsumerConfig:
		return r.consumerConfig(s, rec.Body)
	case record.ConsumerDelete:
		if c := s.consumers[string(rec.Body)]; c != nil {
			s.forgetConsumer(c)
		}
		return nil
	case record.ConsumerProgress:
		name, delta, err := record.ParseConsumer(rec.Body)
		if c := s.consumers[string(name)]; err == nil && c != nil && len(delta) > 0 {
			err = c.machine.ApplyProgress(delta)
		}
		return err
	}
	return errUnknownRecord
}

var errUnknownRecord = errors.New("a record of an unknown kind: it was written by a newer version of Sluice")

func (r *recovery) streamConfig(s *Stream, rec record.Record) error {
	var body record.StreamConfigBody
	if err := record.ParseJSON(rec.Body, &body); err != nil {
		return err
	}
	if s != nil {
		s.configured(body.Config)
		s.settleSubjects()
		return s.state.UpdateConfig(body.Config, &s.effects)
	}
	a := r.engine.account(body.Account)
	s, err := r.engine.newStream(a, rec.Stream, body.Config, body.Created)
	if err != nil {
		return err
	}
	if old := a.streams[s.name]; old != nil {
		return fmt.Errorf("stream %s of account %s exists twice, with the ids %d and %d", s.name, a.name, old.id, s.id)
	}
	// The consumers are told of nothing before they have been told their past.
	s.effects.Each = func(gone stream.Removed) { s.tail.removed(gone.Seq) }
	a.streams[s.name] = s
	r.streams[rec.Stream] = s
	return nil
}

func (r *recovery) consumerConfig(s *Stream, raw []byte) error {
	var body record.ConsumerConfigBody
	if err := record.ParseJSON(raw, &body); err != nil {
		return err
	}
	c := s.consumers[body.Name]
	if c != nil {
		s.reconfigureConsumer(c, body.Config)
		return nil
	}
	_, err := s.newConsumer(body.Name, body.Config, body.Created, false)
	return err
}
