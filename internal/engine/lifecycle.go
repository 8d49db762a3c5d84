package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// facts are what others may know of a stream without asking its owner.
type facts struct {
	up     chan struct{} // closed once the stream is up, or never will be
	isOpen atomic.Bool
	// standsIn: the mirror has been near its origin's end, so it answers direct gets in its place.
	standsIn atomic.Bool
	config   atomic.Pointer[api.StreamConfig]

	mu       sync.Mutex // guards what follows
	subjects []string   // that the stream listens on
	wanted   []string   // that an update is about to add
}

func (f *facts) isUp() bool { return f.isOpen.Load() }

func (f *facts) markUp() {
	f.isOpen.Store(true)
	close(f.up)
}

// Config is the stream's configuration as it was last committed. It is not to be changed.
func (f *facts) Config() api.StreamConfig { return *f.config.Load() }

func (f *facts) listensOn(subj string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return overlaps(f.subjects, []string{subj}) || overlaps(f.wanted, []string{subj})
}

func (f *facts) reserveSubjects(subjects []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = subjects
}

func (f *facts) settleSubjects() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subjects, f.wanted = f.Config().Subjects, nil
}

// newStream makes a stream that nobody runs yet.
func (e *Engine) newStream(a *Account, id record.StreamID, cfg api.StreamConfig, created time.Time) (*Stream, error) {
	state, err := stream.New(cfg, created)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		engine: e, account: a, id: id, name: cfg.Name, created: created,
		facts:     facts{up: make(chan struct{})},
		inbox:     newInbox(),
		done:      make(chan struct{}),
		state:     state,
		now:       time.Now(),
		pub:       a.space.NewPublisher(),
		subs:      map[string]*broker.Subscription{},
		consumers: map[string]*Consumer{},
		waiting:   map[*chunk][]func(error){},
		atHand:    map[*past]*segment.Block{},
	}
	if cfg.Storage == api.FileStorage {
		s.log = e.opts.Log
		s.tail.budget = e.tails
	}
	s.atomic, s.fast = stream.NewAtomicBatches(e.batches), stream.NewFastBatches(e.batches)
	s.configured(cfg)
	s.settleSubjects()
	s.effects.Each = s.removed
	s.share = s.newShare(cfg.Storage)
	return s, nil
}

// configured takes over what the owner reads of the configuration at every message.
func (s *Stream) configured(cfg api.StreamConfig) {
	s.facts.config.Store(&cfg)
	s.noAck = cfg.NoAck
	s.interestOnly, s.wants = cfg.Retention == api.InterestPolicy, nil
	if s.interestOnly {
		s.wants = s.hasInterest
	}
	s.asyncPersist = cfg.PersistMode == api.AsyncPersistMode
	s.configuredBatches(&cfg)
	s.ackPrefix = fmt.Appendf(nil, `{"stream":%q,`, cfg.Name)
	if d := s.engine.opts.Domain; d != "" {
		s.ackPrefix = fmt.Appendf(s.ackPrefix, `"domain":%q,`, d)
	}
	s.ackPrefix = append(s.ackPrefix, `"seq":`...)
}

// configEntry is the record of a configuration.
func (s *Stream) configEntry(body record.StreamConfigBody) (*entry, error) {
	data, err := record.AppendJSON(nil, record.StreamConfig, s.id, body)
	if err != nil {
		return nil, err
	}
	return s.newEntry(data, 1, false), nil
}

// update commits a new configuration and then lives by it.
func (s *Stream) update(ctx context.Context, cfg api.StreamConfig) error {
	return s.doCommitted(ctx, func() (*entry, error) {
		cfg, err := stream.CheckUpdate(s.Config(), cfg)
		if err != nil {
			return nil, err
		}
		if err := s.checkConsumerLimits(&cfg); err != nil {
			return nil, err
		}
		e, err := s.configEntry(record.StreamConfigBody{Account: s.account.name, Created: s.created, Config: cfg, Update: true})
		if err != nil {
			return nil, err
		}
		e.then = append(e.then, func(err error) {
			if err == nil {
				s.reconfigure(cfg)
			}
		})
		return e, nil
	})
}

// reconfigure applies a committed configuration.
func (s *Stream) reconfigure(cfg api.StreamConfig) {
	s.effects.Reset()
	if err := s.state.UpdateConfig(cfg, &s.effects); err != nil {
		s.fail(err) // CheckUpdate allowed it
		return
	}
	interest := cfg.Retention == api.InterestPolicy && !s.interestOnly
	s.configured(cfg)
	if interest {
		s.settleAll(nil) // what nobody wants was kept so far
	}
	s.applyDeadLetters()
	s.settleSubjects() // also when whoever asked for the update has given up waiting
	s.spread()
	s.openOrigins()
	if err := s.subscribe(cfg); err != nil {
		s.engine.opts.Logger.Error("subscribing to a stream's subjects", "stream", s.name, "error", err)
	}
}

