package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// fetchers is how many batches a node reads at the same time for chunks that were let go.
const fetchers = 8

// fetcher reads batches of the log again, each once for all who wait for it. The batches that were read last stay in
// memory within a bound, since chunks of many streams share one.
type fetcher struct {
	store  store.Store
	ctx    context.Context // of the engine: ends all fetches
	tokens chan struct{}   // capacity fetchers

	mu      sync.Mutex // guards what follows
	pending map[batchKey][]func(*wal.Batch, error)
	batches *kept[batchKey, *wal.Batch]
}

type batchKey struct {
	log    wal.LogID
	offset wal.Offset
}

func newFetcher(ctx context.Context, st store.Store, max int) *fetcher {
	return &fetcher{
		store: st, ctx: ctx, tokens: make(chan struct{}, fetchers),
		pending: map[batchKey][]func(*wal.Batch, error){},
		batches: newKept[batchKey, *wal.Batch](max),
	}
}

// fetch reads a batch and calls then with it, from another goroutine or at once. Callers are bounded: a stream asks
// once for each chunk that somebody waits for.
func (f *fetcher) fetch(p place, then func(*wal.Batch, error)) {
	key := batchKey{p.log, p.pos.Offset}
	f.mu.Lock()
	if b, ok := f.batches.get(key); ok {
		f.mu.Unlock()
		then(b, nil)
		return
	}
	waiting, running := f.pending[key]
	f.pending[key] = append(waiting, then)
	f.mu.Unlock()
	if !running {
		go f.read(key)
	}
}

func (f *fetcher) read(key batchKey) {
	f.tokens <- struct{}{}
	b, err := wal.ReadBatch(f.ctx, f.store, key.log, key.offset)
	<-f.tokens
	f.mu.Lock()
	then := f.pending[key]
	delete(f.pending, key)
	if err == nil {
		f.batches.put(key, b, len(b.Body))
	}
	f.mu.Unlock()
	for _, call := range then {
		call(b, err)
	}
}

// load gives a visible message's bytes when they are in memory. Otherwise it has them fetched, and then runs on the
// owner when they are there, or cannot be had.
func (s *Stream) load(seq uint64, then func(error)) (m record.StoredMessage, ok bool, err error) {
	c := s.tail.find(seq)
	if c != nil {
		if data := c.data.Load(); data != nil {
			m, err = c.message(*data, seq)
			return m, err == nil, err
		}
	}
	if c == nil || c.moved {
		if p := s.history.find(seq); p != nil {
			return s.loadPast(p, seq, then)
		}
		return m, false, fmt.Errorf("engine: stream %s: sequence %d is in no chunk and in no segment", s.name, seq)
	}
	waiting, asked := s.waiting[c]
	if then != nil {
		waiting = append(waiting, then)
	}
	s.waiting[c] = waiting
	if !asked {
		s.engine.fetcher.fetch(c.place, func(b *wal.Batch, err error) {
			s.inbox.command(func() { s.fetched(c, b, err) })
		})
	}
	return m, false, nil
}

// fetched puts a chunk's bytes back into memory.
func (s *Stream) fetched(c *chunk, b *wal.Batch, err error) {
	if c.moved {
		err = nil // the log may have let go of it: it is read from its segment
	} else if err == nil {
		var data []byte
		if data, err = c.place.of(b, c.bytes); err != nil {
			err = fmt.Errorf("engine: stream %s: %w", s.name, err)
		} else if c.live > 0 {
			data = append([]byte(nil), data...)
			c.data.Store(&data)
			s.tail.count(c)
		}
	}
	then := s.waiting[c]
	delete(s.waiting, c)
	for _, call := range then {
		call(err)
	}
}
