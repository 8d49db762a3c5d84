package engine

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
)

// consumerEvent is the JSON of the advisories and metrics about deliveries: the schemas max_deliver, nak, terminated,
// consumer_pause, consumer_group_pinned and consumer_group_unpinned of io.nats.jetstream.advisory.v1, and consumer_ack of io.nats.jetstream.metric.v1.
type consumerEvent struct {
	Type        string     `json:"type"`
	ID          string     `json:"id"`
	Time        time.Time  `json:"timestamp"`
	Stream      string     `json:"stream"`
	Consumer    string     `json:"consumer"`
	ConsumerSeq uint64     `json:"consumer_seq,omitempty"`
	StreamSeq   uint64     `json:"stream_seq,omitempty"`
	Deliveries  uint64     `json:"deliveries,omitempty"`
	Delay       int64      `json:"ack_time,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Paused      *bool      `json:"paused,omitempty"`
	PauseUntil  *time.Time `json:"pause_until,omitempty"`
	Domain      string     `json:"domain,omitempty"`
	Account     string     `json:"account,omitempty"`
	Group       string     `json:"group,omitempty"`
	PinID       string     `json:"pinned_id,omitempty"`
}

// advisoryForms names each advisory on the wire.
var advisoryForms = map[consumer.AdvisoryKind]struct{ schema, subject string }{
	consumer.MaxDeliveriesReached: {"io.nats.jetstream.advisory.v1.max_deliver", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES."},
	consumer.Nacked:               {"io.nats.jetstream.advisory.v1.nak", "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED."},
	consumer.Terminated:           {"io.nats.jetstream.advisory.v1.terminated", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED."},
	consumer.PauseChanged:         {"io.nats.jetstream.advisory.v1.consumer_pause", "$JS.EVENT.ADVISORY.CONSUMER.PAUSE."},
	consumer.Pinned:               {"io.nats.jetstream.advisory.v1.consumer_group_pinned", "$JS.EVENT.ADVISORY.CONSUMER.PINNED."},
	consumer.Unpinned:             {"io.nats.jetstream.advisory.v1.consumer_group_unpinned", "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED."},
	consumer.DeadLetterRefused:    {"io.sluice.jetstream.advisory.v1.dead_letter_refused", "$JS.EVENT.ADVISORY.CONSUMER.DEAD_LETTER_REFUSED."},
	consumer.AckSampled:           {"io.nats.jetstream.metric.v1.consumer_ack", "$JS.EVENT.METRIC.CONSUMER.ACK."},
}

// advise announces an event about a consumer to whoever listens.
func (s *Stream) advise(a *consumer.Advisory, now time.Time) {
	form := advisoryForms[a.Kind]
	subj := form.subject + s.name + "." + a.Consumer
	if !s.account.space.HasInterest(subj) {
		return
	}
	ev := consumerEvent{
		Type: form.schema, ID: nuid.Next(), Time: now.UTC(),
		Stream: s.name, Consumer: a.Consumer, Domain: s.engine.opts.Domain,
		ConsumerSeq: a.ConsumerSeq, StreamSeq: a.StreamSeq, Deliveries: a.Deliveries,
		Reason: a.Reason, Delay: a.Delay.Nanoseconds(), Group: a.Group, PinID: a.PinID,
	}
	if a.Kind == consumer.Pinned || a.Kind == consumer.Unpinned {
		ev.Account = s.account.name
	}
	if a.Kind == consumer.PauseChanged {
		ev.Paused, ev.PauseUntil = &a.Paused, &a.PauseUntil
	}
	body, err := json.Marshal(ev)
	if err != nil {
		return
	}
	s.pub.Publish(broker.Msg{Subject: []byte(subj), Data: body})
}
