package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// link is how one process reaches the store: a network with latencies, which outlives the process.
type link struct {
	next     store.Store
	slowness time.Duration   // the most that a request, and an answer, is on its way
	requests *sync.WaitGroup // under way, whoever still waits for them

	gone chan struct{} // closed when the process is dead

	mu     sync.Mutex // guards the following
	random *rand.Rand
	held   chan struct{} // open: the process is paused
	cutOff bool
}

var _ store.Store = (*link)(nil)

func newLink(next store.Store, seed uint64, slowness time.Duration, requests *sync.WaitGroup) *link {
	return &link{next: next, slowness: slowness, requests: requests, gone: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 1))}
}

// cut ends the process: nothing that it asks for from now on has an effect.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cutOff {
		l.cutOff = true
		close(l.gone)
	}
}

// pause holds requests and answers back until resume.
func (l *link) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// latency draws how long a message is on its way.
func (l *link) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(l.slowness) + 1))
}

// awake waits while the process is paused; the error says that it is dead, or has no patience.
func (l *link) awake(ctx context.Context) error {
	for {
		l.mu.Lock()
		held := l.held
		l.mu.Unlock()
		select {
		case <-l.gone:
			return fmt.Errorf("the process is dead: %w", store.ErrUnknownOutcome)
		default:
		}
		if held == nil {
			return ctx.Err()
		}
		select {
		case <-held:
		case <-l.gone:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, ctx.Err())
		}
	}
}

// do makes a request. It is in the network's hands then: whether or not the caller waits for it, it arrives.
func (l *link) do(ctx context.Context, request func(context.Context) error) error {
	if err := l.awake(ctx); err != nil {
		return err
	}
	answer := make(chan error, 1)
	there, back := l.latency(), l.latency()
	l.requests.Go(func() {
		time.Sleep(there)
		err := request(context.WithoutCancel(ctx))
		time.Sleep(back)
		answer <- err
	})
	select {
	case err := <-answer:
		if paused := l.awake(context.WithoutCancel(ctx)); paused != nil {
			return paused
		}
		return err
	case <-l.gone:
		return fmt.Errorf("the process is dead: %w", store.ErrUnknownOutcome)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, ctx.Err())
	}
}

// Get implements store.Store.
func (l *link) Get(ctx context.Context, key string) (store.Object, error) {
	var got store.Object
	err := l.do(ctx, func(ctx context.Context) (err error) { got, err = l.next.Get(ctx, key); return err })
	if err != nil {
		return store.Object{}, err
	}
	return got, nil
}

// GetRange implements store.Store.
func (l *link) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	var got []byte
	err := l.do(ctx, func(ctx context.Context) (err error) {
		got, err = l.next.GetRange(ctx, key, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Put implements store.Store.
func (l *link) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	var etag string
	data = slices.Clone(data)
	err := l.do(ctx, func(ctx context.Context) (err error) { etag, err = l.next.Put(ctx, key, data, cond); return err })
	if err != nil {
		return "", err
	}
	return etag, nil
}

// List implements store.Store.
func (l *link) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	var page store.Page
	err := l.do(ctx, func(ctx context.Context) (err error) { page, err = l.next.List(ctx, opts); return err })
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// Delete implements store.Store.
func (l *link) Delete(ctx context.Context, keys ...string) error {
	keys = slices.Clone(keys)
	return l.do(ctx, func(ctx context.Context) error { return l.next.Delete(ctx, keys...) })
}
