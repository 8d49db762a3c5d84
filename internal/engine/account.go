package engine

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/subject"
)

// Account is the JetStream of one account: its streams by name.
type Account struct {
	engine *Engine
	name   string
	space  *broker.Space
	pools  pools

	mu      sync.Mutex // guards what follows
	limits  *account.JetStreamLimits
	streams map[string]*Stream
	offline map[string]error // by the names of streams that are held offline
}

// Name of the account.
func (a *Account) Name() string { return a.name }

// Space is the account's subject space.
func (a *Account) Space() *broker.Space { return a.space }

// Limits of the account.
func (a *Account) Limits() account.JetStreamLimits {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits == nil {
		return account.JetStreamLimits{}
	}
	return *a.limits
}

func (a *Account) setLimits(l account.JetStreamLimits) {
	a.mu.Lock()
	a.limits = &l
	a.mu.Unlock()
	a.pools.limit(l.MaxMemory, l.MaxStore)
}

func (a *Account) enabled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limits != nil
}

// Stream gives a stream by name, or JetStream's "stream not found".
func (a *Account) Stream(name string) (*Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.streams[name]; s != nil && s.isUp() {
		return s, nil
	}
	if err := a.offline[name]; err != nil {
		return nil, jserr.New(jserr.StreamOfflineReason, "err", err)
	}
	return nil, jserr.New(jserr.StreamNotFound)
}

// Streams lists the streams by name; a filter keeps those with a subject that overlaps it.
func (a *Account) Streams(filter string) []*Stream {
	var kept []*Stream
	for _, s := range a.list() {
		if s.isUp() && (filter == "" || s.listensOn(filter)) {
			kept = append(kept, s)
		}
	}
	return kept
}

