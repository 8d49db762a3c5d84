package jsapi

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/internal/jserr"
)

// system are the requests that the system account may make, which has no JetStream of its own. Of NATS's, those that
// move leaders and servers of a cluster about are not here: nobody answers them.
var system = []route{
	{"$JS.API.ACCOUNT.PURGE.*", schema + "account_purge_response", accountPurge},
}

// systemRefusal is the type of the answer to whatever else the system account asks of the API, but for its info.
const systemRefusal = schema + "system_response"

// accountPurge deletes all streams of an account. An account that does not exist has none.
func accountPurge(ctx context.Context, r *request) (any, error) {
	name := r.name(4)
	if strings.ContainsAny(name, `\/`) {
		return nil, jserr.New(jserr.StreamGeneralError, "err", "account name can not contain path separators")
	}
	if a := r.service.engine.Account(name); a != nil {
		streams := a.Streams("")
		r.service.log.Info("the system account purges an account's streams", "account", name, "streams", len(streams))
		for _, s := range streams {
			var e *jserr.Error
			if err := a.DeleteStream(ctx, s.Name()); errors.As(err, &e) && e.Code == jserr.StreamNotFound {
				continue // deleted meanwhile
			} else if err != nil {
				return nil, jserr.New(jserr.StreamDelete, "err", err)
			}
		}
	}
	return struct {
		head
		Initiated bool `json:"initiated"`
	}{head{Type: schema + "account_purge_response"}, true}, nil
}

// ofSystem reports whether requests of this route are the system account's.
func (f *family) ofSystem() bool {
	return f.system && slices.ContainsFunc(system, func(r route) bool { return r.subject == f.route.subject })
}

// refusal is the type of an answer with an error.
func (f *family) refusal() string {
	if f.system && !f.ofSystem() && f.route.subject != accountInfoSubject {
		return systemRefusal
	}
	return f.route.kind
}
