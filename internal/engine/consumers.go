package engine

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// CreateConsumer creates a consumer, or changes the one of that name as the request's action allows. What it answers is
// committed.
func (s *Stream) CreateConsumer(ctx context.Context, ask api.JSApiConsumerCreateRequest) (api.ConsumerInfo, error) {
	info, release, err := s.CreateHeldConsumer(ctx, ask)
	if err == nil {
		release()
	}
	return info, err
}

// CreateHeldConsumer is CreateConsumer for callers who have something to do before a new consumer delivers: they call
// release then.
func (s *Stream) CreateHeldConsumer(ctx context.Context, ask api.JSApiConsumerCreateRequest) (info api.ConsumerInfo, release func(), err error) {
	var c *Consumer
	for {
		var settled <-chan struct{}
		err = s.doCommitted(ctx, func() (e *entry, err error) {
			if settled = s.unsettledConsumer(&ask.Config); settled == nil {
				c, e, err = s.createConsumer(ask)
			}
			return e, err
		})
		if err != nil {
			return info, nil, consumerError(err)
		}
		if settled == nil {
			break
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return info, nil, ctx.Err()
		case <-s.done:
			return info, nil, consumerError(errStreamEnded)
		}
	}
	if err = s.do(func() { info = s.consumerInfo(c) }); err != nil {
		return info, nil, consumerError(err)
	}
	return info, func() { s.inbox.command(c.release) }, nil
}

// unsettledConsumer gives the consumer of a configuration's name time to come or to go, if it is about to: a channel
// that is closed when it has. A record about it now would follow its deletion in the log, or be answered before its
// creation is committed.
func (s *Stream) unsettledConsumer(cfg *api.ConsumerConfig) <-chan struct{} {
	c := s.consumers[cmp.Or(cfg.Name, cfg.Durable)]
	switch {
	case c == nil:
		return nil
	case c.dropping:
		return c.over
	case !c.started && c.heldUntil.IsZero():
		return c.up
	}
	return nil
}

// consumerError is what the API answers when the stream ended meanwhile.
func consumerError(err error) error {
	if errors.Is(err, errStreamEnded) {
		return jserr.New(jserr.StreamNotFound)
	}
	return err
}

// createConsumer decides on a request. The entry is nil when there is nothing to commit.
func (s *Stream) createConsumer(ask api.JSApiConsumerCreateRequest) (*Consumer, *entry, error) {
	s.adaptSourcing(&ask.Config)
	cfg, err := consumer.CheckConfig(ask.Config, s.Config(), s.account.consumerLimits(), ask.Pedantic)
	if err != nil {
		return nil, nil, err
	}
	name := cfg.Name
	if name == "" {
		name = cfg.Durable
	}
	if name == "" {
		name = s.freeName()
	}
	cfg.Name = name
	var existing *consumer.Existing
	c := s.consumers[name]
	if c != nil {
		existing = &consumer.Existing{Config: c.machine.Config(), Bound: c.bound()}
	}
	cfg, changed, err := consumer.Resolve(ask.Action, cfg, existing)
	if err != nil || !changed {
		if err == nil && cfg.Sourcing {
			s.startOver(c)
		}
		return c, nil, err
	}
	if c == nil {
		if err := s.checkMaxConsumers(&cfg); err != nil {
			return nil, nil, err
		}
	}
	if err := s.checkWorkQueue(&cfg, c); err != nil {
		return nil, nil, err
	}
	if c != nil {
		e, err := s.updateConsumer(c, cfg)
		return c, e, err
	}
	return s.addConsumer(name, cfg)
}

func (s *Stream) checkWorkQueue(cfg *api.ConsumerConfig, except *Consumer) error {
	if s.Config().Retention != api.WorkQueuePolicy {
		return nil
	}
	var others []api.ConsumerConfig
	for _, c := range s.consumers {
		if c != except {
			others = append(others, c.machine.Config())
		}
	}
	return consumer.CheckWorkQueue(cfg, others, except == nil)
}

// checkMaxConsumers refuses a new consumer beyond what the stream, the server or the account allows.
func (s *Stream) checkMaxConsumers(cfg *api.ConsumerConfig) error {
	limits := s.account.Limits()
	most := s.Config().MaxConsumers
	if most <= 0 {
		most = s.engine.limits.Load().MaxConsumers
	}
	if limits.MaxConsumers > 0 && (most <= 0 || limits.MaxConsumers < most) {
		most = limits.MaxConsumers
	}
	if most > 0 && limited(cfg) && s.countConsumers(limited) >= most {
		return jserr.New(jserr.MaximumConsumersLimit)
	}
	return nil
}

// checkConsumerLimits refuses an update of the stream that lowers its limits of consumers below what one of them has.
func (s *Stream) checkConsumerLimits(cfg *api.StreamConfig) error {
	now, was := cfg.ConsumerLimits, s.Config().ConsumerLimits
	if now == was {
		return nil
	}
	var beyond []string
	for name, c := range s.consumers {
		has := c.machine.Config()
		if now.InactiveThreshold > 0 && has.InactiveThreshold > now.InactiveThreshold || now.MaxAckPending > 0 && has.MaxAckPending > now.MaxAckPending {
			beyond = append(beyond, name)
		}
	}
	if len(beyond) == 0 {
		return nil
	}
	slices.Sort(beyond)
	return jserr.New(jserr.StreamUpdate, "err", "change to limits violates consumers: "+strings.Join(beyond, ", "))
}

