package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/stream"
)

// Storage is bounded by the limits of the account and by those of the server, each with one bound for storage: memory
// and one for storage: file. Two things are held against them, as nats-server does it: when a stream is created or
// changed, the max_bytes of all streams; and at every publish, the bytes that all streams hold, in flight or visible.
// Replicas count once, since the store keeps the copies.

// pool counts one kind of storage, of an account or of the server.
type pool struct {
	limit    atomic.Int64 // bytes; negative: none
	used     atomic.Int64 // bytes that streams hold
	reserved atomic.Int64 // max_bytes of the streams that have one
	warned   atomic.Int64 // when the log last told that it is full, Unix ns
}

// pools are those of the two kinds of storage.
type pools struct {
	memory, store pool
	// reserving makes looking whether there is room for a stream and taking it one step. Only the server's is used; an
	// account's mu is held when it is taken.
	reserving sync.Mutex
}

func (p *pools) of(kind api.StorageType) *pool {
	if kind == api.MemoryStorage {
		return &p.memory
	}
	return &p.store
}

func (p *pools) limit(memory, store int64) {
	p.memory.limit.Store(memory)
	p.store.limit.Store(store)
}

// lacks reports whether more bytes do not fit beside those that are reserved.
func (p *pool) lacks(reserved, more int64) bool {
	limit := p.limit.Load()
	return limit >= 0 && (reserved > limit || more > limit-reserved)
}

// SetLimits changes the bounds that Options gave: what a reload of the configuration may do. What is there already
// stays, also when it is beyond them.
func (e *Engine) SetLimits(maxMemory, maxStore int64, limits Limits) {
	unbounded := func(n int64) int64 {
		if n == 0 {
			return -1
		}
		return n
	}
	e.pools.limit(unbounded(maxMemory), unbounded(maxStore))
	e.limits.Store(&limits)
	e.batches.SetLimits(limits.Batches)
}

// hold reserves what a configuration asks for, or says why it cannot be had. s is the stream that is to change; nil for
// a new one. Until settleHold a stream holds the larger of its old and its new max_bytes. mu is held.
func (a *Account) hold(s *Stream, cfg *api.StreamConfig) error {
	if a.limits != nil && a.limits.MaxConsumers > 0 && cfg.MaxConsumers > a.limits.MaxConsumers {
		return jserr.New(jserr.MaximumConsumersLimit)
	}
	held, want := int64(0), max(cfg.MaxBytes, 0)
	if s != nil {
		if _, err := stream.CheckUpdate(s.Config(), *cfg); err != nil {
			return err // another kind of storage, say
		}
		held = s.held
	}
	more := max(want-held, 0)
	ask := more
	if s == nil {
		ask = max(want, 1) // no stream without a bound where everything is reserved
	}
	own, server := a.pools.of(cfg.Storage), a.engine.pools.of(cfg.Storage)
	a.engine.pools.reserving.Lock()
	defer a.engine.pools.reserving.Unlock()
	if own.lacks(own.reserved.Load()-held+want-more, ask) || server.lacks(server.reserved.Load(), ask) {
		if cfg.Storage == api.MemoryStorage {
			return jserr.New(jserr.MemoryResourcesExceeded)
		}
		return jserr.New(jserr.StorageResourcesExceeded)
	}
	own.reserved.Add(more)
	server.reserved.Add(more)
	if s != nil {
		s.held += more
	}
	return nil
}

// release gives reserved bytes back.
func (a *Account) release(kind api.StorageType, n int64) {
	a.pools.of(kind).reserved.Add(-n)
	a.engine.pools.of(kind).reserved.Add(-n)
}

// settleHold makes a stream hold what its configuration says.
func (a *Account) settleHold(s *Stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[s.name] != s {
		return // deleted meanwhile
	}
	cfg := s.Config()
	want := max(cfg.MaxBytes, 0)
	a.release(cfg.Storage, s.held-want)
	s.held = want
}

// share is a stream's part in the pools. Its owner's alone.
type share struct {
	own, server *pool  // of the stream's kind of storage
	kind        string // its name in the log
	counted     int64  // bytes of this stream that are in the pools
	// check is checkQuota, made once.
	check func(subject []byte, size uint64) *jserr.Error
}

func (s *Stream) newShare(kind api.StorageType) share {
	name := "file"
	if kind == api.MemoryStorage {
		name = "memory"
	}
	return share{own: s.account.pools.of(kind), server: s.engine.pools.of(kind), kind: name, check: s.checkQuota}
}

// count brings the pools up to what the stream holds.
func (s *Stream) count() { s.share.set(int64(s.state.AcceptedBytes())) }

func (sh *share) set(now int64) {
	if more := now - sh.counted; more != 0 {
		sh.own.used.Add(more)
		sh.server.used.Add(more)
		sh.counted = now
	}
}

// checkQuota decides whether the server and the account have room for a message. As in nats-server the server has room
// as long as it is not beyond its bound, whatever the message's size. Streams that publish at the same time may each
// exceed a bound by one message.
func (s *Stream) checkQuota(subject []byte, size uint64) *jserr.Error {
	sh := &s.share
	most, mostServer := sh.own.limit.Load(), sh.server.limit.Load()
	if most < 0 && mostServer < 0 {
		return nil
	}
	s.count()
	if mostServer >= 0 && sh.server.used.Load() > mostServer {
		s.warnFull(sh.server, "for server")
		return jserr.New(jserr.InsufficientResources)
	}
	if most < 0 || s.interestOnly && len(s.interested.in(subject)) == 0 {
		return nil // the second: it does not stay
	}
	if sh.own.used.Load()+int64(size) > most {
		s.warnFull(sh.own, "for account")
		return jserr.New(jserr.AccountResourcesExceeded)
	}
	return nil
}

// warnEvery is how often the log tells that a pool is full.
const warnEvery = 10 * time.Second

func (s *Stream) warnFull(p *pool, whose string) {
	last, now := p.warned.Load(), s.now.UnixNano()
	if now-last < int64(warnEvery) || !p.warned.CompareAndSwap(last, now) {
		return
	}
	s.engine.opts.Logger.Warn("JetStream "+s.share.kind+" resource limits exceeded "+whose, "account", s.account.name, "stream", s.name)
}
