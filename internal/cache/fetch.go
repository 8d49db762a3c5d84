package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// flight is a part that is being fetched, for all who wait for it. Cache.mu guards all but data and err, which are set
// before done closes.
type flight struct {
	part    Part
	fetch   *fetch
	ahead   bool // its bytes are counted in Cache.ahead
	waiters int
	landed  bool
	done    chan struct{}
	data    []byte
	err     error
}

// fetch is one read of the store or the disk, for adjacent parts of one object. Cache.mu guards it.
type fetch struct {
	key     string
	lane    *lane
	flights []*flight // in order of offset; one, if from the disk
	demand  int64     // bytes that count against the lane
	ahead   int64     // cost of what is read ahead, which counts against Cache.aheadMax
	owner   *Reader   // who reads ahead, as long as it may want the parts
	refs    int       // reads that wait, and the owner if it began the fetch without waiting
	cancel  context.CancelFunc
	ended   bool
}

func (f *fetch) span() Part {
	first, last := f.flights[0].part, f.flights[len(f.flights)-1].part
	return Part{first.Offset, last.end() - first.Offset}
}

// lane bounds the fetches under way from one source; those that come later wait in the order in which they came. Two
// lanes are apart so that the disk goes on when the store hangs. Cache.mu guards it.
type lane struct {
	read     func(ctx context.Context, key string, p Part) ([]byte, error)
	slots    int
	limit    int64 // of reserved
	running  int
	ahead    int   // of running: fetches that nobody waited for when they began
	reserved int64 // demanded bytes of those that run
	waiting  []*fetch
}

// takes reports whether a fetch can start. One that is larger than the limit starts when it is alone.
func (l *lane) takes(f *fetch) bool {
	need := min(f.demand, l.limit)
	return l.running < l.slots && (need == 0 || l.reserved == 0 || l.reserved+need <= l.limit)
}

// begin registers a fetch of adjacent parts, of which the first is demanded unless all are read ahead. mu is held.
func (c *Cache) begin(l *lane, key string, parts []Part, owner *Reader, demanded bool) *fetch {
	f := &fetch{key: key, lane: l, owner: owner, flights: make([]*flight, len(parts))}
	for i, p := range parts {
		fl := &flight{part: p, fetch: f, ahead: i > 0 || !demanded, done: make(chan struct{})}
		if fl.ahead {
			f.ahead += p.cost()
		} else {
			f.demand += p.Length
		}
		f.flights[i] = fl
		c.flights.put(key, p, fl)
	}
	if f.ahead > 0 {
		c.ahead += f.ahead
		owner.fetches = append(owner.fetches, f)
		c.readers[owner] = struct{}{}
	} else {
		f.owner = nil
	}
	c.fetches[f] = struct{}{}
	l.waiting = append(l.waiting, f)
	return f
}

// dispatch starts what may start. mu is held.
func (c *Cache) dispatch(l *lane) {
	for len(l.waiting) > 0 && l.takes(l.waiting[0]) {
		f := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.running++
		if f.demand == 0 {
			l.ahead++
		}
		need := min(f.demand, l.limit)
		l.reserved += need
		c.memory.reserve(need + f.ahead)
		ctx, cancel := context.WithCancel(c.ctx)
		f.cancel = cancel
		c.running.Go(func() { c.run(ctx, f) })
	}
}

// run does a fetch that has a slot.
func (c *Cache) run(ctx context.Context, f *fetch) {
	l, span := f.lane, f.span()
	if l == &c.store {
		c.metrics.gets.Inc()
	}
	data, err := l.read(ctx, f.key, span)
	f.cancel()
	parts := split(data, f.flights)

	c.mu.Lock()
	defer c.mu.Unlock()
	l.running--
	if f.demand == 0 {
		l.ahead--
	}
	need := min(f.demand, l.limit)
	l.reserved -= need
	c.memory.release(need + f.ahead)
	switch {
	case f.ended: // nobody waits
	case errors.Is(err, errNotOnDisk):
		f.lane = &c.store
		c.metrics.misses.Inc()
		c.store.waiting = append(c.store.waiting, f)
		c.dispatch(&c.store)
	default:
		c.land(f, parts, err)
	}
	c.dispatch(l)
	c.metrics.size(c.memory)
}

