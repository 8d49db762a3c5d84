package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// rangeReader goes through one log of a head.
type rangeReader struct {
	*survey
	node  *node
	at    int // index of the range
	r     head.LogRange
	id    wal.LogID
	next  wal.Offset // the first that was not read
	ended bool       // by the fence
	fence bool       // it was seen, and lies where the head says

	below, beyond group      // before the start, and behind the end
	hole          wal.Offset // where an open log stops, although objects follow; valid if holed
	holed         bool
	fenceBeyond   bool // behind the hole
}

// group is a number of objects of one log.
type group struct {
	Tally
	first, last string // keys
	keys        []string
}

func (g *group) add(o store.Attributes, keep bool) {
	if g.Objects == 0 {
		g.first = o.Key
	}
	g.last = o.Key
	g.Tally.add(o.Size)
	if keep && len(g.keys) < maxMoves {
		g.keys = append(g.keys, o.Key)
	}
}

// readRange reads a log from its start to its end, batch by batch, and tells what is not as it should be.
func (s *survey) readRange(ctx context.Context, n *node, i int) error {
	r := &rangeReader{survey: s, node: n, at: i, r: n.ranges[i], id: n.ranges[i].ID(), next: n.ranges[i].Start}
	err := s.checker.list(ctx, r.id.String()+"/", func(o store.Attributes) error {
		p, err := key.Parse(o.Key)
		if err != nil || s.stale {
			return nil
		}
		return r.object(ctx, o, wal.Offset(p.Offset))
	})
	if err == nil && !s.stale {
		err = r.finish(ctx)
	}
	return err
}

// object looks at one object of the log, in order.
func (r *rangeReader) object(ctx context.Context, o store.Attributes, at wal.Offset) error {
	switch {
	case at < r.r.Start:
		r.below.add(o, r.checker.gathering)
		return nil
	case r.ended || !r.r.Open && at > r.r.End:
		r.beyond.add(o, r.checker.gathering)
		return nil
	case r.holed:
		r.beyond.add(o, false)
		return r.behindHole(ctx, o, at)
	}
	if at > r.next {
		if err := r.missing(ctx, at); err != nil || r.stale {
			return err
		}
		if r.holed {
			r.beyond.add(o, false)
			return r.behindHole(ctx, o, at)
		}
	}
	r.next = at + 1
	return r.read(ctx, at)
}

// missing looks at offsets from next on that a listing did not have. Beside a writer, they may be there by now.
func (r *rangeReader) missing(ctx context.Context, to wal.Offset) error {
	for at := r.next; at < to; at++ {
		_, err := wal.ReadBatch(ctx, r.checker.store, r.id, at)
		if !errors.Is(err, store.ErrNotFound) {
			if err := r.read(ctx, at); err != nil || r.stale {
				return err
			}
			continue
		}
		if need, err := r.needed(ctx, r.node, r.id, at); err != nil || !need {
			return err
		}
		if r.r.Open {
			r.hole, r.holed = at, true
			return nil
		}
		what := "the batch is missing"
		if to-at > 1 {
			what = fmt.Sprintf("%d batches up to offset %x are missing", to-at, to-1)
		}
		r.fault(Finding{Severity: Error, Kind: "batch-missing", Key: r.id.Key(at), What: what, Objects: int(to - at),
			Means: "What was acknowledged with it is lost, and " + r.node.key + " cannot start", Do: doRestore})
		return nil
	}
	return nil
}

// read reads the object at an offset that belongs to the log, and replays it.
func (r *rangeReader) read(ctx context.Context, at wal.Offset) error {
	b, err := wal.ReadBatch(ctx, r.checker.store, r.id, at)
	var fenced *wal.FenceError
	switch {
	case errors.As(err, &fenced):
		r.ended, r.fence = true, r.r.Open || at == r.r.End
		if !r.fence {
			r.fault(Finding{Severity: Error, Kind: "fence-early", Key: r.id.Key(at), What: fmt.Sprintf("the fence lies here; %s says that the log ends at %x", r.node.key, uint64(r.r.End)),
				Means: "The node cannot start", Do: doRestore})
		}
		return nil
	case errors.Is(err, store.ErrNotFound):
		if need, err := r.needed(ctx, r.node, r.id, at); err != nil || !need {
			return err
		}
		r.fault(Finding{Severity: Error, Kind: "batch-missing", Key: r.id.Key(at), What: "the batch was there, and is missing",
			Means: "Something deletes from a log that is needed", Do: doRestore})
		return nil
	case damaged(err) == "damaged":
		kind, means := "batch-damaged", "What was acknowledged with it cannot be read, and "+r.node.key+" cannot start"
		if !r.r.Open && at == r.r.End {
			kind, means = "fence-damaged", "Nothing is lost: the log ends here. But nothing keeps late writes out if it goes"
		}
		r.fault(Finding{Severity: Error, Kind: kind, Key: r.id.Key(at), What: err.Error(), Means: means, Do: doRestore})
		return nil
	case damaged(err) == "newer":
		r.fault(Finding{Severity: Error, Kind: "batch-newer", Key: r.id.Key(at), What: err.Error(), Means: "Its records were not checked", Do: doNewer})
		return nil
	case err != nil:
		return fmt.Errorf("check: %w", err)
	}
	if !r.r.Open && at == r.r.End {
		r.ended = true
		r.fault(Finding{Severity: Error, Kind: "fence-missing", Key: r.id.Key(at), What: "a batch lies where " + r.node.key + " says that the fence is",
			Means: "Either it was acknowledged and is passed over, or the log can be written on", Do: doRestore})
		return nil
	}
	r.checker.sum.Batches++
	r.replay(r.node, r.at, b)
	return nil
}

