package cache

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// tier is where bytes come from, and a label.
type tier int

const (
	memoryTier tier = iota
	diskTier
	storeTier
	tiers
)

var tierNames = [tiers]string{"memory", "disk", "store"}

// metrics are
//
//	sluice_cache_hits_total{tier}              reads answered from memory or disk
//	sluice_cache_misses_total                  reads that went to the store; read-ahead is none
//	sluice_cache_coalesced_total               reads that joined a fetch under way
//	sluice_cache_gets_total                    ranged GETs
//	sluice_cache_read_bytes_total{tier}        bytes given from memory; fetched from disk and store
//	sluice_cache_readahead_parts_total{fate}   used or wasted
//	sluice_cache_evictions_total{tier}         parts
//	sluice_cache_bytes{tier}                   as they count against the bound
//	sluice_cache_parts{tier}
//	sluice_cache_disk_faults_total{operation}  read (corrupt or short), write, skipped (the queue was full)
type metrics struct {
	hits                   [2]prometheus.Counter
	misses, coalesced      prometheus.Counter
	gets                   prometheus.Counter
	bytes                  [tiers]prometheus.Counter
	aheadUsed, aheadWasted prometheus.Counter
	evictions              [2]prometheus.Counter
	sizeBytes, sizeParts   [2]prometheus.Gauge
	readFaults             prometheus.Counter
	writeFaults            prometheus.Counter
	writesSkipped          prometheus.Counter

	// What this cache added to the gauges for memory, guarded by Cache.mu.
	shownBytes, shownParts int64
	left                   bool
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	var faults []error
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
		faults = append(faults, err)
		return vec
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		vec, err := register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"tier"}))
		faults = append(faults, err)
		return vec
	}
	hits := counter("sluice_cache_hits_total", "Reads of parts that were kept.", "tier")
	misses := counter("sluice_cache_misses_total", "Reads of parts that had to be fetched from the store.")
	coalesced := counter("sluice_cache_coalesced_total", "Reads that joined a fetch under way.")
	gets := counter("sluice_cache_gets_total", "Ranged GETs to the store.")
	bytes := counter("sluice_cache_read_bytes_total", "Bytes given from memory, or fetched from disk and store.", "tier")
	ahead := counter("sluice_cache_readahead_parts_total", "Parts that were read ahead, by what became of them.", "fate")
	evictions := counter("sluice_cache_evictions_total", "Parts that had to go to make room.", "tier")
	disk := counter("sluice_cache_disk_faults_total", "What went wrong with the cache's files.", "operation")
	sizeBytes := gauge("sluice_cache_bytes", "Bytes held, as they count against the bound.")
	sizeParts := gauge("sluice_cache_parts", "Parts held.")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m := &metrics{
		misses: misses.WithLabelValues(), coalesced: coalesced.WithLabelValues(), gets: gets.WithLabelValues(),
		aheadUsed: ahead.WithLabelValues("used"), aheadWasted: ahead.WithLabelValues("wasted"),
		readFaults: disk.WithLabelValues("read"), writeFaults: disk.WithLabelValues("write"),
		writesSkipped: disk.WithLabelValues("skipped"),
	}
	for t, name := range tierNames {
		m.bytes[t] = bytes.WithLabelValues(name)
		if tier(t) == storeTier {
			continue
		}
		m.hits[t], m.evictions[t] = hits.WithLabelValues(name), evictions.WithLabelValues(name)
		m.sizeBytes[t], m.sizeParts[t] = sizeBytes.WithLabelValues(name), sizeParts.WithLabelValues(name)
	}
	return m, nil
}

// register registers a collector, or gives the one that another cache of the process has registered before.
func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	if registerer == nil {
		return collector, nil
	}
	err := registerer.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("cache: register: %w", err)
	}
	return collector, nil
}

// hit counts a read of n bytes from memory.
func (m *metrics) hit(n int64) {
	m.hits[memoryTier].Inc()
	m.bytes[memoryTier].Add(float64(n))
}

// size shows what is in memory.
func (m *metrics) size(mem *memory) { m.show(mem.size, int64(mem.parts)) }

// leave takes out of the gauges what a closed cache had added.
func (m *metrics) leave() {
	m.show(0, 0)
	m.left = true
}

func (m *metrics) show(bytes, parts int64) {
	if m.left {
		return
	}
	m.sizeBytes[memoryTier].Add(float64(bytes - m.shownBytes))
	m.sizeParts[memoryTier].Add(float64(parts - m.shownParts))
	m.shownBytes, m.shownParts = bytes, parts
}
