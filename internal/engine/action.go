package engine

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
)

// actionEvent is the JSON of the advisories about streams and consumers that come, change and go: the schemas
// stream_action and consumer_action of io.nats.jetstream.advisory.v1.
type actionEvent struct {
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	Time     time.Time `json:"timestamp"`
	Stream   string    `json:"stream"`
	Consumer string    `json:"consumer,omitempty"`
	Action   string    `json:"action"`
	Domain   string    `json:"domain,omitempty"`
}

// action is what happened, in the words of the subject and of the event.
type action struct{ subject, event string }

var (
	wasCreated = action{"CREATED", "create"}
	wasUpdated = action{"UPDATED", "modify"}
	wasDeleted = action{"DELETED", "delete"}
)

const advisorySchema = "io.nats.jetstream.advisory.v1."

// announce tells whoever listens that a stream came, changed or went.
func (s *Stream) announce(what action) {
	subj := "$JS.EVENT.ADVISORY.STREAM." + what.subject + "." + s.name
	if body := s.actionBody(subj, what, actionEvent{Type: advisorySchema + "stream_action"}); body != nil {
		s.account.space.PublishOnce(broker.Msg{Subject: []byte(subj), Data: body})
	}
}

// announceConsumer tells whoever listens that a consumer came or went. It belongs to the owner of the stream.
func (s *Stream) announceConsumer(c *Consumer, what action) {
	subj := "$JS.EVENT.ADVISORY.CONSUMER." + what.subject + "." + s.name + "." + c.name
	if body := s.actionBody(subj, what, actionEvent{Type: advisorySchema + "consumer_action", Consumer: c.name}); body != nil {
		s.pub.Publish(broker.Msg{Subject: []byte(subj), Data: body})
	}
	if until := c.machine.Config().PauseUntil; what == wasCreated && until.After(s.now) {
		s.advise(&consumer.Advisory{Kind: consumer.PauseChanged, Consumer: c.name, Paused: true, PauseUntil: until}, s.now)
	}
}

// actionBody is the event, or nil when nobody listens.
func (s *Stream) actionBody(subj string, what action, ev actionEvent) []byte {
	if !s.account.space.HasInterest(subj) {
		return nil
	}
	ev.ID, ev.Time = nuid.Next(), time.Now().UTC()
	ev.Stream, ev.Action, ev.Domain = s.name, what.event, s.engine.opts.Domain
	body, err := json.Marshal(ev)
	if err != nil {
		return nil
	}
	return body
}

// ServerName is what advisories call this server.
func (e *Engine) ServerName() string { return e.opts.ServerName }
