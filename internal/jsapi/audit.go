package jsapi

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
)

// auditSubject is where every request to the API is told of, with its answer.
const auditSubject = "$JS.EVENT.ADVISORY.API"

// auditEvent is the JSON of the schema io.nats.jetstream.advisory.v1.api_audit.
type auditEvent struct {
	Type     string       `json:"type"`
	ID       string       `json:"id"`
	Time     time.Time    `json:"timestamp"`
	Server   string       `json:"server"`
	Client   *auditClient `json:"client"`
	Subject  string       `json:"subject"`
	Request  string       `json:"request,omitempty"`
	Response string       `json:"response"`
	Domain   string       `json:"domain,omitempty"`
}

// auditClient is who made the request.
type auditClient struct {
	Host       string `json:"host,omitempty"`
	ID         uint64 `json:"id,omitempty"`
	Account    string `json:"acc,omitempty"`
	User       string `json:"user,omitempty"`
	Name       string `json:"name,omitempty"`
	Lang       string `json:"lang,omitempty"`
	Version    string `json:"ver,omitempty"`
	Server     string `json:"server,omitempty"`
	Kind       string `json:"kind,omitempty"`
	ClientType string `json:"client_type,omitempty"`
}

// unaudited reports whether an answer is not told of: as in nats-server, messages that are read, and what a consumer
// answers itself.
func unaudited(kind string, failed bool) bool {
	switch kind {
	case schema + "stream_msg_get_response":
		return !failed
	case schema + "consumer_reset_response":
		return true
	}
	return false
}

// audit tells whoever listens of a request and its answer.
func (f *family) audit(r *request, body []byte, failed bool) {
	if unaudited(f.route.kind, failed) || !f.space.HasInterest(auditSubject) {
		return
	}
	server := f.service.engine.ServerName()
	ev := auditEvent{
		Type: "io.nats.jetstream.advisory.v1.api_audit", ID: nuid.Next(), Time: time.Now().UTC(),
		Server: server, Subject: r.subject, Request: string(r.body), Response: string(body),
		Domain: f.service.engine.Domain(),
	}
	if o := r.from; o != nil {
		ev.Client = &auditClient{
			Host: o.Host, ID: o.ID, Account: o.Account, User: o.User, Name: o.Name, Lang: o.Lang, Version: o.Version,
			Server: server, Kind: o.Kind, ClientType: "nats",
		}
	}
	data, err := json.Marshal(ev)
	if err != nil {
		f.service.log.Error("encoding the audit of a request to the JetStream API", "subject", r.subject, "error", err)
		return
	}
	f.space.PublishOnce(broker.Msg{Subject: []byte(auditSubject), Data: data})
}
