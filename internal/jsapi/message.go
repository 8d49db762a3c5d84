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
	if ask.Seq == 0 && ask.LastFor == "" && ask.NextFor == "" || ask.Seq > 0 && ask.LastFor != "" || ask.LastFor != "" && ask.NextFor != "" {
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
