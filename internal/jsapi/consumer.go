package jsapi

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// The three subjects of creation differ in what the subject names: nothing but the stream
// ($JS.API.CONSUMER.CREATE.<stream>), the name and perhaps the filter (….CREATE.<stream>.<name>[.<filter>]), or a
// durable's name (….DURABLE.CREATE.<stream>.<name>).

func consumerCreate(ctx context.Context, r *request) (any, error) {
	ask, err := createRequest(r, r.name(4))
	if err != nil {
		return nil, err
	}
	if err := checkName(ask.Config.Name); err != nil {
		return nil, err
	}
	if ask.Config.Durable != "" {
		return nil, jserr.New(jserr.ConsumerEphemeralWithDurableName)
	}
	return create(ctx, r, ask)
}

func consumerCreateNamed(ctx context.Context, r *request) (any, error) {
	ask, err := createRequest(r, r.name(4))
	if err != nil {
		return nil, err
	}
	name := r.name(5)
	if err := checkName(name); err != nil {
		return nil, err
	}
	if ask.Config.Durable != "" && ask.Config.Durable != name {
		return nil, jserr.New(jserr.ConsumerDurableNameNotMatchSubject)
	}
	if len(r.tokens) > 6 {
		if len(ask.Config.FilterSubjects) > 0 {
			return nil, jserr.New(jserr.ConsumerMultipleFiltersNotAllowed)
		}
		if ask.Config.FilterSubject != strings.Join(r.tokens[6:], ".") {
			return nil, jserr.New(jserr.ConsumerCreateFilterSubjectMismatch)
		}
	}
	ask.Config.Name = name
	return create(ctx, r, ask)
}

func consumerCreateDurable(ctx context.Context, r *request) (any, error) {
	ask, err := createRequest(r, r.name(5))
	if err != nil {
		return nil, err
	}
	name := r.name(6)
	if err := checkName(name); err != nil {
		return nil, err
	}
	switch ask.Config.Durable {
	case "":
		return nil, jserr.New(jserr.ConsumerDurableNameNotSet)
	case name:
	default:
		return nil, jserr.New(jserr.ConsumerDurableNameNotMatchSubject)
	}
	ask.Config.Name = name
	return create(ctx, r, ask)
}

// createRequest reads a request for a consumer of a stream.
func createRequest(r *request, stream string) (ask api.JSApiConsumerCreateRequest, err error) {
	if err := r.decode(&ask); err != nil {
		return ask, err
	}
	if ask.Stream != stream {
		return ask, jserr.New(jserr.StreamMismatch)
	}
	return ask, nil
}

func checkName(name string) error {
	if strings.ContainsAny(name, `\/`) {
		return jserr.New(jserr.ConsumerNameContainsPathSeparators)
	}
	return nil
}

func create(ctx context.Context, r *request, ask api.JSApiConsumerCreateRequest) (any, error) {
	s, err := r.account.Stream(ask.Stream)
	if err != nil {
		return nil, err
	}
	forSource := ask.Config.Direct || ask.Config.Sourcing
	if forSource {
		if err := checkIdentity(r, s.Identity()); err != nil {
			return nil, err
		}
	}
	info, release, err := s.CreateHeldConsumer(ctx, ask)
	if err != nil {
		return nil, err
	}
	answer := full{answer: infoAnswer("consumer_create_response", info), after: release}
	if forSource {
		answer.header = identityBlock(s.Identity())
	}
	return answer, nil
}

type consumerAnswer struct {
	head
	consumerInfo
}

func infoAnswer(kind string, i api.ConsumerInfo) consumerAnswer {
	return consumerAnswer{head{Type: schema + kind}, toConsumerInfo(i)}
}

func consumerNames(_ context.Context, r *request) (any, error) {
	var ask api.JSApiConsumerNamesRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	all, err := s.ConsumerNames()
	if err != nil {
		return nil, err
	}
	names, p := cut(all, ask.Offset, namesPage)
	if names == nil {
		names = []string{}
	}
	return struct {
		head
		page
		Consumers []string `json:"consumers"`
	}{head{Type: schema + "consumer_names_response"}, p, names}, nil
}

func consumerList(_ context.Context, r *request) (any, error) {
	var ask api.JSApiConsumerListRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	names, err := s.ConsumerNames()
	if err != nil {
		return nil, err
	}
	names, p := cut(names, ask.Offset, listPage)
	infos := make([]consumerInfo, 0, len(names))
	for _, name := range names {
		info, err := s.ConsumerInfo(name)
		if err != nil {
			continue // deleted meanwhile
		}
		listedInfo := toConsumerInfo(info)
		listed(listedInfo.Config.Metadata)
		infos = append(infos, listedInfo)
	}
	return struct {
		head
		page
		Consumers []consumerInfo `json:"consumers"`
	}{head{Type: schema + "consumer_list_response"}, p, infos}, nil
}

func consumerInfoGet(_ context.Context, r *request) (any, error) {
	if err := r.noBody(); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	info, err := s.ConsumerInfo(r.name(5))
	if err != nil {
		return nil, err
	}
	return infoAnswer("consumer_info_response", info), nil
}

func consumerDelete(ctx context.Context, r *request) (any, error) {
	if err := r.noBody(); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	if err := s.DeleteConsumer(ctx, r.name(5)); err != nil {
		return nil, err
	}
	return done("consumer_delete_response"), nil
}

func consumerPause(ctx context.Context, r *request) (any, error) {
	var ask api.JSApiConsumerPauseRequest
	if err := r.mayBody(&ask); err != nil {
		return nil, err
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	until, err := s.PauseConsumer(ctx, r.name(5), ask.PauseUntil)
	if err != nil {
		return nil, err
	}
	answer := struct {
		head
		Paused         bool          `json:"paused"`
		PauseUntil     time.Time     `json:"pause_until"`
		PauseRemaining time.Duration `json:"pause_remaining,omitempty"`
	}{head: head{Type: schema + "consumer_pause_response"}, PauseUntil: until}
	if left := time.Until(until); left > 0 {
		answer.Paused, answer.PauseRemaining = true, left
	}
	return answer, nil
}
