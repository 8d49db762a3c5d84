package jsapi

import (
	"encoding/json"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
)

// maxTransfers bounds the snapshots and restores that are under way, over all accounts; more are answered with
// "insufficient resources".
const maxTransfers = 64

// beginTransfer counts a snapshot or a restore. endTransfer follows unless there is an error.
func (s *Service) beginTransfer() error {
	if s.transfers.Add(1) > maxTransfers {
		s.transfers.Add(-1)
		return jserr.New(jserr.InsufficientResources)
	}
	return nil
}

func (s *Service) endTransfer() { s.transfers.Add(-1) }

// transferEvent is the JSON of the advisories about snapshots and restores: the schemas snapshot_create,
// snapshot_complete, restore_create and restore_complete of io.nats.jetstream.advisory.v1.
type transferEvent struct {
	Type   string           `json:"type"`
	ID     string           `json:"id"`
	Time   time.Time        `json:"timestamp"`
	Stream string           `json:"stream"`
	State  *api.StreamState `json:"state,omitempty"`
	Start  *time.Time       `json:"start,omitempty"`
	End    *time.Time       `json:"end,omitempty"`
	Bytes  *int64           `json:"bytes,omitempty"`
	Client *auditClient     `json:"client"`
	Domain string           `json:"domain,omitempty"`
	Error  string           `json:"error,omitempty"`
}

// adviseTransfer announces an event to whoever listens. verb is the last token of its schema and of its subject.
func (r *request) adviseTransfer(schemaVerb, subjectVerb string, ev transferEvent) {
	space := r.account.Space()
	subj := "$JS.EVENT.ADVISORY.STREAM." + subjectVerb + "." + ev.Stream
	if !space.HasInterest(subj) {
		return
	}
	ev.Type = "io.nats.jetstream.advisory.v1." + schemaVerb
	ev.ID, ev.Time = nuid.Next(), time.Now().UTC()
	ev.Domain = r.service.engine.Domain()
	if o := r.from; o != nil {
		ev.Client = &auditClient{
			Host: o.Host, ID: o.ID, Account: o.Account, User: o.User, Name: o.Name, Lang: o.Lang, Version: o.Version,
			Server: r.service.engine.ServerName(), Kind: o.Kind, ClientType: "nats",
		}
	}
	data, err := json.Marshal(ev)
	if err != nil {
		r.service.log.Error("encoding an advisory", "type", ev.Type, "error", err)
		return
	}
	space.PublishOnce(broker.Msg{Subject: []byte(subj), Data: data})
}
