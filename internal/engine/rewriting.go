package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/segment"
)

// rewrite drops the segments of which nothing lives, or makes one segment of several, without the messages that were
// deleted. It reports whether there was something to do.
//
// The new list of segments goes into the manifest first, in one swap, with the old ones among the dropped: at every
// moment one manifest is in force, and each message is in exactly one of its segments. The objects of the old ones are
// deleted later: see collect.
func (e *Engine) rewrite(ctx context.Context, s *Stream) (done bool, err error) {
	var old []*past
	empty := false
	err = s.do(func() { old, empty = s.nextRewriting(&e.opts.Compact, s.now.Add(-e.opts.DeletedFor)) })
	if err != nil || len(old) == 0 {
		return false, err
	}
	defer func() { s.manifest.mayHaveStrayed(err) }()
	m := s.manifest.next(e, s)
	var now []*past
	if !empty {
		d, err := e.newDraft(s)
		if err != nil {
			return false, err
		}
		for _, p := range old {
			if err := e.copyPast(ctx, s, d, p); err != nil {
				return false, err
			}
		}
		if d.first != 0 {
			seg, err := d.store(ctx, e.opts.Store, m)
			if err != nil {
				return false, err
			}
			now = []*past{{Segment: seg, key: m.Key(seg)}}
		}
	}
	exchange(m, old, now, time.Now().UTC())
	if err := e.leaveOut(ctx, s, m); err != nil {
		return false, err
	}
	if err := e.swapManifest(ctx, s, m); err != nil {
		return false, err
	}
	return true, e.install(s, func() {
		for i, p := range now {
			now[i] = s.newPast(m, p.Segment)
		}
		s.installed(old, now...)
	})
}

// nextRewriting chooses what to rewrite next; empty says that nothing of it lives.
func (s *Stream) nextRewriting(o *compact.Options, overdue time.Time) (old []*past, empty bool) {
	for _, p := range s.history.past {
		if p.live == 0 {
			old = append(old, p)
		}
	}
	if len(old) > 0 {
		return old, true
	}
	run, ok := o.Next(s.history.sizes(overdue))
	if !ok {
		return nil, false
	}
	return append(old, s.history.past[run.From:run.To]...), false
}

// exchange puts segments in the place of others in a manifest.
func exchange(m *manifest.Manifest, old, now []*past, at time.Time) {
	gone := map[manifest.ID]bool{}
	for _, p := range old {
		gone[p.Unique] = true
		m.Dropped = append(m.Dropped, manifest.Dropped{First: p.First, Unique: p.Unique, At: at})
	}
	var kept []manifest.Segment
	put := false
	for _, seg := range m.Segments {
		if !gone[seg.Unique] {
			kept = append(kept, seg)
			continue
		}
		if !put {
			put = true
			for _, p := range now {
				kept = append(kept, p.Segment)
			}
		}
	}
	m.Segments = kept
}

// copyBytes is how much of a segment is read at a time when it is rewritten.
const copyBytes = 8 << 20

// copyPast writes what lives of a segment into a draft.
func (e *Engine) copyPast(ctx context.Context, s *Stream, d *segmentDraft, p *past) error {
	index, err := e.segments.directory(ctx, p)
	if err != nil {
		return err
	}
	groups := index.Groups()
	for len(groups) > 0 {
		n, size := 0, int64(0)
		for n < len(groups) && (n == 0 || size+groups[n].Size() <= copyBytes) {
			size += groups[n].Size()
			n++
		}
		data, err := e.opts.Store.GetRange(ctx, p.key, groups[0].Offset, size)
		if err != nil {
			return fmt.Errorf("engine: rewriting %s: %w", p.key, err)
		}
		for _, g := range groups[:n] {
			from := g.Offset - groups[0].Offset
			if from+g.Size() > int64(len(data)) {
				return fmt.Errorf("engine: rewriting %s: %w: the object ends early", p.key, segment.ErrCorrupt)
			}
			if err := e.copyGroup(s, d, p, index, g.Number, data[from:from+g.Size()]); err != nil {
				return err
			}
		}
		groups = groups[n:]
	}
	return nil
}

// copyGroup writes what lives of a row group into a draft.
func (e *Engine) copyGroup(s *Stream, d *segmentDraft, p *past, index *segment.Directory, group int, data []byte) error {
	block, err := index.Decode(group, data)
	if err != nil {
		return fmt.Errorf("engine: rewriting %s: %w", p.key, err)
	}
	live := make([]bool, block.Len())
	err = s.do(func() {
		for i := range live {
			live[i] = s.state.Has(block.At(i).Seq)
		}
	})
	if err != nil {
		return err
	}
	for i := range live {
		if !live[i] {
			continue
		}
		m := storedAt(block, i)
		if err := d.add(&m); err != nil {
			return fmt.Errorf("engine: rewriting %s: %w", p.key, err)
		}
	}
	return nil
}
