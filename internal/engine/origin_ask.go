package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
)

// position makes a consumer start where the stream is.
func (o *origin) position(cfg *api.ConsumerConfig) {
	last := o.seq
	if o.mirror {
		last = o.stream.state.AcceptedSeq()
	}
	switch {
	case last > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = api.DeliverByStartSequence, last+1
	case o.cfg.OptStartSeq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = api.DeliverByStartSequence, o.cfg.OptStartSeq
	case o.cfg.OptStartTime != nil:
		cfg.DeliverPolicy, cfg.OptStartTime = api.DeliverByStartTime, o.cfg.OptStartTime
	}
}

// request makes the request for a reading's consumer.
func (o *origin) request() (subj string, body []byte, err error) {
	if c := o.cfg.Consumer; c != nil {
		return o.subject("CONSUMER.RESET." + o.cfg.Name + "." + c.Name), nil, nil
	}
	s := o.stream
	about := "_nats.src."
	if o.mirror {
		about = "_nats.mirror."
	}
	ask := api.JSApiConsumerCreateRequest{Stream: o.cfg.Name, Config: api.ConsumerConfig{
		Name: o.name(), DeliverSubject: o.deliverSubject(),
		AckPolicy: api.AckNone, AckWait: 22 * time.Hour, MaxDeliver: 1,
		Heartbeat: originHeartbeat, FlowControl: true, Direct: true, Sourcing: true, InactiveThreshold: originSilence,
		Metadata: map[string]string{about + "stream": s.name, about + "acc": s.account.name},
	}}
	if d := s.engine.opts.Domain; d != "" {
		ask.Config.Metadata[about+"domain"] = d
	}
	o.position(&ask.Config)
	request := "CONSUMER.CREATE." + o.cfg.Name
	switch filters := o.filters(); len(filters) {
	case 0:
	case 1:
		ask.Config.FilterSubject = filters[0]
		request += "." + ask.Config.Name + "." + filters[0]
	default:
		ask.Config.FilterSubjects = filters
	}
	body, err = json.Marshal(ask)
	return o.subject(request), body, err
}

// setupFault is a failure that the origin's API did not name.
func (o *origin) setupFault(err error) *jserr.Error {
	if o.mirror {
		return jserr.New(jserr.MirrorConsumerSetupFailed, "err", err)
	}
	return jserr.New(jserr.SourceConsumerSetupFailed, "err", err)
}

// close ends the reading, if there is one.
func (o *origin) close() {
	space := o.stream.account.space
	for _, sub := range []*broker.Subscription{o.answers, o.messages} {
		if sub != nil {
			space.Unsubscribe(sub)
		}
	}
	delete(o.stream.readings, o.reading)
	o.answers, o.messages, o.reading = nil, nil, 0
}

// failed ends the reading and waits longer each time.
func (o *origin) failed(fault *jserr.Error, now time.Time) {
	// Once may be a matter of order: the origin is only being created, or starts after this stream.
	if o.fails == 1 || o.fails > 1 && (o.fault == nil || o.fault.Error() != fault.Error()) {
		o.stream.engine.opts.Logger.Warn("a stream cannot read its origin; it tries again",
			"stream", o.stream.name, "origin", o.cfg.Name, "error", fault)
	}
	o.fault, o.sticks = fault, false
	o.fails++
	o.restart(now, min(askAgain<<min(o.fails-1, 10), askAgainMost))
}

// restart ends the reading and has another one begin after a while.
func (o *origin) restart(now time.Time, after time.Duration) {
	o.close()
	if !o.durable {
		o.deleteConsumer()
	}
	o.phase = originWaiting
	o.at = now.Add(after + rand.N(after/10+1))
	if soonest := o.lastAsk.Add(askAgain); o.at.Before(soonest) {
		o.at = soonest
	}
}

// deleteConsumer lets the origin forget the consumer, if this stream made it. It need not succeed: one without state goes
// by itself, and a durable one keeps its place.
func (o *origin) deleteConsumer() {
	if o.consumer == "" || o.cfg.Consumer != nil {
		return
	}
	o.stream.account.space.PublishOnce(broker.Msg{Subject: []byte(o.subject("CONSUMER.DELETE." + o.cfg.Name + "." + o.consumer))})
	o.consumer = ""
}

// ask requests a consumer.
func (o *origin) ask(now time.Time) {
	o.close()
	o.lastAsk = now
	s := o.stream
	subj, body, err := o.request()
	reply := "$JSC.R." + nuid.Next()
	if err == nil {
		o.begin()
		o.answers, err = s.account.space.Subscribe(reply, "", &answerReceiver{stream: s, reading: o.reading})
	}
	if err != nil {
		o.failed(o.setupFault(err), now)
		return
	}
	header := proto.AppendHeaderField([]byte(proto.HeaderLine), api.JSRequiredApiLevel, originLevel)
	if o.identity != "" {
		header = proto.AppendHeaderField(header, identityHeader, o.identity)
	}
	header = append(header, "\r\n"...)
	o.phase, o.at = originAsking, now.Add(askPatience)
	if s.account.space.PublishOnce(broker.Msg{Subject: []byte(subj), Reply: []byte(reply), Header: header, Data: body}) == 0 {
		o.failed(o.setupFault(fmt.Errorf("nobody answers to %s", subj)), now)
	}
}

// identityHeader names a stream's identity.
const identityHeader = "Nats-Stream-Identity"

// answerReceiver takes the answer to a request for a consumer.
type answerReceiver struct {
	stream  *Stream
	reading uint32
}

