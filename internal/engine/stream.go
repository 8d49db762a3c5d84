package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// Log is what a stream needs of the node's log.
type Log interface {
	ID() wal.LogID
	Append(e *wal.Entry) error
	// AppendGroup is Append for entries that are committed together or not at all.
	AppendGroup(entries ...*wal.Entry) error
	// Stalled is for how long the store has failed to take the oldest batch.
	Stalled() time.Duration
}

// Stream runs one stream. A goroutine owns the state machine, the consumers and the tail; everybody else reaches it
// through the inbox, so nothing of it is locked.
//
// A turn of the owner takes what waits and works it off in one order: what the log committed, commands, requests of
// consumers, publishes, timers, deliveries. Publishes that are accepted in a turn form a chunk, one entry of the log.
// A message becomes visible and is acknowledged when its entry comes back committed, in order; with storage: memory and
// with persist_mode: async, when it is accepted.
type Stream struct {
	engine  *Engine
	account *Account
	id      record.StreamID
	name    string
	created time.Time
	log     Log // nil: storage: memory
	inbox   *inbox
	done    chan struct{} // closed when the owner has ended
	facts
	held int64 // of max_bytes, in the pools; guarded by the account's mu

	subsMu sync.Mutex                      // guards subs
	subs   map[string]*broker.Subscription // by subject

	// What follows belongs to the owner.
	state        *stream.State
	effects      stream.Effects
	applying     uint64 // the message that is becoming visible: the consumers do not know it yet
	consumerFx   consumer.Effects
	now          time.Time // of this turn
	tail         tail
	history      history
	atHand       map[*past]*segment.Block // groups that were fetched, until the turn ends
	pub          *broker.Publisher
	consumers    map[string]*Consumer
	interested   interest
	ready        []*Consumer // have something to deliver, perhaps
	readySpare   []*Consumer
	touched      []*Consumer // by the change that is under way
	strange      []*Consumer // may have messages pending that do not pass their filter
	asked        []*Consumer // by the requests of this turn
	dirty        []*Consumer // have progress to be written
	settled      []uint64    // messages that retention has no use for, not written yet
	syncing      []*Consumer // have acknowledgements that want an answer once committed
	timers       timerHeap
	asyncPersist bool
	noAck        bool
	interestOnly bool // interest retention: what no consumer wants is not kept
	wants        func(subject []byte) bool
	allowAtomic  bool
	allowFast    bool
	counts       bool // a stream of counters
	ackPrefix    []byte
	scratch, to  []byte
	progress     []byte // scratch
	failed       error  // the log is lost: nothing is acknowledged any more
	ended        bool
	share        share

	mail           delivery
	nextPublish    int // first of mail.publishes that is not accepted yet
	heldBytes      int // of those
	building       *entry
	lastChunkBytes int
	sent           []*entry      // in the log's hands, oldest first
	inFlightBytes  int           // of messages that are accepted and not committed
	unsent         []*entry      // found the log full, or are held back
	quiet          []func(error) // wait until nothing is on its way to the log
	ahead          int           // how many of unsent go to the log before that
	lent           *loan         // the newest of sent is lent: what follows is held back
	errands        []func() bool // wait for their moment
	waiting        map[*chunk][]func(error)
	gets           []*directAnswer // answers of many messages that are under way
	gate           <-chan struct{}
	gateUntil      time.Time
	controlAt      mark        // from where on in the log the control records are complete
	recent         []timedMark // where the messages of the dedup window lie
	counting       bool        // a purge is under way
	deleting       bool        // its last record is on its way
	atomic         *stream.AtomicBatches
	fast           *stream.FastBatches
	fastReplies    []stream.FastReply // scratch
	forgetting     forgetting
	learning       bool               // a message is being read that a publish depends on
	firing         int                // schedules whose message is being read
	expiring       int                // entries under way that remove what was due
	due            stream.Due         // scratch
	origins        []*origin          // that the stream mirrors or sources
	readings       map[uint32]*origin // of those that are being read
	lastReading    uint32
	progressAt     time.Time // when consumers' progress is to be written; zero: none is pending

	// manifest belongs to the housekeeper. objects says that there may be objects of the stream in the store, erased
	// that the stream was deleted.
	manifest        keeper
	objects, erased atomic.Bool
}

// Name of the stream.
func (s *Stream) Name() string { return s.name }

// Created says when the stream was created.
func (s *Stream) Created() time.Time { return s.created }

// errStreamEnded: the stream was deleted or the server stops.
var errStreamEnded = errors.New("engine: the stream has ended")

// maxIdle is how long an owner sleeps at most without a timer of its own.
const maxIdle = time.Hour

// gatePatience is how long deliveries wait for a slow subscriber that asked for it; then they go on, and the
// subscriber's own bound decides.
const gatePatience = 10 * time.Millisecond