// addConsumer makes a new consumer. It counts what becomes visible from now on, and delivers once it is committed.
func (s *Stream) addConsumer(name string, cfg api.ConsumerConfig) (*Consumer, *entry, error) {
	c, err := s.newConsumer(name, cfg, time.Now().UTC(), true)
	if err != nil {
		return nil, nil, err
	}
	if !c.logged {
		c.hold()
		s.announceConsumer(c, wasCreated)
		return c, nil, nil
	}
	e, err := s.consumerEntry(c)
	if err != nil {
		s.forgetConsumer(c)
		return nil, nil, err
	}
	e.then = append(e.then, func(err error) {
		if err == nil {
			c.hold()
			s.announceConsumer(c, wasCreated)
		}
	})
	return c, e, nil
}

// newConsumer makes a consumer and enters it. fresh consumers take up their position now; the others when they have
// been told their past.
func (s *Stream) newConsumer(name string, cfg api.ConsumerConfig, created time.Time, fresh bool) (*Consumer, error) {
	filter, err := stream.CompileFilter(consumer.Filters(&cfg)...)
	if err != nil {
		return nil, jserr.New(jserr.ConsumerCreate, "err", err)
	}
	c := &Consumer{stream: s, name: name, filter: filter, timerIndex: -1, up: make(chan struct{}), over: make(chan struct{})}
	c.logged = s.log != nil && !cfg.MemoryStorage && !cfg.Direct
	opts := consumer.Options{
		Stream: s.name, Name: name, Config: cfg, Created: created,
		Messages:          view{s.state, filter},
		MaxMsgsPerSubject: s.Config().MaxMsgsPer,
		Retains:           s.Config().Retention != api.LimitsPolicy,
		Listening:         s.account.space.HasInterest,
		Seed:              rand.Uint64(),
	}
	if fresh {
		c.machine = consumer.New(opts, s.now)
	} else {
		c.machine = consumer.Restore(opts)
	}
	c.applyDeadLetters()
	s.consumers[name] = c
	s.interested.add(c)
	return c, nil
}

// consumerEntry is the record of a consumer's configuration, with its position.
func (s *Stream) consumerEntry(c *Consumer) (*entry, error) {
	cfg := c.machine.Config()
	info := c.machine.Info(s.now, &s.consumerFx)
	data, err := record.AppendJSON(nil, record.ConsumerConfig, s.id, record.ConsumerConfigBody{Name: c.name, Created: info.Created, Config: cfg})
	if err != nil {
		return nil, err
	}
	records := 1
	if p := c.machine.Progress(nil); len(p) > 0 {
		data = record.AppendConsumer(data, record.ConsumerProgress, s.id, c.name, p)
		records++
	}
	return s.newEntry(data, records, false), nil
}

// updateConsumer changes a consumer's configuration once that is committed.
func (s *Stream) updateConsumer(c *Consumer, cfg api.ConsumerConfig) (*entry, error) {
	apply := func(err error) {
		if err == nil && !c.gone {
			s.reconfigureConsumer(c, cfg)
			if cfg.Sourcing {
				s.startOver(c)
			}
		}
	}
	if !c.logged {
		apply(nil)
		return nil, nil
	}
	data, err := record.AppendJSON(nil, record.ConsumerConfig, s.id, record.ConsumerConfigBody{Name: c.name, Config: cfg})
	if err != nil {
		return nil, err
	}
	e := s.newEntry(data, 1, false)
	e.then = append(e.then, apply)
	return e, nil
}

// reconfigureConsumer applies a committed configuration.
func (s *Stream) reconfigureConsumer(c *Consumer, cfg api.ConsumerConfig) {
	old := c.machine.Config()
	var messages consumer.Messages
	if !consumer.SameFilters(&old, &cfg) {
		filter, err := stream.CompileFilter(consumer.Filters(&cfg)...)
		if err != nil {
			s.engine.opts.Logger.Error("a consumer's new filter is not valid", "stream", s.name, "consumer", c.name, "error", err)
			return
		}
		s.interested.remove(c)
		c.filter = filter
		s.interested.add(c)
		messages = view{s.state, filter}
	}
	c.machine.UpdateConfig(cfg, messages, s.now, &s.consumerFx)
	c.applyDeadLetters()
	s.noteStranger(c)
	if old.DeliverSubject != cfg.DeliverSubject && (c.started || !c.heldUntil.IsZero()) {
		c.unlisten()
		c.listen()
	}
	c.wake()
	c.changed(s.now)
}

// start lets a consumer deliver.
func (c *Consumer) start() {
	close(c.up)
	c.listen()
	c.release()
}

