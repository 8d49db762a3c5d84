package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/subject"
)

// A mirror, or a stream with sources, reads its origins as any client would: it asks by request for a push consumer and
// takes what that delivers. So an origin may be anywhere that the request reaches. Where to start follows from what the
// stream itself has accepted, which is what a replay of its log finds again: a crash neither loses nor doubles.
//
// A reading is one such consumer, from the request for it until something is wrong with it. Nothing is mended in a
// reading: when a delivery is missing, when it falls silent, when the stream cannot take a message, it ends, and a new one
// begins after a while where the stream really is. Why is in the stream's info until messages flow again.

const (
	// originHeartbeat is how often an origin's consumer says that it lives.
	originHeartbeat = time.Second
	// originSilence is when a reading that hears nothing ends, and how long a consumer outlives its reader.
	originSilence = 10 * originHeartbeat
	// askAgain is the least time between two requests. It doubles with each that fails, up to askAgainMost.
	askAgain     = 500 * time.Millisecond
	askAgainMost = 10 * time.Second
	// askPatience is how long a request may go unanswered.
	askPatience = 10 * time.Second
	// fewLeft is when a mirror may answer direct gets in its origin's place: as many messages behind, as in NATS.
	fewLeft = 10
	// stalledBeats is after how many heartbeats in a row with the same complaint flow control is at fault.
	stalledBeats = 3
	// originLevel is the level of the API that readings ask for (ADR-44): that of the identity of streams.
	originLevel = "5"
)

// originPhase is what an origin's reading waits for.
type originPhase uint8

const (
	originWaiting originPhase = iota // for the time of the next request
	originAsking                     // for the answer
	originReading                    // for messages
)

// origin is a stream that this one mirrors or sources. It belongs to the owner.
type origin struct {
	stream *Stream
	cfg    *api.StreamSource
	mirror bool
	key    string // names the source; empty: the mirror's

	transforms []*subject.Transform

	phase    originPhase
	at       time.Time // when the phase is over at the latest
	lastAsk  time.Time
	fails    int          // requests that failed, in a row
	fault    *jserr.Error // what is wrong, as infos tell
	sticks   bool         // the fault stays until a message is taken; others go with the next sign of life
	reading  uint32       // its number; letters of other readings are void. 0: none
	answers  *broker.Subscription
	messages *broker.Subscription
	heard    *atomic.Int64 // when the reading heard something last, ns
	met      bool          // there was a reading at all

	consumer            string // its name
	durable             bool   // it acknowledges by flow control
	seq                 uint64 // of the origin's newest message that was taken, or is known not to come
	delivered           uint64 // consumer sequence of the newest delivery
	lag                 uint64
	identity            string
	complaint           string // the flow control subject that the consumer says it waits for
	complains           int
	header, spare, text []byte // scratch
}

// name of the consumer that is asked for: the same for each reading, so that a durable one is found again.
func (o *origin) name() string {
	s := o.stream
	id := s.name + " " + s.account.name
	if d := s.engine.opts.Domain; d != "" {
		id += " " + d
	}
	if o.mirror {
		return "JS_MIRROR_" + stream.ShortHash(id)
	}
	id = stream.ShortHash(id)
	same := 0
	for _, other := range s.Config().Sources {
		if other.Name == o.cfg.Name {
			same++
		}
	}
	if same > 1 {
		id += " " + o.key
	}
	return "JS_SRC_" + stream.ShortHash(id)
}

// subject is where a request to the origin goes.
func (o *origin) subject(request string) string {
	if o.cfg.External == nil || o.cfg.External.ApiPrefix == "" {
		return apiPrefix + request
	}
	return strings.ReplaceAll(o.cfg.External.ApiPrefix+"."+request, "..", ".")
}

// deliverSubject draws the subject that messages are to come to.
func (o *origin) deliverSubject() string {
	kind := "S"
	if o.mirror {
		kind = "M"
	}
	if o.cfg.External == nil || o.cfg.External.DeliverPrefix == "" {
		return "$JS." + kind + "." + stream.ShortHash(nuid.Next())
	}
	return strings.ReplaceAll(o.cfg.External.DeliverPrefix+"."+kind+"."+stream.ShortHash(nuid.Next()), "..", ".")
}