// receiver routes messages of the broker into the stream's inbox.
type receiver struct {
	stream   *Stream
	kind     letterKind
	consumer *Consumer
}

// Deliver implements broker.Receiver.
func (r *receiver) Deliver(batch []broker.Delivery) <-chan struct{} {
	return r.stream.inbox.deliver(r.kind, r.consumer, batch)
}

// directGroup is the queue group of those who answer direct gets, as in NATS.
const directGroup = "_sys_"

// subscribe listens on the stream's subjects, on acknowledgements and on direct gets. Called again after a change of
// configuration, it keeps what stays, so that nothing is missed meanwhile.
func (s *Stream) subscribe(cfg api.StreamConfig) error {
	publishes := &receiver{stream: s, kind: letterPublish}
	acks := &receiver{stream: s, kind: letterAck}
	direct := &receiver{stream: s, kind: letterDirect}
	// Mirrors answer direct gets in their origin's place; of those who do, one is chosen.
	queues := map[string]string{}
	want := map[string]broker.Receiver{
		"$JS.ACK." + s.name + ".>":     acks,
		"$JS.ACK.*.*." + s.name + ".>": acks,
		"$JS.FC." + s.name + ".>":      &receiver{stream: s, kind: letterFlow},
	}
	for _, subj := range cfg.Subjects {
		want[subj] = publishes
	}
	answersFor := func(name string) {
		for _, subj := range s.engine.APISubjects(apiPrefix + "DIRECT.GET." + name) {
			for _, subj := range []string{subj, subj + ".>"} {
				want[subj], queues[subj] = direct, directGroup
			}
		}
	}
	if cfg.AllowDirect {
		answersFor(s.name)
	}
	if cfg.MirrorDirect && cfg.Mirror != nil && s.standsIn.Load() {
		answersFor(cfg.Mirror.Name)
	}
	s.subsMu.Lock()
	defer s.subsMu.Unlock()
	for subj, to := range want {
		if s.subs[subj] != nil {
			continue
		}
		sub, err := s.account.space.Subscribe(subj, queues[subj], to)
		if err != nil {
			return fmt.Errorf("engine: stream %s: subscribing to %s: %w", s.name, subj, err)
		}
		s.subs[subj] = sub
	}
	for subj, sub := range s.subs {
		if want[subj] == nil {
			s.account.space.Unsubscribe(sub)
			delete(s.subs, subj)
		}
	}
	return nil
}

func (s *Stream) unsubscribe() {
	s.subsMu.Lock()
	defer s.subsMu.Unlock()
	for _, sub := range s.subs {
		s.account.space.Unsubscribe(sub)
	}
	clear(s.subs)
}

// start sets a recovered stream going.
func (s *Stream) start() error {
	go s.run()
	if err := s.subscribe(s.Config()); err != nil {
		return err
	}
	s.inbox.command(func() {
		for _, c := range s.consumers {
			c.start()
		}
		s.settleAll(nil)
		s.openOrigins()
	})
	s.markUp()
	return nil
}

// finish ends the stream for a clean stop: what is accepted goes to the log, and so does the consumers' progress.
func (s *Stream) finish() {
	s.unsubscribe()
	s.closeOrigins(false)
	s.endQuiet(errStreamEnded)
	s.sendUnsent()
	s.answerRequests(s.now)
	s.mail.requests.reset()
	s.seal()
	for _, c := range s.consumers {
		c.machine.ServerStops(&s.consumerFx)
		c.changed(s.now)
		c.stop()
	}
	if s.log == nil || s.failed != nil {
		s.ended = true
		return
	}
	data, records := s.progressRecords(nil)
	e := s.newEntry(data, records, false)
	s.appendSettled(e)
	if e.Records == 0 && len(s.sent)+len(s.unsent) == 0 {
		s.ended = true
		return
	}
	ended := func(error) { s.ended = true }
	if e.Records == 0 {
		last := s.lastOut()
		last.then = append(last.then, ended)
		return
	}
	e.then = append(e.then, ended)
	s.write(e)
}

// deleted ends the stream because it does not exist any more.
func (s *Stream) deleted() {
	s.unsubscribe()
	s.closeOrigins(true)
	for _, c := range s.consumers {
		c.deleted()
	}
	s.tail.release()
	s.share.set(0)
	s.end()
}

// end makes this turn the last one.
func (s *Stream) end() {
	s.isOpen.Store(false)
	s.closeOrigins(false)
	s.ended = true
	s.pub.Flush()
}

// drainAfterEnd answers what was queued behind the end.
func (s *Stream) drainAfterEnd() {
	s.inbox.take(&s.mail, false, 0)
	s.closeBatches()
	s.tail.release()
	s.pub.Flush()
}

var _ wal.Sink = (*Stream)(nil)
