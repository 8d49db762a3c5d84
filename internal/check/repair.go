package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// ErrLive: a node runs, or may run, on the store. Nothing was moved, or no more than was told.
var ErrLive = errors.New("check: the store is in use")

// RepairOptions say what a repair tells.
type RepairOptions struct {
	Options
	// Watch is how long the head of a node that was not released is watched, to tell whether it lives; 0 is 4 s, a
	// second more than the lease.
	Watch time.Duration
	// Moved takes what was moved, one object at a time; nil: they are only counted.
	Moved func(Move)
}

// Move is an object that went into quarantine, or why one did not.
type Move struct {
	Key string `json:"key"`
	// To is its key in quarantine; "" where it was not moved.
	To string `json:"moved_to,omitempty"`
	// Bytes is the object's size.
	Bytes int64 `json:"bytes"`
	// Left says why the object is where it was; "" where it was moved.
	Left string `json:"left,omitempty"`
}

// Repair checks a store and moves what nothing refers to into quarantine: leftovers of logs, segments that no manifest
// lists, streams that no log knows. It refuses with ErrLive unless all nodes have released their heads, and moves
// nothing at all where heads or logs have errors, and nothing of a stream that has.
//
// Each object is copied to its key under quarantine/, create-only; the copy is read back and compared byte by byte;
// only then is the original deleted. So at every moment the object is whole at one of the two keys, and a repair that
// was cut off is finished by the next. Nothing else is ever written: no head, no manifest, no batch, no segment; fences
// are not touched.
func Repair(ctx context.Context, st store.Store, opts RepairOptions) (Summary, error) {
	if opts.Watch == 0 {
		opts.Watch = 4 * time.Second
	}
	r := &repair{store: st, opts: opts}
	var err error
	if r.heads, err = r.atRest(ctx); err != nil {
		return Summary{}, err
	}
	c, err := begin(ctx, st, opts.Options, true)
	if err != nil {
		return Summary{}, err
	}
	for _, m := range c.moves {
		moved, err := r.move(ctx, m)
		if err != nil {
			return c.sum, err
		}
		if moved >= 0 {
			c.sum.Quarantined.add(moved)
		}
	}
	return c.sum, nil
}

type repair struct {
	store store.Store
	opts  RepairOptions
	heads map[string]string // ETags by key, as they were at rest
}

// atRest reads the heads of a store on which no node runs.
func (r *repair) atRest(ctx context.Context) (map[string]string, error) {
	c := &checker{store: r.store}
	s := &survey{checker: c, bySegment: map[string]*node{}}
	if err := s.readHeads(ctx); err != nil {
		return nil, err
	}
	etags := map[string]string{}
	for _, n := range s.heads {
		if n.head == nil {
			return nil, fmt.Errorf("%w: %s cannot be read, so it is not known whether its node runs", ErrLive, n.key)
		}
		if !n.vacant() {
			return nil, r.watch(ctx, c, n)
		}
		etags[n.key] = n.etag
	}
	return etags, nil
}

// watch tells why a head that was not released keeps the store from being repaired.
func (r *repair) watch(ctx context.Context, c *checker, n *node) error {
	timer := time.NewTimer(r.opts.Watch)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("check: watching %s: %w", n.key, ctx.Err())
	}
	now, err := c.readHead(ctx, n.key)
	switch {
	case err != nil:
		return err
	case now.etag != n.etag:
		return fmt.Errorf("%w: node %q is running; shut all nodes down first", ErrLive, n.head.Node)
	}
	return fmt.Errorf("%w: node %q was not shut down cleanly; its process may only be asleep. Start it, and shut it down", ErrLive, n.head.Node)
}

// unmoved makes sure that no node has started.
func (r *repair) unmoved(ctx context.Context) error {
	n := 0
	c := &checker{store: r.store}
	err := c.list(ctx, key.Head.Prefix(), func(o store.Attributes) error {
		if _, err := key.Parse(o.Key); err != nil {
			return nil
		}
		n++
		if r.heads[o.Key] != o.ETag {
			return fmt.Errorf("%w: %s has changed: a node was started", ErrLive, o.Key)
		}
		return nil
	})
	if err == nil && n != len(r.heads) {
		err = fmt.Errorf("%w: a head has gone", ErrLive)
	}
	return err
}

