package wal

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one log. Logs of one kind in one registry share them: a node has one at a time.
type metrics struct {
	commits, bytes, records, repeats, checks prometheus.Counter
	batchBytes, batchRecords, latency        prometheus.Histogram
	pending                                  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, id LogID) (*metrics, error) {
	labels := prometheus.Labels{"log": id.Kind.String()}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Subsystem: "log", Name: name, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		commits: counter("commits_total", "Objects of the log that were committed."),
		bytes:   counter("committed_bytes_total", "Bytes of records that were committed, before compression."),
		records: counter("committed_records_total", "Records that were committed."),
		repeats: counter("repeated_creates_total", "Creates that were repeated after a failed attempt."),
		checks:  counter("read_backs_total", "Keys that were read back to settle the outcome of a create."),
		batchBytes: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "sluice", Subsystem: "log", Name: "batch_bytes",
			Help: "Bytes of records per object.", ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(256, 4, 10)}),
		batchRecords: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "sluice", Subsystem: "log", Name: "batch_records",
			Help: "Records per object.", ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(1, 2, 15)}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "sluice", Subsystem: "log", Name: "commit_seconds",
			Help: "From the first record of an object to its commit.", ConstLabels: labels, Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 14)}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sluice", Subsystem: "log", Name: "pending_bytes",
			Help: "Bytes accepted and not yet committed, as they count against the bound.", ConstLabels: labels}),
	}
	if reg == nil {
		return m, nil
	}
	err := errors.Join(register(reg, &m.commits), register(reg, &m.bytes), register(reg, &m.records), register(reg, &m.repeats),
		register(reg, &m.checks), register(reg, &m.batchBytes), register(reg, &m.batchRecords), register(reg, &m.latency), register(reg, &m.pending))
	return m, err
}

// register adds a collector, or takes the one of an earlier epoch's log.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if earlier, ok := already.ExistingCollector.(C); ok {
			*c = earlier
			return nil
		}
	}
	return err
}

// committed counts a batch.
func (m *metrics) committed(b *batch, now time.Time) {
	m.commits.Inc()
	m.bytes.Add(float64(b.bytes))
	m.records.Add(float64(b.records))
	m.batchBytes.Observe(float64(b.bytes))
	m.batchRecords.Observe(float64(b.records))
	m.latency.Observe(now.Sub(b.opened).Seconds())
}
