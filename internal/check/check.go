// Package check walks a store and verifies all that lies in it: every checksum, every reference, and that the messages
// which the checkpoints of the streams speak of are there. It reads only, so it may run beside servers; [Repair] moves
// what nothing refers to out of the way, of a bucket at rest.
//
// # Order of reading
//
// What a check compares is written one after the other: a segment, the checkpoint, the manifest that lists the segment,
// the head that lets the log begin later, and only then are batches deleted. So a check reads in the opposite order:
// heads, manifests, logs, and last the objects of streams. Whatever moves from the log into segments meanwhile is found
// in both or, if the batch is gone already, the head has changed: then all is read again. A stream whose manifest
// changes while it is looked at is looked at again. What was found in a bucket where a node may run is looked at a second time before it
// is told.
//
// # What is not verified
//
// The state of consumers is only taken out of its frame. Messages of encrypted segments need the key.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// Options of a check.
type Options struct {
	// Quick leaves the messages of segments unread: their objects' sizes and their indexes are verified.
	Quick bool
	// SegmentKeys decrypt segments, each 16, 24 or 32 bytes: the current one and older ones.
	SegmentKeys [][]byte
	// Report takes the findings, one at a time, as they are made; nil: they are only counted.
	Report func(Finding)
}

// ErrRestless: the logs were trimmed faster than they were read, again and again.
var ErrRestless = errors.New("the store changes faster than it is read")

// Validate reports every fault.
func (o Options) Validate() error {
	var faults []error
	for i, k := range o.SegmentKeys {
		if n := len(k); n != 16 && n != 24 && n != 32 {
			faults = append(faults, fmt.Errorf("check: segment key %d has %d bytes, want 16, 24 or 32", i, n))
		}
	}
	return errors.Join(faults...)
}

const (
	// maxRounds bounds how often what changes is looked at.
	maxRounds = 4
	// maxStale bounds how often all is read again because heads let go of batches that were to be read.
	maxStale = 20
	// maxFaults bounds the findings that are kept of one stream, or of one look at the logs, until they are told.
	maxFaults = 1000
	// maxMoves bounds what one repair moves; the next goes on.
	maxMoves = 100_000
	// storeTries is how often a store that gives no useful answer is asked, with storePause before the second time and
	// twice that before each further.
	storeTries = 6
	storePause = 100 * time.Millisecond
)

// Run checks a store. Findings are no error: the error says that the check could not be completed. Memory is bounded by
// what is known of the streams (about 300 bytes each, and 16 for each run of sequences in its log), by one batch and
// its read-ahead, one stream's manifest and listing, and one segment's index and row group.
func Run(ctx context.Context, st store.Store, opts Options) (Summary, error) {
	c, err := begin(ctx, st, opts, false)
	if err != nil {
		return Summary{}, err
	}
	return c.sum, nil
}

// checker is one run.
type checker struct {
	store store.Store
	opts  Options
	sum   Summary
	// moves are the objects that a repair may move, in the order in which it must: what refers before what is referred to
	// comes last. It is gathered only where collect is set.
	moves     []candidate
	collect   bool
	gathering bool // collect, in the look at everything
	// broken: an earlier look had errors of heads or logs.
	broken bool
	// headless is the node whose missing head was told last.
	headless string
}

func begin(ctx context.Context, st store.Store, opts Options, collect bool) (*checker, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &checker{store: st, opts: opts, collect: collect}
	c.sum.Families = map[string]Tally{}
	var only map[record.StreamID]string
	stale := 0
	for round := 0; round < maxRounds; {
		c.sum.Batches, c.sum.Records, c.sum.LogMessages = 0, 0, 0
		c.gathering = collect && only == nil
		if c.gathering {
			c.moves = nil
		}
		s, err := c.look(ctx, only)
		if err != nil {
			return nil, err
		}
		if s.stale {
			if stale++; stale > maxStale {
				return nil, fmt.Errorf("check: %w", ErrRestless)
			}
			continue
		}
		round++
		w := &walk{checker: c, survey: s, last: round == maxRounds, sure: !s.live || only != nil, again: map[record.StreamID]string{}}
		if only == nil {
			c.sum.Nodes, c.sum.Live = len(s.heads), s.live
			for _, f := range s.faults {
				c.report(f)
			}
			err = w.bucket(ctx)
		} else {
			err = w.streams(ctx, only)
		}
		if err != nil {
			return nil, err
		}
		if c.broken = c.broken || s.broken; c.broken {
			c.moves = nil // what nothing refers to may be referred to by what cannot be read
		}
		if only = w.again; len(only) == 0 {
			break
		}
	}
	return c, nil
}

// report tells a finding.
func (c *checker) report(f Finding) {
	switch f.Severity {
	case Error:
		c.sum.Errors++
	case Warning:
		c.sum.Warnings++
	default:
		c.sum.Notes++
	}
	if c.opts.Report != nil {
		c.opts.Report(f)
	}
}

// candidate is an object that a repair may move.
type candidate struct {
	key string
	// manifest is set of a segment: the key of the manifest that lists it neither as there nor as dropped.
	manifest string
}

func (c *checker) movable(k, manifest string) {
	if c.collect && len(c.moves) < maxMoves {
		c.moves = append(c.moves, candidate{k, manifest})
	}
}

// list calls fn with the objects of a prefix, in order.
func (c *checker) list(ctx context.Context, prefix string, fn func(store.Attributes) error) error {
	opts := store.ListOptions{Prefix: prefix}
	for {
		var page store.Page
		err := persist(ctx, func() (err error) {
			page, err = c.store.List(ctx, opts)
			return err
		})
		if err != nil {
			return fmt.Errorf("check: listing %q: %w", prefix, err)
		}
		for _, o := range page.Objects {
			if err := fn(o); err != nil {
				return err
			}
			opts.StartAfter = o.Key
		}
		if !page.More || len(page.Objects) == 0 {
			return nil
		}
	}
}

// get reads an object; found is false where there is none.
func get(ctx context.Context, st store.Store, k string) (o store.Object, found bool, err error) {
	err = persist(ctx, func() (err error) {
		o, err = st.Get(ctx, k)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return o, false, nil
	}
	if err != nil {
		return o, false, fmt.Errorf("check: reading %s: %w", k, err)
	}
	return o, true, nil
}

// persist calls op until it succeeds, or fails for good, or has failed storeTries times.
func persist(ctx context.Context, op func() error) error {
	pause := storePause
	for try := 1; ; try++ {
		err := op()
		if err == nil || try == storeTries || lasting(err) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause *= 2
	}
}

// lasting reports whether another attempt would end in the same way.
func lasting(err error) bool {
	for _, e := range []error{
		store.ErrNotFound, store.ErrInvalidRange, store.ErrInvalidKey, store.ErrNoBucket, store.ErrPrecondition, store.ErrFull, errOccupied,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return damaged(err) != ""
}

// logID names a log by its key.
func (s *survey) logID(p key.Parsed) (wal.LogID, bool) {
	kind := wal.WriteAhead
	if p.Family == key.Broadcast {
		kind = wal.Broadcast
	}
	if h := s.bySegment[p.Node]; h != nil && h.head != nil {
		return wal.LogID{Kind: kind, Node: h.head.Node, Epoch: wal.Epoch(p.Epoch)}, true
	}
	name, ok := key.Name(p.Node)
	return wal.LogID{Kind: kind, Node: name, Epoch: wal.Epoch(p.Epoch)}, ok && name != ""
}
