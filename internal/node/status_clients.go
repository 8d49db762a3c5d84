package node

import (
	"iter"

	"github.com/sluicemq/sluice/internal/conn"
	"github.com/sluicemq/sluice/internal/monitor"
)

// Conns implements monitor.ConnSource.
func (s status) Conns(state monitor.ConnState) (all []monitor.Conn) {
	_, clients, _ := s.parts()
	if clients == nil {
		return nil
	}
	if state != monitor.ConnClosed {
		for _, c := range clients.Connections(false) {
			all = append(all, toConn(&c))
		}
	}
	if state != monitor.ConnOpen {
		closed, _ := clients.ClosedConnections()
		for _, c := range closed {
			all = append(all, toConn(&c))
		}
	}
	return all
}

func toConn(c *conn.Snapshot) monitor.Conn {
	kind := "nats"
	if c.Websocket {
		kind = "websocket"
	}
	return monitor.Conn{
		CID: c.ID, Kind: "Client", Type: kind, IP: c.IP, Port: c.Port,
		Start: c.Start, LastActivity: c.LastActivity, Stop: c.Stop, Reason: c.Reason,
		RTT: c.RTT, Pending: int(c.Pending), InMsgs: c.InMsgs, OutMsgs: c.OutMsgs, InBytes: c.InBytes, OutBytes: c.OutBytes,
		Stalls: c.Stalls, NumSubs: uint32(c.NumSubs), Name: c.Name, Lang: c.Lang, Version: c.Version,
		User: c.User, Account: c.Account, TLS: c.TLS, TLSFirst: c.TLSFirst,
	}
}

// ConnSubs implements monitor.ConnSource.
func (s status) ConnSubs(cid uint64) []monitor.SubDetail {
	_, clients, _ := s.parts()
	if clients == nil {
		return nil
	}
	c, ok := clients.Connection(cid, true)
	if !ok {
		if c, ok = clients.ClosedConnection(cid); !ok {
			return nil
		}
	}
	subs := make([]monitor.SubDetail, len(c.Subs))
	for i := range c.Subs {
		subs[i] = toSub(&c, i)
		subs[i].Account = "" // the connection says it
	}
	return subs
}

func toSub(c *conn.Snapshot, i int) monitor.SubDetail {
	sub := &c.Subs[i]
	return monitor.SubDetail{Account: c.Account, Subject: sub.Subject, Queue: sub.Queue, SID: sub.SID, Msgs: int64(sub.Msgs), Max: int64(sub.Max), CID: c.ID}
}

// SublistStats implements monitor.SubSource. The index has no cache of its own and keeps no statistics beside the number
// of its entries, which includes the server's own subscriptions, as for nats-server.
func (s status) SublistStats(account string) (sum monitor.SublistStats) {
	for _, a := range s.directory.Accounts() {
		if account == "" || a.Name == account {
			sum.NumSubs += uint32(s.broker.Space(a.Name).Subscriptions())
		}
	}
	return sum
}

// Subs implements monitor.SubSource: one connection at a time, so that no list of all is in memory.
func (s status) Subs(account string) iter.Seq[monitor.SubDetail] {
	return func(yield func(monitor.SubDetail) bool) {
		_, clients, _ := s.parts()
		if clients == nil {
			return
		}
		for _, c := range clients.Connections(false) {
			if account != "" && c.Account != account || c.NumSubs == 0 {
				continue
			}
			c, ok := clients.Connection(c.ID, true)
			for i := 0; ok && i < len(c.Subs); i++ {
				if !yield(toSub(&c, i)) {
					return
				}
			}
		}
	}
}

// SystemAccount implements monitor.AccountSource.
func (s status) SystemAccount() string { return s.directory.System().Name }

// Accounts implements monitor.AccountSource.
func (s status) Accounts() []monitor.Account {
	_, clients, st := s.parts()
	s.mu.Lock()
	configured := s.configured
	s.mu.Unlock()
	var stats map[string]conn.AccountStats
	if clients != nil {
		stats = clients.AccountStats()
	}
	var all []monitor.Account
	for _, a := range s.directory.Accounts() {
		c := stats[a.Name]
		all = append(all, monitor.Account{
			Name: a.Name, Updated: configured, JetStream: st != nil && st.engine.Account(a.Name) != nil,
			Connections: c.Connections, TotalConnections: int(c.TotalConnections),
			Subscriptions: uint32(s.broker.Space(a.Name).Subscriptions()),
			Sent:          monitor.MsgBytes{Msgs: c.OutMsgs, Bytes: c.OutBytes}, Received: monitor.MsgBytes{Msgs: c.InMsgs, Bytes: c.InBytes},
			SlowConsumers: c.SlowConsumers,
		})
	}
	return all
}
