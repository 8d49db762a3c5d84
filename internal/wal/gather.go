package wal

import "time"

const (
	// gatherBytes is how much a batch need hold not to wait for more: its commit costs little for each record already.
	gatherBytes = 64 << 10
	// maxGather bounds the wait, however slow the store is.
	maxGather = 10 * time.Millisecond
)

// gathering has a batch wait a moment for the records that are about to come, so that they need no commit of their own.
//
// Publishers that wait for their acknowledgement answer each commit with their next message, one after the other.
// Without a wait the first of them takes the next commit for itself and all the others share the one after it: half of
// the commits carry one record. So the next batch waits until as many records are there as the last commit and the queue
// behind it held, since that is how many publishers there seem to be, for a fraction of the time that the last commit
// took at most. A lone publisher is never waited for: its one record is all that is expected.
//
// Publishers that wait for nothing look the same and do not answer, so waits in vain make the next ones rarer: after
// the first one commit goes without, after the next two, then four (maxSkips).
type gathering struct {
	fraction float64   // of a commit's duration; 0: never wait
	expected int       // records that are not lazy
	until    time.Time // when the wait ends
	waited   bool      // the batch that is next to be cut has waited
	penalty  int       // commits to skip after the last wait if that was in vain; 0: it was not
	skips    int       // commits that are still to go without a wait
}

// maxSkips bounds how long waits in vain put off the next one.
const maxSkips = 4

// committed notes a batch that was committed, and what waits behind it.
func (g *gathering) committed(b *batch, queue []*batch, now time.Time) {
	g.until = time.Time{}
	switch {
	case g.fraction == 0:
		return
	case g.skips > 0:
		g.skips--
		return
	case !b.trouble.IsZero():
		return // what it took says nothing
	}
	g.expected = b.hurried
	for _, waiting := range queue {
		g.expected += waiting.hurried
	}
	g.until = now.Add(min(time.Duration(float64(now.Sub(b.begun))*g.fraction), maxGather))
}

// complete reports whether a batch holds what is waited for.
func (g *gathering) complete(b *batch) bool { return b.hurried >= g.expected || b.bytes >= gatherBytes }

// wait reports whether a batch is to wait for more, until g.until.
func (g *gathering) wait(b *batch, now time.Time) bool {
	if !now.Before(g.until) || g.complete(b) {
		return false
	}
	g.waited = true
	return true
}

// cut notes that a batch goes now, and learns whether waiting was worth it.
func (g *gathering) cut(b *batch) {
	if !g.waited {
		return
	}
	g.waited = false
	if g.complete(b) {
		g.penalty = 0
		return
	}
	g.penalty = min(max(2*g.penalty, 1), maxSkips)
	g.skips = g.penalty
}
