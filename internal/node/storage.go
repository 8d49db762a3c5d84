package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broadcast"
	"github.com/sluicemq/sluice/internal/cache"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/jsapi"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/metered"
	"github.com/sluicemq/sluice/internal/store/storeurl"
	"github.com/sluicemq/sluice/internal/wal"
)

// Defaults of the commit budget on stores where a request costs money.
const (
	s3CommitRate  = 10
	s3CommitBurst = 100
	// dirInFlight is how many batches are written to a folder at a time. Synced creates in one folder wait for each
	// other's journal commits: with one under way the next batch gathers meanwhile, and all are acknowledged sooner.
	dirInFlight = 1
	// dirGather is how long a batch for a folder waits for publishers that answer the last commit: see wal.Options.Gather.
	// What they take to answer is about half of a commit on a fast disk.
	dirGather = 0.5
	// lazyWindow is how long consumers' progress waits for other records on stores without a budget.
	lazyWindow = 100 * time.Millisecond
)

// storage is the durable side of a node: its store, its head, its log, and the streams on them.
type storage struct {
	log     *slog.Logger
	opened  *storeurl.Handle
	store   store.Store // the opened one, metered
	head    *head.Claimed
	wal     *wal.Log
	engine  *engine.Engine
	api     *jsapi.Service
	casts   *broadcast.Service // nil: no broadcasts
	beating context.CancelFunc
	beaten  sync.WaitGroup
	started bool
}

// openStorage claims the node's place in the store and recovers its streams.
func openStorage(ctx context.Context, n *Node, opts *config.Options) (_ *storage, err error) {
	st := &storage{log: n.log}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close(context.WithoutCancel(ctx)))
		}
	}()
	if st.opened, err = storeurl.Open(ctx, opts.Store.URL, storeurl.Options{}); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if n.decorate != nil {
		st.opened.Store = n.decorate(st.opened.Store)
	}
	if st.store, err = metered.New(st.opened, n.registry, requestPrices(opts.Store.Prices)); err != nil {
		return nil, err
	}
	if err := store.Probe(ctx, st.store, key.Probe.Prefix()); err != nil {
		return nil, fmt.Errorf("the store %s cannot be used: %w", n.storeURL, err)
	}
	st.head, err = head.Claim(ctx, st.store, head.Options{Names: []string{opts.ServerName}, Logger: n.log})
	if err != nil {
		return nil, fmt.Errorf("taking the place of node %s: %w", opts.ServerName, err)
	}
	beat, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st.beating = cancel
	st.beaten.Go(func() {
		if err := st.head.Run(beat); errors.Is(err, head.ErrLost) {
			go n.lost(err)
		}
	})
	if st.wal, err = wal.Open(walOptions(st, opts, n.registry, n.log)); err != nil {
		return nil, err
	}
	st.engine, err = engine.New(engine.Options{
		Broker: n.broker, Store: st.store, Log: st.wal, Logger: n.log,
		ServerName: opts.ServerName, Domain: opts.JetStream.Domain,
		MaxMemory: opts.JetStream.MaxMemory, MaxStore: opts.JetStream.MaxStore,
		Limits:   engineLimits(opts),
		Truncate: st.truncate,
		History:  st.history(n, &opts.Store),
		Lost:     n.lost,
	})
	if err != nil {
		return nil, err
	}
	if st.api, err = jsapi.New(jsapi.Options{Engine: st.engine, Logger: n.log}); err != nil {
		return nil, err
	}
	if err := st.register(n.registry, opts.Store.Prices); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	begun := time.Now()
	var ranges []engine.LogRange
	for _, r := range st.head.Logs() {
		ranges = append(ranges, engine.LogRange{Log: r.ID(), From: r.Start, To: r.End})
	}
	if err := st.engine.Recover(ctx, ranges); err != nil {
		return nil, fmt.Errorf("recovering the streams: %w", err)
	}
	n.log.Info("Recovered the streams", "logs", len(ranges), "took", time.Since(begun).Round(time.Millisecond))
	return st, nil
}

// requestPrices are the prices of single requests; nil where none are known.
func requestPrices(p *config.Prices) *metered.Prices {
	if p == nil {
		return nil
	}
	const lot = 1000
	return &metered.Prices{Get: p.Get / lot, Put: p.Put / lot, List: p.List / lot, Delete: p.Delete / lot}
}

