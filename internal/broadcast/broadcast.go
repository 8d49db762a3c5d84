// Package broadcast carries rare messages to every node that shares the store, through one batched log per node and no
// connection between nodes.
//
// # The way of a broadcast
//
// The intake is an ordinary subscription to the broadcast subjects of an account. What it hears is gathered for a window,
// written as one batch of the node's broadcast log, and then the node's head is moved to it. Every node lists the heads
// again and again, reads those that have changed, fetches the batches between its position and what the head tells, and
// delivers them to its own subscribers.
//
// # Invariants
//
//  1. A broadcast is acknowledged when its batch is in the store and the head says so. The head is moved by
//     compare-and-swap, so a writer that has lost its node can neither show a batch to anybody nor acknowledge it.
//  2. An epoch is in the head (BroadcastLogs) before its first batch is created, and the one before it is fenced and has
//     its end there. So the head alone tells what there is to read: no reader looks for the end of a log.
//  3. A reader's position in a node's logs moves only after a batch was delivered whole, and batches are delivered in the
//     order of their offsets. So within one run of a process, each is delivered once.
//  4. Batches are deleted only below a start that the head has told before. A reader that was not there in time sees the
//     start beyond its position: a gap, which it announces.
//  5. What comes out of a log is never taken in again: its deliveries carry an origin of this package, which the intakes
//     ignore.
package broadcast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/subject"
	"github.com/sluicemq/sluice/internal/wal"
)

var (
	// ErrFull: too much waits for the store; the broadcast was not taken.
	ErrFull = errors.New("broadcast: too much waits for the store")
	// ErrTooLarge: the message does not fit into a batch; it was not taken.
	ErrTooLarge = errors.New("broadcast: message is larger than a batch")
	// ErrClosed: the server is stopping; the broadcast was not taken.
	ErrClosed = errors.New("broadcast: closed")
	// ErrUnknown: the log ended before the broadcast was acknowledged. Others may see it or not.
	ErrUnknown = errors.New("broadcast: it is not known whether the message was stored")
	// ErrSubject: the subject cannot be broadcast to.
	ErrSubject = errors.New("broadcast: invalid subject")
	// ErrAccount: the node has no such account.
	ErrAccount = errors.New("broadcast: no such account")
)

// Head is what the package needs of the node's own head; a *head.Claimed is one.
type Head interface {
	Node() string
	Epoch() wal.Epoch
	Head() *head.Head
	Update(ctx context.Context, change func(*head.Head)) error
}

// Receipt tells where a broadcast lies in the log. It is the acknowledgement's JSON.
type Receipt struct {
	Broadcast bool       `json:"broadcast"`
	Node      string     `json:"node"`
	Epoch     wal.Epoch  `json:"epoch"`
	Offset    wal.Offset `json:"offset"`
}

// Service broadcasts for a node and delivers what others broadcast. Start makes one. All methods may be called
// concurrently.
type Service struct {
	opts    Options
	metrics *metrics
	origin  *broker.Origin // of deliveries that come out of a log
	queue   *queue
	log     *wal.Log
	journal *journal
	poller  *poller
	intakes []*intake

	cancel context.CancelFunc // ends polling and retention
	loops  sync.WaitGroup
	abort  context.CancelFunc // ends the writer in the middle of its work
	writer sync.WaitGroup

	mu   sync.Mutex // guards what follows
	outs map[string]*outlet
}

