package engine

import (
	"fmt"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// outdated reports whether a record lies before the checkpoint that the stream's manifest names. Until then the messages
// of the stream gather, and nothing else counts.
func (r *recovery) outdated(b *wal.Batch, id record.StreamID, at int) bool {
	m := r.manifests[id].version.Manifest
	if m == nil {
		return false
	}
	log := wal.LogID{Kind: b.ID.Kind, Node: m.From.Node, Epoch: wal.Epoch(m.From.Epoch)}
	from := r.engine.mark(place{log: log, pos: wal.Position{Offset: wal.Offset(m.From.Offset)}})
	return r.at.before(from) || r.at == from && uint32(at) < m.From.Byte
}

// breaks notes that a part of a stream's history is not there or damaged. If the stream was deleted later, that is as it
// should be. Trouble of the store, which may pass, ends the recovery.
func (r *recovery) breaks(id record.StreamID, f *fragment, err error) error {
	if !lasting(err) {
		return err
	}
	f.broken, f.past = true, nil
	r.lacking[id] = err
	return nil
}

// streamConfig replays the creation of a stream, a change of its configuration, or the beginning of a checkpoint.
func (r *recovery) streamConfig(b *wal.Batch, s *Stream, rec record.Record, at int) error {
	var body record.StreamConfigBody
	if err := record.ParseJSON(rec.Body, &body); err != nil {
		return err
	}
	switch {
	case s != nil:
		s.effects.Reset()
		s.configured(body.Config)
		s.settleSubjects()
		return s.state.UpdateConfig(body.Config, &s.effects)
	case body.Update:
		return nil // the log was trimmed behind the stream's creation, and the checkpoint that allowed it has the change
	case r.deleted[rec.Stream]:
		return nil
	}
	r.names[rec.Stream] = streamName{body.Account, body.Config.Name}
	switch {
	case r.outdated(b, rec.Stream, at):
		return nil
	case body.Checkpoint:
		r.opening[rec.Stream] = body
		return nil
	}
	f := &fragment{began: r.at}
	if err := r.findPast(rec.Stream, f); err != nil {
		return err
	}
	if f.broken {
		// The log may have all of it, but what has been deleted since its creation is in the manifest.
		f, err := r.newFragment(rec.Stream)
		if err == nil {
			f.broken = true
		}
		return err
	}
	s, err := r.engine.newStream(r.engine.account(body.Account), rec.Stream, body.Config, body.Created)
	if err != nil {
		return err
	}
	r.enter(s, f)
	return nil
}

// streamState replays the state in a checkpoint. A stream that was replayed from its creation, or from an earlier
// checkpoint, has it already.
func (r *recovery) streamState(b *wal.Batch, s *Stream, rec record.Record) error {
	st, err := record.ParseStreamState(rec.Body)
	if err != nil {
		return err
	}
	if s == nil {
		body, begun := r.opening[rec.Stream]
		if !begun {
			return nil
		}
		delete(r.opening, rec.Stream)
		return r.open(b, rec.Stream, &body, &st)
	}
	if s.state.LastSeq() != st.Last {
		return fmt.Errorf("stream %s: the checkpoint ends at sequence %d, and the stream at %d", s.name, st.Last, s.state.LastSeq())
	}
	s.controlAt = r.at
	return nil
}

// open makes a stream of a checkpoint and the messages that have gathered: what the state does not list is removed, and
// the limits are in force from here on. If messages that it lists are missing, then because they were deleted later and
// the log let go of them: a later checkpoint says so, and this one counts for nothing.
func (r *recovery) open(b *wal.Batch, id record.StreamID, body *record.StreamConfigBody, st *record.StreamStateBody) (err error) {
	f := r.fragments[id]
	if f == nil {
		if f, err = r.newFragment(id); err != nil {
			return err
		}
	}
	if f.broken {
		return nil
	}
	if f.state.LastSeq() > st.Last {
		return fmt.Errorf("stream %s: the checkpoint ends at sequence %d, before %d", body.Config.Name, st.Last, f.state.LastSeq())
	}
	if err := r.recall(f, st.Last+1); err != nil {
		return r.breaks(id, f, err)
	}
	if got, want := f.listed(st), st.Messages(); got != want {
		r.lacking[id] = fmt.Errorf("stream %s: of %d messages %d are there at %s: the log or a segment lacks the others",
			body.Config.Name, want, got, b.ID.Key(b.Offset))
		return nil
	}
	delete(r.lacking, id)
	s, err := r.engine.newStream(r.engine.account(body.Account), id, body.Config, body.Created)
	if err != nil {
		return err
	}
	s.state, s.tail = f.state, *f.tail
	r.enter(s, f)
	s.state.RemoveBefore(st.First, &s.effects)
	for _, g := range st.Gaps {
		for m, ok := s.state.Next(nil, g.First); ok && m.Seq <= g.Last; m, ok = s.state.Next(nil, m.Seq+1) {
			s.state.Delete(m.Seq, &s.effects)
		}
	}
	s.state.Skip(st.Last)
	s.state.SetLast(st.LastTime, st.LastID)
	s.tail.died = nil
	return s.state.UpdateConfig(s.Config(), &s.effects)
}

// listed counts the messages of a fragment that a state lists.
func (f *fragment) listed(st *record.StreamStateBody) uint64 {
	n := f.state.Pending(nil, st.First)
	for _, g := range st.Gaps {
		n -= f.state.Pending(nil, g.First) - f.state.Pending(nil, g.Last+1)
	}
	return n
}

// enter makes a stream known from here on. It goes on with what its fragment has.
func (r *recovery) enter(s *Stream, f *fragment) {
	// The consumers are told of nothing before they have been told their past.
	s.effects.Each = func(gone stream.Removed) { s.tail.removed(gone.Seq) }
	made := *f
	made.name, made.state, made.tail, made.effects, made.restoring = s.name, s.state, &s.tail, &s.effects, false
	r.fragments[s.id] = &made
	s.controlAt = r.at
	r.streams[s.id] = s
	a := s.account
	if old := a.streams[s.name]; old != nil {
		r.engine.setAside(s, old)
		return
	}
	a.streams[s.name] = s
}
