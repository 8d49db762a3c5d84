package node

import (
	"crypto/tls"
	"net"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/conn"
	"github.com/sluicemq/sluice/internal/monitor"
)

// status shows a node to monitoring. It works from the moment that Start begins until after the node's end: what is not
// there yet is shown as nothing.
type status struct{ *Node }

var _ monitor.Source = status{}

// parts are what is shown, as far as it is there, and the options in force.
func (s status) parts() (opts config.Options, clients *conn.Server, st *storage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts, s.clients, s.storage
}

// ServerID implements monitor.ServerSource.
func (s status) ServerID() string { return s.id }

// Varz implements monitor.ServerSource.
func (s status) Varz() *monitor.Varz {
	opts, clients, st := s.parts()
	v := monitor.ConfigVarz(&opts)
	s.mu.Lock()
	v.Start, v.ConfigLoadTime = s.begun, s.configured
	v.Port, v.ConnectURLs = s.portLocked(), s.connectURLsLocked(&opts)
	switch {
	case s.monitor != nil && opts.HTTPSPort != 0:
		v.HTTPSPort = s.monitor.Port()
	case s.monitor != nil:
		v.HTTPPort = s.monitor.Port()
	}
	secured := s.secured
	if s.websocket != nil {
		v.Websocket.Port = s.websocket.Addr().(*net.TCPAddr).Port
	}
	s.mu.Unlock()
	if c := secured.clients; c != nil {
		v.TLSRequired, v.TLSVerify = !opts.AllowNonTLS, c.ClientAuth == tls.RequireAndVerifyClientCert
	}
	v.TLSCertNotAfter, v.Websocket.TLSCertNotAfter = certificateEnd(secured.clients), certificateEnd(secured.websocket)
	v.AuthNeeded = s.directory.AuthAdvertised(account.ConnectionStandard)
	for _, a := range s.directory.Accounts() {
		v.Subscriptions += uint32(s.broker.Space(a.Name).Subscriptions())
	}
	if clients != nil {
		countClients(v, clients.Stats())
	}
	if v.JetStream.Config != nil {
		v.JetStream.Config.StoreDir = s.storeURL
		v.JetStream.Stats = &monitor.JetStreamStats{}
		if st != nil {
			v.JetStream.Stats = st.stats()
			v.Storage = st.varz(s.storeURL)
		}
	}
	return v
}

// countClients fills in what clients did. There are no other connections, so both counts are theirs.
func countClients(v *monitor.Varz, c conn.Stats) {
	v.Connections, v.TotalConnections = c.Connections, c.TotalConnections
	v.InMsgs, v.InBytes, v.OutMsgs, v.OutBytes = c.InMsgs, c.InBytes, c.OutMsgs, c.OutBytes
	v.InClientMsgs, v.InClientBytes, v.OutClientMsgs, v.OutClientBytes = c.InMsgs, c.InBytes, c.OutMsgs, c.OutBytes
	v.SlowConsumers, v.StaleConnections, v.StalledClients = c.SlowConsumers, c.StaleConnections, c.Stalls
}

func (st *storage) varz(url string) *monitor.StorageVarz {
	return &monitor.StorageVarz{
		URL: url, Node: st.head.Node(), Epoch: uint64(st.head.Epoch()), HeadAge: st.head.Stale(),
		PendingBytes: st.wal.PendingBytes(), Stalled: st.wal.Stalled(),
	}
}
