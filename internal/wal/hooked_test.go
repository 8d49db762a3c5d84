package wal

import (
	"context"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
)

// hooked is a store whose requests a test can hold up, lose or answer wrongly.
type hooked struct {
	*mem.Store

	mu sync.Mutex
	// put is called for the n-th Put (from 1); do makes the request. nil: it is made.
	put func(n int, key string, do func() (string, error)) (string, error)
	// get is called for the n-th Get or GetRange.
	get  func(n int, key string) error
	puts int
	gets int
}

func newHooked(t testing.TB) *hooked { return &hooked{Store: newMem(t)} }

func (h *hooked) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	h.mu.Lock()
	h.puts++
	n, hook := h.puts, h.put
	h.mu.Unlock()
	// Whoever gives up on a request does not take it back.
	data = append([]byte(nil), data...)
	do := func() (string, error) { return h.Store.Put(context.WithoutCancel(ctx), key, data, cond) }
	if hook == nil {
		return do()
	}
	return hook(n, key, do)
}

func (h *hooked) onPut(hook func(n int, key string, do func() (string, error)) (string, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put, h.puts = hook, 0
}

func (h *hooked) onGet(hook func(n int, key string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.get, h.gets = hook, 0
}

func (h *hooked) beforeGet(key string) error {
	h.mu.Lock()
	h.gets++
	n, hook := h.gets, h.get
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(n, key)
}

func (h *hooked) Get(ctx context.Context, key string) (store.Object, error) {
	if err := h.beforeGet(key); err != nil {
		return store.Object{}, err
	}
	return h.Store.Get(ctx, key)
}

func (h *hooked) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := h.beforeGet(key); err != nil {
		return nil, err
	}
	return h.Store.GetRange(ctx, key, offset, length)
}

// tearing cuts off the end of the first answers.
type tearing struct {
	store.Store
	times int
}

func (s *tearing) Get(ctx context.Context, key string) (store.Object, error) {
	object, err := s.Store.Get(ctx, key)
	if s.times > 0 && err == nil {
		s.times--
		object.Data = object.Data[:len(object.Data)-1]
	}
	return object, err
}

// discarding takes every create and keeps nothing.
type discarding struct{ store.Store }

func (*discarding) Put(context.Context, string, []byte, store.Condition) (string, error) {
	return "e", nil
}