// behindHole looks for a fence behind a hole.
func (r *rangeReader) behindHole(ctx context.Context, o store.Attributes, at wal.Offset) error {
	if r.fenceBeyond || o.Size > wal.MaxFenceBytes {
		return nil
	}
	_, err := wal.ReadBatch(ctx, r.checker.store, r.id, at)
	r.fenceBeyond = errors.Is(err, wal.ErrFenced)
	if r.fenceBeyond || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return ignoreDamage(err)
}

// finish judges what the listing left open.
func (r *rangeReader) finish(ctx context.Context) error {
	if !r.r.Open && !r.ended {
		if r.next < r.r.End {
			if err := r.missing(ctx, r.r.End); err != nil || r.stale {
				return err
			}
		}
		if need, err := r.needed(ctx, r.node, r.id, r.r.End); err != nil || !need {
			return err
		}
		if r.next <= r.r.End {
			r.fault(Finding{Severity: Error, Kind: "fence-missing", Key: r.id.Key(r.r.End), What: "the fence is missing that ends the log",
				Means: "A write of its dead writer that is late would be taken for committed", Do: doRestore})
		}
	}
	if r.holed {
		r.tellHole()
	}
	if r.below.Objects > 0 {
		r.tellRest(&r.below, "log-leftover", "batches before the start of the log, which "+r.node.key+" tells")
	}
	if r.beyond.Objects > 0 && r.fence {
		r.tellRest(&r.beyond, "log-stray", "objects behind the fence, which were never acknowledged")
	}
	return nil
}

// tellHole tells of an open log that stops although objects follow. A writer that died may leave some (at most
// wal.MaxPipeline-1), which nobody acknowledged; a fence, or more of them, shows that there was a batch.
func (r *rangeReader) tellHole() {
	f := Finding{Key: r.id.Key(r.hole), Objects: r.beyond.Objects, Bytes: r.beyond.Bytes}
	switch {
	case r.fenceBeyond || r.beyond.Objects >= wal.MaxPipeline:
		f.Severity, f.Kind = Error, "batch-missing"
		f.What = fmt.Sprintf("the batch is missing; %d objects of the log follow", r.beyond.Objects)
		f.Means, f.Do = "What was acknowledged with it, and with those that follow, is passed over at the next start", doRestore+" before the node is started"
	case r.node.vacant() && r.node.head.Released:
		f.Severity, f.Kind = Error, "batch-missing"
		f.What = fmt.Sprintf("the batch is missing; %d objects of the log follow, and its node was shut down cleanly", r.beyond.Objects)
		f.Means, f.Do = "What was acknowledged with it, and with those that follow, is passed over at the next start", doRestore+" before the node is started"
	default:
		f.Severity, f.Kind = Warning, "log-hole"
		f.What = fmt.Sprintf("nothing lies here, and %d objects follow", r.beyond.Objects)
		f.Means = "Right if the node writes at this moment, or was killed while it had several batches under way: they were not acknowledged. Else the batch is lost"
		f.Do = "If the node runs, check again"
	}
	r.fault(f)
}

// tellRest tells of objects that are not part of the log, and may go.
func (r *rangeReader) tellRest(g *group, kind, what string) {
	r.fault(Finding{Severity: Note, Kind: kind, Key: g.first, What: fmt.Sprintf("%d %s", g.Objects, what), Objects: g.Objects, Bytes: g.Bytes,
		Means: "Harmless: nobody reads them", Do: "Leave them, or move them with --repair"})
	for _, k := range g.keys {
		r.checker.movable(k, "")
	}
}

// replay reads the records of a batch.
func (s *survey) replay(n *node, at int, b *wal.Batch) {
	k := b.ID.Key(b.Offset)
	rest, records := b.Body, 0
	for len(rest) > 0 {
		begin := len(b.Body) - len(rest)
		rec, next, err := record.Next(rest)
		if err != nil {
			s.fault(Finding{Severity: Error, Kind: "record-damaged", Key: k, What: fmt.Sprintf("at byte %d: %v", begin, err),
				Means: "The batch is as it was written, so it was written wrong: " + n.key + " cannot start", Do: "Keep the object, and report this"})
			return
		}
		rest = next
		records++
		s.checker.sum.Records++
		if rec.Kind == record.Message {
			s.checker.sum.LogMessages++
		}
		if !s.wants(rec.Stream) {
			continue
		}
		p := spot{node: n, log: at, batch: b, byte: uint32(begin)}
		if err := s.apply(p, rec); err != nil {
			kind := "record-damaged"
			if errors.Is(err, errUnknownRecord) {
				kind = "record-unknown"
			}
			s.fault(Finding{Severity: Error, Kind: kind, Key: k, What: fmt.Sprintf("record of kind %d of stream %016x at byte %d: %v", rec.Kind, uint64(rec.Stream), begin, err),
				Means: n.key + " cannot start", Do: "Keep the object, and check it with the version that wrote it"})
		}
	}
	if records != b.Records {
		s.fault(Finding{Severity: Error, Kind: "record-damaged", Key: k, What: fmt.Sprintf("%d records, the header says %d", records, b.Records),
			Means: "It was written wrong", Do: "Keep the object, and report this"})
	}
}
