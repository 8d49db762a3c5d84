package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// chunkSize is about what a publisher writes at once, in bytes: the size of nats.go's write buffer.
const chunkSize = 32 << 10

// windowSize bounds what is on its way from publishers to subscribers, in delivered bytes, so that no server has to
// drop a slow subscriber and every message can be counted.
const windowSize = 8 << 20

// stallTimeout is how long a load waits for the next message before it says that messages were lost.
const stallTimeout = 15 * time.Second

// feed is a publisher's endless stream of messages: pre-built chunks in a circle.
type feed struct {
	chunks [][]byte
	counts []int // messages of each chunk
	at     int
}

// add appends one message, which next renders to a buffer's end.
func (f *feed) add(next func(b []byte) []byte) {
	last := len(f.chunks) - 1
	if last < 0 || len(f.chunks[last]) >= chunkSize {
		f.chunks = append(f.chunks, make([]byte, 0, chunkSize+2<<10))
		f.counts = append(f.counts, 0)
		last++
	}
	f.chunks[last] = next(f.chunks[last])
	f.counts[last]++
}

func (f *feed) next() ([]byte, int) {
	chunk, n := f.chunks[f.at], f.counts[f.at]
	f.at = (f.at + 1) % len(f.chunks)
	return chunk, n
}

// flow joins publishers to the readers that count what arrives, and keeps what is between them within a window.
type flow struct {
	fanout int64 // deliveries of each published message
	window int64 // deliveries that may be outstanding

	published atomic.Int64
	delivered atomic.Int64

	wake   []chan struct{} // one per waiter: the publishers, then the drain
	closed atomic.Bool     // the readers' connections end on purpose
	failed chan error      // the first failure of a reader
}

func newFlow(publishers int, fanout, window int64) *flow {
	f := &flow{fanout: fanout, window: window, failed: make(chan error, 1)}
	for range publishers + 1 {
		f.wake = append(f.wake, make(chan struct{}, 1))
	}
	return f
}

// deliver counts n deliveries.
func (f *flow) deliver(n int) {
	f.delivered.Add(int64(n))
	for _, w := range f.wake {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// fail reports a reader's end; only the first failure counts, and none after close.
func (f *flow) fail(err error) {
	if err == nil || f.closed.Load() {
		return
	}
	select {
	case f.failed <- err:
	default:
	}
}

// waitFor blocks waiter until done, a reader's failure or a stall.
func (f *flow) waitFor(ctx context.Context, waiter int, done func() bool) error {
	if done() {
		return nil
	}
	stall := time.NewTimer(stallTimeout)
	defer stall.Stop()
	last := f.delivered.Load()
	for !done() {
		select {
		case <-f.wake[waiter]:
		case err := <-f.failed:
			f.failed <- err // for the other waiters
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-stall.C:
			now := f.delivered.Load()
			if now == last {
				return fmt.Errorf("messages lost: %d published, %d of %d deliveries arrived, none in %v",
					f.published.Load(), now, f.published.Load()*f.fanout, stallTimeout)
			}
			last = now
			stall.Reset(stallTimeout)
		}
	}
	return nil
}

// publish writes from the feed until the time is up, within the window.
func (f *flow) publish(ctx context.Context, publisher int, conn *wire.Conn, from *feed, until time.Time) error {
	for time.Now().Before(until) {
		chunk, n := from.next()
		if f.fanout > 0 {
			more := int64(n) * f.fanout
			err := f.waitFor(ctx, publisher, func() bool {
				return f.published.Load()*f.fanout+more-f.delivered.Load() <= f.window
			})
			if err != nil {
				return err
			}
		}
		f.published.Add(int64(n))
		if err := conn.Write(chunk); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// drain waits until everything that was published has arrived.
func (f *flow) drain(ctx context.Context) error {
	return f.waitFor(ctx, len(f.wake)-1, func() bool { return f.delivered.Load() >= f.published.Load()*f.fanout })
}

// exact checks that nothing more arrived than was published.
func (f *flow) exact() error {
	want, got := f.published.Load()*f.fanout, f.delivered.Load()
	if got != want {
		return fmt.Errorf("%d messages published, %d deliveries instead of %d", f.published.Load(), got, want)
	}
	return nil
}

// pinger is a connection whose reader passes on PONGs, so that others can wait until the server has handled
// everything that was written before.
type pinger struct {
	conn  *wire.Conn
	pongs chan struct{}
}

func (p pinger) sync(f *flow) error {
	if err := p.conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	select {
	case <-p.pongs:
		return nil
	case err := <-f.failed:
		f.failed <- err
		return err
	case <-time.After(stallTimeout):
		return errors.New("no PONG: the server does not handle what was sent")
	}
}

// all runs fn for 0 to n-1 at once and joins the errors.
func all(n int, fn func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