// Deliver implements broker.Receiver.
func (r *answerReceiver) Deliver(batch []broker.Delivery) <-chan struct{} {
	for i := range batch {
		header, body := append([]byte(nil), batch[i].Header...), append([]byte(nil), batch[i].Data...)
		r.stream.inbox.command(func() {
			if o := r.stream.originOf(r.reading); o != nil && o.phase == originAsking {
				o.answered(header, body, r.stream.now)
			}
		})
	}
	return nil
}

// originOf finds the origin of a reading that goes on.
func (s *Stream) originOf(reading uint32) *origin { return s.readings[reading] }

// begin gives the reading that begins a number.
func (o *origin) begin() {
	s := o.stream
	if s.readings == nil {
		s.readings = map[uint32]*origin{}
	}
	s.lastReading = max(s.lastReading+1, 1)
	o.reading = s.lastReading
	s.readings[o.reading] = o
}

// consumerAnswer is what is read of the answer to a request for a consumer.
type consumerAnswer struct {
	Error     *api.ApiError       `json:"error"`
	Name      string              `json:"name"`
	Config    *api.ConsumerConfig `json:"config"`
	Delivered struct {
		Consumer uint64 `json:"consumer_seq"`
		Stream   uint64 `json:"stream_seq"`
	} `json:"delivered"`
	Pending uint64 `json:"num_pending"`
}

// answered takes the answer to the request.
func (o *origin) answered(header, body []byte, now time.Time) {
	var a consumerAnswer
	err := json.Unmarshal(body, &a)
	identity, _ := proto.Header(header).Get(identityHeader)
	switch {
	case err != nil:
		o.failed(jserr.New(jserr.InvalidJSON, "err", err), now)
	case a.Error != nil && a.Error.ErrCode == uint16(jserr.ConsumerStreamIdentityMismatch):
		o.recreated("")
		o.restart(now, 0)
	case a.Error != nil:
		o.failed(&jserr.Error{Code: jserr.Code(a.Error.ErrCode), Status: a.Error.Code, Description: a.Error.Description}, now)
	case a.Config == nil || a.Name == "" || a.Config.DeliverSubject == "":
		o.failed(o.setupFault(errors.New("invalid consumer create response")), now)
	case o.cfg.Consumer != nil && a.Config.AckPolicy != api.AckFlowControl:
		code := jserr.SourceConsumerRequiresAckFC
		if o.mirror {
			code = jserr.MirrorConsumerRequiresAckFC
		}
		o.failed(jserr.New(code), now)
	default:
		o.read(&a, string(identity), now)
	}
}

// recreated notes that another stream has the origin's name now. A source begins again with it; a mirror cannot, since it
// keeps the sequences of the one before.
func (o *origin) recreated(identity string) {
	log := o.stream.engine.opts.Logger
	if o.mirror {
		log.Warn("a mirror's origin was created anew; what the mirror holds is of the one before", "stream", o.stream.name, "origin", o.cfg.Name)
	} else {
		log.Warn("a source was created anew and is read from its beginning", "stream", o.stream.name, "origin", o.cfg.Name)
		o.seq = 0
	}
	o.identity = identity
}

// read begins to take what the consumer delivers. It delivers nothing before somebody listens.
func (o *origin) read(a *consumerAnswer, identity string, now time.Time) {
	s := o.stream
	if o.identity != "" && identity != "" && o.identity != identity {
		o.recreated(identity)
	}
	if identity != "" {
		o.identity = identity
	}
	o.sticks = o.sticks && a.Pending > 0
	o.complaint, o.complains = "", 0
	o.consumer, o.durable = a.Name, a.Config.AckPolicy == api.AckFlowControl
	o.delivered, o.lag = a.Delivered.Consumer, a.Pending
	if o.mirror {
		o.meetMirror(a.Delivered.Stream)
	}
	o.seq = max(o.seq, a.Delivered.Stream)
	o.heard = &atomic.Int64{}
	o.heard.Store(now.UnixNano())
	o.met = true
	o.phase, o.at = originReading, now.Add(originSilence)
	s.account.space.Unsubscribe(o.answers)
	var err error
	o.answers = nil
	o.messages, err = s.account.space.Subscribe(a.Config.DeliverSubject, "", &sourceReceiver{stream: s, reading: o.reading, heard: o.heard})
	if err != nil {
		o.failed(o.setupFault(err), now)
		return
	}
	o.caughtUp()
}

// meetMirror compares where the mirror is with where its origin's consumer begins.
func (o *origin) meetMirror(delivered uint64) {
	s := o.stream
	last := s.state.AcceptedSeq()
	o.seq = last
	switch {
	case delivered < last:
		// It goes on when the origin has passed the mirror, but what came meanwhile never will.
		o.sticks = true
		o.fault = o.setupFault(fmt.Errorf("the origin ends at sequence %d, before the mirror's %d: it was created anew, or lost messages", delivered, last))
	case delivered > last && s.state.Msgs() == 0 && s.state.InFlight() == 0:
		// A mirror without messages takes its origin's place at once; another one with the next message.
		s.state.AcceptSkip(delivered)
		p := stream.Purge{Upto: delivered + 1}
		e := s.newEntry(record.AppendPurge(nil, s.id, record.PurgeBody(p)), 1, false)
		e.then = append(e.then, func(err error) {
			if err == nil {
				s.effects.Reset()
				s.state.Purge(p, &s.effects)
				s.spread()
			}
		})
		s.write(e)
	}
}

// caughtUp lets a mirror that is near its origin's end answer direct gets in its place.
func (o *origin) caughtUp() {
	s := o.stream
	if !o.mirror || o.lag >= fewLeft || s.standsIn.Load() {
		return
	}
	s.standsIn.Store(true)
	if s.Config().MirrorDirect {
		if err := s.subscribe(s.Config()); err != nil {
			s.engine.opts.Logger.Error("subscribing to direct gets of a mirror's origin", "stream", s.name, "error", err)
		}
	}
}
