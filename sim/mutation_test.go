package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// Each mutation takes one safeguard away, from outside. If the simulation did not notice, it would prove nothing.
func TestWithoutASafeguardTheSimulationFails(t *testing.T) {
	for _, m := range []struct {
		name string
		opts options
		// until is the last seed that is tried; one of them fails, by far most often an earlier one.
		until uint64
	}{
		{"entries come back before they are committed", options{wrapLog: hasty}, 20},
		{"fences are deleted", options{wrapStore: func(s store.Store) store.Store { return &noFences{s} }}, 60},
		{"fences are never created", options{wrapStore: func(s store.Store) store.Store { return &deafToFences{s} }}, 60},
		{"a refused create is taken for one's own", options{wrapStore: func(s store.Store) store.Store { return &flatterer{s} }}, 100},
		{"a create replaces what is there", options{wrapStore: func(s store.Store) store.Store { return &overwriter{s} }}, 60},
		{"a doubtful create is taken for a success", options{wrapLink: func(s store.Store) store.Store { return &optimist{s} }}, 30},
		{"more of the log is let go than may go", options{truncateMore: 1}, 60},
		{"the head is not updated before the log is truncated", options{truncateFirst: true}, 60},
		{"replay skips the end of a log", options{forgetEnd: true}, 20},
		{"segments are not stored", options{wrapStore: func(s store.Store) store.Store { return &noSegments{s} }}, 20},
		{"a manifest replaces whatever is there", options{wrapStore: func(s store.Store) store.Store { return &anyManifest{s} }}, 200},
	} {
		t.Run(m.name, func(t *testing.T) {
			for seed := uint64(1); seed <= m.until; seed++ {
				if faults := faultsOf(t, seed, m.opts); len(faults) > 0 {
					t.Logf("seed %d: %s", seed, faults[0])
					return
				}
			}
			t.Errorf("%d seeds passed", m.until)
		})
	}
}

func faultsOf(t *testing.T, seed uint64, opts options) (faults []string) {
	synctest.Test(t, func(t *testing.T) { faults = run(seed, opts).Faults })
	return faults
}

// hasty hands entries back as soon as they are appended.
func hasty(l *wal.Log) engine.Log { return &hastyLog{l} }

type hastyLog struct{ *wal.Log }

// Append implements engine.Log.
func (l *hastyLog) Append(e *wal.Entry) error {
	inner := &wal.Entry{Data: slices.Clone(e.Data), Records: e.Records, Lazy: e.Lazy}
	if err := l.Log.Append(inner); err != nil {
		return err
	}
	e.Sink.Committed([]*wal.Entry{e})
	return nil
}

// isFenceObject tells by the bytes.
func isFenceObject(ctx context.Context, k string, data []byte) bool {
	fence, err := fenceIn(ctx, k, data)
	return err == nil && fence
}

// noFences deletes fences a moment after they were created.
type noFences struct{ store.Store }

// Put implements store.Store.
func (s *noFences) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	etag, err := s.Store.Put(ctx, k, data, cond)
	if err == nil && cond.IsAbsent() && isFenceObject(ctx, k, data) {
		time.Sleep(time.Second) // nobody reads it that long after
		_ = s.Store.(*audit).Store.Delete(ctx, k)
	}
	return etag, err
}

// deafToFences says that it created a fence, and did not.
type deafToFences struct{ store.Store }

// Put implements store.Store.
func (s *deafToFences) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	if cond.IsAbsent() && isFenceObject(ctx, k, data) {
		return "none", nil
	}
	return s.Store.Put(ctx, k, data, cond)
}

// flatterer tells every writer of a batch that it won.
type flatterer struct{ store.Store }

// Put implements store.Store.
func (s *flatterer) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	etag, err := s.Store.Put(ctx, k, data, cond)
	if errors.Is(err, store.ErrPrecondition) && cond.IsAbsent() && !isFenceObject(ctx, k, data) {
		return "yours", nil
	}
	return etag, err
}

// overwriter ignores the condition of a create.
type overwriter struct{ store.Store }

// Put implements store.Store.
func (s *overwriter) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	if cond.IsAbsent() {
		a := s.Store.(*audit)
		return a.Store.Put(ctx, k, data, store.Always()) // past the audit, which would notice at once
	}
	return s.Store.Put(ctx, k, data, cond)
}

// optimist takes an unknown outcome for a success.
type optimist struct{ store.Store }

// Put implements store.Store.
func (s *optimist) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	etag, err := s.Store.Put(ctx, k, data, cond)
	if errors.Is(err, store.ErrUnknownOutcome) && cond.IsAbsent() {
		return "surely", nil
	}
	return etag, err
}

// noSegments says that it stored a segment, and did not.
type noSegments struct{ store.Store }

// Put implements store.Store.
func (s *noSegments) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	if p, err := key.Parse(k); err == nil && p.Family == key.StreamSegment {
		return "none", nil
	}
	return s.Store.Put(ctx, k, data, cond)
}

// anyManifest ignores the condition of a manifest's swap.
type anyManifest struct{ store.Store }

// Put implements store.Store.
func (s *anyManifest) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	if p, err := key.Parse(k); err == nil && p.Family == key.Manifest {
		cond = store.Always()
	}
	return s.Store.Put(ctx, k, data, cond)
}
