package conn

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// userInfoSubject is asked by clients that want to know who they are.
const userInfoSubject = "$SYS.REQ.USER.INFO"

// userInfo answers it in every account.
type userInfo struct {
	srv *Server
	seq atomic.Uint64

	mu   sync.Mutex
	subs map[string]bool // accounts
}

func newUserInfo(s *Server) *userInfo { return &userInfo{srv: s, subs: make(map[string]bool)} }

// subscribe sees to it that all accounts are served.
func (u *userInfo) subscribe() error {
	o := u.srv.options()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range o.Directory.Accounts() {
		if u.subs[a.Name] {
			continue
		}
		if _, err := o.Broker.Space(a.Name).Subscribe(userInfoSubject, "", u); err != nil {
			return fmt.Errorf("subscribing to %s: %w", userInfoSubject, err)
		}
		u.subs[a.Name] = true
	}
	return nil
}

// The answer's form is that of nats-server.
type (
	userInfoAnswer struct {
		Server serverIdentity `json:"server"`
		Data   userIdentity   `json:"data"`
	}
	serverIdentity struct {
		Name      string    `json:"name"`
		Host      string    `json:"host"`
		ID        string    `json:"id"`
		Domain    string    `json:"domain,omitempty"`
		Version   string    `json:"ver"`
		JetStream bool      `json:"jetstream"`
		Flags     int       `json:"flags"`
		Seq       uint64    `json:"seq"`
		Time      time.Time `json:"time"`
	}
	userIdentity struct {
		User        string           `json:"user"`
		Account     string           `json:"account"`
		AccountName string           `json:"account_name,omitempty"`
		Permissions *userPermissions `json:"permissions,omitempty"`
	}
	userPermissions struct {
		Publish   subjectLists   `json:"publish"`
		Subscribe subjectLists   `json:"subscribe"`
		Responses *responseLimit `json:"responses,omitempty"`
	}
	subjectLists struct {
		Allow []string `json:"allow,omitempty"`
		Deny  []string `json:"deny,omitempty"`
	}
	responseLimit struct {
		Max int           `json:"max"`
		TTL time.Duration `json:"ttl"`
	}
)

// Deliver answers the requests of a chunk.
func (u *userInfo) Deliver(batch []broker.Delivery) (gate <-chan struct{}) {
	for i := range batch {
		d := &batch[i]
		if d.From == nil || len(d.Reply) == 0 {
			continue
		}
		if answer := u.answer(d.From); answer != nil {
			u.srv.options().Broker.Space(d.From.Account).PublishOnce(broker.Msg{Subject: d.Reply, Data: answer})
		}
	}
	return nil
}

func (u *userInfo) answer(from *broker.Origin) []byte {
	u.srv.mu.Lock()
	c := u.srv.conns[from.ID]
	u.srv.mu.Unlock()
	if c == nil {
		return nil
	}
	o := u.srv.options()
	answer := userInfoAnswer{
		Server: serverIdentity{
			Name: o.ServerName, Host: o.Host, ID: o.ServerID, Domain: o.Domain, Version: proto.Version,
			JetStream: o.JetStream, Seq: u.seq.Add(1), Time: time.Now().UTC(),
		},
		Data: userIdentity{User: from.User, Account: from.Account, AccountName: from.Account},
	}
	if rights := c.rights(); rights != nil {
		answer.Data.Permissions = permissionsOf(rights)
	}
	b, err := json.Marshal(&answer)
	if err != nil {
		u.srv.options().Log.Error("answering a request for user information", "error", err)
		return nil
	}
	return b
}

func permissionsOf(r *account.Rights) *userPermissions {
	p := r.Settings()
	out := &userPermissions{
		Publish:   subjectLists{Allow: p.Publish.Allow, Deny: p.Publish.Deny},
		Subscribe: subjectLists{Allow: p.Subscribe.Allow, Deny: p.Subscribe.Deny},
	}
	if resp := r.Responses(); resp != nil {
		out.Responses = &responseLimit{Max: resp.MaxMsgs, TTL: resp.Expires}
	}
	return out
}

// rawUser is the name by which monitoring shows a client.
func rawUser(o *proto.Connect) string {
	switch {
	case o.NKey != "":
		return o.NKey
	case o.User != "":
		return o.User
	case o.Token != "":
		return "[REDACTED]"
	}
	return ""
}
