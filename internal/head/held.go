package head

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/wal"
)

// Claimed is a head that this process holds: a running node. Its methods may be called concurrently.
type Claimed struct {
	heads
	opts     Options
	node     string
	epoch    wal.Epoch
	instance string

	// turn has an element while somebody writes the head. Whoever put it there owns current and sent.
	turn    chan struct{}
	current stored
	sent    uint64 // the highest counter that was sent: what was given up may be there all the same

	// mu guards the following.
	mu    sync.Mutex
	head  *Head     // as written last; never modified
	beat  time.Time // when the last write that succeeded began
	ended error     // why the claim has ended: wraps ErrLost or ErrReleased
}

// Node is the name that was taken.
func (c *Claimed) Node() string { return c.node }

// Epoch is the epoch that was taken: this process alone may write logs of the node in it.
func (c *Claimed) Epoch() wal.Epoch { return c.epoch }

// Head gives the head as it was written last. The caller owns it.
func (c *Claimed) Head() *Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head.clone()
}

// Logs gives the ranges to replay, in order: all but the current epoch's own, each of them fenced.
func (c *Claimed) Logs() []LogRange {
	return slices.DeleteFunc(c.Head().Logs, func(r LogRange) bool { return r.Node == c.node && r.Epoch == c.epoch })
}

// Stale is for how long no heartbeat is known to have succeeded, counted from the start of the last one that did. By
// the time it reaches Lease another node may have taken over: the owner has stopped serving reads before.
func (c *Claimed) Stale() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.beat)
}

// Run writes a heartbeat where nothing else has written the head for an Interval, until ctx ends, which is no error, or the claim does: ErrLost, upon which the
// node must stop, or ErrReleased. Store trouble does not end it; see Stale.
func (c *Claimed) Run(ctx context.Context) error {
	failing := false
	wait := c.opts.Interval
	for {
		if sleep(ctx, wait) != nil {
			return nil
		}
		if rest := c.opts.Interval - c.Stale(); rest > 0 {
			wait = rest // another write has been a heartbeat
			continue
		}
		err := c.heartbeat(ctx)
		switch {
		case err == nil:
			if failing {
				c.opts.Logger.Info("heartbeats succeed again", "node", c.node)
			}
			failing, wait = false, c.opts.Interval
		case errors.Is(err, ErrLost), errors.Is(err, ErrReleased):
			return err
		case ctx.Err() != nil:
			return nil
		default:
			if !failing {
				c.opts.Logger.Warn("heartbeat failed", "node", c.node, "error", err)
			}
			failing, wait = true, c.opts.Interval/4
		}
	}
}

// heartbeat rewrites the head; it gives up after a lease, to start afresh.
func (c *Claimed) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Lease)
	defer cancel()
	return c.Update(ctx, func(*Head) {})
}

// heartbeatIfDue keeps the head alive during long steps of a claim. Store trouble is left to the steps themselves.
func (c *Claimed) heartbeatIfDue(ctx context.Context) error {
	if c.Stale() < c.opts.Interval {
		return nil
	}
	if err := c.heartbeat(ctx); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// Update rewrites the head with what change makes of it, and is durable when it returns nil. change may be called
// several times, each time with the newest content, and sets neither Node, Instance, Epoch, Counter nor TakenBy. Store
// trouble is retried until ctx ends or for a minute; after such an error the change may have been written or not, and
// the next Update builds on what is there. ErrLost and ErrReleased are final.
func (c *Claimed) Update(ctx context.Context, change func(*Head)) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("update the head: %w", ctx.Err())
	}
	defer func() { <-c.turn }()
	for {
		if err := c.endedBy(); err != nil {
			return err
		}
		next := c.current.head.clone()
		change(next)
		c.sent = max(next.Counter, c.sent) + 1
		next.Counter = c.sent
		start := time.Now()
		now, swapped, err := c.swap(ctx, c.current, next)
		switch {
		case err != nil:
			return err
		case swapped:
			c.wrote(now, start)
			return nil
		case now.head != nil && now.head.Instance == c.instance && !now.head.Released:
			// An earlier write of ours that was given up in doubt has landed. It shows life from now on at best.
			c.current = now
		default:
			return c.end(fmt.Errorf("%w: %s", ErrLost, describe(now)))
		}
	}
}

// wrote notes a write that succeeded.
func (c *Claimed) wrote(now stored, start time.Time) {
	c.current = now
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head, c.beat = now.head.clone(), start
}

// Release gives the head up at a clean shutdown: another node may take the logs over at once. The head stays, so that
// the next claim's epoch follows this one's. Nothing can be written afterwards.
func (c *Claimed) Release(ctx context.Context) error {
	err := c.Update(ctx, func(h *Head) { h.Released = true })
	if err != nil {
		return fmt.Errorf("release the head of %q: %w", c.node, err)
	}
	c.end(fmt.Errorf("%w: node %q, epoch %d", ErrReleased, c.node, c.epoch))
	return nil
}

func (c *Claimed) endedBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end notes why the claim has ended; the first reason stands.
func (c *Claimed) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = err
	}
	return c.ended
}

// describe tells who holds a head.
func describe(now stored) string {
	switch h := now.head; {
	case h == nil:
		return "the head is gone"
	case h.TakenBy != nil:
		return fmt.Sprintf("node %q is taking over the logs of %q", h.TakenBy.Node, h.Node)
	case h.Released || h.Instance == "":
		return fmt.Sprintf("the claim of node %q was ended", h.Node)
	default:
		return fmt.Sprintf("another process runs node %q in epoch %d", h.Node, h.Epoch)
	}
}
