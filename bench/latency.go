package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// caller makes one request at a time on a connection of its own and reads the reply.
type caller struct {
	conn    *wire.Conn
	request []byte // a PUB whose reply subject the connection subscribes to
}

// newCaller prepares requests to subject whose replies come to inbox.
func newCaller(ctx context.Context, env *Env, inbox, subject string, payload []byte) (*caller, error) {
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{ReadBuffer: 64 << 10})
	if err != nil {
		return nil, err
	}
	c := &caller{conn: conn, request: wire.AppendPub(nil, subject, inbox, payload)}
	if err := conn.Write(wire.AppendSub(nil, inbox, "", "1")); err != nil {
		return nil, err
	}
	return c, conn.Flush()
}

// call makes one request, which check judges by its reply, and returns how long it took.
func (c *caller) call(request []byte, check func(wire.Message) error) (time.Duration, error) {
	began := time.Now()
	if err := c.conn.Write(request); err != nil {
		return 0, err
	}
	m, err := c.conn.Next()
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if m.Kind != wire.Msg {
		return 0, fmt.Errorf("%w: PONG where a reply belongs", wire.ErrProtocol)
	}
	return took, check(m)
}

// measureCalls has every caller make calls, one after the other, for the measured time after a warm-up. next gives the
// request of a caller's n-th call; nil always sends the caller's own.
func measureCalls(ctx context.Context, env *Env, callers []*caller, next func(caller, n int) []byte, check func(wire.Message) error) (Sample, int64, error) {
	counts := make([]int, len(callers))
	taken := make([]latencies, len(callers))
	var total atomic.Int64
	phase := func(d time.Duration) error {
		until := time.Now().Add(d)
		return all(len(callers), func(i int) error {
			c := callers[i]
			c.conn.SetReadTimeout(d + stallTimeout)
			for time.Now().Before(until) && ctx.Err() == nil {
				request := c.request
				if next != nil {
					request = next(i, counts[i])
				}
				took, err := c.call(request, check)
				if err != nil {
					return fmt.Errorf("request %d of requester %d: %w", counts[i], i, err)
				}
				counts[i]++
				total.Add(1)
				taken[i].add(took)
			}
			return ctx.Err()
		})
	}
	if err := phase(env.Duration / 4); err != nil {
		return nil, 0, err
	}
	clear(taken)
	before := total.Load()
	m, err := env.startMeter()
	if err != nil {
		return nil, 0, err
	}
	if err := phase(env.Duration); err != nil {
		return nil, 0, err
	}
	sample, err := m.stop(total.Load() - before)
	if err != nil {
		return nil, 0, err
	}
	var merged latencies
	for _, t := range taken {
		merged = append(merged, t...)
	}
	merged.percentiles(sample)
	return sample, total.Load(), nil
}

// respond answers every request on the subject until the connection ends: one write for what one read brought.
func respond(conn *wire.Conn, reply []byte) error {
	var out []byte
	for {
		m, err := conn.Next()
		if err != nil {
			return err
		}
		if m.Kind != wire.Msg || len(m.Reply) == 0 {
			continue
		}
		out = wire.AppendPub(out, string(m.Reply), "", reply)
		if !conn.Buffered() || len(out) > chunkSize {
			if err := conn.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
}

// responder serves requests on a connection of its own.
type responder struct {
	conn   *wire.Conn
	failed chan error // takes the error that ended it
}

func startResponder(ctx context.Context, env *Env, subject string) (*responder, error) {
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return nil, err
	}
	if err := conn.Write(wire.AppendSub(nil, subject, "", "1")); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	r := &responder{conn: conn, failed: make(chan error, 1)}
	go func() { r.failed <- respond(conn, make([]byte, 16)) }()
	return r, nil
}

// explain adds to a requester's error what may be its reason: that nobody answers any more.
func (r *responder) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case reason := <-r.failed:
		return fmt.Errorf("%w (the responder ended: %w)", err, reason)
	default:
		return err
	}
}

func (r *responder) close() { r.conn.Close() }

// requestReply is requesters with one request each under way, and one responder.
func requestReply(requesters int) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) {
		responder, err := startResponder(ctx, env, "bench.service")
		if err != nil {
			return nil, err
		}
		defer responder.close()
		var callers []*caller
		for i := range requesters {
			c, err := newCaller(ctx, env, fmt.Sprintf("_INBOX.bench.%04d", i), "bench.service", make([]byte, 16))
			if err != nil {
				return nil, err
			}
			defer c.conn.Close()
			callers = append(callers, c)
		}
		sample, _, err := measureCalls(ctx, env, callers, nil, func(m wire.Message) error {
			if len(m.Data) != 16 {
				return fmt.Errorf("a reply of %d bytes with header %q", len(m.Data), m.Header)
			}
			return nil
		})
		if err != nil {
			return nil, responder.explain(err)
		}
		return []Result{{env.Name, sample}}, nil
	}
}