// listen subscribes to a consumer's pull requests, which one that pushes refuses, and watches who listens on its deliver
// subject.
func (c *Consumer) listen() {
	s := c.stream
	cfg := c.machine.Config()
	to := &receiver{stream: s, kind: letterNext, consumer: c}
	for _, subj := range s.engine.APISubjects(apiPrefix + "CONSUMER.MSG.NEXT." + s.name + "." + c.name) {
		sub, err := s.account.space.Subscribe(subj, "", to)
		if err != nil {
			s.engine.opts.Logger.Error("subscribing to a consumer's pull requests", "stream", s.name, "consumer", c.name, "error", err)
			return
		}
		c.next = append(c.next, sub)
	}
	if cfg.DeliverSubject == "" {
		return
	}
	want := broker.PlainInterest()
	if cfg.DeliverGroup != "" {
		want = broker.QueueInterest(cfg.DeliverGroup)
	}
	c.unwatch = s.account.space.WatchInterest(cfg.DeliverSubject, want, func(interested bool) {
		s.inbox.command(func() {
			if !c.gone {
				c.machine.Interest(interested, s.now)
				c.wake()
				c.changed(s.now)
			}
		})
	})
	if s.account.space.HasInterestOf(cfg.DeliverSubject, want) {
		c.machine.Interest(true, s.now)
	}
}

func (c *Consumer) unlisten() {
	for _, sub := range c.next {
		c.stream.account.space.Unsubscribe(sub)
	}
	c.next = nil
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
}

// bound reports whether somebody listens on a push consumer's deliver subject.
func (c *Consumer) bound() bool {
	cfg := c.machine.Config()
	return cfg.DeliverSubject != "" && c.stream.account.space.HasInterest(cfg.DeliverSubject)
}

// stop ends a consumer's part in the broker; its state stays.
func (c *Consumer) stop() {
	c.unlisten()
	c.stream.timers.set(c, time.Time{})
}

// deleted ends a consumer that does not exist any more; who waits for messages is told.
func (c *Consumer) deleted() {
	c.stream.announceConsumer(c, wasDeleted)
	c.stop()
	c.machine.Deleted(&c.stream.consumerFx)
	c.changed(c.stream.now)
	c.gone = true
	close(c.over)
	c.stream.forgetConsumer(c)
	if !c.stream.ended {
		c.stream.settleAll(c.filter)
	}
}

func (s *Stream) forgetConsumer(c *Consumer) {
	if s.consumers[c.name] == c {
		delete(s.consumers, c.name)
	}
	s.interested.remove(c)
	s.forgetStranger(c)
	s.timers.set(c, time.Time{})
}

// DeleteConsumer deletes a consumer; it is gone, also after a crash, when this returns.
func (s *Stream) DeleteConsumer(ctx context.Context, name string) error {
	err := s.doCommitted(ctx, func() (*entry, error) {
		c := s.consumers[name]
		if c == nil {
			return nil, jserr.New(jserr.ConsumerNotFound)
		}
		return s.deleteConsumer(c), nil
	})
	return consumerError(err)
}

// deleteConsumer ends a consumer, at once or with its record.
func (s *Stream) deleteConsumer(c *Consumer) *entry {
	if !c.logged {
		c.deleted()
		return nil
	}
	c.dropping = true
	e := s.newEntry(record.Append(nil, record.ConsumerDelete, s.id, []byte(c.name)), 1, false)
	e.then = append(e.then, func(err error) {
		if err == nil && !c.gone {
			c.deleted()
		}
	})
	return e
}

// dropInactive deletes a consumer that nobody uses any more.
func (s *Stream) dropInactive(c *Consumer) {
	if c.gone || c.dropping {
		return
	}
	if e := s.deleteConsumer(c); e != nil {
		s.write(e)
	}
}

// ConsumerNames lists the consumers by name, without the direct ones of mirrors and sources.
func (s *Stream) ConsumerNames() (names []string, err error) {
	err = s.do(func() {
		for name, c := range s.consumers {
			if cfg := c.machine.Config(); public(&cfg) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	})
	return names, consumerError(err)
}

// ConsumerInfo tells how a consumer stands.
func (s *Stream) ConsumerInfo(name string) (info api.ConsumerInfo, err error) {
	found := false
	err = s.do(func() {
		if c := s.consumers[name]; c != nil {
			info, found = s.consumerInfo(c), true
		}
	})
	if err == nil && !found {
		err = jserr.New(jserr.ConsumerNotFound)
	}
	return info, consumerError(err)
}

func (s *Stream) consumerInfo(c *Consumer) api.ConsumerInfo {
	info := c.machine.Info(s.now, &s.consumerFx)
	c.changed(s.now)
	return info
}

// PauseConsumer suspends a consumer's deliveries until a time, or resumes them when that has passed.
func (s *Stream) PauseConsumer(ctx context.Context, name string, until time.Time) (time.Time, error) {
	err := s.doCommitted(ctx, func() (*entry, error) {
		c := s.consumers[name]
		if c == nil || c.dropping {
			return nil, jserr.New(jserr.ConsumerNotFound)
		}
		c.machine.Pause(until, s.now, &s.consumerFx)
		c.wake()
		c.changed(s.now)
		if !c.logged {
			return nil, nil
		}
		return s.consumerEntry(c)
	})
	return until, consumerError(err)
}
