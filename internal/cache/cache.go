// Package cache keeps what was read of immutable objects, in memory and on a disk if there is one, for all streams of a
// node.
//
// The unit is the [Part]: a range that is always read as a whole, whose place the caller knows. A read looks in memory,
// then among the fetches under way, then on the disk, then asks the store:
//
//	Read ── memory ── hit: the bytes, no allocation
//	          └ flight ── someone fetches it: wait for it too
//	               └ begin ── the lane of the disk, or of the store: first come, first served, so many at once
//	                            └ run ── land: memory, disk, all who wait
//
// # One lock
//
// Whether a part is in memory, under way or absent is one question with one answer: Cache.mu is held while it is asked
// and while what follows from it is written down. So a part is fetched once however many ask, there is no moment between
// landing and being found, and what is forgotten is forgotten at once. Nothing waits under the lock, and a hit holds it
// for some 50 ns; the decoding of a part takes a thousand times longer, so it is not worth being split.
//
// A fetch belongs to nobody: it runs until it has landed or no read waits for it, whoever began it.
//
// # What stays in memory
//
// The policy is S3-FIFO by bytes (see memory). It is our own since the libraries do not fit: hashicorp/golang-lru bounds
// numbers, not bytes; ristretto takes entries in later or not at all; otter (W-TinyLFU by weight) admits by frequency,
// which is right for what was asked for and wrong for what is about to be: of parts read ahead into a cache full of
// warmer ones, 84 in 100 were gone before their first use. Parts read ahead need a place that is safe until then, and
// absence, flight and presence need one lock.
//
// # Reading ahead
//
// A [Reader] follows one user. When it reads parts in order, the parts that follow are fetched by GETs of 4 and then 8
// MiB: what follows is asked for while there is still half of that ahead. Such parts are held for the Reader until
// anybody asks for them, and let go when it turns elsewhere, or when it has not moved for a while and others need the
// room. What is there or under way already is never fetched again, so a thousand consumers that read the same history
// together cost what one does.
//
// # What callers must do
//
// Bytes are shared: they must not be modified. They are what the store gave, of the length that was asked for, and not
// verified: who decodes them checks them, and calls Drop when they are wrong. What is kept is never checked against the
// store again, so objects must be immutable, and Forget must be called when one is deleted and its key may return.
package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrClosed: the cache was closed before or while the read waited.
	ErrClosed = errors.New("cache: closed")
	// ErrBusy: too many reads wait for fetches already. Try again later.
	ErrBusy = errors.New("cache: too many reads are waiting")
)

// Store is what the cache reads from.
type Store interface {
	// GetRange is that of store.Store.
	GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error)
}

// Cache is a read cache. All methods may be called concurrently. Close it when it is no longer read from.
type Cache struct {
	memoryShare, diskShare int64 // parts above are not kept
	waiters                int
	aheadMax               int64
	metrics                *metrics
	disk                   *disk // nil without a folder

	ctx     context.Context // of fetches, which outlive the read that began them; ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // of fetches

	mu       sync.Mutex // guards what follows
	memory   *memory
	flights  index[*flight]      // but those that were forgotten
	fetches  map[*fetch]struct{} // all that have not landed
	store    lane
	fromDisk lane
	waiting  int                  // reads that wait
	ahead    int64                // cost of what was read ahead: under way, or in a Reader's hands
	readers  map[*Reader]struct{} // those that may have some of them
	closed   bool
}

// New makes a cache over a store. With a folder, it reads the list of files in there first.
func New(from Store, opts Options) (*Cache, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		memoryShare: opts.MemoryBytes / share, diskShare: opts.DiskBytes / share, waiters: opts.Waiters,
		aheadMax: opts.MemoryBytes / 4,
		metrics:  m, flights: index[*flight]{}, fetches: map[*fetch]struct{}{}, readers: map[*Reader]struct{}{},
		store:    lane{read: readFrom(from), slots: opts.Fetches, limit: opts.MemoryBytes * 3 / 8},
		fromDisk: lane{slots: diskReads, limit: opts.MemoryBytes / 8},
	}
	c.memory = newMemory(opts.MemoryBytes, c.evicted)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if opts.Folder != "" {
		if c.disk, err = openDisk(opts, m); err != nil {
			c.cancel()
			return nil, err
		}
		c.fromDisk.read = c.disk.read
	}
	return c, nil
}

func readFrom(from Store) func(context.Context, string, Part) ([]byte, error) {
	return func(ctx context.Context, key string, p Part) ([]byte, error) {
		return from.GetRange(ctx, key, p.Offset, p.Length)
	}
}

// Close ends all fetches; reads that wait fail with ErrClosed, and so do later ones of what is not in memory. What waits
// to be written to the disk is written, and the folder is left: what is forgotten later stays there.
func (c *Cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for f := range c.fetches {
		c.abandon(f, ErrClosed)
	}
	c.store.waiting, c.fromDisk.waiting = nil, nil
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.mu.Lock()
	c.metrics.leave()
	c.mu.Unlock()
	if c.disk != nil {
		return c.disk.close()
	}
	return nil
}

