package broadcast

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	broadcasts, batches, lost, delivered, ignored   prometheus.Counter
	polls, lists, headReads, fetches, gaps, missing prometheus.Counter
	failures                                        prometheus.Counter
	refused                                         *prometheus.CounterVec
	pending, publishers, behind, interval           prometheus.Gauge
	lag                                             prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Subsystem: "broadcast", Name: name, Help: help})
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sluice", Subsystem: "broadcast", Name: name, Help: help})
		all = append(all, g)
		return g
	}
	m := &metrics{
		broadcasts: counter("messages_total", "Messages of this node that were broadcast."),
		batches:    counter("batches_total", "Batches of this node's broadcast log."),
		lost:       counter("lost_total", "Messages taken in whose log ended before they were acknowledged."),
		delivered:  counter("delivered_total", "Messages of other nodes that were delivered here."),
		ignored:    counter("ignored_total", "Records of other nodes for accounts or of kinds that are unknown here."),
		polls:      counter("polls_total", "Looks at the heads."),
		lists:      counter("lists_total", "LIST requests of polls."),
		headReads:  counter("head_reads_total", "GET requests for heads that had changed."),
		fetches:    counter("fetched_batches_total", "Batches of other nodes that were read."),
		gaps:       counter("gaps_total", "Times that broadcasts were deleted before this node had read them."),
		missing:    counter("missed_batches_total", "Batches that were deleted before this node had read them."),
		failures:   counter("read_failures_total", "Listings, heads and batches that could not be read and are tried again."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sluice", Subsystem: "broadcast", Name: "refused_total",
			Help: "Messages of this node's clients that were not broadcast."}, []string{"reason"}),
		pending:    gauge("pending_bytes", "Bytes that wait to be written, as they count against the bound."),
		publishers: gauge("publishers", "Nodes that are followed."),
		behind:     gauge("behind_batches", "Batches that heads tell of and that are not delivered yet."),
		interval:   gauge("poll_interval_seconds", "Time to the next look at the heads."),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "sluice", Subsystem: "broadcast", Name: "lag_seconds",
			Help: "From the creation of a batch, by its writer's clock, to its delivery here, by this node's.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
	}
	all = append(all, m.refused, m.lag)
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}
