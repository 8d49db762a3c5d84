package wal

import (
	"fmt"
	"time"
)

// entryCost is what an entry without data counts against MaxPendingBytes: its memory, and its sink's beside it.
const entryCost = 128

// batchState is where a batch is on its way.
type batchState uint8

const (
	forming  batchState = iota
	putting             // a create is under way
	checking            // the key is being read back
	waiting             // for retryAt, then a create or a check again
	settled             // its object is in the store
)

// batch is the entries of one object, from the first entry on until they are committed.
type batch struct {
	entries []*Entry
	bytes   int // of data
	records int
	cost    int64 // against MaxPendingBytes
	hurried int   // records of entries that are not lazy
	opened  time.Time
	lazy    time.Time // when the first lazy entry came; zero: none

	offset   Offset
	begun    time.Time // when it was cut
	state    batchState
	check    bool // waiting: read back next, else create again
	retryAt  time.Time
	attempts int
	trouble  time.Time // when the first attempt failed; zero: none did
	lastErr  error

	// The committer's part: the machine does not look at it.
	putID  PutID
	object []byte
}

// machine decides when batches are cut, written, read back, given up and committed. It does no I/O and has no clock:
// it is told what happened and when, and answers with what is to be done. Its methods take constant time, or time
// proportional to MaxInFlight.
//
// The life of a batch:
//
//	forming --budget, room--> putting --ok--> settled --all earlier ones are--> committed
//	                          |    ^
//	        refused or doubtful|    |absent: the same bytes again
//	                          v    |
//	                         checking --mine--> settled
//	                                  --fence, another's--> the log is dead
//
// with a wait before every repeated create or check. A definite "nothing written" repeats the create without a check.
type machine struct {
	opts Options

	// queue holds the batches that are not cut yet; only the last one still grows. Every other one is full.
	queue    []*batch
	inFlight []*batch // by offset; those that are settled wait for the first one
	next     Offset
	pending  int64 // cost of all entries that are not committed
	closing  bool
	err      error // why the log is dead

	tokens   float64
	tokensAt time.Time

	gathering gathering

	// What would change the machine's mind before the time that step gave.
	wakeUrgent, wakeLazy, wakeFull, wakeComplete bool

	free []*batch // for reuse
}

// maxFree bounds the batches kept for reuse, maxFreeEntries the entries that each may have room for.
const (
	maxFree        = 4
	maxFreeEntries = 64 << 10
)

func newMachine(opts Options, now time.Time) *machine {
	return &machine{opts: opts, tokens: float64(opts.Burst), tokensAt: now, gathering: gathering{fraction: opts.Gather}}
}

// append accepts an entry or says why not. wake tells that step has something to decide. now is asked rarely: reading
// the clock costs as much as all the rest.
func (m *machine) append(e *Entry, now func() time.Time) (wake bool, err error) {
	if err := m.takes(); err != nil {
		return false, err
	}
	return m.add(m.form(len(e.Data), now), e, now), nil
}

// takes says why nothing more is accepted now, if so.
func (m *machine) takes() error {
	switch {
	case m.err != nil:
		return m.err
	case m.closing:
		return ErrClosed
	case m.pending >= m.opts.MaxPendingBytes:
		return ErrFull
	}
	return nil
}

// add puts an entry into the last batch of the queue.
func (m *machine) add(b *batch, e *Entry, now func() time.Time) (wake bool) {
	n := len(e.Data)
	b.entries = append(b.entries, e)
	b.bytes += n
	b.records += e.Records
	cost := int64(n + entryCost)
	b.cost += cost
	m.pending += cost
	if e.Lazy {
		if b.lazy.IsZero() {
			b.lazy = now()
		}
		wake = m.wakeLazy
	} else {
		b.hurried += e.Records
		wake = m.wakeUrgent
	}
	wake = wake || m.wakeFull && m.full() || m.wakeComplete && m.gathering.complete(b)
	if wake {
		m.wakeUrgent, m.wakeLazy, m.wakeFull, m.wakeComplete = false, false, false, false
	}
	return wake
}

