package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
)

// Garbage collection deletes segments that nothing refers to. What makes it safe, whoever else believes to own the
// stream at that moment:
//
//   - An object of a dropped segment goes only after the manifest that dropped it was stored, and after that the node's
//     head was written once more. Whoever takes the streams over does so by the head, hence later, and reads the manifest
//     after that: it finds the segment dropped. Nobody who took over before could have let that write of the head through.
//   - An object that no manifest ever listed goes only if the manifest in the store was written by this start of the
//     node, which makes the requests of all earlier owners fail, and if the head was written after the object was found.
//   - All objects of a stream that was deleted go once its last record is committed: whoever replays the log deletes them
//     too.
//
// The grace period is not for safety. It is for other programs, which have read a manifest or a listing and still read
// the files.

// Alive writes the node's head, and so proves that at a moment during the call no other node had taken over.
type Alive func(ctx context.Context) error

// maxDeletes is how many objects one request deletes.
const maxDeletes = 1000

// collect deletes the objects of segments that were dropped long enough ago.
func (e *Engine) collect(ctx context.Context, s *Stream, now time.Time) error {
	k := &s.manifest
	m := k.version.Manifest
	if m == nil || len(m.Dropped) == 0 || now.Before(k.collectAt) {
		return nil
	}
	var due []string
	next := now.Add(e.opts.Grace)
	for _, d := range m.Dropped {
		switch at := d.At.Add(e.opts.Grace); {
		case k.collected[d.Unique]:
		case !at.After(now):
			due = append(due, m.DroppedKey(d))
		case at.Before(next):
			next = at
		}
	}
	k.collectAt = next
	if len(due) == 0 {
		return nil
	}
	if err := e.opts.Alive(ctx); err != nil {
		return fmt.Errorf("engine: collecting segments of stream %s: %w", s.name, err)
	}
	if err := e.deleteKeys(ctx, due); err != nil {
		return fmt.Errorf("engine: collecting segments of stream %s: %w", s.name, err)
	}
	k.noteCollected(m, now.Add(-e.opts.Grace))
	return nil
}

func (e *Engine) deleteKeys(ctx context.Context, keys []string) error {
	for len(keys) > 0 {
		n := min(len(keys), maxDeletes)
		if err := e.opts.Store.Delete(ctx, keys[:n]...); err != nil {
			return err
		}
		for _, k := range keys[:n] {
			e.segments.forget(k)
		}
		keys = keys[n:]
	}
	return nil
}

// collectStrays deletes the segments of a stream that its manifest never listed: those of writers that were cut off.
func (e *Engine) collectStrays(ctx context.Context, s *Stream) error {
	k := &s.manifest
	if !k.swapped {
		return nil
	}
	segments, _, err := e.listStream(ctx, s.account.name, s.name, s.id)
	if err != nil {
		return err
	}
	m := k.version.Manifest
	known := map[string]bool{}
	for _, seg := range m.Segments {
		known[m.Key(seg)] = true
	}
	for _, d := range m.Dropped {
		known[m.DroppedKey(d)] = true // collect sees to them
	}
	var strays []string
	for _, k := range segments {
		if !known[k] {
			strays = append(strays, k)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	if err := e.opts.Alive(ctx); err != nil {
		return fmt.Errorf("engine: collecting segments of stream %s: %w", s.name, err)
	}
	e.opts.Logger.Info("deleting segments that nothing refers to", "stream", s.name, "objects", len(strays))
	return e.deleteKeys(ctx, strays)
}

// listStream gives the keys of a stream's segments, and whether there is any object of the stream.
func (e *Engine) listStream(ctx context.Context, account, stream string, id record.StreamID) (segments []string, found bool, err error) {
	prefix, after := key.StreamPrefix(account, stream, uint64(id)), ""
	for {
		page, err := e.opts.Store.List(ctx, store.ListOptions{Prefix: prefix, StartAfter: after})
		if err != nil {
			return nil, false, fmt.Errorf("engine: listing %s: %w", prefix, err)
		}
		for _, o := range page.Objects {
			found, after = true, o.Key
			if p, err := key.Parse(o.Key); err == nil && p.Family == key.StreamSegment {
				segments = append(segments, o.Key)
			}
		}
		if !page.More {
			return segments, found, nil
		}
	}
}

// grave is a stream that was deleted and may have left objects behind. Until they are gone the log keeps the record of
// its end, so that a start deletes them if this one does not get to it.
type grave struct {
	account, stream string
	id              record.StreamID
	at              mark // of its last record
	buried          time.Time
}

// leaveBehind buries the stream, whose last record is in e, if there may be objects of it.
func (s *Stream) leaveBehind(e *entry) {
	s.erased.Store(true) // before objects is looked at: the housekeeper looks at them the other way around
	if s.log != nil && s.objects.Load() {
		at := s.engine.mark(place{log: s.log.ID(), pos: e.Position})
		s.engine.bury(grave{account: s.account.name, stream: s.name, id: s.id, at: at, buried: s.now})
	}
}

// bury has the housekeeper delete what a stream leaves behind.
func (e *Engine) bury(g grave) {
	e.gravesMu.Lock()
	defer e.gravesMu.Unlock()
	e.graves[g.id] = g
}

// gravesNeed is from where on the log is needed for streams that were deleted.
func (e *Engine) gravesNeed(limit mark) mark {
	e.gravesMu.Lock()
	defer e.gravesMu.Unlock()
	for _, g := range e.graves {
		limit = earlier(limit, g.at)
	}
	return limit
}

// clearGraves deletes what deleted streams have left, the manifest last.
func (e *Engine) clearGraves(ctx context.Context, now time.Time) error {
	e.gravesMu.Lock()
	var due []grave
	for _, g := range e.graves {
		if now.Sub(g.buried) >= e.opts.Grace {
			due = append(due, g)
		}
	}
	e.gravesMu.Unlock()
	var errs []error
	for _, g := range due {
		if err := e.clearGrave(ctx, g); err != nil {
			errs = append(errs, fmt.Errorf("engine: deleting what stream %s left: %w", g.stream, err))
			continue
		}
		e.gravesMu.Lock()
		delete(e.graves, g.id)
		e.gravesMu.Unlock()
	}
	return errors.Join(errs...)
}

func (e *Engine) clearGrave(ctx context.Context, g grave) error {
	segments, found, err := e.listStream(ctx, g.account, g.stream, g.id)
	if err != nil || !found {
		return err
	}
	if err := e.deleteKeys(ctx, segments); err != nil {
		return err
	}
	return e.deleteKeys(ctx, []string{key.ManifestKey(g.account, g.stream, uint64(g.id))})
}
