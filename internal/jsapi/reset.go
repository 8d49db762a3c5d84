package jsapi

import (
	"context"
	"encoding/json"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
)

// identityHeader names a stream's identity, with which mirrors and sources notice that another stream took the name of
// the one that they read.
const identityHeader = "Nats-Stream-Identity"

// identityBlock is the header block with a stream's identity.
func identityBlock(identity string) []byte {
	b := append([]byte(nil), proto.HeaderLine...)
	b = proto.AppendHeaderField(b, identityHeader, identity)
	return append(b, "\r\n"...)
}

// consumerReset makes a consumer start over at a sequence, or after its acknowledgement floor. Unlike nats-server, which
// leaves a request unanswered when the stream or the consumer does not exist, this says so.
func consumerReset(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiConsumerResetRequest
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &ask); err != nil {
			return nil, jserr.New(jserr.InvalidJSON, "err", err)
		}
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	info, at, err := s.ResetConsumer(ctx, r.name(5), ask.Seq)
	if err != nil {
		return nil, err
	}
	answer := struct {
		consumerAnswer
		ResetSeq uint64 `json:"reset_seq"`
	}{infoAnswer("consumer_reset_response", info), at}
	if proto.Header(r.header).Has(identityHeader) {
		return full{answer: answer, header: identityBlock(s.Identity())}, nil
	}
	return answer, nil
}

// checkIdentity refuses a mirror's or source's consumer on another stream than the one that the request means.
func checkIdentity(r *request, identity string) error {
	want, _ := proto.Header(r.header).Get(identityHeader)
	if len(want) > 0 && string(want) != identity {
		return jserr.New(jserr.ConsumerStreamIdentityMismatch, "msg", identity)
	}
	return nil
}