// Start fences the node's previous broadcast log, opens that of this epoch, begins to poll, and subscribes to the
// broadcast subjects. It begins at the newest batch of each node: what was broadcast before it returns may not be heard,
// what is broadcast afterwards is. Stop ends it.
func Start(ctx context.Context, opts Options) (*Service, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	met, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, fmt.Errorf("broadcast: register metrics: %w", err)
	}
	s := &Service{
		opts: opts, metrics: met, queue: newQueue(&opts, met), outs: map[string]*outlet{},
		origin: &broker.Origin{Kind: "System", Name: "broadcast"},
	}
	s.journal = &journal{opts: &s.opts, metrics: met, id: wal.LogID{Kind: wal.Broadcast, Node: opts.Head.Node(), Epoch: opts.Head.Epoch()}, begun: time.Now()}
	if err := s.journal.open(ctx); err != nil {
		return nil, err
	}
	s.poller = newPoller(s)
	if err := s.poller.begin(ctx); err != nil {
		return nil, err
	}
	s.log, err = wal.Open(wal.Options{
		Store: opts.Store, ID: s.journal.id, MaxBatchBytes: opts.MaxBatch, MaxEntryBytes: opts.MaxBatch + maxRecordOverhead,
		MaxPendingBytes: int64(opts.MaxPending), MaxInFlight: 1, ResolveTimeout: -1, Compress: opts.Compress,
		Registerer: opts.Registerer, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	background := context.WithoutCancel(ctx)
	loops, cancel := context.WithCancel(background)
	work, abort := context.WithCancel(background)
	s.cancel, s.abort = cancel, abort
	s.loops.Go(func() { s.poller.run(loops) })
	s.loops.Go(func() { s.journal.retain(loops) })
	s.writer.Go(func() { s.write(work) })
	if err := s.subscribe(); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

// subscribe begins to take in what is published to broadcast subjects.
func (s *Service) subscribe() error {
	for name, subjects := range s.opts.Subjects {
		out := s.outlet(name)
		if out == nil {
			return fmt.Errorf("%w: %q", ErrAccount, name)
		}
		for _, subj := range subjects {
			sub, err := out.space.Subscribe(subj, "", out.intake)
			if err != nil {
				return err
			}
			out.intake.subs = append(out.intake.subs, sub)
		}
		s.intakes = append(s.intakes, out.intake)
	}
	return nil
}

// Broadcast sends a message to the subscribers of all nodes, this one's first, and returns when the message is durable.
// The subject need not be one of the configured ones. header is a whole NATS header block, or empty. When ctx ends
// before, the message may be broadcast all the same. The errors: ErrFull, ErrTooLarge, ErrClosed, ErrUnknown, ErrSubject,
// ErrAccount.
func (s *Service) Broadcast(ctx context.Context, account, subj string, header, data []byte) (Receipt, error) {
	if !subject.ValidLiteral(subj) {
		return Receipt{}, fmt.Errorf("%w: %q", ErrSubject, subj)
	}
	out := s.outlet(account)
	if out == nil {
		return Receipt{}, fmt.Errorf("%w: %q", ErrAccount, account)
	}
	m := Message{Account: account, Msg: broker.Msg{Subject: []byte(subj), Header: header, Data: data}}
	done := make(chan outcome, 1)
	if err := s.queue.put(m, answer{done: done}); err != nil {
		return Receipt{}, err
	}
	out.deliver(m.Msg)
	out.flush(ctx)
	select {
	case o := <-done:
		return o.receipt, o.err
	case <-ctx.Done():
		return Receipt{}, ctx.Err()
	}
}

// Poke makes the node look for news at once: a hint that some head has moved. It never waits.
func (s *Service) Poke() { s.poller.poke() }

// Stop takes nothing more in, writes out what was taken, and ends polling. What is not written when ctx ends is answered
// with ErrUnknown.
func (s *Service) Stop(ctx context.Context) error {
	s.cancel()
	s.loops.Wait()
	for _, in := range s.intakes {
		for _, sub := range in.subs {
			in.out.space.Unsubscribe(sub)
		}
	}
	s.queue.close()
	written := make(chan struct{})
	go func() { s.writer.Wait(); close(written) }()
	select {
	case <-written:
	case <-ctx.Done():
		s.abort()
		<-written
	}
	err := s.log.Close(ctx)
	s.abort()
	if errors.Is(err, wal.ErrFenced) || errors.Is(err, wal.ErrLost) {
		err = nil // whoever runs the node hears of that from its head
	}
	return err
}

// outlet gives an account's way to its subscribers; nil: there is no such account.
func (s *Service) outlet(account string) *outlet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.outs[account]; o != nil {
		return o
	}
	space := s.opts.Space(account)
	if space == nil {
		return nil
	}
	o := newOutlet(s, space)
	s.outs[account] = o
	return o
}

// advise publishes an event of this server in the system account.
func (s *Service) advise(name string, event any) {
	if s.opts.System == nil {
		return
	}
	body, err := json.Marshal(event)
	if err != nil {
		return
	}
	s.opts.System.PublishOnce(broker.Msg{Subject: []byte("$SYS.SERVER." + s.opts.ServerID + "." + name), Data: body})
}
