package engine

import (
	"sort"
	"time"

	"github.com/sluicemq/sluice/internal/compact"
	"github.com/sluicemq/sluice/internal/manifest"
)

// A stream's messages lie in two places. The newest are in the log, and mostly in memory: the tail. The older ones were
// moved into segments, which its manifest lists: the history. A message that was moved may still be in the tail; then it
// is read from there. It needs the log no more: that is what a segment is for.
//
// The owner of the stream reads and counts its history; what becomes of the segments is the housekeeper's work, which
// changes the manifest in the store first, and then tells the owner.

// history is a stream's segments as its owner sees them.
type history struct {
	past []*past // in the order of their sequences
}

// past is one segment. All but live and deadSince never changes.
type past struct {
	manifest.Segment
	key  string
	live uint64 // messages that are not removed
	// deadSince is when the first of its messages was removed, as far as this process knows; zero: none is.
	deadSince time.Time
}

// through is the last sequence that the history covers.
func (h *history) through() uint64 {
	if n := len(h.past); n > 0 {
		return h.past[n-1].Last
	}
	return 0
}

// find gives the segment that covers a sequence, or nil.
func (h *history) find(seq uint64) *past {
	i := sort.Search(len(h.past), func(i int) bool { return h.past[i].Last >= seq })
	if i == len(h.past) || seq < h.past[i].First {
		return nil
	}
	return h.past[i]
}

// sizes is what a decision about compaction needs to know. Messages that were removed before overdue should be gone.
func (h *history) sizes(overdue time.Time) []compact.Segment {
	all := make([]compact.Segment, len(h.past))
	for i, p := range h.past {
		all[i] = compact.Segment{
			Size: p.Size, Messages: p.Messages, Live: p.live,
			Overdue: !p.deadSince.IsZero() && p.deadSince.Before(overdue),
		}
	}
	return all
}

// replace puts segments in the place of others, which are next to each other; there may be none of either.
func (h *history) replace(old, now []*past) {
	kept := make([]*past, 0, len(h.past)+len(now))
	gone := map[*past]bool{}
	for _, p := range old {
		gone[p] = true
	}
	for _, p := range h.past {
		if !gone[p] {
			kept = append(kept, p)
		}
	}
	kept = append(kept, now...)
	sort.Slice(kept, func(i, j int) bool { return kept[i].First < kept[j].First })
	h.past = kept
}

// remember puts chunks whose messages a segment holds now out of the log's care, and forgets those that are not in
// memory any more.
func (t *tail) remember(through uint64) {
	kept := t.chunks[:0]
	t.dead = 0
	for _, c := range t.chunks {
		if c.placed() && !c.moved && c.last() <= through {
			c.moved = true
			if c.live > 0 {
				t.logged -= int64(c.bytes)
			}
		}
		if c.moved && (c.live == 0 || c.data.Load() == nil) {
			continue
		}
		if c.live == 0 {
			t.dead++
		}
		kept = append(kept, c)
	}
	clear(t.chunks[len(kept):])
	t.chunks = kept
}
