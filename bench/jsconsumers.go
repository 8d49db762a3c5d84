package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// consumerCrowd is very many durable pull consumers on one stream, spread over a few connections, each with a pull
// waiting for more messages than come: what a fleet of devices or workers looks like that each have a consumer of their
// own. Their state is in memory, as nats-server is fastest.
type consumerCrowd struct {
	consumers   int
	connections int
	// filtered: consumer i wants device i's subject and acknowledges what it gets. Else all want everything and
	// acknowledge nothing.
	filtered bool

	flow  *flow
	conns []*wire.Conn
}

// pullBatch is what each pull of a crowd asks for, and so what one consumer may get.
const pullBatch = 500

func deviceSubject(i int) string { return fmt.Sprintf("bench.device.%05d", i) }

// consumers10k feeds a crowd and takes the server's processor time per delivery.
func consumers10k(filtered bool) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) {
		c := consumerCrowd{consumers: env.Size(10_000, 500), connections: 10, filtered: filtered}
		cfg := limitsStream("file")
		cfg.MaxConsumers = 2 * c.consumers
		api, err := createStream(ctx, env, cfg)
		if err != nil {
			return nil, err
		}
		defer api.Close()
		defer c.close()
		if err := c.create(ctx, env); err != nil {
			return nil, err
		}
		if err := c.pull(ctx, env); err != nil {
			return nil, err
		}
		return c.measure(ctx, env, api)
	}
}

// create makes the consumers, some at a time.
func (c *consumerCrowd) create(ctx context.Context, env *Env) error {
	const inbox = "_INBOX.bench.create"
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Write(wire.AppendSub(nil, inbox, "", "1")); err != nil {
		return err
	}
	var b []byte
	for from := 0; from < c.consumers; from += publishChunk {
		n := min(publishChunk, c.consumers-from)
		b = b[:0]
		for i := range n {
			subject, body, err := c.creation(from + i)
			if err != nil {
				return err
			}
			b = wire.AppendPub(b, subject, inbox, body)
		}
		if err := conn.Write(b); err != nil {
			return err
		}
		conn.SetReadTimeout(stallTimeout)
		for range n {
			m, err := conn.Next()
			if err != nil {
				return err
			}
			if bytes.Contains(m.Data, []byte(`"error"`)) || !bytes.Contains(m.Data, []byte(`"config"`)) {
				return fmt.Errorf("no consumer was made: %.80q %.200q", m.Header, m.Data)
			}
		}
	}
	return nil
}

// creation is the request that makes a consumer.
func (c *consumerCrowd) creation(i int) (subject string, body []byte, err error) {
	name := fmt.Sprintf("c%05d", i)
	config := consumerConfig{Durable: name, Name: name, DeliverPolicy: "all", AckPolicy: "none", ReplayPolicy: "instant", MemStorage: true, Replicas: 1}
	subject = "$JS.API.CONSUMER.CREATE.BENCH." + name
	if c.filtered {
		config.FilterSubject, config.AckPolicy = deviceSubject(i), "explicit"
		subject += "." + config.FilterSubject
	}
	body, err = json.Marshal(createConsumer{"BENCH", config})
	return subject, body, err
}

// pull has every consumer wait for messages.
func (c *consumerCrowd) pull(ctx context.Context, env *Env) error {
	fanout, window := int64(1), int64(asyncWindow)
	if !c.filtered {
		fanout, window = int64(c.consumers), max(windowSize/200, 2*int64(c.consumers))
	}
	c.flow = newFlow(1, fanout, window)
	for k := range c.connections {
		conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
		if err != nil {
			return err
		}
		c.conns = append(c.conns, conn)
		b := wire.AppendSub(nil, fmt.Sprintf("_INBOX.bench.crowd%d.*", k), "", "1")
		for i := k; i < c.consumers; i += c.connections {
			b = wire.AppendPub(b, fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.BENCH.c%05d", i), fmt.Sprintf("_INBOX.bench.crowd%d.%d", k, i),
				fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, pullBatch, 10*time.Minute))
		}
		pongs := make(chan struct{}, 1)
		go func() { c.flow.fail(c.read(conn, pongs)) }()
		if err := conn.Write(b); err != nil {
			return err
		}
		if err := (pinger{conn, pongs}).sync(c.flow); err != nil {
			return err
		}
	}
	return nil
}