// run is the owner.
func (s *Stream) run() {
	defer close(s.done)
	timer := time.NewTimer(maxIdle)
	defer timer.Stop()
	for !s.ended {
		if !s.hasWork() {
			timer.Reset(s.idleFor(time.Now()))
			select {
			case <-s.inbox.wake:
			case <-timer.C:
			case <-s.gate:
				s.gate = nil
			}
		}
		s.turn(time.Now())
	}
	s.inbox.close()
	s.drainAfterEnd()
}

// hasWork reports whether a turn could go on without anything new.
func (s *Stream) hasWork() bool {
	if s.nextPublish < len(s.mail.publishes.letters) && s.mayAccept() {
		return true
	}
	return len(s.ready) > 0 && s.gate == nil || s.directWork()
}

// idleFor is how long nothing is due.
func (s *Stream) idleFor(now time.Time) time.Duration {
	next := now.Add(maxIdle)
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if s.mayExpire() {
		earlier(s.state.NextExpiry())
	}
	if s.mayFire() {
		earlier(s.state.NextFiring())
	}
	earlier(s.atomic.NextTimeout())
	earlier(s.fast.NextTimeout())
	if s.mayWriteProgress() {
		earlier(s.progressAt)
	}
	earlier(s.timers.next())
	earlier(s.nextOrigin())
	if s.gate != nil {
		earlier(s.gateUntil)
	}
	if len(s.unsent) > 0 && s.mayPass(s.unsent[0]) {
		earlier(now.Add(retryFull))
	}
	if s.nextPublish < len(s.mail.publishes.letters) {
		earlier(now.Add(stallCheck))
	}
	return max(next.Sub(now), 0)
}

// turn works off what waits.
func (s *Stream) turn(now time.Time) {
	s.now = now
	if s.gate != nil && !now.Before(s.gateUntil) {
		s.gate = nil
	}
	s.sendUnsent()
	if s.nextPublish >= len(s.mail.publishes.letters) && !s.learning {
		s.inbox.take(&s.mail, true, 0)
		s.nextPublish = 0
		s.heldBytes = len(s.mail.publishes.arena) + letterOverhead*len(s.mail.publishes.letters)
	} else {
		s.inbox.take(&s.mail, false, s.heldBytes)
	}
	s.returned(s.mail.committed)
	for _, f := range s.mail.commands {
		f()
	}
	if s.ended {
		s.pub.Flush()
		return
	}
	s.answerRequests(now)
	for _, reply := range s.mail.refused {
		s.refuse(reply, jserr.New(jserr.StreamTooManyRequests))
	}
	s.runErrands()
	s.publishWaiting(now)
	s.refuseStalled()
	s.expire()
	s.fire()
	s.closeStaleBatches()
	s.warnForgotten()
	s.runTimers(now)
	s.tendOrigins(now)
	s.deliver(now)
	s.serveGets()
	s.writeProgress(now)
	s.count()
	if gate := s.pub.Flush(); gate != nil && s.gate == nil {
		s.gate, s.gateUntil = gate, now.Add(gatePatience)
	}
	clear(s.atHand)
}

// fail ends acknowledging: the log is fenced, or its outcome cannot be known. What is in memory can still be read.
func (s *Stream) fail(err error) {
	if s.failed == nil {
		s.failed = err
		s.engine.lost(fmt.Errorf("stream %s: %w", s.name, err))
	}
}

// do runs f on the owner and waits for it. The owner waits for nothing, so this is a matter of its turn.
func (s *Stream) do(f func()) error {
	ran := make(chan struct{})
	if !s.inbox.command(func() { f(); close(ran) }) {
		return errStreamEnded
	}
	select {
	case <-ran:
		return nil
	case <-s.done:
		select {
		case <-ran:
			return nil
		default:
			return errStreamEnded
		}
	}
}

// doCommitted runs f on the owner, which may hand an entry to the log, and waits until that is committed. f returns
// nil when there is nothing to wait for.
func (s *Stream) doCommitted(ctx context.Context, f func() (*entry, error)) error {
	result := make(chan error, 1)
	if !s.inbox.command(func() { s.commit(f, result) }) {
		return errStreamEnded
	}
	return s.await(ctx, result)
}

// commit hands the entry that f makes to the log, if it makes one, and tells result what becomes of it.
func (s *Stream) commit(f func() (*entry, error), result chan<- error) {
	e, err := f()
	if e == nil || err != nil {
		result <- err
		return
	}
	e.then = append(e.then, func(err error) { result <- err })
	s.write(e)
}

// await waits for a result of the owner.
func (s *Stream) await(ctx context.Context, result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		select {
		case err := <-result:
			return err
		default:
			return errStreamEnded
		}
	}
}

// write sends control records to the log, behind the messages accepted so far. A stream without a log has them at once.
func (s *Stream) write(e *entry) {
	s.seal()
	if s.log == nil {
		s.committed(e)
		return
	}
	if s.failed != nil {
		e.Err = s.failed
		s.committed(e)
		return
	}
	s.append(e)
}
