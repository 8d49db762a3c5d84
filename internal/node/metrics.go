package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/jsapi"
)

// register adds what the storage as a whole knows to the metrics; its parts add their own. prices may be nil.
func (st *storage) register(r prometheus.Registerer, prices *config.Prices) error {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sluice", Subsystem: "jetstream", Name: name, Help: help, ConstLabels: labels}, value)
	}
	counter := func(name, help string, value func(jsapi.Counts) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "sluice", Subsystem: "jetstream", Name: name, Help: help},
			func() float64 { return float64(value(st.api.Counts())) })
	}
	memory, file := prometheus.Labels{"storage": "memory"}, prometheus.Labels{"storage": "file"}
	const bytesHelp, reservedHelp = "Bytes that streams hold, in flight or visible.", "Sum of the max_bytes of streams."
	collectors := []prometheus.Collector{
		gauge("bytes", bytesHelp, memory, func() float64 { m, _ := st.engine.Pools(); return float64(m.Used) }),
		gauge("bytes", bytesHelp, file, func() float64 { _, f := st.engine.Pools(); return float64(f.Used) }),
		gauge("reserved_bytes", reservedHelp, memory, func() float64 { m, _ := st.engine.Pools(); return float64(m.Reserved) }),
		gauge("reserved_bytes", reservedHelp, file, func() float64 { _, f := st.engine.Pools(); return float64(f.Reserved) }),
		gauge("streams", "Streams of all accounts.", nil, func() float64 { return float64(st.engine.Streams()) }),
		counter("api_requests_total", "Requests to the JetStream API that were answered.", func(c jsapi.Counts) uint64 { return c.Requests }),
		counter("api_errors_total", "Requests to the JetStream API that were answered with an error.", func(c jsapi.Counts) uint64 { return c.Errors }),
		gauge("store_stalled_seconds", "For how long the store has failed to take the oldest part of the log.", nil,
			func() float64 { return st.wal.Stalled().Seconds() }),
		gauge("head_age_seconds", "Time since the node last showed in the store that it lives.", nil,
			func() float64 { return st.head.Stale().Seconds() }),
	}
	if prices != nil {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_store_month_dollars",
			Help: "Estimated cost of holding what the streams hold now for a month, in US dollars.",
		}, func() float64 { _, f := st.engine.Pools(); return float64(f.Used) * prices.StorageGBMonth / 1e9 }))
	}
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