// form gives the batch that the next n bytes belong to.
func (m *machine) form(n int, now func() time.Time) *batch {
	if len(m.queue) > 0 {
		if b := m.queue[len(m.queue)-1]; b.bytes+n <= m.opts.MaxBatchBytes {
			return b
		}
	}
	b := &batch{}
	if last := len(m.free) - 1; last >= 0 {
		b, m.free = m.free[last], m.free[:last]
	}
	b.opened = now()
	m.queue = append(m.queue, b)
	return b
}

// full reports whether the first batch of the queue cannot grow any more.
func (m *machine) full() bool {
	return len(m.queue) > 1 || len(m.queue) == 1 && m.queue[0].bytes >= m.opts.MaxBatchBytes
}

// actionKind is what the committer is to do with a batch.
type actionKind uint8

const (
	actPut    actionKind = iota + 1 // create its object, answer with putDone
	actCheck                        // read its key back, answer with checkDone
	actCommit                       // its entries are committed: tell the sinks, then recycle
)

type action struct {
	kind  actionKind
	batch *batch
}

// step appends to actions what is to be done now (commits in order, the rest in any order), and gives the time at which to call it again at the latest (zero:
// only when something happened). After the machine's death nothing is to be done but drain.
func (m *machine) step(now time.Time, actions []action) (_ []action, at time.Time) {
	soonest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, b := range m.inFlight {
		if m.err != nil {
			return actions, time.Time{}
		}
		actions = m.retry(b, now, actions, soonest)
	}
	if m.err != nil {
		return actions, time.Time{}
	}
	for len(m.inFlight) > 0 && m.inFlight[0].state == settled {
		b := m.inFlight[0]
		m.inFlight[0] = nil
		m.inFlight = m.inFlight[1:]
		m.pending -= b.cost
		m.gathering.committed(b, m.queue, now)
		actions = append(actions, action{actCommit, b})
	}
	return m.cut(now, actions, soonest), at
}

// retry goes on with a batch whose wait is over, and gives up on one that has been in trouble for too long.
func (m *machine) retry(b *batch, now time.Time, actions []action, soonest func(time.Time)) []action {
	if b.state == settled || b.trouble.IsZero() {
		return actions
	}
	if m.opts.ResolveTimeout > 0 {
		deadline := b.trouble.Add(m.opts.ResolveTimeout)
		if !now.Before(deadline) {
			m.die(fmt.Errorf("%w: %s for %v: %w", ErrUnresolved, m.opts.ID.Key(b.offset), m.opts.ResolveTimeout, b.lastErr))
			return actions
		}
		soonest(deadline)
	}
	if b.state != waiting {
		return actions
	}
	if now.Before(b.retryAt) {
		soonest(b.retryAt)
		return actions
	}
	if b.check {
		b.state = checking
		return append(actions, action{actCheck, b})
	}
	b.state = putting
	return append(actions, action{actPut, b})
}

// cut starts the batches whose time has come, as far as the pipeline has room, or notes what they wait for.
func (m *machine) cut(now time.Time, actions []action, soonest func(time.Time)) []action {
	m.wakeUrgent, m.wakeLazy, m.wakeFull, m.wakeComplete = false, false, false, false
	m.refill(now)
	for len(m.inFlight) < m.opts.MaxInFlight {
		if len(m.queue) == 0 {
			m.wakeUrgent, m.wakeLazy = true, true
			return actions
		}
		b := m.queue[0]
		if !m.full() && !m.closing {
			if due := b.lazy.Add(m.opts.LazyWindow); b.hurried == 0 && now.Before(due) {
				m.wakeUrgent, m.wakeFull = true, true
				soonest(due)
				return actions
			}
			if m.opts.Rate > 0 && m.tokens < 1 {
				m.wakeFull = true
				soonest(now.Add(m.tokenIn()))
				return actions
			}
			if b.hurried > 0 && m.gathering.wait(b, now) {
				m.wakeFull, m.wakeComplete = true, true
				soonest(m.gathering.until)
				return actions
			}
		}
		m.tokens = max(0, m.tokens-1) // a full batch takes a token if there is one
		m.gathering.cut(b)
		m.queue[0] = nil
		m.queue = m.queue[1:]
		b.offset, b.state, b.begun = m.next, putting, now
		m.next++
		m.inFlight = append(m.inFlight, b)
		actions = append(actions, action{actPut, b})
	}
	return actions
}

