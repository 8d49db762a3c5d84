package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// life is one process that runs a node.
type life struct {
	number  int
	world   *world
	link    *link
	head    *head.Claimed
	log     *wal.Log
	engine  *engine.Engine
	account *engine.Account
	session *session
	ops     sync.WaitGroup // requests to the API under way

	stopBeating context.CancelFunc
	beating     sync.WaitGroup
	started     bool
	lost        atomic.Pointer[string] // why the process has to stop
	contested   atomic.Bool            // somebody else has begun to take over, or may
}

// begin starts a process under a name, in the way of a node (internal/node).
func (w *world) begin(ctx context.Context, name, host string) (*life, error) {
	w.lives++
	l := &life{number: w.lives, world: w}
	w.runs.Store(l.number, true)
	l.link = newLink(w.faulty, w.seed+uint64(l.number), w.plan.latency, &w.requests)
	err := l.claim(ctx, name, host)
	if err == nil {
		err = l.open(ctx)
	}
	if err != nil {
		l.kill()
		return nil, err
	}
	return l, nil
}

func (l *life) claim(ctx context.Context, name, host string) (err error) {
	w := l.world
	l.head, err = head.Claim(ctx, l.link, head.Options{
		Names: []string{name}, Host: host, PID: l.number, PIDRuns: w.running,
	})
	if err != nil {
		return err
	}
	beat, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.stopBeating = cancel
	l.beating.Go(func() {
		if err := l.head.Run(beat); errors.Is(err, head.ErrLost) {
			l.lose(err)
		}
	})
	return nil
}

// label is what a stream of this process is in the history. A process that was taken over from may know an earlier
// incarnation of the stream that comes and goes.
func (l *life) label(stream string) string {
	if stream == comes && l.contested.Load() {
		return "stale"
	}
	return l.world.label(stream)
}

func (l *life) lose(err error) {
	text := err.Error()
	l.lost.CompareAndSwap(nil, &text)
}

func (l *life) open(ctx context.Context) (err error) {
	w := l.world
	o := w.plan.wal
	st := store.Store(l.link)
	if w.opts.wrapLink != nil {
		st = w.opts.wrapLink(st)
	}
	o.Store, o.ID = st, wal.LogID{Kind: wal.WriteAhead, Node: l.head.Node(), Epoch: l.head.Epoch()}
	if l.log, err = wal.Open(o); err != nil {
		return err
	}
	b := broker.New(broker.Options{})
	opts := w.plan.engine
	opts.Broker, opts.Store, opts.Log = b, l.link, engine.Log(l.log)
	if w.opts.wrapLog != nil {
		opts.Log = w.opts.wrapLog(l.log)
	}
	opts.Truncate, opts.Lost = l.truncate, l.lose
	if w.plan.segments {
		opts.Alive = func(ctx context.Context) error { return l.head.Update(ctx, func(*head.Head) {}) }
	}
	if l.engine, err = engine.New(opts); err != nil {
		return err
	}
	var ranges []engine.LogRange
	for _, r := range l.head.Logs() {
		if w.opts.forgetEnd && r.End > r.Start {
			r.End--
		}
		ranges = append(ranges, engine.LogRange{Log: r.ID(), From: r.Start, To: r.End})
	}
	w.journal.note(l.number, "node %q runs in epoch %d and replays %v", l.head.Node(), l.head.Epoch(), ranges)
	if err := l.engine.Recover(ctx, ranges); err != nil {
		return fmt.Errorf("%w: %w", errRecovery, err)
	}
	l.account = l.engine.Enable(accountName, account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1})
	if l.session, err = newSession(l.number, l.account.Space(), &w.journal, l.label); err != nil {
		return err
	}
	l.session.newest = w.newest
	l.started = true
	w.journal.add(Event{Kind: LifeBegun, Life: l.number, Text: l.head.Node()})
	return l.engine.Start()
}

var errRecovery = errors.New("recovering the streams")

const accountName = "A"

// truncate is the truncator of internal/node.
func (l *life) truncate(ctx context.Context, log wal.LogID, before wal.Offset) error {
	before += wal.Offset(l.world.opts.truncateMore)
	if l.world.opts.truncateFirst {
		if err := wal.Truncate(ctx, l.link, log, before); err != nil {
			return err
		}
	}
	if err := l.head.Update(ctx, func(h *head.Head) { h.Advance(log.Node, log.Epoch, before) }); err != nil {
		return err
	}
	return wal.Truncate(ctx, l.link, log, before)
}

// kill ends the process between one instant and the next. Its goroutines are let go; whatever they do meanwhile
// reaches nobody.
func (l *life) kill() {
	l.world.runs.Delete(l.number)
	if l.session != nil {
		l.session.gone.Store(true)
	}
	l.link.cut()
	if l.stopBeating != nil {
		l.stopBeating()
		l.beating.Wait()
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if l.engine != nil {
		_ = l.engine.Stop(over)
	}
	if l.log != nil {
		_ = l.log.Close(over)
	}
	if l.started {
		wait, cancel := context.WithTimeout(context.Background(), time.Hour)
		if err := l.engine.Stop(wait); err != nil {
			l.world.fault("the goroutines of a dead engine do not end: %v", err)
		}
		cancel()
	}
	l.ops.Wait()
}

// stop is a clean shutdown, as of internal/node.
func (l *life) stop(ctx context.Context) error {
	err := errors.Join(l.engine.Stop(ctx), l.log.Close(ctx))
	l.stopBeating()
	l.beating.Wait()
	if err == nil {
		err = l.head.Release(ctx)
	}
	return err
}

// op makes a request to the API, as jsapi does, while the driver goes on.
func (l *life) op(f func(context.Context)) {
	l.ops.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		f(ctx)
	})
}

// answerWithin is how long the API waits for the log.
const answerWithin = 60 * time.Second