func (a *Account) list() []*Stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*Stream, 0, len(a.streams))
	for _, s := range a.streams {
		all = append(all, s)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// checkLimits are what the checks of a configuration need to know of the account.
func (a *Account) checkLimits() stream.Limits {
	l := a.Limits()
	return stream.Limits{
		MaxBytesRequired: l.MaxBytesRequired, Duplicates: a.engine.limits.Load().DuplicateWindow,
		MemoryMaxStreamBytes: l.MemoryMaxStreamBytes, StoreMaxStreamBytes: l.StoreMaxStreamBytes, Settles: true,
		Lookup: a.lookup,
	}
}

// lookup finds a stream's configuration.
func (a *Account) lookup(name string) (api.StreamConfig, bool) {
	s, err := a.Stream(name)
	if err != nil {
		return api.StreamConfig{}, false
	}
	return s.Config(), true
}

// consumerLimits are the tighter of the account's and the server's.
func (a *Account) consumerLimits() consumer.Limits {
	server := a.engine.limits.Load()
	l := consumer.Limits{MaxAckPending: server.MaxAckPending, MaxRequestBatch: server.MaxRequestBatch}
	if own := a.Limits().MaxAckPending; own > 0 && (l.MaxAckPending <= 0 || own < l.MaxAckPending) {
		l.MaxAckPending = own
	}
	return l
}

// CreateStream creates a stream and returns it once its record is committed. Creating the same stream with the same
// configuration again gives the one that is there.
func (a *Account) CreateStream(ctx context.Context, asked api.StreamConfig, pedantic bool) (*Stream, error) {
	cfg, err := stream.CheckCreate(asked, a.checkLimits(), pedantic)
	if err == nil {
		err = consumer.CheckStreamDeadLetter(&cfg)
	}
	if err != nil {
		return nil, err
	}
	s, isNew, err := a.reserve(cfg)
	for err == nil && !isNew && !s.isUp() {
		// Somebody else is creating it.
		select {
		case <-s.up:
			s, isNew, err = a.reserve(cfg)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil || !isNew {
		return s, err
	}
	go s.run()
	if err := s.create(ctx, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// create commits the record that makes a stream exist. When ctx ends before, the record is under way all the same: the
// name stays taken, and the stream comes up when it is committed.
func (s *Stream) create(ctx context.Context, cfg api.StreamConfig) error {
	body := record.StreamConfigBody{Account: s.account.name, Created: s.created, Config: cfg}
	err := s.doCommitted(ctx, func() (*entry, error) {
		e, err := s.configEntry(body)
		if err != nil {
			s.notCreated()
			return nil, err
		}
		e.then = append(e.then, func(err error) {
			if err == nil {
				err = s.subscribe(cfg)
			}
			if err != nil {
				s.notCreated()
				return
			}
			if s.log != nil {
				s.controlAt = s.engine.mark(place{log: s.log.ID(), pos: e.Position})
			}
			s.markUp()
			s.openOrigins()
			s.announce(wasCreated)
		})
		return e, nil
	})
	if errors.Is(err, errStreamEnded) {
		s.account.forget(s)
	}
	return err
}

// notCreated ends a stream that never was.
func (s *Stream) notCreated() {
	s.account.forget(s)
	s.unsubscribe()
	close(s.up)
	s.end()
}

// reserve makes a stream under its name, unless there is one already, which may not be up yet. What another stream may collide with is held
// from here on, though the stream is not up yet.
func (a *Account) reserve(cfg api.StreamConfig) (s *Stream, isNew bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.streams[cfg.Name]; s != nil {
		if stream.Identical(s.Config(), cfg) {
			return s, false, nil
		}
		return nil, false, jserr.New(jserr.StreamNameExist)
	}
	if err := a.offline[cfg.Name]; err != nil {
		return nil, false, jserr.New(jserr.StreamOfflineReason, "err", err)
	}
	if a.limits != nil && a.limits.MaxStreams > 0 && len(a.streams) >= a.limits.MaxStreams {
		return nil, false, jserr.New(jserr.MaximumStreamsLimit)
	}
	if err := a.hold(nil, &cfg); err != nil {
		return nil, false, err
	}
	if err = a.overlapping(nil, cfg.Subjects); err == nil {
		s, err = a.engine.newStream(a, newStreamID(), cfg, time.Now().UTC())
	}
	if err != nil {
		a.release(cfg.Storage, max(cfg.MaxBytes, 0))
		return nil, false, err
	}
	s.held = max(cfg.MaxBytes, 0)
	a.streams[cfg.Name] = s
	return s, true, nil
}

// overlapping refuses subjects that another stream listens on. mu is held.
func (a *Account) overlapping(except *Stream, subjects []string) error {
	for _, s := range a.streams {
		if s == except {
			continue
		}
		for _, subj := range subjects {
			if s.listensOn(subj) {
				return jserr.New(jserr.StreamSubjectOverlap)
			}
		}
	}
	return nil
}

// UpdateStream changes a stream's configuration.
func (a *Account) UpdateStream(ctx context.Context, asked api.StreamConfig, pedantic bool) (*Stream, error) {
	cfg, err := stream.CheckConfig(asked, a.checkLimits(), pedantic)
	if err == nil {
		err = consumer.CheckStreamDeadLetter(&cfg)
	}
	if err != nil {
		return nil, err
	}
	s, err := a.Stream(cfg.Name)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	if err = a.overlapping(s, cfg.Subjects); err == nil {
		err = a.hold(s, &cfg)
	}
	if err == nil {
		s.reserveSubjects(cfg.Subjects)
	}
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, cfg)
	s.settleSubjects()
	a.settleHold(s)
	if err == nil {
		s.announce(wasUpdated)
	}
	if errors.Is(err, errStreamEnded) {
		err = jserr.New(jserr.StreamNotFound)
	}
	return s, err
}

// DeleteStream deletes a stream; it is gone, also after a crash, when this returns.
func (a *Account) DeleteStream(ctx context.Context, name string) error {
	if a.isOffline(name) {
		return a.deleteOffline(ctx, name)
	}
	s, err := a.Stream(name)
	if err != nil {
		return err
	}
	err = s.doCommitted(ctx, func() (*entry, error) {
		e := s.newEntry(record.Append(nil, record.StreamDelete, s.id, nil), 1, false)
		e.then = append(e.then, func(err error) {
			if err == nil {
				a.forget(s)
				s.deleted()
				s.leaveBehind(e)
			}
		})
		s.seal()
		s.deleting = true // nothing of the stream follows its end
		return e, nil
	})
	if err == nil {
		s.announce(wasDeleted)
	}
	if errors.Is(err, errStreamEnded) {
		return jserr.New(jserr.StreamNotFound)
	}
	return err
}

func (a *Account) forget(s *Stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[s.name] == s {
		delete(a.streams, s.name)
		a.release(s.Config().Storage, s.held)
		s.held = 0
	}
}

// overlaps reports whether two lists of subjects reach a common one.
func overlaps(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if subject.Overlap(x, y) {
				return true
			}
		}
	}
	return false
}