// refill adds the tokens that the time since the last call is worth.
func (m *machine) refill(now time.Time) {
	if passed := now.Sub(m.tokensAt); passed > 0 {
		m.tokens = min(float64(m.opts.Burst), m.tokens+m.opts.Rate*passed.Seconds())
		m.tokensAt = now
	}
}

// tokenIn is how long the next token takes, rounded up so that it is there when the time has come.
func (m *machine) tokenIn() time.Duration {
	return time.Duration((1-m.tokens)/m.opts.Rate*float64(time.Second)) + time.Microsecond
}

// putDone tells how a create ended.
func (m *machine) putDone(b *batch, err error, now time.Time) {
	if m.err != nil {
		return
	}
	switch outcomeOf(err) {
	case landed:
		b.state = settled
	case impossible:
		m.die(fmt.Errorf("create %s: %w", m.opts.ID.Key(b.offset), err))
	case doubtful:
		m.inTrouble(b, err, now)
		b.state, b.check = waiting, true
		if b.attempts == 1 {
			b.retryAt = now // the first doubt is looked into at once: it delays everything behind
		}
	case definitelyNothing:
		m.inTrouble(b, err, now)
		b.state, b.check = waiting, false
	}
}

// finding is what a check found at the key of a batch.
type finding uint8

const (
	foundMine    finding = iota + 1 // this batch
	foundFence                      // a fence
	foundOther                      // another writer's batch
	foundNothing                    // no object
	foundUnknown                    // the check failed
)

// checkDone tells what a check found; err has the details where it did not find this batch.
func (m *machine) checkDone(b *batch, found finding, err error, now time.Time) {
	if m.err != nil {
		return
	}
	switch found {
	case foundMine:
		b.state = settled
	case foundFence:
		m.die(err)
	case foundOther:
		m.die(fmt.Errorf("%w: %w", ErrLost, err))
	case foundNothing:
		b.state, b.check = waiting, false
		b.retryAt = now
		if b.attempts > 1 {
			b.retryAt = now.Add(backoff(b.attempts, b.putID[0]))
		}
	case foundUnknown:
		m.inTrouble(b, err, now)
		b.state, b.check = waiting, true
	}
}

// inTrouble counts a failed attempt and sets when to try again.
func (m *machine) inTrouble(b *batch, err error, now time.Time) {
	if b.trouble.IsZero() {
		b.trouble = now
	}
	b.attempts++
	b.lastErr = err
	b.retryAt = now.Add(backoff(b.attempts, b.putID[0]))
}

// stalled is since when the store has failed to settle the oldest batch; zero: it has not.
func (m *machine) stalled() time.Time {
	for _, b := range m.inFlight {
		if b.state != settled {
			return b.trouble
		}
	}
	return time.Time{}
}

// die ends the machine; the first reason stands.
func (m *machine) die(err error) {
	if m.err == nil {
		m.err = err
	}
}

// finished reports whether everything that was accepted is committed and nothing more will be accepted.
func (m *machine) finished() bool {
	return m.closing && len(m.queue) == 0 && len(m.inFlight) == 0
}

// drain gives up all batches of a dead machine, in order.
func (m *machine) drain() []*batch {
	all := append(m.inFlight, m.queue...)
	m.inFlight, m.queue, m.free, m.pending = nil, nil, nil, 0
	return all
}

// recycle takes a committed batch for reuse.
func (m *machine) recycle(b *batch) {
	if len(m.free) >= maxFree || cap(b.entries) > maxFreeEntries {
		return
	}
	clear(b.entries)
	*b = batch{entries: b.entries[:0]}
	m.free = append(m.free, b)
}
