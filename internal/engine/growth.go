package engine

import (
	"sync"
)

// growthStep is how many bytes of the log lie between two places that are remembered.
const growthStep = 1 << 20

// growth tells how many bytes of the node's logs lie behind a place, to a step. It is bounded: of a log that is longer
// than maxGrowth steps, the front half of the places is thinned out.
type growth struct {
	mu    sync.Mutex // guards what follows
	steps []logMark
	total int64 // bytes that are noted
}

// logMark is a place with the number of bytes in front of it.
type logMark struct {
	at     mark
	before int64
}

// maxGrowth bounds the places: 24 bytes each.
const maxGrowth = 8192

// note counts bytes that lie at a place. Places come in order, or nearly: streams note theirs at the same time.
func (g *growth) note(at mark, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.steps)
	if n == 0 || g.total-g.steps[n-1].before >= growthStep && g.steps[n-1].at.before(at) {
		g.steps = append(g.steps, logMark{at, g.total})
		if len(g.steps) > maxGrowth {
			g.thin()
		}
	}
	g.total += int64(bytes)
}

// thin forgets every other place of the front half.
func (g *growth) thin() {
	kept := g.steps[:0]
	for i, s := range g.steps {
		if i > maxGrowth/2 || i%2 == 0 {
			kept = append(kept, s)
		}
	}
	g.steps = kept
}

// trimmed forgets what lies in front of a place.
func (g *growth) trimmed(start mark) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for n+1 < len(g.steps) && !start.before(g.steps[n+1].at) {
		n++
	}
	g.steps = g.steps[n:]
}

// length is how many bytes of the logs are kept.
func (g *growth) length() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.steps) == 0 {
		return 0
	}
	return g.total - g.steps[0].before
}

// lastBytes gives the place behind which about so many bytes lie, not fewer; ok is false when all of the logs are
// shorter.
func (g *growth) lastBytes(bytes int64) (at mark, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.steps) - 1; i > 0; i-- {
		if g.total-g.steps[i].before >= bytes {
			return g.steps[i].at, true
		}
	}
	return mark{}, false
}
