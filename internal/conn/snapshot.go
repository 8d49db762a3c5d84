package conn

import (
	"cmp"
	"crypto/tls"
	"slices"
	"time"
)

// Snapshot is a connection as monitoring shows it.
type Snapshot struct {
	ID           uint64
	IP           string // "" in-process
	Port         int
	Start        time.Time
	LastActivity time.Time
	Stop         time.Time // zero: open
	Reason       string    // of a closed connection
	RTT          time.Duration
	Pending      int64 // bytes waiting to be written
	InMsgs       int64
	OutMsgs      int64
	InBytes      int64
	OutBytes     int64
	Stalls       int64 // times that it was made to wait for receivers
	NumSubs      int
	Name         string
	Lang         string
	Version      string
	User         string // authorized_user
	Account      string
	InProcess    bool
	Websocket    bool
	TLS          *tls.ConnectionState // nil: without
	TLSFirst     bool                 // the handshake came before INFO
	Subs         []SubSnapshot        // only where asked for
}

// SubSnapshot is a subscription of a connection.
type SubSnapshot struct {
	Subject string
	Queue   string
	SID     string
	Msgs    uint64 // delivered
	Max     uint64 // after which it ends; 0: never
}

// snapshot describes the connection.
func (c *Conn) snapshot(withSubs bool) Snapshot {
	s := Snapshot{
		ID: c.id, IP: c.host, Port: c.rport, Start: c.start, InProcess: c.inProcess(), Websocket: c.frames != nil,
		LastActivity: time.Unix(0, c.last.Load()),
		InMsgs:       c.inMsgs.Load(), InBytes: c.inBytes.Load(), Stalls: c.stalls.Load(),
	}
	id := c.identity.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != nil {
		s.Account = id.Account.Name
	}
	s.User = rawUser(&c.opts)
	if port := c.port(); id != nil && port != nil && port.Map {
		s.User = id.User
	}
	s.TLS, s.TLSFirst = c.tls, c.tlsFirst
	s.RTT, s.Pending = c.rtt, c.out.pending
	s.OutMsgs, s.OutBytes = c.out.msgs, c.out.bytes
	s.NumSubs = len(c.subs)
	s.Name, s.Lang, s.Version = c.opts.Name, c.opts.Lang, c.opts.Version
	if !c.isOpen() {
		s.Stop, s.Reason = c.stopped, c.closed.String()
	}
	if withSubs {
		for _, sub := range c.subs {
			s.Subs = append(s.Subs, SubSnapshot{
				Subject: sub.Subject(), Queue: sub.Queue(), SID: sid(sub), Msgs: sub.Delivered, Max: sub.Limit(),
			})
		}
		slices.SortFunc(s.Subs, func(a, b SubSnapshot) int {
			return cmp.Or(cmp.Compare(len(a.SID), len(b.SID)), cmp.Compare(a.SID, b.SID))
		})
	}
	return s
}

// Connections describes all open connections, by id.
func (s *Server) Connections(withSubs bool) []Snapshot {
	conns := s.all()
	list := make([]Snapshot, 0, len(conns))
	for _, c := range conns {
		list = append(list, c.snapshot(withSubs))
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Connection describes one open connection.
func (s *Server) Connection(id uint64, withSubs bool) (Snapshot, bool) {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil {
		return Snapshot{}, false
	}
	return c.snapshot(withSubs), true
}

// ClosedConnection describes one of those that were closed last, with the subscriptions that it had at the end unless
// they were many.
func (s *Server) ClosedConnection(id uint64) (Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.past.list {
		if s.past.list[i].ID == id {
			return s.past.list[i], true
		}
	}
	return Snapshot{}, false
}

// ClosedConnections describes the connections that were closed last, the oldest first, and tells how many there were
// in all.
func (s *Server) ClosedConnections() (list []Snapshot, total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past.all(), s.past.total
}

// Stats are the server's totals since its start. Messages and bytes are those of clients.
type Stats struct {
	Connections      int
	TotalConnections uint64
	InMsgs, InBytes  int64
	OutMsgs          int64
	OutBytes         int64
	SlowConsumers    int64
	StaleConnections int64
	Stalls           int64
	// ByAccount counts open connections.
	ByAccount map[string]int
}

// Stats gives the totals.
func (s *Server) Stats() Stats {
	st := Stats{
		TotalConnections: s.stats.total.Load(),
		InMsgs:           s.stats.inMsgs.Load(),
		InBytes:          s.stats.inBytes.Load(),
		OutMsgs:          s.stats.outMsgs.Load(),
		OutBytes:         s.stats.outBytes.Load(),
		SlowConsumers:    s.stats.slow.Load(),
		StaleConnections: s.stats.stale.Load(),
		Stalls:           s.stats.stalls.Load(),
		ByAccount:        make(map[string]int),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Connections = len(s.conns)
	for name, n := range s.accounts {
		st.ByAccount[name] = n
	}
	return st
}
