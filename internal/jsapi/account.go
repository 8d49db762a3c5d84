package jsapi

import (
	"context"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/version"
)

func accountInfo(_ context.Context, r *request) (any, error) {
	use := r.account.Usage()
	return struct {
		head
		*api.JetStreamAccountStats
	}{
		head{Type: schema + "account_info_response"},
		&api.JetStreamAccountStats{
			JetStreamTier: api.JetStreamTier{
				Memory: use.Memory, Store: use.Store,
				ReservedMemory: use.ReservedMemory, ReservedStore: use.ReservedStore,
				Streams: use.Streams, Consumers: use.Consumers,
				Limits: wireLimits(r.account.Limits()),
			},
			Domain: r.service.engine.Domain(),
			API:    api.JetStreamAPIStats{Level: version.APILevel, Total: r.answered.Load(), Errors: r.failed.Load()},
		},
	}, nil
}

// wireLimits are an account's limits as the API tells them.
func wireLimits(l account.JetStreamLimits) api.JetStreamAccountLimits {
	return api.JetStreamAccountLimits{
		MaxMemory: l.MaxMemory, MaxStore: l.MaxStore,
		MaxStreams: l.MaxStreams, MaxConsumers: l.MaxConsumers, MaxAckPending: l.MaxAckPending,
		MemoryMaxStreamBytes: l.MemoryMaxStreamBytes, StoreMaxStreamBytes: l.StoreMaxStreamBytes,
		MaxBytesRequired: l.MaxBytesRequired,
	}
}