// Read gives n bytes of the object from off, a part. The memory is shared and must not be modified.
//
// A part that is kept is given whatever ctx and the store are; otherwise Read waits as long as ctx allows. Errors wrap
// those of the store and name the key; an object that ends before the part does is io.ErrUnexpectedEOF.
func (c *Cache) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	p := Part{off, n}
	c.mu.Lock()
	if data := c.hit(key, p, true); data != nil {
		c.mu.Unlock()
		c.metrics.hit(n)
		return data, nil
	}
	fl, err := c.miss(nil, key, p, nil)
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("cache: read %s: %w", key, err)
	}
	return c.wait(ctx, key, fl)
}

// hit looks in memory. use tells whether this is a new use of the part. mu is held.
func (c *Cache) hit(key string, p Part, use bool) []byte {
	e, found := c.memory.entries.get(key, p)
	if !found {
		return nil
	}
	if e.unused {
		c.metrics.aheadUsed.Inc()
		e.unused = false
		c.release(e)
	} else if use && e.uses < maxUses {
		e.uses++
	}
	return e.data
}

// release takes a part out of the hands of the Reader for which it was read ahead, if there is one. mu is held.
func (c *Cache) release(e *entry) {
	r := e.in.reader
	if r == nil {
		return
	}
	c.ahead -= e.part.cost()
	c.memory.move(e)
	r.moved = time.Now()
	c.settle(r)
}

// miss joins the fetch of a part that is not in memory, or begins it, of following parts too if the Reader wants them.
// mu is held.
func (c *Cache) miss(r *Reader, key string, p Part, following []Part) (*flight, error) {
	if c.closed {
		return nil, ErrClosed
	}
	if err := check(key, p); err != nil {
		return nil, err
	}
	if c.waiting >= c.waiters {
		return nil, ErrBusy
	}
	fl, found := c.flights.get(key, p)
	if found {
		c.metrics.coalesced.Inc()
		c.join(fl)
		return fl, nil
	}
	if c.disk != nil && c.disk.has(key, p) {
		fl = c.begin(&c.fromDisk, key, []Part{p}, nil, true).flights[0]
		c.join(fl)
		c.dispatch(&c.fromDisk)
		return fl, nil
	}
	c.metrics.misses.Inc()
	parts := []Part{p}
	if r != nil {
		parts = c.extend(r, parts, following)
	}
	f := c.begin(&c.store, key, parts, r, true)
	c.join(f.flights[0])
	c.dispatch(&c.store)
	return f.flights[0], nil
}

// keeps reports whether a part is small enough to be kept in memory.
func (c *Cache) keeps(p Part) bool { return p.Length <= c.memoryShare }

// present reports whether a part needs no fetch from the store. mu is held.
func (c *Cache) present(key string, p Part) bool {
	if _, found := c.memory.entries.get(key, p); found {
		return true
	}
	if _, found := c.flights.get(key, p); found {
		return true
	}
	return c.disk != nil && c.disk.has(key, p)
}

// evicted is told by the memory. mu is held.
func (c *Cache) evicted(e *entry) {
	c.metrics.evictions[memoryTier].Inc()
	if e.unused {
		c.metrics.aheadWasted.Inc()
	}
}

// Drop forgets a part whose bytes turned out corrupt, in memory and on the disk, so that the next read asks the store
// again. bad is what Read gave: if other bytes have taken its place meanwhile, they stay.
func (c *Cache) Drop(key string, p Part, bad []byte) {
	c.mu.Lock()
	e, found := c.memory.entries.get(key, p)
	if found && !same(e.data, bad) {
		c.mu.Unlock()
		return
	}
	if found {
		c.release(e)
		c.memory.drop(e)
		c.metrics.size(c.memory)
	}
	remove := c.forgetOnDisk(func(d *disk) []*file { return d.forgetPart(key, p) })
	c.mu.Unlock()
	remove()
}

func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Forget forgets all parts of objects that were deleted. Reads that wait for some get them still; later ones ask the
// store.
func (c *Cache) Forget(keys ...string) {
	for _, key := range keys {
		c.forget(key, false)
	}
}

// ForgetPrefix is Forget for all objects whose keys begin with prefix. It looks at every key that the cache knows.
func (c *Cache) ForgetPrefix(prefix string) { c.forget(prefix, true) }

func (c *Cache) forget(key string, prefix bool) {
	c.mu.Lock()
	for _, e := range c.memory.entries.of(key, prefix) {
		if e.unused {
			c.metrics.aheadWasted.Inc()
		}
		c.release(e)
		c.memory.drop(e)
	}
	for _, fl := range c.flights.of(key, prefix) {
		c.flights.remove(fl.fetch.key, fl.part)
	}
	c.metrics.size(c.memory)
	remove := c.forgetOnDisk(func(d *disk) []*file { return d.forget(key, prefix) })
	c.mu.Unlock()
	remove()
}

// forgetOnDisk takes files out of the disk's books, and gives what removes them from the disk. mu is held, so that no
// read finds them any more.
func (c *Cache) forgetOnDisk(take func(*disk) []*file) (remove func()) {
	if c.disk == nil || c.closed {
		return func() {}
	}
	files := take(c.disk)
	return func() { c.disk.remove(files) }
}