// read counts what arrives at one connection and acknowledges it when nothing more waits to be read.
func (c *consumerCrowd) read(conn *wire.Conn, pongs chan<- struct{}) error {
	var acks []byte
	gathered := 0
	for {
		m, err := conn.Next()
		if err != nil {
			return err
		}
		if m.Kind == wire.Pong {
			pongs <- struct{}{}
			continue
		}
		if !bytes.HasPrefix(m.Subject, []byte("bench.")) {
			return fmt.Errorf("a pull ended: %.80q %.80q", m.Subject, m.Header)
		}
		if gathered++; c.filtered {
			acks = wire.AppendPub(acks, string(m.Reply), "", []byte("+ACK"))
		}
		if conn.Buffered() && gathered < 500 {
			continue
		}
		if len(acks) > 0 {
			if err := conn.Write(acks); err != nil {
				return err
			}
			acks = acks[:0]
		}
		c.flow.deliver(gathered)
		gathered = 0
	}
}

// measure publishes, to devices in random order or to all, and waits until everything has arrived.
func (c *consumerCrowd) measure(ctx context.Context, env *Env, api *wire.Client) ([]Result, error) {
	p := crowdPublisher{crowd: c, order: rand.New(rand.NewPCG(seed, 1)).Perm(c.consumers)}
	var err error
	if p.conn, err = wire.Dial(ctx, env.Server.Addr(), wire.Options{}); err != nil {
		return nil, err
	}
	defer p.conn.Close()
	if err := p.run(ctx, env.Duration/4); err != nil {
		return nil, err
	}
	before := c.flow.delivered.Load()
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, env.Duration); err != nil {
		return nil, err
	}
	sample, err := m.stop(c.flow.delivered.Load() - before)
	if err != nil {
		return nil, err
	}
	if err := c.flow.exact(); err != nil {
		return nil, err
	}
	return []Result{{env.Name, sample}}, checkStream(api, "BENCH", c.flow.published.Load())
}

// crowdPublisher publishes without asking for acknowledgements; the crowd's flow holds it back.
type crowdPublisher struct {
	crowd *consumerCrowd
	conn  *wire.Conn
	order []int
}

// run publishes for d, at most until a consumer has got all that its pull asked for, and waits for the deliveries.
func (p *crowdPublisher) run(ctx context.Context, d time.Duration) error {
	f := p.crowd.flow
	most := int64(pullBatch)
	group := 1
	if p.crowd.filtered {
		most *= int64(p.crowd.consumers)
		group = publishChunk
	}
	payload := []byte(strings.Repeat("x", 16))
	var b []byte
	for until := time.Now().Add(d); time.Now().Before(until) && f.published.Load()+int64(group) <= most; {
		b = b[:0]
		for i := range group {
			subject := "bench.all"
			if p.crowd.filtered {
				subject = deviceSubject(p.order[(int(f.published.Load())+i)%len(p.order)])
			}
			b = wire.AppendPub(b, subject, "", payload)
		}
		more := int64(group) * f.fanout
		err := f.waitFor(ctx, 0, func() bool { return f.published.Load()*f.fanout+more-f.delivered.Load() <= f.window })
		if err != nil {
			return err
		}
		f.published.Add(int64(group))
		if err := p.conn.Write(b); err != nil {
			return err
		}
	}
	return f.drain(ctx)
}

func (c *consumerCrowd) close() {
	if c.flow != nil {
		c.flow.closed.Store(true)
	}
	for _, conn := range c.conns {
		conn.Close()
	}
}
