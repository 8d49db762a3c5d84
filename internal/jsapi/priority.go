package jsapi

import (
	"context"
	"encoding/json"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
)

// consumerUnpin takes the pin of a priority group from the client that has it (ADR-42).
func consumerUnpin(_ context.Context, r *request) (any, error) {
	var ask api.JSApiConsumerUnpinRequest
	if err := json.Unmarshal(r.body, &ask); err != nil {
		return nil, jserr.New(jserr.InvalidJSON, "err", err)
	}
	if ask.Group == "" {
		return nil, jserr.New(jserr.InvalidJSON, "err", "consumer group not specified")
	}
	if err := consumer.CheckGroup(ask.Group); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	if err := s.UnpinConsumer(r.name(5), ask.Group); err != nil {
		return nil, err
	}
	return head{Type: schema + "consumer_unpin_response"}, nil
}
