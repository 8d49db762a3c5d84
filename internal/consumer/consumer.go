// Package consumer is the state machine of a JetStream consumer: what it has delivered, what waits to be acknowledged,
// and who waits for messages. It does no I/O, has no clock and takes no locks: whoever owns the stream calls it with
// the time, carries out the [Effects] that it appends, and fetches and publishes the messages that it chooses.
//
// Delivery has two phases, since a message's bytes may have to be fetched: [Consumer.Peek] names the next message,
// [Consumer.Take] commits to delivering it, [Consumer.Undelivered] takes that back when nobody was there.
//
// What must survive a crash is handed out as a stream of small changes by [Consumer.Progress]; replaying them with
// [Consumer.ApplyProgress] gives the same state. Losing the newest changes only leads to redelivery.
//
// The behaviour is that of nats-server; see https://docs.nats.io/nats-concepts/jetstream/consumers, and ADR-15 and
// ADR-37 of github.com/nats-io/nats-architecture-and-design for the wire.
package consumer

import (
	"math"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// Messages is a consumer's view of its stream: the visible messages that pass its filter. Times are Unix nanoseconds.
type Messages interface {
	// Next is the lowest sequence at or above from.
	Next(from uint64) (seq uint64, ok bool)
	// Pending counts the messages at or above from.
	Pending(from uint64) uint64
	// Last is the highest sequence; 0 when there is none.
	Last() uint64
	// Bounds are the first and last sequence of the stream whatever the filter. When it is empty, first is last+1.
	Bounds() (first, last uint64)
	// SeqAt is the first sequence of the stream, whatever the filter, stored at or after t, and last+1 when all are older.
	SeqAt(t int64) uint64
	// Has reports whether a message is in the stream, whatever the filter.
	Has(seq uint64) bool
	// LastPerSubject lists, ascending, the newest message at or below upTo of each subject. The caller owns the slice.
	LastPerSubject(upTo uint64) []uint64
}

// Options are what a consumer is made of.
type Options struct {
	Stream  string
	Name    string
	Config  api.ConsumerConfig // as CheckConfig returned it
	Created time.Time
	// Messages is what there is to deliver.
	Messages Messages
	// MaxMsgsPerSubject is the stream's limit. With 1, delivering the last message per subject is delivering all.
	MaxMsgsPerSubject int64
	// Retains is set for streams that let messages go once they are settled (work queue and interest): Effects.Settled
	// is filled only then.
	Retains bool
	// MaxPayload is the burst of the rate limit in bytes, the largest message of the stream; 0 means 1 MiB.
	MaxPayload int
	// Listening, when set, tells whether somebody listens on a reply subject. Pull requests of those who left are then
	// dropped before the consumer counts them. It must not wait.
	Listening func(reply string) bool
	// DeadLetters is what SetDeadLetters says to begin with.
	DeadLetters DeathCause
	// Seed makes the ids of flow control messages and the sampling of acknowledgements differ between consumers.
	Seed uint64
}

const defaultMaxPayload = 1 << 20

// Consumer is the state of one consumer. One goroutine owns it.
type Consumer struct {
	cfg      api.ConsumerConfig
	stream   string
	name     string
	created  time.Time
	messages Messages
	opts     Options

	// Derived from cfg.
	push       bool
	ackNone    bool
	ackUpTo    bool  // an acknowledgement is one for all before it too
	ackByFlow  bool  // acknowledgements are answers to flow control messages
	ackWait    int64 // nanoseconds
	maxDeliver uint32
	maxPending int // 0: no limit
	sample     int // percent
	threshold  int64
	ackPrefix  []byte // "$JS.ACK.<stream>.<consumer>."

	running    bool   // Resume was called
	placed     bool   // it has a position
	cursor     uint64 // the next new message is at or above this sequence
	from       uint64 // the cursor never lies below: set where the filter changed
	numPending uint64 // messages at or above cursor, or in skip
	skip       skipList
	delivered  sequences
	floor      sequences
	deliverAt  int64 // last delivery, 0: none
	ackAt      int64 // last acknowledgement, 0: none

	pending   pendingList
	deadlines deadlineHeap
	redeliver redeliverQueue
	exhausted seqSet // messages that reached max_deliver and were not acknowledged
	dead      morgue
	// strangers: pending sequences up to this one may not pass the filter, since the filter changed after their delivery.
	strangers uint64

	waiting waitingQueue
	pin     pin
	active  bool // push: somebody listens on the deliver subject
	flow    flowControl
	rate    tokenBucket
	replay  replayPace
	rand    uint64

	peek      peeked
	undo      undo
	unsettled uint64 // what Take delivered last with AckNone, until it cannot be taken back any more
	dirty     changes

	inactiveAt int64 // when to call the consumer inactive, 0: never
	activeAt   int64 // last sign of life of a pull consumer
	pauseUntil int64 // 0: not paused
	beatAt     int64 // push: when the next idle heartbeat is due, 0: never

	expired []uint64 // scratch
}

// sequences are a consumer sequence and the stream sequence that belongs to it.
type sequences struct{ consumer, stream uint64 }

// New makes a consumer that starts where its deliver policy says.
func New(o Options, now time.Time) *Consumer {
	c := Restore(o)
	c.Resume(now)
	return c
}

// Restore makes a consumer that takes up its past: call ApplyProgress for all that Progress gave out, in order, then
// Resume, before anything else. Without a past it starts as New does.
func Restore(o Options) *Consumer {
	if o.MaxPayload <= 0 {
		o.MaxPayload = defaultMaxPayload
	}
	c := &Consumer{
		stream:   o.Stream,
		name:     o.Name,
		created:  o.Created,
		messages: o.Messages,
		opts:     o,
		rand:     o.Seed ^ 0x9e3779b97f4a7c15,
		dead:     morgue{causes: o.DeadLetters},
	}
	c.ackPrefix = append(c.ackPrefix, "$JS.ACK."...)
	c.ackPrefix = append(c.ackPrefix, o.Stream...)
	c.ackPrefix = append(c.ackPrefix, '.')
	c.ackPrefix = append(c.ackPrefix, o.Name...)
	c.ackPrefix = append(c.ackPrefix, '.')
	c.derive(o.Config)
	c.waiting.max = c.cfg.MaxWaiting
	c.replay.on = c.cfg.ReplayPolicy == api.ReplayOriginal
	if c.cfg.FlowControl {
		c.flow.init()
	}
	return c
}

// derive takes over a configuration.
func (c *Consumer) derive(cfg api.ConsumerConfig) {
	c.cfg = cfg
	c.push = cfg.DeliverSubject != ""
	c.ackNone = cfg.AckPolicy == api.AckNone
	c.ackByFlow = cfg.AckPolicy == api.AckFlowControl
	c.ackUpTo = cfg.AckPolicy == api.AckAll || c.ackByFlow
	c.waiting.sort(cfg.PriorityPolicy == api.PriorityPrioritized)
	c.ackWait = int64(cfg.AckWait)
	c.maxDeliver = uint32(min(max(cfg.MaxDeliver, 0), 1<<31))
	c.maxPending = 0
	if !c.ackNone {
		c.maxPending = max(cfg.MaxAckPending, 0)
	}
	c.sample = samplePercent(cfg.SampleFrequency)
	c.threshold = int64(cfg.InactiveThreshold)
	c.pauseUntil = 0
	if !cfg.PauseUntil.IsZero() {
		c.pauseUntil = cfg.PauseUntil.UnixNano()
	}
	c.rate.set(cfg.RateLimit, c.opts.MaxPayload)
}

// Resume makes a consumer ready after the changes of its past were replayed: what depends on the stream is counted
// anew, and the timers start. New does it by itself.
func (c *Consumer) Resume(now time.Time) {
	t := now.UnixNano()
	if !c.placed {
		c.placed, c.dirty.whole = true, true
		c.start()
	}
	c.cursor = max(c.delivered.stream+1, c.skip.upTo+1, c.from)
	c.running = true
	c.findStrangers()
	c.skip.resume(c.messages, c.delivered.stream)
	c.settlePurged(nil)
	c.resumeDead()
	c.recount()
	for i, e := range c.pending.all {
		if e.deadline == 0 {
			c.enqueue(i)
		}
	}
	c.rebuildDeadlines()
	_, last := c.messages.Bounds()
	c.replay.until = last
	c.activeAt = t
	if c.threshold > 0 {
		c.inactiveAt = later(t, c.threshold)
	}
	if c.push && c.cfg.Heartbeat > 0 {
		c.beatAt = later(t, int64(c.cfg.Heartbeat))
	}
	if c.pauseUntil <= t {
		c.pauseUntil = 0
	}
	c.rate.fill(t)
}

// later is t+d, or the end of time where that is too large to count.
func later(t, d int64) int64 {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// Name is the consumer's name.
func (c *Consumer) Name() string { return c.name }

// Config is the consumer's configuration. The caller must not change what it points to.
func (c *Consumer) Config() api.ConsumerConfig { return c.cfg }

// Push reports whether messages go to a deliver subject rather than to pull requests.
func (c *Consumer) Push() bool { return c.push }

// random is the next number of a sequence that depends on Options.Seed alone (splitmix64).
func (c *Consumer) random() uint64 {
	c.rand += 0x9e3779b97f4a7c15
	z := c.rand
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
