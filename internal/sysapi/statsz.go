package sysapi

import (
	"time"

	"github.com/sluicemq/sluice/internal/monitor"
)

const (
	// statszInterval is the time between two announcements of the server's statistics.
	statszInterval = 10 * time.Second
	// connsBeats is how many of those pass until accounts with connections are announced again.
	connsBeats = 3
)

// statsz is the answer to a ping, and what is announced regularly.
type statsz struct {
	Server *serverInfo `json:"server"`
	Stats  stats       `json:"statsz"`
}

type stats struct {
	Start          time.Time              `json:"start"`
	Mem            int64                  `json:"mem"` // resident bytes
	Cores          int                    `json:"cores"`
	CPU            float64                `json:"cpu"` // percent of one core
	Connections    int                    `json:"connections"`
	Total          uint64                 `json:"total_connections"`
	ActiveAccounts int                    `json:"active_accounts"` // with connections
	Subscriptions  uint32                 `json:"subscriptions"`
	Sent           monitor.MsgBytes       `json:"sent"`
	SentToClients  monitor.MsgBytes       `json:"sent_to_clients"`
	Received       monitor.MsgBytes       `json:"received"`
	FromClients    monitor.MsgBytes       `json:"received_from_clients"`
	SlowConsumers  int64                  `json:"slow_consumers"`
	SlowByKind     *monitor.ByKind        `json:"slow_consumer_stats,omitempty"`
	Stale          int64                  `json:"stale_connections,omitempty"`
	StaleByKind    *monitor.ByKind        `json:"stale_connection_stats,omitempty"`
	StalledClients int64                  `json:"stalled_clients,omitempty"`
	ActiveServers  int                    `json:"active_servers"`
	JetStream      *monitor.JetStreamVarz `json:"jetstream,omitempty"`
	MaxProcs       int                    `json:"gomaxprocs"`
	MemLimit       int64                  `json:"gomemlimit,omitempty"`
}

func (s *Service) statsz() *statsz {
	v := s.report.Varz()
	z := stats{Start: v.Start, Mem: v.Mem, Cores: v.Cores, CPU: v.CPU, Connections: v.Connections, Total: v.TotalConnections,
		ActiveAccounts: len(s.report.AccountStatz(monitor.AccountStatzQuery{}).Accounts), Subscriptions: v.Subscriptions,
		Sent: monitor.MsgBytes{Msgs: v.OutMsgs, Bytes: v.OutBytes}, SentToClients: monitor.MsgBytes{Msgs: v.OutClientMsgs, Bytes: v.OutClientBytes},
		Received: monitor.MsgBytes{Msgs: v.InMsgs, Bytes: v.InBytes}, FromClients: monitor.MsgBytes{Msgs: v.InClientMsgs, Bytes: v.InClientBytes},
		SlowConsumers: v.SlowConsumers, Stale: v.StaleConnections, StalledClients: v.StalledClients,
		ActiveServers: 1, MaxProcs: v.MaxProcs, MemLimit: v.MemLimit}
	if v.SlowConsumers > 0 {
		z.SlowByKind = &v.SlowConsumerStats
	}
	if v.StaleConnections > 0 {
		z.StaleByKind = &v.StaleConnectionStats
	}
	if v.JetStream.Config != nil {
		v.JetStream.Config.StoreDir = "" // this goes round the cluster
		z.JetStream = &v.JetStream
	}
	return &statsz{Server: s.introduce(), Stats: z}
}

// beat announces what is announced regularly, until Close.
func (s *Service) beat() {
	t := time.NewTicker(statszInterval)
	defer t.Stop()
	late := time.NewTicker(catchUp)
	defer late.Stop()
	for n := 0; ; {
		select {
		case <-s.done:
			return
		case <-late.C:
			for _, account := range s.pace.late() {
				s.announceConns(account)
			}
			continue
		case <-t.C:
			n++
		}
		s.announce("$SYS.SERVER."+s.self.ID+".STATSZ", func() any { return s.statsz() })
		if n%connsBeats == 0 {
			s.announceAllConns()
		}
	}
}
