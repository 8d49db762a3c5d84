package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
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
	r := &recovery{
		engine: e, now: time.Now(), streams: map[record.StreamID]*Stream{},
		fragments: map[record.StreamID]*fragment{}, deleted: map[record.StreamID]bool{}, lacking: map[record.StreamID]error{}, opening: map[record.StreamID]record.StreamConfigBody{}, names: map[record.StreamID]streamName{},
	}
	r.loadIndex = func(p *past) (*segment.Index, error) { return e.loadIndex(ctx, p) }
	for _, lr := range ranges {
		e.logs = append(e.logs, lr.Log)
	}
	e.logs = append(e.logs, e.opts.Log.ID())
	if len(ranges) > 0 {
		var err error
		if r.manifests, err = e.findManifests(ctx); err != nil {
			return err
		}
	}
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
	for id, f := range r.fragments {
		s := r.streams[id]
		if s == nil && f.restoring {
			f.tail.release() // a restore that was cut off: see Restore
			continue
		}
		if err := r.lacking[id]; s == nil && err != nil {
			e.holdOffline(id, r.names[id], f, err)
			continue
		}
		if s == nil {
			return fmt.Errorf("engine: the log has messages of the stream %s, and nothing that creates it", f.name)
		}
		s.recent = f.recent
		s.now = r.now
		s.adopt(f, r.manifests[id])
		s.effects.Each = s.removed
		for _, c := range s.consumers {
			c.applyDeadLetters()
			c.machine.Resume(r.now)
			s.noteStranger(c)
		}
		s.count()
		s.account.settleHold(s)
	}
	return nil
}

// recovery replays batches into streams that nobody runs yet.
//
// A log may have been truncated before messages whose stream it created earlier. Such messages gather in a fragment,
// whose state has no limits, until the stream's checkpoint comes: it says which of them are there, and what the limits
// are. What deletes or progress lies before the checkpoint is in it already.
type recovery struct {
	engine    *Engine
	streams   map[record.StreamID]*Stream
	fragments map[record.StreamID]*fragment
	deleted   map[record.StreamID]bool
	names     map[record.StreamID]streamName              // of streams whose configuration was seen
	opening   map[record.StreamID]record.StreamConfigBody // of checkpoints whose state comes next
	lacking   map[record.StreamID]error                   // what the last checkpoint says is there and was not found
	manifests map[record.StreamID]foundManifest
	loadIndex func(*past) (*segment.Index, error)
	now       time.Time
	at        mark   // of the batch
	run       *chunk // takes the messages that follow each other in the batch
	runOf     *fragment
	runAt     int // where it begins in the body
}

// fragment is the part of a stream that takes messages. A stream that replay knows from its creation has one, too.
type fragment struct {
	name    string
	state   *stream.State
	tail    *tail
	effects *stream.Effects
	recent  []timedMark
	// restoring: the messages are those of a restore, which leave sequences out.
	restoring bool

	// past are the segments that the manifest lists; the first ones have been recalled. index is that of the next one,
	// once it was needed.
	version  manifest.Version
	past     []*past
	recalled int
	index    *segment.Index
	broken   bool // a part of its history cannot be read: it stays offline, unless it was deleted
	began    mark // of the first record that was seen
}

// boundless is a configuration that takes every message and removes none.
func boundless() api.StreamConfig {
	return api.StreamConfig{
		Name: "unknown", Subjects: []string{">"}, Storage: api.FileStorage, Retention: api.LimitsPolicy,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1, MaxConsumers: -1, Replicas: 1,
		Duplicates: 365 * 24 * time.Hour, DenyPurge: true,
	}
}

func (r *recovery) newFragment(id record.StreamID) (*fragment, error) {
	state, err := stream.New(boundless(), r.now)
	if err != nil {
		return nil, err
	}
	f := &fragment{name: fmt.Sprintf("with the id %d", id), state: state, tail: &tail{budget: r.engine.tails}, effects: &stream.Effects{}}
	f.effects.Each = func(gone stream.Removed) { f.tail.removed(gone.Seq) }
	f.began = r.at
	if err := r.findPast(id, f); err != nil {
		return nil, err
	}
	r.fragments[id] = f
	return f, nil
}

// findPast gives a fragment its stream's segments.
func (r *recovery) findPast(id record.StreamID, f *fragment) error {
	found := r.manifests[id]
	if found.err != nil {
		return r.breaks(id, f, found.err)
	}
	f.version = found.version
	if m := found.version.Manifest; m != nil {
		f.name = m.Stream
		for _, seg := range m.Segments {
			f.past = append(f.past, &past{Segment: seg, key: m.Key(seg)})
		}
	}
	return nil
}

func (r *recovery) batch(b *wal.Batch) error {
	r.at = r.engine.mark(place{b.ID, wal.Position{Offset: b.Offset}})
	r.engine.growth.note(r.at, len(b.Body))
	rest := b.Body
	for len(rest) > 0 {
		at := len(b.Body) - len(rest)
		rec, next, err := record.Next(rest)
		if err != nil {
			return err
		}
		rest = next
		f := r.fragments[rec.Stream]
		if r.run != nil && (rec.Kind != record.Message || f != r.runOf) {
			r.endRun(b, at)
		}
		if rec.Kind == record.Message {
			err = r.message(b, f, rec, at)
		} else {
			err = r.control(b, rec, at)
		}
		if err != nil {
			return fmt.Errorf("record of kind %d at byte %d: %w", rec.Kind, at, err)
		}
	}
	r.endRun(b, len(b.Body))
	return nil
}