// split gives each part memory of its own, so that keeping one does not keep them all. What the data does not cover is
// nil.
func split(data []byte, flights []*flight) [][]byte {
	parts := make([][]byte, len(flights))
	at := int64(0)
	for i, fl := range flights {
		end := at + fl.part.Length
		if end > int64(len(data)) {
			break
		}
		parts[i] = data[at:end:end]
		if len(flights) > 1 || cap(data) > len(data)+len(data)/16 {
			parts[i] = slices.Clone(parts[i])
		}
		at = end
	}
	return parts
}

// land hands the parts of a fetch to who waits and to the memory and the disk. mu is held.
func (c *Cache) land(f *fetch, parts [][]byte, err error) {
	f.ended = true
	delete(c.fetches, f)
	fromStore := f.lane == &c.store
	for i, fl := range f.flights {
		fl.landed, fl.data, fl.err = true, parts[i], err
		if err == nil && fl.data == nil {
			fl.err = io.ErrUnexpectedEOF
		}
		if fl.err != nil {
			fl.data = nil
			fl.err = fmt.Errorf("cache: read %s, %d bytes at %d: %w", f.key, fl.part.Length, fl.part.Offset, fl.err)
		} else if fromStore {
			c.metrics.bytes[storeTier].Add(float64(fl.part.Length))
		} else {
			c.metrics.hits[diskTier].Inc()
			c.metrics.bytes[diskTier].Add(float64(fl.part.Length))
		}
		if fl.ahead {
			c.ahead -= fl.part.cost()
		}
		// Whoever forgot the part meanwhile took the flight out; then only those who had asked before get it.
		if now, _ := c.flights.get(f.key, fl.part); now == fl {
			c.flights.remove(f.key, fl.part)
			if fl.err == nil {
				c.keep(f, fl)
				if fromStore && c.disk != nil {
					c.disk.write(f.key, fl.part, fl.data)
				}
			}
		}
		c.waiting -= fl.waiters
		close(fl.done)
	}
	c.leave(f)
}

// keep puts a part that was fetched into memory. mu is held.
func (c *Cache) keep(f *fetch, fl *flight) {
	if !c.keeps(fl.part) {
		return
	}
	e := &entry{key: f.key, part: fl.part, data: fl.data, unused: fl.ahead && fl.waiters == 0}
	if e.unused && f.owner != nil {
		c.ahead += fl.part.cost()
		c.memory.add(e, &f.owner.owned)
	} else {
		if fl.ahead && fl.waiters > 0 {
			c.metrics.aheadUsed.Inc()
		}
		c.memory.add(e, nil)
	}
}

// unref takes back one interest in a fetch, and ends it if that was the last. mu is held.
func (c *Cache) unref(f *fetch) {
	f.refs--
	if f.refs > 0 || f.ended {
		return
	}
	c.abandon(f, context.Canceled)
	if f.cancel != nil {
		f.cancel()
	}
	if i := slices.Index(f.lane.waiting, f); i >= 0 {
		f.lane.waiting = slices.Delete(f.lane.waiting, i, i+1)
		c.dispatch(f.lane) // the next one may be smaller
	}
}

// abandon ends a fetch without its data. What runs of it still holds its slot. mu is held.
func (c *Cache) abandon(f *fetch, err error) {
	if !f.ended {
		c.land(f, make([][]byte, len(f.flights)), err)
	}
}

// leave takes a fetch out of its owner's hands. mu is held.
func (c *Cache) leave(f *fetch) {
	r := f.owner
	if r == nil {
		return
	}
	if i := slices.Index(r.fetches, f); i >= 0 {
		r.fetches = slices.Delete(r.fetches, i, i+1)
	}
	c.settle(r)
}

// settle forgets a Reader that has nothing any more. mu is held.
func (c *Cache) settle(r *Reader) {
	if r.owned.oldest == nil && len(r.fetches) == 0 {
		delete(c.readers, r)
	}
}

// wait waits for a flight that the caller has joined.
func (c *Cache) wait(ctx context.Context, key string, fl *flight) ([]byte, error) {
	select {
	case <-fl.done:
		return fl.data, fl.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fl.landed {
		return fl.data, fl.err
	}
	c.waiting--
	fl.waiters--
	c.unref(fl.fetch)
	return nil, fmt.Errorf("cache: read %s, %d bytes at %d: %w", key, fl.part.Length, fl.part.Offset, ctx.Err())
}

// join makes the caller one of those who wait for a flight. mu is held.
func (c *Cache) join(fl *flight) {
	c.waiting++
	fl.waiters++
	fl.fetch.refs++
}
