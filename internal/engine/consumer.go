package engine

import (
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// deliverBurst is how many messages one consumer gets at a turn before the next has its turn.
const deliverBurst = 256

// Consumer runs one consumer. It belongs to the owner of its stream.
type Consumer struct {
	stream  *Stream
	name    string
	machine *consumer.Consumer
	filter  *stream.Filter
	// logged consumers survive a restart: those of a stream with a log that do not ask for memory storage.
	logged bool

	next    []*broker.Subscription // pull requests
	unwatch func()                 // interest in the deliver subject

	started    bool          // may deliver
	heldUntil  time.Time     // when it starts at the latest, while its creation is not answered; zero: it is not held
	up         chan struct{} // closed when it may deliver
	over       chan struct{} // closed when it is deleted
	dropping   bool          // its deletion is on its way
	isAsked    bool          // in the stream's list of those that were told something
	ready      bool          // in the stream's list
	dirty      bool          // has progress to be written
	parked     bool          // waits for a message's bytes
	retryAt    time.Time     // when a message that could not be read is asked for again; zero: not parked for that
	retryPause time.Duration // before the next such attempt
	gone       bool
	wakeAt     time.Time
	timerIndex int // in the stream's timers; -1: not there

	// syncReplies wait for the next progress record to be committed.
	syncReplies [][]byte

	dead     mourning
	dispatch consumer.Dispatch
	header   []byte // scratch for deliveries of headers only
}

// view is what a consumer's machine sees of the stream.
type view struct {
	state  *stream.State
	filter *stream.Filter
}

func (v view) Next(from uint64) (uint64, bool) {
	m, ok := v.state.Next(v.filter, from)
	return m.Seq, ok
}
func (v view) Pending(from uint64) uint64 { return v.state.Pending(v.filter, from) }
func (v view) Last() uint64 {
	m, _ := v.state.Last(v.filter, 0)
	return m.Seq
}
func (v view) Has(seq uint64) bool          { return v.state.Has(seq) }
func (v view) Bounds() (first, last uint64) { return v.state.FirstSeq(), v.state.LastSeq() }
func (v view) SeqAt(t int64) uint64         { return v.state.SeqAt(t) }
func (v view) LastPerSubject(upTo uint64) []uint64 {
	if upTo == 0 {
		return nil
	}
	seqs, _ := v.state.LastPerSubject(nil, v.filter, upTo, 0) // no bound, so no error
	return seqs
}

// wake puts a consumer among those that are looked at for deliveries.
func (c *Consumer) wake() {
	if !c.ready && !c.parked && !c.gone && c.started {
		c.ready = true
		c.stream.ready = append(c.stream.ready, c)
	}
}

// changed is called after anything that may have changed the machine: its effects are carried out, its timer is set.
func (c *Consumer) changed(now time.Time) {
	s := c.stream
	fx := &s.consumerFx
	for i := range fx.Statuses {
		st := &fx.Statuses[i]
		s.pub.Publish(broker.Msg{Subject: []byte(st.To), Reply: []byte(st.Reply), Header: st.Header})
	}
	for i := range fx.Advisories {
		s.advise(&fx.Advisories[i], now)
	}
	settled, inactive := fx.Settled, fx.Inactive
	if len(settled) > 0 {
		s.settle(settled)
	}
	fx.Reset()
	if inactive {
		s.dropInactive(c)
		return
	}
	if c.gone {
		return
	}
	at, _ := c.machine.NextTimer() // zero: never
	if !c.heldUntil.IsZero() {
		at = c.heldUntil
	}
	if due := c.postDead(now); !due.IsZero() && (at.IsZero() || due.Before(at)) {
		at = due
	}
	if !c.retryAt.IsZero() && (at.IsZero() || c.retryAt.Before(at)) {
		at = c.retryAt
	}
	s.timers.set(c, at)
	if c.logged && !c.dirty && c.machine.Dirty() {
		c.dirty = true
		s.dirty = append(s.dirty, c)
		if s.progressAt.IsZero() {
			s.progressAt = now.Add(s.engine.opts.ProgressWindow)
		}
	}
}

// deliver gives every consumer that is ready its turn.
func (s *Stream) deliver(now time.Time) {
	if s.gate != nil && now.Before(s.gateUntil) {
		return
	}
	ready := s.ready
	s.ready = s.readySpare[:0]
	for _, c := range ready {
		c.ready = false
		if !c.gone && c.deliverSome(now) {
			c.wake()
		}
	}
	clear(ready)
	s.readySpare = ready[:0]
}

// deliverSome delivers until nothing can go out, and reports whether it stopped for fairness.
func (c *Consumer) deliverSome(now time.Time) (more bool) {
	s := c.stream
	defer c.changed(now)
	for range deliverBurst {
		seq, ok := c.machine.Peek(now, &s.consumerFx)
		if !ok {
			return false
		}
		if _, ok := s.state.Meta(seq); !ok {
			c.machine.Skip(seq, &s.consumerFx)
			continue
		}
		m, ok, err := s.load(seq, c.unpark)
		if err != nil {
			c.unreadable(err)
			return false
		}
		if !ok {
			c.parked = true
			return false
		}
		c.retryPause = 0
		c.deliverMessage(&m, now)
	}
	return true
}

// unpark goes on after a message's bytes were fetched.
func (c *Consumer) unpark(err error) {
	if err != nil {
		c.unreadable(err)
		c.changed(c.stream.now) // sets the timer
		return
	}
	c.parked = false
	c.wake()
}

// firstRetry and lastRetry are the pauses before a message is asked for again that could not be read.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// unreadable holds the consumer up, rather than skip a message that cannot be read, and has it try again later.
func (c *Consumer) unreadable(err error) {
	if c.retryPause == 0 { // told once, until a message can be read again
		c.stream.engine.opts.Logger.Error("reading a message for a consumer; it is tried again", "stream", c.stream.name, "consumer", c.name, "error", err)
	}
	c.parked = true
	c.retryPause = min(max(2*c.retryPause, firstRetry), lastRetry)
	c.retryAt = c.stream.now.Add(c.retryPause)
}

// deliverMessage sends one message out, if the machine still wants to.
func (c *Consumer) deliverMessage(m *record.StoredMessage, now time.Time) {
	s := c.stream
	d := &c.dispatch
	size := consumer.Message{Seq: m.Seq, Time: m.Time, Subject: len(m.Subject), Header: len(m.Header), Data: len(m.Data)}
	if !c.machine.Take(d, size, now, &s.consumerFx) {
		return
	}
	out := broker.Msg{Subject: m.Subject, Reply: d.Reply, Header: m.Header, Data: m.Data}
	if d.HeadersOnly || d.Pinned {
		out.Header = c.extendHeader(m, d)
	}
	if d.HeadersOnly {
		out.Data = nil
	}
	s.to = append(s.to[:0], d.To...)
	if s.pub.PublishTo(s.to, out) == 0 {
		c.machine.Undelivered(d, now)
	}
}

// extendHeader is a message's header block with what a delivery adds; valid until the next call.
func (c *Consumer) extendHeader(m *record.StoredMessage, d *consumer.Dispatch) []byte {
	b := openHeader(c.header[:0], m.Header)
	if d.HeadersOnly {
		b = proto.AppendHeaderField(b, "Nats-Msg-Size", strconv.Itoa(len(m.Data)))
	}
	if d.Pinned {
		b = proto.AppendHeaderField(b, "Nats-Pin-Id", d.PinID)
	}
	c.header = append(b, "\r\n"...)
	return c.header
}

// runTimers wakes the consumers whose time has come.
func (s *Stream) runTimers(now time.Time) {
	for c := s.timers.due(now); c != nil; c = s.timers.due(now) {
		if !c.heldUntil.IsZero() {
			c.release()
			continue
		}
		if !c.retryAt.IsZero() && !now.Before(c.retryAt) {
			c.retryAt, c.parked = time.Time{}, false
		}
		c.machine.Tick(now, &s.consumerFx)
		c.wake()
		c.changed(now)
	}
}

// visible tells the consumers of a message that became visible.
func (s *Stream) visible(m *record.StoredMessage) {
	for _, c := range s.interested.in(m.Subject) {
		c.machine.Visible(m.Seq)
		c.wake()
	}
}

// maxTold is how many removals of one change are told to the consumers one by one; beyond it they count anew.
const maxTold = 1024

// removed is called for each message that a change of the stream removes.
func (s *Stream) removed(r stream.Removed) {
	s.tail.removed(r.Seq)
	s.removedPast(r.Seq)
	if s.counting || s.effects.Count > maxTold || r.Seq == s.applying {
		return
	}
	for _, c := range s.interested.in(r.Subject) {
		c.machine.Removed(r.Seq, &s.consumerFx)
		s.touched = append(s.touched, c)
	}
	if len(s.strange) > 0 {
		s.removedStranger(r)
	}
}

// spread follows up on a change of the stream: the consumers that it touched may have something to say.
func (s *Stream) spread() {
	if s.effects.Count > maxTold {
		s.touched = nil
		s.purged()
		return
	}
	touched := s.touched
	s.touched = nil // what follows may remove messages in turn
	for _, c := range touched {
		c.changed(s.now)
		c.wake() // it may have waited for room among what is unacknowledged
	}
}

// purged has all consumers look at the stream anew.
func (s *Stream) purged() {
	for _, c := range s.consumers {
		c.machine.Purged(s.now, &s.consumerFx)
		c.changed(s.now)
		c.wake()
	}
}
