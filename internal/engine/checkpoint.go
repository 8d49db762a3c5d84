package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// The log may only lose what is dead at its front. A stream needs it from the oldest of three places: its oldest message
// that no segment has, the oldest message whose id its dedup window remembers, unless a checkpoint lists it, and the place
// from which its control records (configuration, deletes, consumers) are complete. Compaction moves the first one up, a checkpoint the last: it
// says in one entry all that the control records before it added up to.
//
// Replay must find what a checkpoint says is there, also what was deleted since: a limit that counted such a message may
// have removed an older one, which would be back if it were not counted. So a chunk whose messages are all gone is needed
// until a checkpoint says so, and what segments leave out is left out of the checkpoint that the manifest names, too.
//
// Trimming is: have the streams that hold the front back move up; record in the node's head where the log starts now;
// delete what lies before. A crash in between leaves objects before the start that nobody looks at, and the next trim
// deletes them.

// mark is a place in the node's logs, in their order.
type mark struct {
	log    int // index in Engine.logs
	offset wal.Offset
}

func (m mark) before(o mark) bool {
	return m.log < o.log || m.log == o.log && m.offset < o.offset
}

func earlier(a, b mark) mark {
	if b.before(a) {
		return b
	}
	return a
}

// dedupMarks is into how many parts a dedup window is divided to remember where in the log it begins.
const dedupMarks = 64

// timedMark is a place where messages were written at a time.
type timedMark struct {
	at   mark
	time time.Time
}

// noteChunk remembers where the dedup window's messages lie.
func (s *Stream) noteChunk(at mark, now time.Time) {
	window := s.Config().Duplicates
	for len(s.recent) > 0 && now.Sub(s.recent[0].time) > window {
		s.recent = s.recent[1:]
	}
	if n := len(s.recent); n == 0 || now.Sub(s.recent[n-1].time) > window/dedupMarks {
		s.recent = append(s.recent, timedMark{at, now})
	}
}

// need is why a stream needs the log from a place on.
type need int

const (
	needMessages need = iota // they are nowhere else
	needWindow               // the ids of the dedup window
	needControl              // the control records
)

// needs is from where on the stream needs the log, and what for.
func (s *Stream) needs(now time.Time) (from mark, by need) {
	from = mark{log: len(s.engine.logs)}
	for _, c := range s.tail.chunks {
		if c.live > 0 && !c.moved {
			from = s.engine.mark(c.place)
			break
		}
	}
	window := s.Config().Duplicates
	for _, r := range s.recent {
		if s.engine.overfull() {
			break // segments note the ids, but for those of messages that are gone
		}
		if now.Sub(r.time) <= window+window/dedupMarks {
			if r.at.before(from) {
				from, by = r.at, needWindow
			}
			break
		}
	}
	control := s.controlAt
	for _, p := range s.tail.died {
		control = earlier(control, s.engine.mark(p))
	}
	if control.before(from) {
		return control, needControl
	}
	return from, by
}

// checkpoint commits all that the control records of the stream add up to, and tells where in the log that is.
func (s *Stream) checkpoint(ctx context.Context) (at place, err error) {
	err = s.doQuiet(ctx, func() (*entry, error) {
		if s.deleting || s.ended {
			return nil, errStreamEnded // a checkpoint behind its end would bring it back
		}
		data, err := record.AppendJSON(nil, record.StreamConfig, s.id, record.StreamConfigBody{Account: s.account.name, Created: s.created, Config: s.Config(), Checkpoint: true})
		if err != nil {
			return nil, err
		}
		state := record.StreamStateBody{First: s.state.FirstSeq(), Last: s.state.LastSeq(), LastTime: s.state.LastTime(), LastID: s.state.LastID()}
		s.state.Deleted(func(first, last uint64) bool {
			state.Gaps = append(state.Gaps, record.Gap{First: first, Last: last})
			return true
		})
		data = record.AppendStreamState(data, s.id, &state)
		records := 2
		// What is accepted lies before this entry, so it counts.
		if body := s.sourcesBody(); len(body.Sources) > 0 {
			if data, err = record.AppendJSON(data, record.StreamSources, s.id, body); err != nil {
				return nil, err
			}
			records++
		}
		ids, n, all := s.state.AppendIDs(nil, s.now.UnixNano())
		if n > 0 {
			data = record.Append(data, record.StreamIDs, s.id, ids)
			records++
		}
		for _, c := range s.consumers {
			if !c.logged || c.dropping {
				continue
			}
			body := record.ConsumerConfigBody{Name: c.name, Created: c.machine.Info(s.now, &s.consumerFx).Created, Config: c.machine.Config()}
			if data, err = record.AppendJSON(data, record.ConsumerConfig, s.id, body); err != nil {
				return nil, err
			}
			s.progress = c.machine.Progress(s.progress[:0]) // the snapshot has it
			s.progress = c.machine.Snapshot(s.progress[:0])
			data = record.AppendConsumer(data, record.ConsumerState, s.id, c.name, s.progress)
			records += 2
		}
		e := s.newEntry(data, records, false)
		e.then = append(e.then, func(err error) {
			if err == nil {
				at = place{log: s.log.ID(), pos: e.Position}
				s.controlAt = s.engine.mark(at)
				if all {
					s.recent = nil // the checkpoint has the ids
				}
				s.tail.died = nil // nothing else of the stream was committed since the state was taken
			}
		})
		return e, nil
	})
	return at, err
}

