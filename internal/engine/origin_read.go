package engine

import (
	"bytes"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/stream"
)

// sourceReceiver takes what an origin's consumer delivers into the stream's inbox. There it waits like a publish, so that
// a log that is behind slows the origin down by flow control.
type sourceReceiver struct {
	stream  *Stream
	reading uint32
	heard   *atomic.Int64
}

// Deliver implements broker.Receiver.
func (r *sourceReceiver) Deliver(batch []broker.Delivery) <-chan struct{} {
	r.heard.Store(time.Now().UnixNano())
	return r.stream.inbox.put(letter{kind: letterSourced, reading: r.reading}, batch)
}

// takeSourced takes what an origin's consumer delivered.
func (s *Stream) takeSourced(reading uint32, m *broker.Msg, now time.Time) {
	o := s.originOf(reading)
	if o == nil || o.phase != originReading {
		return
	}
	if len(m.Data) == 0 && bytes.HasPrefix(m.Header, statusPrefix) {
		o.control(m, now)
		return
	}
	a, ok := consumer.ParseAckSubject(m.Reply)
	if !ok || string(a.Consumer) != o.consumer {
		return // not from the consumer: anybody may publish here
	}
	switch {
	case a.StreamSeq <= o.seq: // again
		if a.ConsumerSeq == o.delivered+1 {
			o.delivered++
		}
	case a.ConsumerSeq != o.delivered+1:
		o.lost(a.ConsumerSeq, now)
	default:
		o.take(m, &a, now)
	}
}

var (
	statusPrefix = []byte("NATS/1.0 100 ")
	flowPrefix   = []byte("$JS.FC.")
)

// lost begins a new reading, since a delivery is missing.
func (o *origin) lost(got uint64, now time.Time) {
	o.stream.engine.opts.Logger.Info("deliveries of an origin were lost; its reading starts over",
		"stream", o.stream.name, "origin", o.cfg.Name, "delivered", o.delivered, "got", got)
	o.restart(now, 0)
}

// take makes a message part of the stream.
func (o *origin) take(m *broker.Msg, a *consumer.AckSubject, now time.Time) {
	s := o.stream
	at := stream.SourcePosition{Seq: a.StreamSeq, Identity: o.identity}
	p := stream.Publish{Subject: o.transformed(m.Subject), Header: o.cleaned(m, at), Size: len(m.Data), Quota: s.share.check}
	var acc stream.Accepted
	var err *jserr.Error
	if o.mirror {
		acc, err = s.state.AcceptMirrored(p, a.StreamSeq, a.Time)
	} else {
		acc, err = s.state.AcceptSourced(p, o.key, at, m.Subject, m.Data, now)
	}
	if err != nil {
		o.failed(err, now)
		o.sticks = true
		return
	}
	if acc.Need > 0 {
		o.learn(acc.Need, m, *a)
		return
	}
	o.fault, o.sticks, o.fails = nil, false, 0
	o.complaint, o.complains = "", 0
	o.delivered, o.seq = a.ConsumerSeq, a.StreamSeq
	o.lag = max(a.Pending, 1) - 1 // as nats-server counts
	if !acc.Duplicate {
		s.addAccepted(&acc, m.Data)
	}
	o.caughtUp()
}

// learn takes a message once the stream has learned of the one that it depends on.
func (o *origin) learn(seq uint64, m *broker.Msg, a consumer.AckSubject) {
	kept, reading := cloneMsg(m), o.reading
	o.stream.learn(seq, func() {
		if o.reading == reading {
			o.take(&kept, &a, o.stream.now)
		}
	}, func(err error) {
		if o.reading == reading {
			o.failed(o.setupFault(err), o.stream.now)
		}
	})
}

// transformed is the subject that a message has in this stream. It holds until the next call.
func (o *origin) transformed(subj []byte) []byte {
	for _, t := range o.transforms {
		out, ok := t.Append(o.text[:0], string(subj))
		o.text = out[:0]
		if ok {
			return out
		}
	}
	return subj
}

// cleaned is the header to store: without what the publisher asked of the origin, and for a source with where it comes
// from. It holds until the next call.
func (o *origin) cleaned(m *broker.Msg, at stream.SourcePosition) []byte {
	h := proto.Header(m.Header)
	if len(h) > 0 {
		o.spare = h.RemovePrefix(o.spare[:0], "Nats-Expected-")
		o.header = proto.Header(o.spare).RemovePrefix(o.header[:0], "Nats-Batch-")
		h = proto.Header(o.header)
	}
	if o.mirror {
		return h
	}
	value := stream.AppendSource(nil, o.key, at, m.Subject)
	b, err := h.Set(o.spare[:0], stream.SourceHeader, string(value))
	if err != nil {
		return h
	}
	o.spare = b
	return b
}

// control takes a heartbeat or a flow control message.
func (o *origin) control(m *broker.Msg, now time.Time) {
	if len(m.Reply) > 0 {
		o.confirm(m.Reply)
		return
	}
	h := proto.Header(m.Header)
	last, _ := h.Get("Nats-Last-Consumer")
	if n, err := strconv.ParseUint(string(last), 10, 64); err == nil && n > 0 && n != o.delivered {
		o.lost(n, now)
		return
	}
	o.fails = 0
	waits, _ := h.Get("Nats-Consumer-Stalled")
	if !bytes.HasPrefix(waits, flowPrefix) {
		if !o.sticks {
			o.fault = nil
		}
		o.complaint, o.complains = "", 0
		return
	}
	if o.complaint != string(waits) {
		o.complaint, o.complains = string(waits), 0
	}
	if o.complains++; o.complains == stalledBeats {
		o.fault = jserr.New(jserr.SourceConsumerFlowControlStalled)
	}
	o.confirm(waits)
}

// confirm answers a flow control message. Where that acknowledges, it waits until all that was taken is committed: the
// origin may let go of it.
func (o *origin) confirm(reply []byte) {
	if !bytes.HasPrefix(reply, flowPrefix) {
		return
	}
	s := o.stream
	out := broker.Msg{
		Subject: append([]byte(nil), reply...),
		Header:  fmt.Appendf(nil, "NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n", o.delivered, o.seq),
	}
	if !o.durable {
		s.pub.Publish(out)
		return
	}
	s.afterAccepted(func(err error) {
		if err == nil {
			s.pub.Publish(out)
		}
	})
}

// afterAccepted runs f when all that is accepted by now is committed.
func (s *Stream) afterAccepted(f func(error)) {
	switch {
	case s.log == nil:
		s.seal()
		f(nil)
	case s.building != nil:
		s.building.then = append(s.building.then, f)
	case len(s.sent)+len(s.unsent) > 0:
		last := s.lastOut()
		last.then = append(last.then, f)
	default:
		f(s.failed)
	}
}

// dropSourced ends the reading that a letter belongs to, since the letter is not taken.
func (s *Stream) dropSourced(reading uint32, why *jserr.Error) {
	if o := s.originOf(reading); o != nil {
		o.failed(why, s.now)
	}
}
