package jsapi

import (
	"context"
	"maps"
	"slices"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jserr"
)

type streamInfoAnswer struct {
	head
	page
	*streamInfo
	DidCreate bool `json:"did_create,omitempty"`
}

// streamAnswer leaves the page out.
type streamAnswer struct {
	head
	*streamInfo
	DidCreate bool `json:"did_create,omitempty"`
}

func streamCreate(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiStreamCreateRequest
	if err := r.decode(&ask); err != nil {
		return nil, err
	}
	if ask.Name != r.name(4) {
		return nil, jserr.New(jserr.StreamMismatch)
	}
	s, err := r.account.CreateStream(ctx, ask.StreamConfig, ask.Pedantic)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		return nil, err
	}
	return streamAnswer{head{Type: schema + "stream_create_response"}, streamInfoOf(&info), true}, nil
}

// noStreamName is what nats-server says of a configuration without a name.
const noStreamName = `stream name is required and can not contain '.', '*', '>', '\', '/'`

func streamUpdate(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiStreamUpdateRequest
	if err := r.decode(&ask); err != nil {
		return nil, err
	}
	if ask.Name == "" {
		return nil, jserr.New(jserr.StreamInvalidConfig, "err", noStreamName)
	}
	if ask.Name != r.name(4) {
		return nil, jserr.New(jserr.StreamMismatch)
	}
	s, err := r.account.UpdateStream(ctx, ask.StreamConfig, ask.Pedantic)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		return nil, err
	}
	return streamAnswer{head{Type: schema + "stream_update_response"}, streamInfoOf(&info), false}, nil
}

func streamNames(_ context.Context, r *request) (any, error) {
	var ask api.JSApiStreamNamesRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	var names []string
	for _, s := range r.account.Streams(ask.Subject) {
		names = append(names, s.Name())
	}
	if ask.Subject == "" { // what is offline listens on nothing
		for name := range r.account.Offline() {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	var p page
	if names, p = cut(names, ask.Offset, namesPage); len(names) == 0 {
		names = nil
	}
	return struct {
		head
		page
		Streams []string `json:"streams"`
	}{head{Type: schema + "stream_names_response"}, p, names}, nil
}

func streamList(_ context.Context, r *request) (any, error) {
	var ask api.JSApiStreamListRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	streams, p := cut(r.account.Streams(ask.Subject), ask.Offset, listPage)
	infos := make([]*streamInfo, 0, len(streams))
	for _, s := range streams {
		info, err := s.Info(api.JSApiStreamInfoRequest{})
		if err != nil {
			continue // deleted meanwhile
		}
		listedInfo := streamInfoOf(&info)
		listed(listedInfo.Config.Metadata)
		infos = append(infos, listedInfo)
	}
	offline := map[string]string{}
	if ask.Subject == "" && ask.Offset == 0 {
		for name, why := range r.account.Offline() {
			offline[name] = why.Error()
		}
	}
	return struct {
		head
		page
		Streams []*streamInfo     `json:"streams"`
		Missing []string          `json:"missing,omitempty"`
		Offline map[string]string `json:"offline,omitempty"`
	}{head{Type: schema + "stream_list_response"}, p, infos, slices.Sorted(maps.Keys(offline)), offline}, nil
}

func streamInfoGet(_ context.Context, r *request) (any, error) {
	var ask api.JSApiStreamInfoRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ask)
	if err != nil {
		return nil, err
	}
	told := streamInfoOf(&info)
	told.Cluster = &api.ClusterInfo{Leader: r.service.engine.ServerName()}
	p := page{}
	if info.SubjectsTotal > 0 {
		p = page{info.SubjectsTotal, max(ask.Offset, 0), info.SubjectsLimit}
	}
	return streamInfoAnswer{
		head:       head{Type: schema + "stream_info_response"},
		page:       p,
		streamInfo: told,
	}, nil
}

func streamDelete(ctx context.Context, r *request) (any, error) {
	if err := r.noBody(); err != nil {
		return nil, err
	}
	if err := r.account.DeleteStream(ctx, r.name(4)); err != nil {
		return nil, err
	}
	return done("stream_delete_response"), nil
}

func streamPurge(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiStreamPurgeRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	if ask.Sequence > 0 && ask.Keep > 0 {
		return nil, jserr.New(jserr.BadRequest)
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	n, err := s.Purge(ctx, engine.PurgeRequest{Subject: ask.Subject, Upto: ask.Sequence, Keep: ask.Keep})
	if err != nil {
		return nil, err
	}
	return struct {
		success
		Purged uint64 `json:"purged"`
	}{done("stream_purge_response"), n}, nil
}