// filters are the subjects that are wanted; none: all.
func (o *origin) filters() []string {
	if o.cfg.FilterSubject != "" {
		return []string{o.cfg.FilterSubject}
	}
	var all []string
	for _, t := range o.cfg.SubjectTransforms {
		if t.Source == "" || t.Source == ">" {
			return nil
		}
		all = append(all, t.Source)
	}
	return all
}

// openOrigins makes the stream read the origins that its configuration names, and no others.
func (s *Stream) openOrigins() {
	cfg := s.Config()
	wanted := map[string]*api.StreamSource{}
	var order []string
	want := func(key string, src *api.StreamSource) {
		wanted[key] = src
		order = append(order, key)
	}
	if cfg.Mirror != nil {
		want("", cfg.Mirror)
	}
	for _, src := range cfg.Sources {
		want(stream.SourceKey(src), src)
	}
	had := map[string]*origin{}
	var left []*origin
	for _, o := range s.origins {
		if wanted[o.key] != nil {
			had[o.key] = o
			continue
		}
		o.close()
		left = append(left, o)
	}
	s.origins = nil
	for _, key := range order {
		o := had[key]
		if o == nil {
			o = s.newOrigin(key, wanted[key])
		}
		o.cfg = wanted[key]
		s.origins = append(s.origins, o)
	}
	for _, o := range s.origins {
		if o.durable && o.cfg.Consumer == nil && o.consumer != o.name() {
			// It has another name now, and the one that it had would hold messages back.
			o.restart(s.now, 0)
			o.deleteConsumer()
		}
	}
	for _, o := range left {
		if !slices.ContainsFunc(s.origins, o.sharesConsumer) {
			o.deleteConsumer()
		}
	}
}

// sharesConsumer reports whether another origin asks for the consumer that this one had: the same stream, filtered
// otherwise.
func (o *origin) sharesConsumer(other *origin) bool {
	return o.consumer == other.name() && o.subject(o.cfg.Name) == other.subject(other.cfg.Name)
}

func (s *Stream) newOrigin(key string, src *api.StreamSource) *origin {
	o := &origin{stream: s, cfg: src, key: key, mirror: key == "", at: s.now}
	if !o.mirror {
		at := s.state.Source(key)
		o.seq, o.identity = at.Seq, at.Identity
	}
	for _, t := range src.SubjectTransforms {
		if transform, err := subject.NewTransform(t.Source, t.Destination); err == nil { // CheckConfig saw to it
			o.transforms = append(o.transforms, transform)
		}
	}
	return o
}

// closeOrigins ends all readings; with gone, the stream does not exist any more.
func (s *Stream) closeOrigins(gone bool) {
	for _, o := range s.origins {
		o.close()
		if gone {
			o.deleteConsumer()
		}
	}
	s.origins = nil
}

// tendOrigins does what is due.
func (s *Stream) tendOrigins(now time.Time) {
	for _, o := range s.origins {
		if now.Before(o.at) || s.failed != nil || s.deleting {
			continue
		}
		switch o.phase {
		case originWaiting:
			o.ask(now)
		case originAsking:
			o.failed(o.setupFault(errors.New("the request for a consumer was not answered")), now)
		case originReading:
			if at := time.Unix(0, o.heard.Load()).Add(originSilence); now.Before(at) {
				o.at = at
				continue
			}
			o.failed(o.setupFault(fmt.Errorf("no heartbeat for %v", originSilence)), now)
		}
	}
}

// nextOrigin is when tendOrigins has something to do; zero: never.
func (s *Stream) nextOrigin() (next time.Time) {
	if s.failed != nil || s.deleting {
		return next
	}
	for _, o := range s.origins {
		if next.IsZero() || o.at.Before(next) {
			next = o.at
		}
	}
	return next
}
