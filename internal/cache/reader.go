package cache

import (
	"context"
	"fmt"
	"time"
)

const (
	// firstRun and longRun are the sizes of GETs of who reads in order: the first one, and those that follow.
	firstRun = 4 << 20
	longRun  = 8 << 20
	// staleAfter is how long a Reader may hold parts without moving, when others need the room.
	staleAfter = 10 * time.Second
)

// Reader reads for one user that may be reading in order, such as a consumer. It is used by one goroutine at a time.
//
// It holds at most 12 MiB of parts that were read ahead, all Readers together a quarter of the cache's memory. When that
// is taken, runs get shorter, down to single parts. Read-ahead also steps back when reads wait for a GET, and takes at
// most half of the GETs.
type Reader struct {
	cache *Cache

	// Cache.mu guards what follows.
	key    string
	last   Part
	ended  bool      // nothing followed the last part in its object
	window int64     // size of the next run; 0 if the user does not read in order
	ahead  int64     // to where of the object the parts are known to be there or under way
	owned  fifo      // parts that were read ahead for this Reader
	moved  time.Time // when it last began a fetch or used a part that was read ahead
	// fetches that have this Reader as their owner: two at most, one that was waited for and one ahead of it.
	fetches []*fetch
}

// Reader makes a Reader. Close it when its user is done, so that what was read ahead for it makes room.
func (c *Cache) Reader() *Reader {
	r := &Reader{cache: c}
	r.owned.reader = r
	return r
}

// Close lets go of what was read ahead. The Reader may be used again.
func (r *Reader) Close() {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo(r)
	r.key, r.last, r.ended, r.window = "", Part{}, false, 0
}

// Read is Cache.Read for a part, and told which parts the user will read next if it goes on: those that follow in the
// same object, in order. Only parts that adjoin count, so the list ends for Read at a gap. It should reach to the end of
// the object or over 16 MiB, or GETs get shorter than they could be. It is not kept.
//
// A user that goes on to another object after the last part of one is still reading in order. Reading the same part
// again changes nothing.
func (r *Reader) Read(ctx context.Context, key string, p Part, following []Part) ([]byte, error) {
	c := r.cache
	c.mu.Lock()
	moves := r.advance(key, p, following)
	if data := c.hit(key, p, moves); data != nil {
		if r.window > 0 && len(following) > 0 && r.ahead < p.end()+r.window/2 {
			c.readAhead(r, following)
		}
		c.mu.Unlock()
		c.metrics.hit(p.Length)
		return data, nil
	}
	fl, err := c.miss(r, key, p, following)
	if err == nil && r.window > 0 {
		c.readAhead(r, following)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("cache: read %s: %w", key, err)
	}
	return c.wait(ctx, key, fl)
}

// advance notes what the user reads, and reports whether that is another part than before. mu is held.
func (r *Reader) advance(key string, p Part, following []Part) bool {
	sameObject := key == r.key
	if sameObject && p == r.last {
		return false
	}
	inOrder := sameObject && p.Offset == r.last.end() || !sameObject && r.ended
	if !inOrder {
		r.window = 0
		r.cache.letGo(r)
	} else if r.window == 0 {
		r.window = firstRun
	}
	if !sameObject {
		r.ahead = 0
	}
	r.key, r.last = key, p
	r.ended = len(following) == 0 || following[0].Offset != p.end()
	return true
}

// letGo gives up what was read ahead for a Reader. What nobody waits for is not fetched to the end; what is there goes
// the way of other parts. mu is held.
func (c *Cache) letGo(r *Reader) {
	for r.owned.oldest != nil {
		c.release(r.owned.oldest)
	}
	// Ending one takes it from the Reader, so not while going through them.
	fetches := r.fetches
	r.fetches, r.ahead = nil, 0
	for _, f := range fetches {
		f.owner = nil
		if f.demand == 0 {
			c.unref(f)
		}
	}
	delete(c.readers, r)
}

// extend adds the following parts to a part that must be fetched from the store, if its user reads in order. mu is held.
func (c *Cache) extend(r *Reader, parts, following []Part) []Part {
	if r.window == 0 {
		return parts
	}
	p := parts[0]
	parts = append(parts, c.absent(r.key, p.end(), following, min(r.window-p.Length, c.aheadRoom()))...)
	r.began(parts)
	return parts
}

// readAhead fetches what the user will want, if less than half a run of it is there. mu is held.
func (c *Cache) readAhead(r *Reader, following []Part) {
	l := &c.store
	if c.closed || len(l.waiting) > 0 || l.running >= l.slots || l.ahead >= max(1, l.slots/2) {
		return
	}
	at := r.last.end()
	half, full := at+r.window/2, at+r.window
	for len(following) > 0 && following[0].Offset == at && following[0].valid() &&
		(at < r.ahead || at < full && c.present(r.key, following[0])) {
		at = following[0].end()
		following = following[1:]
	}
	r.ahead = at
	if at >= half {
		return
	}
	parts := c.absent(r.key, at, following, min(r.window, c.aheadRoom()))
	if len(parts) == 0 {
		return
	}
	c.begin(l, r.key, parts, r, false).refs = 1
	r.began(parts)
	c.dispatch(l)
}

// began notes that a run is under way; the next one is long.
func (r *Reader) began(parts []Part) {
	r.ahead = parts[len(parts)-1].end()
	r.window = longRun
	r.moved = time.Now()
}

// absent gives the adjoining parts from an offset on that must be fetched, of at most so many bytes. mu is held.
func (c *Cache) absent(key string, at int64, following []Part, limit int64) []Part {
	n := 0
	for _, p := range following {
		if p.Offset != at || !p.valid() || p.cost() > limit || !c.keeps(p) || c.present(key, p) {
			break
		}
		at, limit, n = p.end(), limit-p.cost(), n+1
	}
	return following[:n]
}

// aheadRoom gives how many bytes a run may read ahead: half of what is left, so that the next ones get some too. When
// that is not enough for a run, Readers that do not move give up theirs. mu is held.
func (c *Cache) aheadRoom() int64 {
	if room := (c.aheadMax - c.ahead) / 2; room >= firstRun || len(c.readers) == 0 {
		return room
	}
	now := time.Now()
	for r := range c.readers {
		if now.Sub(r.moved) >= staleAfter {
			c.letGo(r)
		}
	}
	return (c.aheadMax - c.ahead) / 2
}
