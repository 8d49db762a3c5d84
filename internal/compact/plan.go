// Package compact decides which segments of a stream are rewritten, and when: merging upward, so that a long stream has
// few and large segments, and rewriting what is mostly deleted, so that space comes back. It only decides; the engine
// does the work.
package compact

import (
	"errors"
	"fmt"
)

// Segment is what a decision needs to know of a segment.
type Segment struct {
	Size     int64  // bytes of the object
	Messages uint64 // in the object
	Live     uint64 // of those, the ones that are not deleted
	// Overdue: some of the deleted messages have been in the object for as long as they may be.
	Overdue bool
}

// liveSize estimates the size of what a rewriting leaves.
func (s Segment) liveSize() int64 {
	if s.Messages == 0 {
		return 0
	}
	return int64(float64(s.Size) * float64(s.Live) / float64(s.Messages))
}

// sparse reports whether at least half of the messages are deleted.
func (s Segment) sparse() bool { return s.Live*2 <= s.Messages }

// Options of the decisions.
type Options struct {
	// TargetBytes is the size of a segment that is not merged further; 0 is 128 MiB. A rewriting needs about as much
	// memory.
	TargetBytes int64
	// MaxMessages bounds a segment that is made of others, since its index is built in memory and read at a start; 0 is 8
	// million.
	MaxMessages uint64
	// Fanout is how many neighbours of about one size become one; 0 is 8. A message is rewritten once for each power of
	// Fanout between the size of a new segment and TargetBytes.
	Fanout int
}

// SetDefaults fills in what is 0.
func (o *Options) SetDefaults() {
	if o.TargetBytes == 0 {
		o.TargetBytes = 128 << 20
	}
	if o.MaxMessages == 0 {
		o.MaxMessages = 8 << 20
	}
	if o.Fanout == 0 {
		o.Fanout = 8
	}
}

// Validate reports every fault.
func (o Options) Validate() error {
	var errs []error
	if o.TargetBytes < smallest {
		errs = append(errs, fmt.Errorf("compact: target of %d bytes, want at least %d", o.TargetBytes, smallest))
	}
	if o.Fanout < 2 {
		errs = append(errs, fmt.Errorf("compact: fanout %d, want at least 2", o.Fanout))
	}
	return errors.Join(errs...)
}

// smallest is the size up to which all segments are of one tier.
const smallest = 64 << 10

// tier is the power of fanout that a size belongs to.
func (o Options) tier(size int64) int {
	t := 0
	for limit := int64(smallest); size > limit; limit *= int64(o.Fanout) {
		t++
	}
	return t
}

// Run is a range of segments, from the one at From to the one before To, that become one. A run may leave nothing: its
// segments are then dropped.
type Run struct{ From, To int }

// Next chooses what to rewrite next; ok is false when everything is as it should be. Segments of which nothing lives are
// not looked at: they are dropped, which costs no rewriting, before.
func (o Options) Next(segments []Segment) (run Run, ok bool) {
	for i, s := range segments {
		if s.sparse() || s.Overdue && s.Live < s.Messages {
			return o.widen(segments, i), true
		}
	}
	tiers := o.tier(o.TargetBytes)
	for t := range tiers + 1 {
		if run, ok := o.merge(segments, t); ok {
			return run, true
		}
	}
	return Run{}, false
}

// widen takes the neighbours of a sparse segment along, if they are small as well: they will not be rewritten sooner.
func (o Options) widen(segments []Segment, at int) Run {
	run, size, messages := Run{at, at + 1}, segments[at].liveSize(), segments[at].Live
	fits := func(s Segment) bool {
		return s.Size <= o.TargetBytes/int64(o.Fanout) && size+s.liveSize() <= o.TargetBytes && messages+s.Live <= o.MaxMessages
	}
	take := func(s Segment) { size, messages = size+s.liveSize(), messages+s.Live }
	for run.To < len(segments) && run.To-run.From < o.Fanout && fits(segments[run.To]) {
		take(segments[run.To])
		run.To++
	}
	for run.From > 0 && run.To-run.From < o.Fanout && fits(segments[run.From-1]) {
		run.From--
		take(segments[run.From])
	}
	return run
}

// merge finds neighbours of at most one tier: Fanout of them, or fewer that fill a segment.
func (o Options) merge(segments []Segment, tier int) (Run, bool) {
	run, size, messages := Run{}, int64(0), uint64(0)
	for i, s := range segments {
		live := s.liveSize()
		if o.tier(live) > tier || live > o.TargetBytes/2 || s.Live > o.MaxMessages/2 {
			run, size, messages = Run{i + 1, i + 1}, 0, 0
			continue
		}
		if size+live > o.TargetBytes || messages+s.Live > o.MaxMessages {
			if run.To-run.From > 1 && (size >= o.TargetBytes/2 || messages >= o.MaxMessages/2) {
				return run, true
			}
			run, size, messages = Run{i, i}, 0, 0
		}
		run.To = i + 1
		messages += s.Live
		if size += live; run.To-run.From == o.Fanout {
			return run, true
		}
	}
	return Run{}, false
}
