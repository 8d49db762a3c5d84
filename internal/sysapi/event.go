package sysapi

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/monitor"
)

const schema = "io.nats.server.advisory.v1."

// head begins every event.
type head struct {
	Type   string      `json:"type"`
	ID     string      `json:"id"`
	Time   time.Time   `json:"timestamp"`
	Server *serverInfo `json:"server"`
}

func (s *Service) head(kind string) head {
	return head{Type: schema + kind, ID: nuid.Next(), Time: time.Now().UTC(), Server: s.introduce()}
}

// client describes a connection in events.
type client struct {
	Start   time.Time     `json:"start"`
	Host    string        `json:"host,omitempty"`
	ID      uint64        `json:"id"`
	Account string        `json:"acc"`
	User    string        `json:"user,omitempty"`
	Name    string        `json:"name,omitempty"`
	Lang    string        `json:"lang,omitempty"`
	Version string        `json:"ver,omitempty"`
	RTT     time.Duration `json:"rtt,omitempty"` // ns
	Stop    *time.Time    `json:"stop,omitempty"`
	NameTag string        `json:"name_tag,omitempty"`
	Kind    string        `json:"kind"`
	Type    string        `json:"client_type"`
}

type connectEvent struct {
	head
	Client client `json:"client"`
}

type disconnectEvent struct {
	head
	Client   client           `json:"client"`
	Sent     monitor.MsgBytes `json:"sent"`     // to the client
	Received monitor.MsgBytes `json:"received"` // from it
	Reason   string           `json:"reason"`
}

// connsEvent tells of an account's connections.
type connsEvent struct {
	head
	monitor.AccountStat
}

func describe(c *monitor.Conn) client {
	d := client{Start: c.Start.UTC(), Host: c.IP, ID: c.CID, Account: c.Account, User: c.User, Name: c.Name, Lang: c.Lang, Version: c.Version,
		Kind: c.Kind, Type: c.Type}
	if d.Account == "" {
		d.Account = account.DefaultName
	}
	d.NameTag = d.Account
	return d
}

func (s *Service) disconnect(c *monitor.Conn) *disconnectEvent {
	e := &disconnectEvent{head: s.head("client_disconnect"), Client: describe(c), Sent: monitor.MsgBytes{Msgs: c.OutMsgs, Bytes: c.OutBytes},
		Received: monitor.MsgBytes{Msgs: c.InMsgs, Bytes: c.InBytes}, Reason: c.Reason}
	stop := c.Stop.UTC()
	if c.Stop.IsZero() {
		stop = e.Time
	}
	e.Client.RTT, e.Client.Stop = c.RTT, &stop
	return e
}

// announce publishes an event, which is made only when somebody listens; nil is none after all.
func (s *Service) announce(subject string, event func() any) {
	if !s.system.HasInterest(subject) {
		return
	}
	e := event()
	if e == nil {
		return
	}
	body, err := json.Marshal(e)
	if err != nil {
		s.log.Error("encoding an event", "subject", subject, "error", err)
		return
	}
	s.system.PublishOnce(broker.Msg{Subject: []byte(subject), Data: body})
}

// Connected announces a client that has said who it is. conn is called at most once, and only if somebody listens, as
// below; none of these methods waits.
func (s *Service) Connected(account string, conn func() monitor.Conn) {
	s.announceConns(account)
	s.announce("$SYS.ACCOUNT."+account+".CONNECT", func() any {
		c := conn()
		return &connectEvent{head: s.head("client_connect"), Client: describe(&c)}
	})
}

// Disconnected announces that a client has gone. Its Account is "" if it never said who it is.
func (s *Service) Disconnected(c *monitor.Conn) {
	name := c.Account
	if name == "" {
		name = account.DefaultName
	} else {
		s.announceConns(name)
	}
	s.announce("$SYS.ACCOUNT."+name+".DISCONNECT", func() any { return s.disconnect(c) })
}

// Refused announces that a client's credentials were wrong. That it has gone is announced too.
func (s *Service) Refused(conn func() monitor.Conn) {
	s.announce("$SYS.SERVER."+s.self.ID+".CLIENT.AUTH.ERR", func() any {
		c := conn()
		c.Reason = "Authentication Failure"
		return s.disconnect(&c)
	})
}

// conns describes an account's connections; nil where it has none, unless unused ones are wanted, or does not exist.
func (s *Service) conns(account string, unused bool) *connsEvent {
	z := s.report.AccountStatz(monitor.AccountStatzQuery{Accounts: []string{account}, Unused: unused})
	if len(z.Accounts) == 0 {
		return nil
	}
	e := &connsEvent{head: s.head("account_connections"), AccountStat: z.Accounts[0]}
	e.TotalConnections = e.Connections + e.LeafNodes // of all kinds, not of all times
	return e
}

// announceConns announces how many connections an account has, under the old subject and the new one.
func (s *Service) announceConns(account string) {
	old, current := "$SYS.SERVER.ACCOUNT."+account+".CONNS", "$SYS.ACCOUNT."+account+".SERVER.CONNS"
	begun := time.Now()
	if !s.system.HasInterest(old) && !s.system.HasInterest(current) || s.pace.tooEarly(account, begun) {
		return
	}
	var e any
	build := func() any {
		if e == nil {
			if c := s.conns(account, true); c != nil {
				e = c
			}
		}
		return e
	}
	s.announce(old, build)
	s.announce(current, build)
	now := time.Now()
	s.pace.spent(now.Sub(begun), now)
}

// announceAllConns does so for all accounts with connections, if anybody listens to any.
func (s *Service) announceAllConns() {
	for _, a := range s.report.AccountStatz(monitor.AccountStatzQuery{}).Accounts {
		s.announceConns(a.Account)
	}
}

// LameDuck announces that the server lets its clients go.
func (s *Service) LameDuck() { s.announceEnd("LAMEDUCK") }

// Shutdown announces that the server ends. It comes before connections are closed.
func (s *Service) Shutdown() { s.announceEnd("SHUTDOWN") }

func (s *Service) announceEnd(what string) {
	s.announce("$SYS.SERVER."+s.self.ID+"."+what, func() any { return &effectAnswer{Server: s.introduce()} })
}
