package head

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// watch looks at all heads of the store again and again, and tells by this process's own monotonic clock which of
// their nodes live.
type watch struct {
	heads
	opts  Options
	order []string             // keys, as listed last
	seen  map[string]*sighting // by key
	asked time.Time            // when the last listing began
}

// sighting is what is known about one head.
type sighting struct {
	stored
	err     error     // the head cannot be read: it is left alone
	since   time.Time // when this version was first seen
	changed bool      // another version was seen before
}

// verdict says whether the node of a head lives.
type verdict uint8

const (
	undecided verdict = iota // unchanged, but not for as long as the lease
	alive
	dead
)

func newWatch(h heads, opts Options) *watch {
	return &watch{heads: h, opts: opts, seen: map[string]*sighting{}}
}

// pollInterval is the time between two looks while waiting.
func (w *watch) pollInterval() time.Duration {
	return min(max(w.opts.Lease/20, 10*time.Millisecond), 250*time.Millisecond)
}

// look lists all heads and reads those that have changed.
func (w *watch) look(ctx context.Context) error {
	w.order, w.asked = w.order[:0], time.Now()
	list := store.ListOptions{Prefix: key.Head.Prefix()}
	for {
		var page store.Page
		err := retry(ctx, func(ctx context.Context) (done bool, err error) {
			page, err = w.store.List(ctx, list)
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("list the heads: %w", err)
		}
		for _, object := range page.Objects {
			if err := w.see(ctx, object); err != nil {
				return err
			}
			list.StartAfter = object.Key
		}
		if !page.More || len(page.Objects) == 0 {
			return nil
		}
	}
}

// see notes one head of a listing.
func (w *watch) see(ctx context.Context, object store.Attributes) error {
	w.order = append(w.order, object.Key)
	s := w.seen[object.Key]
	if s != nil && s.etag == object.ETag {
		return nil
	}
	changed := s != nil
	s = &sighting{stored: stored{etag: object.ETag}, changed: changed}
	w.seen[object.Key] = s
	got, err := w.read(ctx, object.Key)
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerFormat):
		w.opts.Logger.Warn("a head cannot be read and is left alone", "error", err)
		s.err = err
	case err != nil:
		return err
	}
	s.stored, s.since = got, time.Now()
	return nil
}

// of gives what is known about a node's head; nil: there is none.
func (w *watch) of(node string) *sighting { return w.seen[key.HeadKey(node)] }

// verdict judges a head whose content could be read.
func (w *watch) verdict(s *sighting) verdict {
	switch {
	case s.head.vacant():
		return dead
	case s.head.Host != "" && s.head.Host == w.opts.Host && !w.opts.PIDRuns(s.head.PID):
		return dead
	case w.asked.Sub(s.since) >= w.opts.Lease:
		return dead // the listing was asked for a lease after this version had been seen, and still had it
	case s.changed:
		return alive
	}
	return undecided
}

// note replaces what is known by what a swap found or wrote.
func (w *watch) note(now stored) {
	if now.head != nil {
		w.seen[key.HeadKey(now.head.Node)] = &sighting{stored: now, since: time.Now(), changed: true}
	}
}
