package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// errLost is the answer to a write whose outcome the caller does not get to know.
var errLost = fmt.Errorf("%w: %w", ErrInjected, store.ErrUnknownOutcome)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	op := Overwrite
	if cond.IsAbsent() {
		op = Create
	} else if !cond.IsAlways() {
		op = Replace
	}
	w := write{key: key, data: data, cond: cond}
	etag, err := s.write(ctx, w, s.judge(op, key))
	if errors.Is(err, ErrInjected) {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return etag, err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	_, err := s.write(ctx, write{delete: true, keys: keys}, s.judge(Delete, keys...))
	if errors.Is(err, ErrInjected) {
		return fmt.Errorf("delete %d keys: %w", len(keys), err)
	}
	return err
}

// write is a Put or a Delete.
type write struct {
	key  string
	data []byte
	cond store.Condition

	delete bool
	keys   []string // to delete
}

func (w write) to(ctx context.Context, next store.Store) (etag string, err error) {
	if w.delete {
		return "", next.Delete(ctx, w.keys...)
	}
	return next.Put(ctx, w.key, w.data, w.cond)
}

// clone lets a write outlive its request.
func (w write) clone() write {
	w.data, w.keys = slices.Clone(w.data), slices.Clone(w.keys)
	return w
}

// write makes a write under a verdict.
func (s *Store) write(ctx context.Context, w write, v verdict) (etag string, err error) {
	if err := errors.Join(v.refuse(true), v.wait(ctx)); err != nil {
		return "", err
	}
	switch v.Kind {
	case Lost:
		if _, err := w.to(ctx, s.next); definite(err) {
			return "", err
		}
		return "", errLost
	case Delayed:
		if err := ctx.Err(); err != nil {
			return "", err
		}
		s.postpone(w, v)
		return "", errLost
	case Duplicate:
		etag, err := w.to(ctx, s.next)
		if !definite(err) {
			s.postpone(w, v)
		}
		return etag, err
	case OwnRetry:
		if _, err := w.to(ctx, s.next); definite(err) {
			return "", err
		}
	}
	return w.to(ctx, s.next)
}

// definite reports whether a write was refused before it could get to the store, so that its answer is no news that
// could be lost.
func definite(err error) bool {
	return errors.Is(err, store.ErrInvalidKey) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Landing is a write that has yet to land.
type Landing struct {
	Key  string          // of a deletion the first
	Cond store.Condition // of a Put
	Kind Kind            // Delayed or Duplicate

	store *Store
	write write
	timer *time.Timer // nil if it lands when the test says so
}

// postpone keeps a write until it lands.
func (s *Store) postpone(w write, v verdict) {
	l := &Landing{Key: w.key, Cond: w.cond, Kind: v.Kind, store: s, write: w.clone()}
	if len(w.keys) > 0 {
		l.Key = w.keys[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.pending = append(s.pending, l)
	if v.After > 0 {
		l.timer = time.AfterFunc(v.After, func() { _, _ = l.Land(s.ctx) })
	}
}

// Pending gives the writes that have yet to land, the oldest first.
func (s *Store) Pending() []*Landing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending)
}

// Land lets the write happen, if it has not happened yet, and gives the store's answer to it, which nobody else gets.
func (l *Landing) Land(ctx context.Context) (etag string, err error) {
	if !l.store.begin(l) {
		return "", fmt.Errorf("%w: the write to %s is no longer pending", ErrInjected, l.Key)
	}
	defer l.store.landings.Done()
	return l.write.to(ctx, l.store.next)
}

// begin takes a write out of those pending, and reports whether it was one.
func (s *Store) begin(l *Landing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.pending, l)
	if i < 0 {
		return false
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	s.landings.Add(1)
	if l.timer != nil {
		l.timer.Stop()
	}
	return true
}

// Drain lets every write land that is pending, the oldest first. The store's refusals (ErrPrecondition of a create whose
// key is taken by now) are no errors.
func (s *Store) Drain(ctx context.Context) error {
	var errs []error
	for _, l := range s.Pending() {
		_, err := l.Land(ctx)
		if err != nil && !errors.Is(err, ErrInjected) && !errors.Is(err, store.ErrPrecondition) {
			errs = append(errs, fmt.Errorf("landing of %s: %w", l.Key, err))
		}
	}
	return errors.Join(errs...)
}

// Close drops what is pending, and waits for what is landing. The store may be used on; nothing will be delayed any
// more.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, l := range s.pending {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	s.pending = nil
	s.mu.Unlock()
	s.cancel()
	s.landings.Wait()
	return nil
}
