package metered

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

func open(t *testing.T, registerer prometheus.Registerer) *Store {
	t.Helper()
	next, err := mem.New(mem.Options{MaxBytes: 100 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(next, registerer, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAcceptance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, prometheus.NewRegistry()) })
}

// gather gives every sample that is not zero, by "name label label".
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.Metric {
			name := []string{family.GetName()}
			for _, label := range metric.Label {
				name = append(name, label.GetValue())
			}
			value := metric.GetCounter().GetValue()
			if family.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(metric.GetHistogram().GetSampleCount())
			}
			if value != 0 {
				samples[strings.Join(name, " ")] = value
			}
		}
	}
	return samples
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, other := open(t, registry), open(t, registry) // two nodes of one process
	ctx := t.Context()
	etag, err := s.Put(ctx, "k", make([]byte, 10), store.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, errs := other.Put(ctx, "k", make([]byte, 5), store.Always())
	for _, call := range []func() error{
		func() error { _, err := s.Put(ctx, "k", nil, store.IfAbsent()); return err },
		func() error { _, err := s.Put(ctx, "k", make([]byte, 3), store.IfMatch(etag)); return err },
		func() error { _, err := s.Put(ctx, "big", make([]byte, 101<<20), store.Always()); return err },
		func() error { _, err := s.Get(ctx, "k"); return err },
		func() error { _, err := s.Get(ctx, "nothing"); return err },
		func() error { _, err := s.Get(ended, "k"); return err },
		func() error { _, err := s.GetRange(ctx, "k", 1, 2); return err },
		func() error { _, err := s.GetRange(ctx, "k", 50, 2); return err },
		func() error { _, err := s.List(ctx, store.ListOptions{}); return err },
		func() error { return s.Delete(ctx, "k") },
		func() error { return s.Delete(ctx, "/") },
	} {
		errs = errors.Join(errs, call())
	}
	want := map[string]float64{
		"sluice_store_requests_total create ok":           1,
		"sluice_store_requests_total put ok":              1,
		"sluice_store_requests_total create precondition": 1,
		"sluice_store_requests_total replace ok":          1,
		"sluice_store_requests_total put full":            1,
		"sluice_store_requests_total get ok":              1,
		"sluice_store_requests_total get not_found":       1,
		"sluice_store_requests_total get canceled":        1,
		"sluice_store_requests_total get_range ok":        1,
		"sluice_store_requests_total get_range invalid":   1,
		"sluice_store_requests_total list ok":             1,
		"sluice_store_requests_total delete ok":           1,
		"sluice_store_requests_total delete invalid":      1,
		"sluice_store_request_seconds create":             2,
		"sluice_store_request_seconds put":                2,
		"sluice_store_request_seconds replace":            1,
		"sluice_store_request_seconds get":                3,
		"sluice_store_request_seconds get_range":          2,
		"sluice_store_request_seconds list":               1,
		"sluice_store_request_seconds delete":             2,
		"sluice_store_written_bytes_total":                18,
		"sluice_store_read_bytes_total":                   5,
	}
	got := gather(t, registry)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("further metrics: %v (errors of the calls: %v)", got, errs)
	}
}

func TestCost(t *testing.T) {
	registry := prometheus.NewRegistry()
	next, err := mem.New(mem.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(next, registry, &Prices{Get: 1, Put: 10, List: 100, Delete: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	etag, err := s.Put(ctx, "k", []byte("content"), store.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 2001)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	s.Put(ctx, "k", nil, store.IfAbsent()) // one that loses costs as much
	s.Put(ctx, "k", nil, store.IfMatch(etag))
	s.Put(ctx, "k", []byte("content"), store.Always())
	s.Get(ctx, "k")
	s.Get(ctx, "nothing")
	s.GetRange(ctx, "k", 1, 2)
	s.List(ctx, store.ListOptions{})
	s.Delete(ctx, "k")
	s.Delete(ctx, keys...)
	got := gather(t, registry)
	for operation, want := range map[string]float64{"create": 20, "replace": 10, "put": 10, "get": 2, "get_range": 1, "list": 100, "delete": 4000} {
		if cost := got["sluice_store_cost_dollars_total "+operation]; cost != want {
			t.Errorf("%s cost %v, want %v", operation, cost, want)
		}
	}
}

func TestResults(t *testing.T) {
	for err, want := range map[error]string{
		store.ErrUnknownOutcome: "unknown_outcome",
		store.ErrThrottled:      "throttled",
		store.ErrNoBucket:       "error",
		errors.New("other"):     "error",
		fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Canceled): "unknown_outcome",
	} {
		if got := resultNames[resultOf(err)]; got != want {
			t.Errorf("result of %v is %s, want %s", err, got, want)
		}
	}
}

func TestForeignMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_store_read_bytes_total", Help: "Other."}))
	if _, err := New(nil, registry, nil); err == nil {
		t.Error("New beside a foreign metric of the same name: no error")
	}
}
