package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The housekeeper is one goroutine of the node. It moves messages out of the log into segments, rewrites segments, swaps
// manifests, trims the log, and deletes what nothing refers to. That it is one, and does one thing after the other, is
// what makes a stream's manifest have one writer.
//
// Streams tell it when there is something to do, so that idle ones cost nothing: see wantsCare.

// careBound is how many streams are looked after in one round; the others follow in the next.
const careBound = 1 << 16

// wantsCare has the housekeeper look at a stream in its next round.
func (e *Engine) wantsCare(s *Stream) {
	e.careMu.Lock()
	defer e.careMu.Unlock()
	e.care[s] = struct{}{}
}

// takeCare gives the streams that want to be looked after.
func (e *Engine) takeCare() []*Stream {
	e.careMu.Lock()
	defer e.careMu.Unlock()
	all := make([]*Stream, 0, min(len(e.care), careBound))
	for s := range e.care {
		if len(all) == careBound {
			break
		}
		all = append(all, s)
		delete(e.care, s)
	}
	return all
}

// keepHouse runs until ctx ends.
func (e *Engine) keepHouse(ctx context.Context) {
	tick := time.NewTicker(e.opts.Every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := e.Tidy(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			e.opts.Logger.Warn("looking after the streams' storage; it is tried again", "error", err)
		case err == nil && failing:
			e.opts.Logger.Info("looking after the streams' storage succeeds again")
		}
		failing = err != nil
	}
}

// keepsHouse waits until nobody else does; leave lets the next one.
func (e *Engine) keepsHouse(ctx context.Context) (leave func(), err error) {
	select {
	case e.house <- struct{}{}:
		return func() { <-e.house }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Tidy does what there is to do now: compaction, rewriting, garbage collection, and trimming when the log has grown. What
// fails for one stream is reported and does not keep the others from it.
func (e *Engine) Tidy(ctx context.Context) error {
	leave, err := e.keepsHouse(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var errs []error
	if e.hasHistory() {
		for _, s := range e.takeCare() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := e.lookAfter(ctx, s); err != nil && !errors.Is(err, errStreamEnded) {
				errs = append(errs, err)
				e.wantsCare(s)
			}
		}
		errs = append(errs, e.clearGraves(ctx, time.Now()))
	}
	if e.opts.Truncate != nil {
		errs = append(errs, e.trimIfGrown(ctx))
	}
	return errors.Join(errs...)
}

// hasHistory reports whether streams have segments. Without, the log is all the storage there is.
func (e *Engine) hasHistory() bool { return e.opts.Alive != nil }

// lookAfter does for one stream what there is to do.
func (e *Engine) lookAfter(ctx context.Context, s *Stream) error {
	if s.log == nil || !s.isUp() {
		return nil
	}
	if err := e.settleDoubt(ctx, s); err != nil {
		return err
	}
	for {
		var full bool
		if err := s.do(func() { full = s.tail.logged >= int64(e.opts.CompactBytes) }); err != nil {
			return err
		}
		if !full {
			break
		}
		if moved, err := e.compactTail(ctx, s); err != nil || !moved {
			return err
		}
	}
	for {
		done, err := e.rewrite(ctx, s)
		if err != nil {
			return err
		}
		if !done {
			break
		}
	}
	k := &s.manifest
	if k.version.Manifest == nil {
		return nil
	}
	if !k.swept && k.swapped {
		if err := e.collectStrays(ctx, s); err != nil {
			return err
		}
		k.swept = true
	}
	if err := e.collect(ctx, s, time.Now()); err != nil {
		return err
	}
	return e.comeBack(s)
}

// comeBack has a stream looked after again while there is something that only time brings about.
func (e *Engine) comeBack(s *Stream) error {
	again := len(s.manifest.version.Manifest.Dropped) > len(s.manifest.collected)
	err := s.do(func() {
		for _, p := range s.history.past {
			again = again || !p.deadSince.IsZero()
		}
	})
	if again && err == nil {
		e.wantsCare(s)
	}
	return err
}

// trimIfGrown trims the log when there is enough of it.
func (e *Engine) trimIfGrown(ctx context.Context) error {
	if !e.hasHistory() {
		if e.written.Load() < int64(e.opts.TrimBytes) {
			return nil
		}
		e.written.Store(0)
		return e.trim(ctx, e.newestMark())
	}
	if e.growth.length() < int64(e.opts.ReplayBytes)*3/4 {
		return nil
	}
	target, ok := e.growth.lastBytes(int64(e.opts.ReplayBytes) / 2)
	if !ok {
		return nil
	}
	if err := e.trim(ctx, target); err != nil {
		return fmt.Errorf("trimming the log: %w", err)
	}
	return nil
}

// overfull reports whether the log is longer than a start should have to replay.
func (e *Engine) overfull() bool {
	return e.hasHistory() && e.growth.length() > int64(e.opts.ReplayBytes)
}

// lookTail asks for compaction when the log has much of the stream.
func (s *Stream) lookTail() {
	if s.tail.logged >= int64(s.engine.opts.CompactBytes) && s.log != nil && s.engine.hasHistory() {
		s.engine.wantsCare(s)
	}
}

// removedPast notes that a message is gone that a segment may hold.
func (s *Stream) removedPast(seq uint64) {
	p := s.history.find(seq)
	if p == nil || p.live == 0 {
		return
	}
	p.live--
	first := p.deadSince.IsZero()
	if first {
		p.deadSince = s.now
	}
	if first || p.live == 0 || p.live == p.Messages/2 {
		s.engine.wantsCare(s)
	}
}
