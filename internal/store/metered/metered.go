// Package metered counts what a store is asked for, as Prometheus metrics.
package metered

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/store"
)

// operation is the label "operation". Puts are told apart by their condition, since they fail differently.
type operation int

const (
	opGet operation = iota
	opGetRange
	opPut
	opCreate
	opReplace
	opList
	opDelete
	operations
)

var operationNames = [operations]string{"get", "get_range", "put", "create", "replace", "list", "delete"}

// result is the label "result".
type result int

const (
	resultOK result = iota
	resultNotFound
	resultPrecondition
	resultUnknownOutcome
	resultThrottled
	resultFull
	resultInvalid
	resultCanceled
	resultError
	results
)

var resultNames = [results]string{
	"ok", "not_found", "precondition", "unknown_outcome", "throttled", "full", "invalid", "canceled", "error",
}

func resultOf(err error) result {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, store.ErrNotFound):
		return resultNotFound
	case errors.Is(err, store.ErrPrecondition):
		return resultPrecondition
	case errors.Is(err, store.ErrUnknownOutcome):
		return resultUnknownOutcome
	case errors.Is(err, store.ErrThrottled):
		return resultThrottled
	case errors.Is(err, store.ErrFull):
		return resultFull
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidRange):
		return resultInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return resultCanceled
	default:
		return resultError
	}
}

// Store decorates a store.Store.
type Store struct {
	next     store.Store
	requests [operations][results]prometheus.Counter
	duration [operations]prometheus.Observer
	cost     [operations]prometheus.Counter // nil without prices
	prices   [operations]float64
	read     prometheus.Counter
	written  prometheus.Counter
}

var _ store.Store = (*Store)(nil)

// Prices of one request, in US dollars. Get is for whole objects and ranges, Put for writes with and without a condition,
// Delete for up to 1,000 keys.
type Prices struct {
	Get, Put, List, Delete float64
}

// deleteGroup is how many keys one request deletes.
const deleteGroup = 1000

// New decorates next and registers
//
//	sluice_store_requests_total{operation,result}
//	sluice_store_request_seconds{operation}      histogram, all results
//	sluice_store_read_bytes_total                bytes of objects that reads gave
//	sluice_store_written_bytes_total             bytes of objects that writes were answered with success for
//	sluice_store_cost_dollars_total{operation}   with prices only: of all requests, whatever their result
//
// The cost is an estimate: repetitions within the store's client do not show here, and some failures are not charged.
// Several stores on one registerer add to the same metrics; to keep them apart, wrap it by
// prometheus.WrapRegistererWith. Label values are a fixed set.
// prices may be nil.
func New(next store.Store, registerer prometheus.Registerer, prices *Prices) (*Store, error) {
	requests, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_store_requests_total",
		Help: "Requests to the store, by operation and result.",
	}, []string{"operation", "result"}))
	duration, err2 := register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_store_request_seconds",
		Help: "Time until the store answered, in seconds.",
		// From a cached read of a file to a large upload on a bad day.
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 13),
	}, []string{"operation"}))
	read, err3 := register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_store_read_bytes_total",
		Help: "Bytes of objects read from the store.",
	}))
	written, err4 := register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_store_written_bytes_total",
		Help: "Bytes of objects written to the store.",
	}))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, err
	}
	s := &Store{next: next, read: read, written: written}
	for op := range operations {
		s.duration[op] = duration.WithLabelValues(operationNames[op])
		for r := range results {
			s.requests[op][r] = requests.WithLabelValues(operationNames[op], resultNames[r])
		}
	}
	if err := s.charge(registerer, prices); err != nil {
		return nil, err
	}
	return s, nil
}

// charge has requests cost something from now on.
func (s *Store) charge(registerer prometheus.Registerer, prices *Prices) error {
	if prices == nil {
		return nil
	}
	cost, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_store_cost_dollars_total",
		Help: "Estimated cost of the requests to the store, in US dollars.",
	}, []string{"operation"}))
	if err != nil {
		return err
	}
	s.prices = [operations]float64{
		opGet: prices.Get, opGetRange: prices.Get, opPut: prices.Put, opCreate: prices.Put, opReplace: prices.Put,
		opList: prices.List, opDelete: prices.Delete,
	}
	for op := range operations {
		s.cost[op] = cost.WithLabelValues(operationNames[op])
	}
	return nil
}

// register registers a collector, or gives the one that another store of the process has registered before.
func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	err := registerer.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("metered: register: %w", err)
	}
	return collector, nil
}

func (s *Store) observe(op operation, began time.Time, err error) {
	s.duration[op].Observe(time.Since(began).Seconds())
	s.requests[op][resultOf(err)].Inc()
	s.pay(op, 1)
}

// pay adds the cost of n requests.
func (s *Store) pay(op operation, n int) {
	if s.cost[op] != nil {
		s.cost[op].Add(float64(n) * s.prices[op])
	}
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	began := time.Now()
	obj, err := s.next.Get(ctx, key)
	s.observe(opGet, began, err)
	s.read.Add(float64(len(obj.Data)))
	return obj, err
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	began := time.Now()
	data, err := s.next.GetRange(ctx, key, offset, length)
	s.observe(opGetRange, began, err)
	s.read.Add(float64(len(data)))
	return data, err
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	op := opPut
	if cond.IsAbsent() {
		op = opCreate
	} else if !cond.IsAlways() {
		op = opReplace
	}
	began := time.Now()
	etag, err := s.next.Put(ctx, key, data, cond)
	s.observe(op, began, err)
	if err == nil {
		s.written.Add(float64(len(data)))
	}
	return etag, err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	began := time.Now()
	page, err := s.next.List(ctx, opts)
	s.observe(opList, began, err)
	return page, err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	began := time.Now()
	err := s.next.Delete(ctx, keys...)
	s.observe(opDelete, began, err)
	if more := (len(keys) - 1) / deleteGroup; more > 0 {
		s.pay(opDelete, more)
	}
	return err
}
