package jsapi

import (
	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
)

// Counts are of the requests to the API since the service began, or since an account was attached.
type Counts struct {
	// Requests were answered, Errors of them with an error.
	Requests, Errors uint64
	// Pending are being answered.
	Pending int64
}

// Counts adds up the accounts that have JetStream.
func (s *Service) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counts{Pending: max(s.pending.Load(), 0)}
	for _, at := range s.attached {
		if at.account == nil {
			continue
		}
		c.Requests += at.answered.Load()
		c.Errors += at.failed.Load()
	}
	return c
}

// AccountCounts are those of one account, without Pending.
func (s *Service) AccountCounts(space *broker.Space) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.attached[space]
	if at == nil {
		return Counts{}
	}
	return Counts{Requests: at.answered.Load(), Errors: at.failed.Load()}
}

// StreamConfigDetail is a stream's configuration in the form of the API's answers, as monitoring shows it.
func StreamConfigDetail(cfg api.StreamConfig) any { return toStreamConfig(cfg) }

// ConsumerDetail is a consumer's info in the form of the API's answers, with its configuration or without, as
// monitoring shows it: what the answers say of the server's version is left out.
func ConsumerDetail(i api.ConsumerInfo, config bool) any {
	info := toConsumerInfo(i)
	if config {
		delete(info.Config.Metadata, api.JSMetaCurrentServerVersion)
		delete(info.Config.Metadata, api.JSMetaCurrentServerLevel)
		return info
	}
	return struct {
		consumerInfo
		Config *struct{} `json:"config,omitempty"`
	}{consumerInfo: info}
}