// mark is a place in the order of the node's logs.
func (e *Engine) mark(p place) mark {
	return mark{slices.Index(e.logs, p.log), p.pos.Offset}
}

// Truncator makes a log begin at an offset: first in the node's head, durably, then by deleting what lies before.
type Truncator func(ctx context.Context, log wal.LogID, before wal.Offset) error

// Trim lets go of the front of the node's logs that no stream needs, once every stream needs as little as can be.
func (e *Engine) Trim(ctx context.Context) error {
	leave, err := e.keepsHouse(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return e.trim(ctx, e.newestMark())
}

// newestMark is the place up to which the log is known to be committed.
func (e *Engine) newestMark() mark { return mark{len(e.logs) - 1, wal.Offset(e.newest.Load())} }

// trim has the streams that need the log before a place move up, and lets go of what is not needed then.
func (e *Engine) trim(ctx context.Context, target mark) error {
	start, err := e.trimTo(ctx, target)
	if err != nil {
		return err
	}
	e.growth.trimmed(start)
	for i, log := range e.logs[:min(start.log+1, len(e.logs))] {
		before := start.offset
		if i < start.log {
			before = wal.Offset(1<<63 - 1) // to its end
		}
		if before == 0 {
			continue
		}
		if err := e.opts.Truncate(ctx, log, before); err != nil {
			return fmt.Errorf("engine: truncating %s: %w", log, err)
		}
	}
	return nil
}

// trimTo finds from where on the logs are needed, once every stream that needs them before target has moved up.
func (e *Engine) trimTo(ctx context.Context, target mark) (mark, error) {
	// What is committed now bounds it: what comes later is not looked at.
	start := e.gravesNeed(e.asideNeeds(e.newestMark()))
	for _, a := range e.everyAccount() {
		for _, s := range a.list() {
			if s.log == nil {
				continue
			}
			if !s.isUp() {
				return mark{}, nil // on its way: it needs what is being written
			}
			from, err := e.moveUp(ctx, s, earlier(start, target)) // no further than others let the log go
			if err != nil {
				return mark{}, err
			}
			start = earlier(start, from)
		}
	}
	return start, nil
}

// moveUp has a stream do what lets the log go on to a place, a checkpoint or a segment, and tells what the stream then
// needs.
func (e *Engine) moveUp(ctx context.Context, s *Stream, target mark) (from mark, err error) {
	var by need
	gone := mark{len(e.logs), 0} // it was deleted meanwhile, and its last record is behind everything that is looked at
	for {
		if err := s.do(func() { from, by = s.needs(s.now) }); err != nil {
			return gone, e.ctx.Err()
		}
		if !from.before(target) {
			return from, nil
		}
		moved := false
		switch {
		case by == needControl:
			_, err = s.checkpoint(ctx)
			moved = err == nil
			if err != nil {
				err = fmt.Errorf("engine: checkpoint of stream %s: %w", s.name, err)
			}
		case by == needMessages && e.hasHistory():
			if err = e.settleDoubt(ctx, s); err == nil {
				moved, err = e.compactTail(ctx, s)
				e.wantsCare(s)
			}
		}
		switch {
		case errors.Is(err, errStreamEnded):
			return gone, e.ctx.Err()
		case err != nil:
			return mark{}, err
		case !moved:
			return from, nil
		}
	}
}

func (e *Engine) everyAccount() []*Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*Account, 0, len(e.accounts))
	for _, a := range e.accounts {
		all = append(all, a)
	}
	return all
}
