package conn

import (
	"maps"
	"slices"

	"github.com/sluicemq/sluice/internal/account"
)

// AccountStats are an account's totals since the server's start. All that a connection did counts in the account that
// it belongs to, or belonged to last.
type AccountStats struct {
	Connections       int    // open
	TotalConnections  uint64 // open and closed
	InMsgs, InBytes   int64  // that clients published
	OutMsgs, OutBytes int64  // that were sent to clients
	SlowConsumers     int64
}

// AccountStats gives the totals of all accounts that have had a connection.
func (s *Server) AccountStats() map[string]AccountStats {
	s.mu.Lock()
	all := maps.Clone(s.departed)
	conns := slices.Collect(maps.Values(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		now := c.snapshot(false)
		count(all, &now)
	}
	return all
}

// count adds a connection to its account, which is the default one until it says who it is.
func count(all map[string]AccountStats, c *Snapshot) {
	name := c.Account
	if name == "" {
		name = account.DefaultName
	}
	t := all[name]
	t.TotalConnections++
	t.InMsgs += c.InMsgs
	t.InBytes += c.InBytes
	t.OutMsgs += c.OutMsgs
	t.OutBytes += c.OutBytes
	if c.Stop.IsZero() {
		t.Connections++
	}
	switch c.Reason {
	case SlowConsumerPendingBytes.String(), SlowConsumerWriteDeadline.String():
		t.SlowConsumers++
	}
	all[name] = t
}
