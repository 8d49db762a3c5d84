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
		fragments: map[record.StreamID]*fragment{}, deleted: map[record.StreamID]bool{},
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
		if s == nil || s.unsettled {
			return fmt.Errorf("engine: the log has messages of the stream %s, and nothing that creates it", f.name)
		}
		s.recent = f.recent
		s.now = r.now
		s.adopt(f)
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
	manifests map[record.StreamID]foundManifest
	loadIndex func(*past) (*segment.Index, error)
	now       time.Time
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
		return found.err
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
	r.engine.growth.note(r.engine.mark(place{b.ID, wal.Position{Offset: b.Offset}}), len(b.Body))
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
	if f.recalled < len(f.past) {
		if err := r.recall(f, m.Seq); err != nil {
			return err
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
		if s == nil && r.outdated(b, rec.Stream, at) {
			return nil
		}
		return r.streamConfig(b, s, rec)
	case rec.Kind == record.StreamDelete:
		r.streamDelete(b, s, rec.Stream)
		return nil
	case rec.Kind == record.StreamRestore:
		return r.streamRestore(rec.Stream)
	case s == nil:
		// It lies before the checkpoint of its stream, which has it, or behind the stream's end.
		return nil
	case s.unsettled && rec.Kind != record.StreamState:
		return errors.New("a checkpoint without a state")
	}
	s.effects.Reset()
	switch rec.Kind {
	case record.StreamState:
		return r.streamState(b, s, rec.Body)
	case record.StreamSources:
		var body record.StreamSourcesBody
		err := record.ParseJSON(rec.Body, &body)
		s.restoreSources(&body)
		return err
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

// outdated reports whether a record lies before the checkpoint that the stream's manifest names. Until then the messages
// of the stream gather, and nothing else counts.
func (r *recovery) outdated(b *wal.Batch, id record.StreamID, at int) bool {
	m := r.manifests[id].version.Manifest
	if m == nil {
		return false
	}
	log := wal.LogID{Kind: b.ID.Kind, Node: m.From.Node, Epoch: wal.Epoch(m.From.Epoch)}
	from := r.engine.mark(place{log: log, pos: wal.Position{Offset: wal.Offset(m.From.Offset)}})
	here := r.engine.mark(place{log: b.ID, pos: wal.Position{Offset: b.Offset}})
	return here.before(from) || here == from && uint32(at) < m.From.Byte
}

// streamConfig replays the creation of a stream, a change of its configuration, or the beginning of a checkpoint.
func (r *recovery) streamConfig(b *wal.Batch, s *Stream, rec record.Record) error {
	var body record.StreamConfigBody
	if err := record.ParseJSON(rec.Body, &body); err != nil {
		return err
	}
	if s != nil {
		s.effects.Reset()
		s.configured(body.Config)
		s.settleSubjects()
		return s.state.UpdateConfig(body.Config, &s.effects)
	}
	if body.Update {
		return nil // the log was trimmed behind the stream's creation, and the checkpoint that allowed it has the change
	}
	if r.deleted[rec.Stream] {
		return nil
	}
	a := r.engine.account(body.Account)
	s, err := r.engine.newStream(a, rec.Stream, body.Config, body.Created)
	if err != nil {
		return err
	}
	f := r.fragments[rec.Stream]
	if _, found := r.manifests[rec.Stream]; f == nil && body.Checkpoint && found {
		// The log has no message in front of the checkpoint; segments may have some.
		if f, err = r.newFragment(rec.Stream); err != nil {
			return err
		}
	}
	made := &fragment{}
	if f != nil {
		s.state, s.tail, s.unsettled = f.state, *f.tail, true
		*made = *f
	} else if err := r.findPast(rec.Stream, made); err != nil {
		return err
	}
	// The consumers are told of nothing before they have been told their past.
	s.effects.Each = func(gone stream.Removed) { s.tail.removed(gone.Seq) }
	made.name, made.state, made.tail, made.effects, made.restoring = s.name, s.state, &s.tail, &s.effects, false
	r.fragments[rec.Stream] = made
	s.controlAt = r.engine.mark(place{log: b.ID, pos: wal.Position{Epoch: b.ID.Epoch, Offset: b.Offset}})
	r.streams[rec.Stream] = s
	if old := a.streams[s.name]; old != nil {
		r.engine.setAside(s, old)
		return nil
	}
	a.streams[s.name] = s
	return nil
}

// streamState replays the state in a checkpoint. A stream that was replayed from its creation has it already. Of one
// that was not, what the state does not list is removed, and the limits are in force from here on.
func (r *recovery) streamState(b *wal.Batch, s *Stream, raw []byte) error {
	st, err := record.ParseStreamState(raw)
	if err != nil {
		return err
	}
	s.controlAt = r.engine.mark(place{log: b.ID, pos: wal.Position{Epoch: b.ID.Epoch, Offset: b.Offset}})
	if !s.unsettled && s.state.LastSeq() == st.Last {
		return nil
	}
	if s.state.LastSeq() > st.Last {
		return fmt.Errorf("stream %s: the checkpoint ends at sequence %d, before %d", s.name, st.Last, s.state.LastSeq())
	}
	s.unsettled = false
	if err := r.recall(r.fragments[s.id], st.Last+1); err != nil {
		return err
	}
	s.state.RemoveBefore(st.First, &s.effects)
	for _, g := range st.Gaps {
		for m, ok := s.state.Next(nil, g.First); ok && m.Seq <= g.Last; m, ok = s.state.Next(nil, m.Seq+1) {
			s.state.Delete(m.Seq, &s.effects)
		}
	}
	if s.state.LastSeq() < st.Last {
		restored := len(st.Gaps) > 0 && st.Gaps[len(st.Gaps)-1].Last == st.Last && st.Gaps[len(st.Gaps)-1].First <= s.state.LastSeq()+1
		if s.state.Msgs() > 0 && !restored {
			return fmt.Errorf("stream %s: the log lacks the messages from sequence %d to %d", s.name, s.state.LastSeq()+1, st.Last)
		}
		s.state.Skip(st.Last)
	}
	s.state.SetLast(st.LastTime, st.LastID)
	if want := st.Messages(); s.state.Msgs() != want {
		return fmt.Errorf("stream %s: %d of %d messages are there: the log or a segment lacks the others", s.name, s.state.Msgs(), want)
	}
	return s.state.UpdateConfig(s.Config(), &s.effects)
}

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
func (r *recovery) streamDelete(b *wal.Batch, s *Stream, id record.StreamID) {
	if m := r.manifests[id].version.Manifest; m != nil {
		r.engine.bury(grave{account: m.Account, stream: m.Stream, id: id, at: r.engine.mark(place{log: b.ID, pos: wal.Position{Offset: b.Offset}})})
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