// move puts one object into quarantine and gives its size; -1: it was left.
func (r *repair) move(ctx context.Context, m candidate) (int64, error) {
	if err := r.unmoved(ctx); err != nil {
		return -1, err
	}
	to := key.QuarantineKey(m.key)
	leave := func(why string) (int64, error) {
		r.tell(Move{Key: m.key, Left: why})
		return -1, nil
	}
	why, err := r.referred(ctx, m)
	if err != nil {
		return -1, err
	}
	if why != "" {
		return leave(why)
	}
	data, found, err := r.whole(ctx, m.key)
	if err != nil || !found {
		return -1, err // it has gone by itself
	}
	switch err := r.copy(ctx, to, data); {
	case errors.Is(err, errOccupied):
		return leave("another object is in quarantine under its key")
	case err != nil:
		return -1, err
	}
	// The last look at the original: what is deleted is what was copied.
	now, found, err := r.whole(ctx, m.key)
	if err != nil {
		return -1, err
	}
	if found && !bytes.Equal(now, data) {
		return leave("it changed while it was copied")
	}
	err = persist(ctx, func() error { return r.store.Delete(ctx, m.key) })
	if err != nil {
		return -1, fmt.Errorf("check: deleting %s, of which %s is a copy: %w", m.key, to, err)
	}
	r.tell(Move{Key: m.key, To: to, Bytes: int64(len(data))})
	return int64(len(data)), nil
}

// whole reads an object, all of it: an answer may have been cut off on its way, which its length in the listing shows.
func (r *repair) whole(ctx context.Context, k string) (data []byte, found bool, err error) {
	err = persist(ctx, func() error {
		page, err := r.store.List(ctx, store.ListOptions{Prefix: k, Limit: 1})
		if err != nil {
			return err
		}
		if found = len(page.Objects) > 0 && page.Objects[0].Key == k; !found {
			return nil
		}
		o, err := r.store.Get(ctx, k)
		if errors.Is(err, store.ErrNotFound) {
			found = false
			return nil
		}
		if err == nil && int64(len(o.Data)) != page.Objects[0].Size {
			err = io.ErrUnexpectedEOF
		}
		data = o.Data
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("check: reading %s: %w", k, err)
	}
	return data, found, nil
}

func (r *repair) tell(m Move) {
	if r.opts.Moved != nil {
		r.opts.Moved(m)
	}
}

// referred says why an object must stay; "" where nothing refers to it.
func (r *repair) referred(ctx context.Context, m candidate) (string, error) {
	p, err := key.Parse(m.key)
	if err != nil {
		return "it is not a key of Sluice", nil
	}
	switch p.Family {
	case key.WAL:
		s := &survey{}
		id, known := s.logID(p)
		if !known {
			return "the name of its node cannot be read from its key", nil
		}
		if _, err := wal.ReadBatch(ctx, r.store, id, wal.Offset(p.Offset)); errors.Is(err, wal.ErrFenced) {
			return "it is a fence", nil
		}
	case key.StreamSegment:
		if m.manifest == "" {
			return "", nil
		}
		c := &checker{store: r.store}
		v, err := c.loadManifest(ctx, m.manifest, p.ID)
		if err != nil {
			return "", err
		}
		if v.Manifest == nil {
			return "its manifest has gone", nil
		}
		listed := dropped(v.Manifest)[m.key]
		for _, seg := range v.Manifest.Segments {
			listed = listed || v.Manifest.Key(seg) == m.key
		}
		if listed {
			return "the manifest lists it", nil
		}
	}
	return "", nil
}

// errOccupied: another object has the key.
var errOccupied = errors.New("check: another object lies there")

// copy makes an object at a key of quarantine, and reads it back.
func (r *repair) copy(ctx context.Context, to string, data []byte) error {
	return persist(ctx, func() error {
		// Whatever the answer is, what lies there decides: a refusal may be the echo of this request, or of a run that
		// was cut off.
		_, putErr := r.store.Put(ctx, to, data, store.IfAbsent())
		copied, found, err := r.whole(ctx, to)
		switch {
		case err != nil:
			return err
		case !found && putErr != nil:
			return fmt.Errorf("check: copying to %s: %w", to, putErr)
		case !found:
			return fmt.Errorf("check: %s was stored and is not there", to)
		case !bytes.Equal(copied, data):
			return errOccupied
		}
		return nil
	})
}