// message replays one message into the chunk that is being gathered.
func (r *recovery) message(b *wal.Batch, f *fragment, rec record.Record, at int) error {
	if r.deleted[rec.Stream] {
		return nil
	}
	m, err := record.ParseMessage(rec.Body)
	if err != nil {
		return err
	}
	if f == nil {
		if f, err = r.newFragment(rec.Stream); err != nil {
			return err
		}
	}
	if f.recalled < len(f.past) && m.Seq > f.state.LastSeq()+1 {
		if err := r.recall(f, m.Seq); err != nil {
			if err := r.breaks(rec.Stream, f, err); err != nil {
				return err
			}
		}
	}
	if r.run != nil {
		r.run.leaveOut(m.Seq)
		switch next := r.run.first + uint64(r.run.count); {
		case m.Seq < next:
			return fmt.Errorf("stream %s: sequence %d follows %d", f.name, m.Seq, r.run.last())
		case m.Seq > next: // in a mirror: its origin lost some
			r.endRun(b, at)
		}
	}
	if r.run == nil {
		r.run, r.runOf, r.runAt = &chunk{first: m.Seq}, f, at
		f.tail.push(r.run)
	}
	r.run.offsets = append(r.run.offsets, uint32(at-r.runAt))
	r.run.count++
	r.run.live++
	f.effects.Reset()
	return f.state.Apply(stream.Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Size: len(m.Data)}, f.effects)
}

// endRun completes a chunk. Its bytes are copied out of the batch, which would otherwise be kept whole for them.
func (r *recovery) endRun(b *wal.Batch, end int) {
	c, f := r.run, r.runOf
	if c == nil {
		return
	}
	r.run, r.runOf = nil, nil
	c.bytes = end - r.runAt
	f.tail.enter(c, place{log: b.ID, pos: wal.Position{Epoch: b.ID.Epoch, Offset: b.Offset, Byte: uint32(r.runAt)}})
	// By the writer's clock: it only spaces the marks, and an early one keeps more of the log, not less.
	if n := len(f.recent); n == 0 || b.Created.Sub(f.recent[n-1].time) >= time.Second {
		f.recent = append(f.recent, timedMark{r.engine.mark(c.place), b.Created})
	}
	if c.live > 0 {
		data := append([]byte(nil), b.Body[r.runAt:end]...)
		c.data.Store(&data)
		f.tail.count(c)
	}
}

// control replays a record that is not a message.
func (r *recovery) control(b *wal.Batch, rec record.Record, at int) error {
	s := r.streams[rec.Stream]
	switch {
	case rec.Kind == record.StreamConfig:
		return r.streamConfig(b, s, rec, at)
	case rec.Kind == record.StreamState:
		return r.streamState(b, s, rec)
	case rec.Kind == record.StreamDelete:
		r.streamDelete(s, rec.Stream)
		return nil
	case rec.Kind == record.StreamRestore:
		return r.streamRestore(rec.Stream)
	case s == nil:
		// It lies before the checkpoint of its stream, which has it, or behind the stream's end.
		return nil
	}
	s.effects.Reset()
	switch rec.Kind {
	case record.StreamSources:
		var body record.StreamSourcesBody
		err := record.ParseJSON(rec.Body, &body)
		s.restoreSources(&body)
		return err
	case record.StreamIDs:
		return s.state.RestoreIDs(rec.Body)
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
	case record.ConsumerProgress, record.ConsumerState:
		name, delta, err := record.ParseConsumer(rec.Body)
		if c := s.consumers[string(name)]; err == nil && c != nil && len(delta) > 0 {
			err = c.machine.ApplyProgress(delta)
		}
		return err
	}
	return errUnknownRecord
}

var errUnknownRecord = errors.New("a record of an unknown kind: it was written by a newer version of Sluice")

// streamRestore notes that the messages that follow are those of a restore.
func (r *recovery) streamRestore(id record.StreamID) (err error) {
	f := r.fragments[id]
	if f == nil {
		f, err = r.newFragment(id)
	}
	if err == nil {
		f.restoring = true
	}
	return err
}

// streamDelete replays the end of a stream.
func (r *recovery) streamDelete(s *Stream, id record.StreamID) {
	left := r.manifests[id].stray
	if m := r.manifests[id].version.Manifest; m != nil {
		left = streamName{m.Account, m.Stream}
	}
	if left.name != "" {
		r.engine.bury(grave{account: left.account, stream: left.name, id: id, at: r.at})
	}
	if s != nil {
		s.account.forget(s)
		s.tail.release()
	} else if f := r.fragments[id]; f != nil {
		f.tail.release()
	}
	delete(r.streams, id)
	delete(r.fragments, id)
	r.deleted[id] = true
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
