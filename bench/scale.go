package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// dialers is how many goroutines connect at once.
const dialers = 64

// idleConnections measures the memory of connections that do nothing but hold one subscription.
func idleConnections(ctx context.Context, env *Env) ([]Result, error) {
	n := env.Size(10_000, 1000)
	conns := make([]*wire.Conn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	connect := func(from, to int) error {
		return all(dialers, func(d int) error {
			for i := from + d; i < to; i += dialers {
				c, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{ReadBuffer: 4 << 10})
				if err != nil {
					return fmt.Errorf("connection %d of %d: %w", i, n, err)
				}
				conns[i] = c
				if err := c.Write(wire.AppendSub(nil, fmt.Sprintf("client.%07d.inbox", i), "", "1")); err != nil {
					return err
				}
				if err := c.Flush(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	// The first ones pay for what the server sets up once.
	warm := n / 50
	if err := connect(0, warm); err != nil {
		return nil, err
	}
	before, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	if err := connect(warm, n); err != nil {
		return nil, err
	}
	after, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, Sample{Bytes: float64(after-before) / float64(n-warm)}}}, nil
}

// settledRSS is the server's memory after a pause in which it can shrink buffers and collect garbage.
func (e *Env) settledRSS(ctx context.Context) (int64, error) {
	pause := 3 * time.Second
	if e.Quick {
		pause = time.Second
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return e.Server.RSS()
}

// subscriptions measures the memory of very many subscriptions, and then how fast others come and go beside them.
func subscriptions(ctx context.Context, env *Env) ([]Result, error) {
	const connections = 10
	n := env.Size(1_000_000, 100_000)
	before, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	var conns []*wire.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range connections {
		c, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		var b []byte
		for s := i; s < n; s += connections {
			b = wire.AppendSub(b, fmt.Sprintf("device.%07d.command", s), "", fmt.Sprint(s+1))
			if len(b) > chunkSize || s+connections >= n {
				if err := c.Write(b); err != nil {
					return nil, err
				}
				b = b[:0]
			}
		}
		if err := c.Flush(); err != nil {
			return nil, err
		}
	}
	after, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	memory := Sample{Bytes: float64(after-before) / float64(n)}
	churned, err := churn(env, conns[0], n)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name + "-memory", memory}, {env.Name + "-churn", churned}}, nil
}

// churn subscribes to and unsubscribes from subjects that lie among those of live subscriptions. One operation is a
// SUB and its UNSUB.
func churn(env *Env, conn *wire.Conn, live int) (Sample, error) {
	f := &feed{}
	for i := range 20_000 {
		sid := fmt.Sprint(live + 1 + i)
		subject := fmt.Sprintf("device.%07d.event", i*(live/20_000))
		f.add(func(b []byte) []byte {
			b = wire.AppendSub(b, subject, "", sid)
			return append(b, "UNSUB "+sid+"\r\n"...)
		})
	}
	// The number of unanswered operations is bounded by the sockets' buffers, so the wait at the end is short.
	phase := func(d time.Duration) (n int64, err error) {
		for until := time.Now().Add(d); time.Now().Before(until); {
			chunk, k := f.next()
			if err := conn.Write(chunk); err != nil {
				return n, err
			}
			n += int64(k)
		}
		return n, conn.Flush()
	}
	if _, err := phase(env.Duration / 4); err != nil {
		return nil, err
	}
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	n, err := phase(env.Duration)
	if err != nil {
		return nil, err
	}
	return m.stop(n)
}
