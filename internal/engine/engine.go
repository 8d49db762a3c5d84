// Package engine runs the streams that this node owns: it joins the state machines of streams and consumers to the log
// on one side and to the broker on the other.
//
// A stream's life is in one place, [Stream]; who exists is in [Account]; what a start finds in the log is put back
// together by [Engine.Recover].
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/cache"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// Options of an engine.
type Options struct {
	Broker *broker.Broker
	Store  store.Store
	// Log takes the records of the streams with storage: file.
	Log    Log
	Logger *slog.Logger
	// ServerName, Cluster and Domain are what infos and acknowledgements name.
	ServerName, Domain string
	// TailBytes bounds the committed messages of storage: file that are kept in memory; 0 is 256 MiB. Beyond it they
	// are read again from the log.
	TailBytes int
	// FetchBytes bounds the batches that were read again and are kept; 0 is 64 MiB.
	FetchBytes int
	// Truncate lets go of the front of a log; nil: the log is never trimmed.
	Truncate Truncator
	// TrimBytes is how much the log grows before its front is looked at for what no stream needs, where streams have no
	// segments; 0 is 64 MiB.
	TrimBytes int
	History
	// ProgressWindow is how long a consumer's progress may wait before it is handed to the log: what a crash redelivers
	// at most. 0 is 200 ms.
	ProgressWindow time.Duration
	// MaxMemory and MaxStore bound the bytes of all streams of a storage kind; -1 or 0: no limit.
	MaxMemory, MaxStore int64
	Limits              Limits
	// Lost is called once, when the log is fenced or its outcome cannot be known: the node has to stop.
	Lost func(error)
}

// Limits bound single streams and consumers on this server; 0 means no bound.
type Limits struct {
	MaxAckPending   int           // of a consumer
	MaxRequestBatch int           // messages of one pull
	DuplicateWindow time.Duration // of a stream
	MaxConsumers    int           // of a stream that names no bound itself
	Batches         stream.BatchLimits
}

func (o *Options) setDefaults() {
	if o.TailBytes == 0 {
		o.TailBytes = 256 << 20
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = 64 << 20
	}
	if o.TrimBytes == 0 {
		o.TrimBytes = 64 << 20
	}
	if o.ProgressWindow == 0 {
		o.ProgressWindow = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.History.setDefaults()
}

// Validate reports every fault of the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Broker == nil {
		errs = append(errs, errors.New("engine: no broker"))
	}
	if o.Store == nil || o.Log == nil {
		errs = append(errs, errors.New("engine: no store or no log"))
	}
	if o.TailBytes < 0 || o.FetchBytes < 0 {
		errs = append(errs, errors.New("engine: a budget is negative"))
	}
	if err := o.Limits.Batches.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("engine: %w", err))
	}
	errs = append(errs, o.History.validate())
	return errors.Join(errs...)
}

// Engine owns the streams of a node.
type Engine struct {
	opts     Options
	tails    *tailBudget
	fetcher  *fetcher
	ctx      context.Context // of what the engine does by itself; ends with stop
	stop     context.CancelFunc
	lostOnce sync.Once
	trimming sync.WaitGroup
	courier  *courier
	// logs are the node's logs in their order, the one that is written last. Fixed when Recover returns.
	logs     []wal.LogID
	aside    []*Stream     // recovered, and held offline; fixed when Recover returns
	written  atomic.Int64  // bytes committed since the last look at the log's front
	newest   atomic.Uint64 // offset of the newest batch that streams have seen committed
	growth   growth
	segments *segmentReader
	reading  *cache.Cache // beneath segments
	pools    pools
	limits   atomic.Pointer[Limits]
	batches  *stream.BatchPool

	house  chan struct{} // has an element while somebody keeps house
	careMu sync.Mutex    // guards care
	care   map[*Stream]struct{}

	offlineMu sync.Mutex // guards offline
	offline   []offlineStream

	gravesMu sync.Mutex // guards graves
	graves   map[record.StreamID]grave

	mu       sync.Mutex // guards what follows
	accounts map[string]*Account
	started  bool
}

