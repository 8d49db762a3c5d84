package conn

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// register adds the server's counters.
func (s *Server) register(r prometheus.Registerer) error {
	counter := func(name, help string, v *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "sluice", Subsystem: "client", Name: name, Help: help},
			func() float64 { return float64(v.Load()) })
	}
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "sluice", Subsystem: "client", Name: "connections", Help: "Open client connections.",
		}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(len(s.conns))
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "sluice", Subsystem: "client", Name: "connections_total", Help: "Client connections accepted.",
		}, func() float64 { return float64(s.stats.total.Load()) }),
		counter("received_messages_total", "Messages that clients published.", &s.stats.inMsgs),
		counter("received_bytes_total", "Headers and payloads that clients published.", &s.stats.inBytes),
		counter("sent_messages_total", "Messages sent to clients.", &s.stats.outMsgs),
		counter("sent_bytes_total", "Headers and payloads sent to clients.", &s.stats.outBytes),
		counter("slow_consumers_total", "Clients given up because they were too slow.", &s.stats.slow),
		counter("stale_connections_total", "Clients given up because they did not answer.", &s.stats.stale),
		counter("stalls_total", "Times that a publisher was made to wait for a receiver.", &s.stats.stalls),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
