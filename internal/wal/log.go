package wal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Log is a log that is being written. Open makes one; Append, Close and the rest may be called concurrently.
//
// # What the store's errors do
//
// A log waits rather than dies: what it accepted and did not commit stays pending, nothing later is acknowledged, and
// Append refuses with ErrFull once MaxPendingBytes have gathered, which callers turn into back-pressure and then into
// a clear error. When the store recovers, everything goes on by itself.
//
//   - "Nothing was written" (throttled, full, no such bucket, access denied, connection refused): the create is
//     repeated with the same bytes, after 50 ms and then ever longer, up to 2 s.
//   - Doubt (unknown outcome, a refused precondition, a timeout): the key is read back. My put id: committed. Absent:
//     the create is repeated. The read fails: it is repeated, with the same waits.
//   - A fence, or another writer's put id: the log is dead (ErrFenced, ErrLost).
//   - A batch in trouble for ResolveTimeout, counted from its first failed attempt: the log is dead (ErrUnresolved).
//     Death is for liveness alone, so that nobody waits for ever: however long a doubt lasts, resolving it stays safe.
//   - An invalid key can never succeed: the log is dead.
//
// A dead log hands every pending entry back with Err set and takes no more. Those entries may or may not be in the
// store: a replay after fencing the log tells.
type Log struct {
	opts    Options
	metrics *metrics
	wake    chan struct{} // the machine may have something to decide
	results chan result   // of attempts; has room for all of them
	done    chan struct{}

	// attempts to use the store end with it.
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards the following; it is held for moments, never across a wait.
	mu sync.Mutex
	m  *machine
}

// result is how one attempt of the committer ended.
type result struct {
	batch   *batch
	checked bool // the key was read back
	found   finding
	err     error
}

// Open starts a writer at offset 0 of a fresh epoch. It needs no request to the store. Close ends it.
func Open(opts Options) (*Log, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	met, err := newMetrics(opts.Registerer, opts.ID)
	if err != nil {
		return nil, fmt.Errorf("wal: register metrics: %w", err)
	}
	l := &Log{
		opts:    opts,
		metrics: met,
		wake:    make(chan struct{}, 1),
		results: make(chan result, opts.MaxInFlight),
		done:    make(chan struct{}),
		m:       newMachine(opts, time.Now()),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l, nil
}

// ID names the log.
func (l *Log) ID() LogID { return l.opts.ID }

// Append accepts an entry: it will be committed after everything that was accepted before, or handed back with Err
// set. Append never waits for the store, and takes the entry's data without copying it. The errors, upon which the
// entry was not taken: ErrFull, ErrEntry, ErrClosed, or what killed the log (ErrFenced, ErrLost, ErrUnresolved).
func (l *Log) Append(e *Entry) error {
	if len(e.Data) == 0 || len(e.Data) > l.opts.MaxEntryBytes || e.Records < 1 {
		return fmt.Errorf("%w: %d records in %d bytes, want 1 to %d", ErrEntry, e.Records, len(e.Data), l.opts.MaxEntryBytes)
	}
	l.mu.Lock()
	wake, err := l.m.append(e, time.Now)
	l.mu.Unlock()
	if wake {
		l.signal()
	}
	return err
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it has not seen the last one yet
	}
}

// Done is closed when the log has ended: all entries are handed back and no goroutine of it is left.
func (l *Log) Done() <-chan struct{} { return l.done }

// Err says why the log is dead; nil while it lives and after a Close that committed everything.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.err
}

// Stalled is for how long the store has failed to settle the oldest batch; 0 when all is well. Who answers clients uses
// it to refuse early what would only time out.
func (l *Log) Stalled() time.Duration {
	l.mu.Lock()
	since := l.m.stalled()
	l.mu.Unlock()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// PendingBytes is what counts against MaxPendingBytes now.
func (l *Log) PendingBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.pending
}

// Close commits everything that was accepted, whatever the budget and LazyWindow say, and ends the log. When ctx ends
// before, what is pending is handed back with Err set, as when a log dies. It returns what the log died of.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.m.closing = true
	l.mu.Unlock()
	l.signal()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.mu.Lock()
		l.m.die(fmt.Errorf("%w before everything was committed: %w", ErrClosed, ctx.Err()))
		l.mu.Unlock()
		l.signal()
		<-l.done
	}
	return l.Err()
}

// run is the log's own goroutine: it tells the machine what happened, does what it says, and talks to the sinks.
func (l *Log) run() {
	defer close(l.done)
	defer l.cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	attempts := 0 // under way
	var (
		actions []action
		results []result
		at      time.Time
	)
	for {
		actions = actions[:0]
		l.mu.Lock()
		now := time.Now()
		for _, r := range results {
			l.tell(r, now)
		}
		actions, at = l.m.step(now, actions)
		dead, finished, pending := l.m.err != nil, l.m.finished(), l.m.pending
		l.mu.Unlock()

		l.metrics.pending.Set(float64(pending))
		attempts += l.start(actions) - len(results)
		l.commit(actions, now)
		clear(actions)
		if dead || finished {
			l.end(attempts)
			return
		}
		if at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(at.Sub(now))
		}
		results = results[:0]
		select {
		case r := <-l.results:
			results = append(results, r)
		case <-l.wake:
		case <-timer.C:
		}
		for n := len(l.results); n > 0; n-- {
			results = append(results, <-l.results)
		}
	}
}

// tell passes a result to the machine. The caller holds mu.
func (l *Log) tell(r result, now time.Time) {
	if r.checked {
		l.m.checkDone(r.batch, r.found, r.err, now)
		return
	}
	l.m.putDone(r.batch, r.err, now)
}

// start begins the attempts among the actions.
func (l *Log) start(actions []action) (started int) {
	for _, a := range actions {
		switch a.kind {
		case actPut:
			if a.batch.putID == (PutID{}) {
				a.batch.putID = l.drawPutID()
			}
			go l.put(a.batch)
		case actCheck:
			go l.check(a.batch)
		default:
			continue
		}
		started++
	}
	return started
}

// commit hands the entries of committed batches back.
func (l *Log) commit(actions []action, now time.Time) {
	for _, a := range actions {
		if a.kind != actCommit {
			continue
		}
		b := a.batch
		l.metrics.committed(b, now)
		l.release(b)
		handBack(b.entries)
		l.mu.Lock()
		l.m.recycle(b)
		l.mu.Unlock()
	}
}

// end hands back what a dead log will never commit, and waits for its goroutines.
func (l *Log) end(attempts int) {
	l.cancel()
	l.mu.Lock()
	err := l.m.err
	batches := l.m.drain()
	l.mu.Unlock()
	if err != nil {
		l.opts.Logger.Error("log has ended", "log", l.opts.ID.String(), "error", err, "batches_not_committed", len(batches))
	}
	// The attempts first: one that still encodes a batch sets its entries' positions.
	for ; attempts > 0; attempts-- {
		<-l.results
	}
	for _, b := range batches {
		for _, e := range b.entries {
			e.Err = err
		}
		handBack(b.entries)
	}
	l.metrics.pending.Set(0)
}

// drawPutID gives a fresh put id. Without a source of randomness nothing may be written.
func (l *Log) drawPutID() (id PutID) {
	if _, err := io.ReadFull(l.opts.Rand, id[:]); err != nil {
		panic(fmt.Sprintf("wal: read random bytes: %v", err)) // crypto/rand never fails
	}
	return id
}
