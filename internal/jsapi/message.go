package jsapi

import (
	"context"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

func messageGet(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiMsgGetRequest
	if err := r.mustBody(&ask); err != nil {
		return nil, err
	}
	if !validGet(&ask) {
		return nil, jserr.New(jserr.BadRequest)
	}
	s, err := r.account.Stream(r.name(5))
	if err != nil {
		return nil, err
	}
	m, err := s.GetMessage(ctx, ask)
	if err != nil {
		return nil, err
	}
	return struct {
		head
		Message *api.StoredMsg `json:"message"`
	}{head{Type: schema + "stream_msg_get_response"}, m}, nil
}

// validGet reports whether a request names one message in one way.
func validGet(ask *api.JSApiMsgGetRequest) bool {
	if ask.Batch > 0 || ask.MaxBytes > 0 {
		return false // only direct gets answer with several
	}
	if ask.LastFor != "" {
		return ask.Seq == 0 && ask.StartTime == nil && ask.NextFor == ""
	}
	if ask.StartTime != nil {
		return ask.Seq == 0
	}
	return ask.Seq > 0 || ask.NextFor != ""
}

func messageDelete(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiMsgDeleteRequest
	if err := r.mustBody(&ask); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(5))
	if err != nil {
		return nil, err
	}
	if err := s.DeleteMessage(ctx, ask.Seq); err != nil {
		return nil, err
	}
	return done("stream_msg_delete_response"), nil
}
