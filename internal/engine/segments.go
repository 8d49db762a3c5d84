package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicemq/sluice/internal/cache"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
)

const (
	// segmentReads is how many row groups a node fetches and decodes at the same time.
	segmentReads = 16
	// maxRuns is how many places in segments are remembered where somebody reads in order.
	maxRuns = 1024
	// readAhead is how far the cache is told what follows.
	readAhead = 16 << 20
)

// segmentReader reads messages out of segments for all streams of a node: each row group is fetched and decoded once for
// all who wait for it. Groups that were decoded last stay in memory within a bound, and so do the directories that tell
// where a segment's groups are. Beneath it the cache keeps what was fetched as it was stored.
type segmentReader struct {
	cache  *cache.Cache
	ctx    context.Context // of the engine: ends all reads
	opts   *History        // for its keys
	tokens chan struct{}   // capacity segmentReads

	mu          sync.Mutex // guards what follows
	pending     map[pendingRead][]func(*segment.Block, error)
	blocks      *kept[groupKey, *segment.Block]
	directories *kept[string, *segment.Directory]
	runs        *kept[groupKey, *cache.Reader] // by the group that it would read next
}

// groupKey names a row group.
type groupKey struct {
	segment string // key of the object
	group   int
}

// pendingRead is what somebody waits for: the group of a sequence. Readers of one group that ask by different sequences
// meet at the cache.
type pendingRead struct {
	segment string
	seq     uint64
}

func newSegmentReader(ctx context.Context, c *cache.Cache, opts *Options) *segmentReader {
	r := &segmentReader{
		cache: c, ctx: ctx, opts: &opts.History, tokens: make(chan struct{}, segmentReads),
		pending:     map[pendingRead][]func(*segment.Block, error){},
		blocks:      newKept[groupKey, *segment.Block](opts.BlockBytes),
		directories: newKept[string, *segment.Directory](opts.DirectoryBytes),
		runs:        newKept[groupKey, *cache.Reader](maxRuns),
	}
	r.runs.gone = (*cache.Reader).Close
	return r
}

// block gives the decoded group that holds a sequence, if it is at hand.
func (r *segmentReader) block(p *past, seq uint64) *segment.Block {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.directories.get(p.key)
	if !ok {
		return nil
	}
	b, _ := r.blocks.get(groupKey{p.key, d.Find(seq)})
	return b
}

// read fetches the group that holds a sequence and calls then with it, from another goroutine.
func (r *segmentReader) read(p *past, seq uint64, then func(*segment.Block, error)) {
	want := pendingRead{p.key, seq}
	r.mu.Lock()
	waiting, running := r.pending[want]
	r.pending[want] = append(waiting, then)
	r.mu.Unlock()
	if running {
		return
	}
	go func() {
		b, err := r.fetch(p, seq)
		r.mu.Lock()
		then := r.pending[want]
		delete(r.pending, want)
		r.mu.Unlock()
		for _, call := range then {
			call(b, err)
		}
	}()
}

func (r *segmentReader) fetch(p *past, seq uint64) (*segment.Block, error) {
	select {
	case r.tokens <- struct{}{}:
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
	defer func() { <-r.tokens }()
	d, err := r.directory(r.ctx, p)
	if err != nil {
		return nil, err
	}
	n := d.Find(seq)
	if n == len(d.Groups()) {
		return nil, fmt.Errorf("engine: %s: %w: no group for sequence %d", p.key, segment.ErrCorrupt, seq)
	}
	at := groupKey{p.key, n}
	r.mu.Lock()
	b, ok := r.blocks.get(at)
	if ok {
		r.mu.Unlock()
		return b, nil // another got it meanwhile
	}
	run, ok := r.runs.take(at)
	if !ok {
		run = r.cache.Reader()
	}
	r.mu.Unlock()
	b, err = r.decode(run, p, d, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.blocks.put(at, b, b.MemorySize())
	}
	r.runs.put(groupKey{p.key, n + 1}, run, 1)
	return b, err
}

// decode reads a group. What does not verify is read once more, from the store: a cached copy may have been damaged.
func (r *segmentReader) decode(run *cache.Reader, p *past, d *segment.Directory, n int) (*segment.Block, error) {
	groups := d.Groups()
	part := partOf(groups[n])
	var following []cache.Part
	for _, g := range groups[n+1:] {
		if g.Offset-part.Offset > readAhead {
			break
		}
		following = append(following, partOf(g))
	}
	for attempt := 0; ; attempt++ {
		data, err := run.Read(r.ctx, p.key, part, following)
		if err != nil {
			return nil, fmt.Errorf("engine: reading %s: %w", p.key, err)
		}
		b, err := d.Decode(n, data)
		if err == nil {
			return b, nil
		}
		r.cache.Drop(p.key, part, data)
		if attempt > 0 {
			return nil, fmt.Errorf("engine: reading %s: %w", p.key, err)
		}
	}
}

func partOf(g segment.Group) cache.Part { return cache.Part{Offset: g.Offset, Length: g.Size()} }

// directory gives the directory of a segment's groups.
func (r *segmentReader) directory(ctx context.Context, p *past) (*segment.Directory, error) {
	r.mu.Lock()
	d, ok := r.directories.get(p.key)
	r.mu.Unlock()
	if ok {
		return d, nil
	}
	part := cache.Part{Offset: p.IndexAt, Length: p.DirectorySize}
	for attempt := 0; ; attempt++ {
		data, err := r.cache.Read(ctx, p.key, part.Offset, part.Length)
		if err != nil {
			return nil, fmt.Errorf("engine: reading the directory of %s: %w", p.key, err)
		}
		err = r.opts.withKey(func(key []byte) (err error) {
			d, err = segment.ParseDirectory(data, key)
			return err
		})
		if err == nil {
			break
		}
		r.cache.Drop(p.key, part, data)
		if attempt > 0 {
			return nil, fmt.Errorf("engine: reading the directory of %s: %w", p.key, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.directories.put(p.key, d, d.MemorySize())
	return d, nil
}

// forget lets go of what is known of an object that was deleted.
func (r *segmentReader) forget(key string) {
	r.mu.Lock()
	r.directories.drop(key)
	r.mu.Unlock()
	r.cache.Forget(key)
}

// storedAt gives message i of a group, which it aliases.
func storedAt(b *segment.Block, i int) record.StoredMessage {
	m := b.At(i)
	return record.StoredMessage{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Data: m.Data}
}

// loadPast is load for a message that only a segment has.
func (s *Stream) loadPast(p *past, seq uint64, then func(error)) (m record.StoredMessage, ok bool, err error) {
	b := s.engine.segments.block(p, seq)
	if b == nil {
		b = s.atHand[p]
	}
	if b != nil {
		if i, found := b.Find(seq); found {
			return storedAt(b, i), true, nil
		}
		if g := b.Group(); g.First <= seq && seq <= g.Last {
			return m, false, fmt.Errorf("engine: stream %s: %s: %w: it lacks sequence %d", s.name, p.key, segment.ErrCorrupt, seq)
		}
	}
	s.engine.segments.read(p, seq, func(b *segment.Block, err error) {
		s.inbox.command(func() {
			if b != nil {
				// Whoever waits finds it until the turn ends, even if it was pushed out by what others have read.
				s.atHand[p] = b
			}
			if then != nil {
				then(err)
			}
		})
	})
	return m, false, nil
}