// New makes an engine without streams.
func New(opts Options) (*Engine, error) {
	opts.setDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	var err error
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{
		opts:     opts,
		ctx:      ctx,
		tails:    &tailBudget{max: opts.TailBytes},
		fetcher:  newFetcher(ctx, opts.Store, opts.FetchBytes),
		stop:     cancel,
		accounts: map[string]*Account{},
		house:    make(chan struct{}, 1),
		care:     map[*Stream]struct{}{},
		graves:   map[record.StreamID]grave{},
		batches:  stream.NewBatchPool(opts.Limits.Batches),
		courier:  newCourier(),
	}
	e.SetLimits(opts.MaxMemory, opts.MaxStore, opts.Limits)
	if e.reading, err = cache.New(opts.Store, opts.Cache); err != nil {
		cancel()
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.segments = newSegmentReader(ctx, e.reading, &e.opts)
	return e, nil
}

// grew notes what an entry that is committed adds to the log.
func (e *Engine) grew(entry *entry) {
	e.written.Add(int64(len(entry.Data)))
	e.newest.Store(uint64(entry.Position.Offset))
	e.growth.note(mark{len(e.logs) - 1, entry.Position.Offset}, len(entry.Data))
}

// lost reports that the log is no longer ours, or no longer known.
func (e *Engine) lost(err error) {
	e.lostOnce.Do(func() {
		e.opts.Logger.Error("JetStream stops acknowledging: the log is lost", "error", err)
		if e.opts.Lost != nil {
			go e.opts.Lost(err)
		}
	})
}

// Enable gives an account JetStream, or changes its limits.
func (e *Engine) Enable(name string, limits account.JetStreamLimits) *Account {
	a := e.account(name)
	a.setLimits(limits)
	return a
}

// Account gives an account that JetStream is enabled for, or nil.
func (e *Engine) Account(name string) *Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.accounts[name]; a != nil && a.enabled() {
		return a
	}
	return nil
}

// Accounts lists the accounts that JetStream is enabled for.
func (e *Engine) Accounts() []*Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Account
	for _, a := range e.accounts {
		if a.enabled() {
			all = append(all, a)
		}
	}
	return all
}

func (e *Engine) account(name string) *Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.accounts[name]
	if a == nil {
		a = &Account{engine: e, name: name, space: e.opts.Broker.Space(name), streams: map[string]*Stream{}, offline: map[string]error{}}
		a.pools.limit(-1, -1) // until it is enabled
		e.accounts[name] = a
	}
	return a
}

// newStreamID draws an id for a new stream: 63 random bits, never 0.
func newStreamID() record.StreamID { return record.StreamID(rand.Int64N(1<<63-1) + 1) }

// Start sets the recovered streams going: their subjects are subscribed to, their consumers deliver.
func (e *Engine) Start() error {
	e.mu.Lock()
	e.started = true
	var all []*Stream
	for _, a := range e.accounts {
		all = append(all, a.list()...)
	}
	e.mu.Unlock()
	go e.courier.run(e.ctx)
	for _, s := range all {
		if err := s.start(); err != nil {
			return fmt.Errorf("engine: starting stream %s: %w", s.name, err)
		}
	}
	if e.opts.Truncate != nil || e.hasHistory() {
		e.trimming.Go(func() { e.keepHouse(e.ctx) })
	}
	return nil
}

// Stop ends all streams: they take nothing more in, write the progress of their consumers, and are gone when it
// returns. The log must still be open.
func (e *Engine) Stop(ctx context.Context) error {
	e.stop()
	e.trimming.Wait()
	e.mu.Lock()
	var all []*Stream
	for _, a := range e.accounts {
		all = append(all, a.list()...)
	}
	started := e.started
	e.mu.Unlock()
	if started {
		// The round under way still needs its streams.
		select {
		case <-e.courier.over:
		case <-ctx.Done():
		}
	}
	var errs []error
	for _, s := range all {
		s.inbox.command(s.finish)
	}
	for _, s := range all {
		select {
		case <-s.done:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("engine: stopping stream %s: %w", s.name, ctx.Err()))
		}
	}
	errs = append(errs, e.reading.Close())
	return errors.Join(errs...)
}

var _ Log = (*wal.Log)(nil)