// walOptions are the options of the node's log.
func walOptions(st *storage, opts *config.Options, registry prometheus.Registerer, log *slog.Logger) wal.Options {
	w := wal.Options{
		Store: st.store, ID: wal.LogID{Kind: wal.WriteAhead, Node: st.head.Node(), Epoch: st.head.Epoch()},
		Rate: opts.Store.CommitRate, Burst: opts.Store.CommitBurst, MaxBatchBytes: opts.Store.BatchBytes,
		// However long the store is away, what it did with a batch can be found out when it is back; until then
		// publishers are refused, and nothing is acknowledged.
		ResolveTimeout: -1,
		LazyWindow:     lazyWindow, Registerer: registry, Logger: log,
	}
	if st.opened.Kind == storeurl.S3 {
		if w.Rate == 0 {
			w.Rate, w.Burst = s3CommitRate, s3CommitBurst
		}
		w.LazyWindow = 0 // the log's default
	}
	if st.opened.Kind == storeurl.Dir {
		w.MaxInFlight, w.Gather = dirInFlight, dirGather
	}
	w.Rate = max(w.Rate, 0)
	return w
}

// serve gives JetStream to the accounts that are to have it, and sets the recovered streams going.
func (st *storage) serve(n *Node) error {
	d := n.directory
	all := d.Accounts()
	for _, a := range all {
		limits := a.JetStream
		if limits == nil && a == d.Default() && onlyDefault(d, all) {
			limits = &account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
				MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}
		}
		if a == d.System() {
			if err := st.api.AttachSystem(n.broker.Space(a.Name)); err != nil {
				return err
			}
			continue
		}
		if limits == nil && n.broker.Space(a.Name).ImportsService([]byte("$JS.API.INFO")) {
			st.api.Detach(n.broker.Space(a.Name)) // its JetStream is another account's
			continue
		}
		if limits == nil {
			if err := st.api.AttachDisabled(n.broker.Space(a.Name)); err != nil {
				return err
			}
			continue
		}
		if err := st.api.Attach(st.engine.Enable(a.Name, *limits)); err != nil {
			return err
		}
	}
	if st.started {
		return nil
	}
	st.started = true
	return st.engine.Start()
}

// onlyDefault reports whether no accounts are configured. As in nats-server clients have JetStream without more then;
// where accounts are configured, those have it that say so.
func onlyDefault(d *account.Directory, all []*account.Account) bool {
	return !slices.ContainsFunc(all, func(a *account.Account) bool { return a != d.Default() && a != d.System() })
}

// truncate makes a log begin at an offset: the head says so durably before anything is deleted.
func (st *storage) truncate(ctx context.Context, log wal.LogID, before wal.Offset) error {
	err := st.head.Update(ctx, func(h *head.Head) { h.Advance(log.Node, log.Epoch, before) })
	if err != nil {
		return fmt.Errorf("noting the start of the log: %w", err)
	}
	return wal.Truncate(ctx, st.store, log, before)
}

// history says how streams keep their segments.
func (st *storage) history(n *Node, opts *config.Store) engine.History {
	h := engine.History{
		// A write of the head that succeeds is what only its holder can do.
		Alive:       func(ctx context.Context) error { return st.head.Update(ctx, func(*head.Head) {}) },
		ReplayBytes: int(opts.Segments.ReplayBytes), Grace: opts.Segments.Grace, DeletedFor: opts.Segments.DeletedWithin, Every: opts.Segments.Every,
		Cache: cache.Options{
			MemoryBytes: opts.Cache.Memory, Folder: opts.Cache.Path, DiskBytes: opts.Cache.Disk,
			Registerer: n.registry, Logger: n.log,
		},
	}
	if key, _ := hex.DecodeString(opts.Segments.Key); len(key) > 0 { // it was validated
		h.SegmentKey = key
	}
	for _, text := range opts.Segments.OldKeys {
		key, _ := hex.DecodeString(text)
		h.OldKeys = append(h.OldKeys, key)
	}
	return h
}

// close writes everything out and gives the node's place up.
func (st *storage) close(ctx context.Context) error {
	var errs []error
	if st.casts != nil {
		errs = append(errs, st.casts.Stop(ctx))
	}
	if st.api != nil {
		st.api.Close()
	}
	if st.engine != nil && st.started {
		errs = append(errs, st.engine.Stop(ctx))
	}
	if st.wal != nil {
		errs = append(errs, st.wal.Close(ctx))
	}
	if st.beating != nil {
		st.beating()
		st.beaten.Wait()
	}
	if st.head != nil {
		if err := st.head.Release(ctx); err != nil && !errors.Is(err, head.ErrLost) {
			errs = append(errs, fmt.Errorf("releasing the node's head: %w", err))
		}
	}
	if st.opened != nil {
		errs = append(errs, st.opened.Close())
	}
	return errors.Join(errs...)
}
