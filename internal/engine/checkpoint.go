package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/wal"
)

// The log is the storage of its streams, so it may only lose what is dead at its front. A stream needs the log from the
// oldest of three places: its oldest message, the oldest message whose id its dedup window remembers, and the place
// from which its control records (configuration, deletes, consumers) are complete. A checkpoint moves the last one up:
// it says in one entry all that the control records before it added up to.
//
// Trimming is: have the streams that hold the front back by their control records alone write checkpoints; record in
// the node's head where the log starts now; delete what lies before. A crash in between leaves objects before the start
// that nobody looks at, and the next trim deletes them.

// trimCheck is how often the log's growth is looked at.
const trimCheck = 5 * time.Second

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

// needs is from where on the stream needs the log, and whether that is for its control records alone.
func (s *Stream) needs(now time.Time) (from mark, control bool) {
	messages := mark{log: len(s.engine.logs)}
	for _, c := range s.tail.chunks {
		if c.live > 0 {
			messages = earlier(messages, s.engine.mark(c.place))
			break
		}
	}
	window := s.Config().Duplicates
	for _, r := range s.recent {
		if now.Sub(r.time) <= window+window/dedupMarks {
			messages = earlier(messages, r.at)
			break
		}
	}
	if s.controlAt.before(messages) {
		return s.controlAt, true
	}
	return messages, false
}

// checkpoint commits all that the control records of the stream add up to.
func (s *Stream) checkpoint(ctx context.Context) error {
	return s.doQuiet(ctx, func() (*entry, error) {
		if s.deleting || s.ended {
			return nil, errStreamEnded // a checkpoint behind its end would bring it back
		}
		data, err := record.AppendJSON(nil, record.StreamConfig, s.id, record.StreamConfigBody{Account: s.account.name, Created: s.created, Config: s.Config()})
		if err != nil {
			return nil, err
		}
		state := record.StreamStateBody{First: s.state.FirstSeq(), Last: s.state.LastSeq()}
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
				s.controlAt = s.engine.mark(place{log: s.log.ID(), pos: e.Position})
			}
		})
		return e, nil
	})
}

// mark is a place in the order of the node's logs.
func (e *Engine) mark(p place) mark {
	return mark{slices.Index(e.logs, p.log), p.pos.Offset}
}

// Truncator makes a log begin at an offset: first in the node's head, durably, then by deleting what lies before.
type Truncator func(ctx context.Context, log wal.LogID, before wal.Offset) error

// trimLoop trims the log whenever it has grown enough.
func (e *Engine) trimLoop(ctx context.Context) {
	tick := time.NewTicker(trimCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e.written.Load() < int64(e.opts.TrimBytes) {
			continue
		}
		e.written.Store(0)
		if err := e.Trim(ctx); err != nil && ctx.Err() == nil {
			e.opts.Logger.Warn("trimming the log; the next attempt follows when it has grown", "error", err)
		}
	}
}

// Trim lets go of the front of the node's logs that no stream needs.
func (e *Engine) Trim(ctx context.Context) error {
	start, err := e.trimTo(ctx)
	if err != nil {
		return err
	}
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

// trimTo finds from where on the logs are needed, once every stream has moved up as far as a checkpoint moves it.
func (e *Engine) trimTo(ctx context.Context) (mark, error) {
	// What is committed now bounds it: what comes later is not looked at.
	start := e.asideNeeds(mark{len(e.logs) - 1, wal.Offset(e.newest.Load())})
	for _, a := range e.everyAccount() {
		for _, s := range a.list() {
			if s.log == nil {
				continue
			}
			if !s.isUp() {
				return mark{}, nil // on its way: it needs what is being written
			}
			from, err := e.moveUp(ctx, s, start)
			if err != nil {
				return mark{}, err
			}
			start = earlier(start, from)
		}
	}
	return start, nil
}

// moveUp has a stream write a checkpoint if that alone lets the log go on, and tells what the stream then needs.
func (e *Engine) moveUp(ctx context.Context, s *Stream, limit mark) (from mark, err error) {
	var control bool
	look := func() error { return s.do(func() { from, control = s.needs(s.now) }) }
	if err := look(); err != nil {
		// It was deleted meanwhile, and its last record is behind the limit; unless all streams are being ended.
		return limit, e.ctx.Err()
	}
	if !control || !from.before(limit) {
		return from, nil
	}
	if err := s.checkpoint(ctx); err != nil {
		return mark{}, fmt.Errorf("engine: checkpoint of stream %s: %w", s.name, err)
	}
	if err := look(); err != nil {
		return limit, e.ctx.Err()
	}
	return from, nil
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
