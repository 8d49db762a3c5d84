package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// pubsub is a load of publishers and subscribers, each on a connection of its own.
type pubsub struct {
	feeds       []*feed
	subscribers []subscriber
	fanout      int // deliveries of each message
}

// subscriber is one connection: the SUB lines that it sends, and what it then receives.
type subscriber struct {
	subs   []byte
	format wire.Fixed
}

// run publishes for the measured time, after a warm-up, and checks that every message arrived once.
func (p pubsub) run(ctx context.Context, env *Env) ([]Result, error) {
	size := 1
	for _, s := range p.subscribers {
		size = s.format.Size
	}
	window := int64(windowSize / size)
	for _, f := range p.feeds {
		window = max(window, 2*int64(f.counts[0]*p.fanout*len(p.feeds)))
	}
	fl := newFlow(len(p.feeds), int64(p.fanout), window)
	publishers, subscribers, err := p.connect(ctx, env, fl)
	defer func() {
		fl.closed.Store(true)
		for _, c := range append(publishers, subscribers...) {
			c.conn.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	phase := func(d time.Duration) error {
		until := time.Now().Add(d)
		err := all(len(p.feeds), func(i int) error {
			if err := fl.publish(ctx, i, publishers[i].conn, p.feeds[i], until); err != nil {
				return err
			}
			return publishers[i].sync(fl)
		})
		if err != nil || p.fanout == 0 {
			return err
		}
		return fl.drain(ctx)
	}
	if err := phase(env.Duration / 4); err != nil {
		return nil, err
	}
	before := fl.published.Load()
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	if err := phase(env.Duration); err != nil {
		return nil, err
	}
	sample, err := m.stop(fl.published.Load() - before)
	if err != nil {
		return nil, err
	}
	// Whatever the server would deliver beyond what was published comes before its PONG.
	for _, s := range subscribers {
		if err := s.sync(fl); err != nil {
			return nil, err
		}
	}
	if err := fl.exact(); err != nil {
		return nil, err
	}
	return []Result{{env.Name, sample}}, nil
}

// connect dials all connections, subscribes, and starts their readers.
func (p pubsub) connect(ctx context.Context, env *Env, fl *flow) (publishers, subscribers []pinger, err error) {
	dial := func() (pinger, error) {
		c, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
		return pinger{conn: c, pongs: make(chan struct{}, 16)}, err
	}
	for _, s := range p.subscribers {
		c, err := dial()
		if err != nil {
			return publishers, subscribers, err
		}
		subscribers = append(subscribers, c)
		if err := c.conn.Write(s.subs); err != nil {
			return publishers, subscribers, err
		}
		if err := c.conn.Flush(); err != nil {
			return publishers, subscribers, err
		}
		go func() {
			fl.fail(c.conn.CountFixed(s.format, func(messages, pongs int) error {
				for range pongs {
					c.pongs <- struct{}{}
				}
				if messages > 0 {
					fl.deliver(messages)
				}
				return nil
			}))
		}()
	}
	for range p.feeds {
		c, err := dial()
		if err != nil {
			return publishers, subscribers, err
		}
		publishers = append(publishers, c)
		go func() {
			fl.fail(c.conn.CountFixed(wire.Fixed{Size: 1}, func(messages, pongs int) error {
				if messages > 0 {
					return fmt.Errorf("%w: a publisher received a message", wire.ErrProtocol)
				}
				for range pongs {
					c.pongs <- struct{}{}
				}
				return nil
			}))
		}()
	}
	return publishers, subscribers, nil
}

// crossing is n publishers and m subscribers with a subject each; every publisher publishes to all subjects in turn.
// With fan set all subscribers share one subject instead.
func crossing(publishers, subscribers, payload int, fan bool) pubsub {
	subjects, fanout := subscribers, min(1, subscribers)
	if fan {
		subjects, fanout = min(1, subscribers), subscribers
	}
	p := pubsub{fanout: fanout}
	name := func(i int) string { return fmt.Sprintf("bench.%d", i) }
	perSubject := 0
	for publisher := range publishers {
		f := &feed{}
		perSubject = 0
		round := len(wire.AppendPub(nil, name(0), "", make([]byte, payload))) * max(1, subjects)
		// Whole rounds of the subjects, in one chunk.
		for perSubject < max(1, chunkSize/round) {
			for s := range max(1, subjects) {
				body := make([]byte, payload)
				wire.PutMark(body, perSubject, publisher)
				f.add(func(b []byte) []byte { return wire.AppendPub(b, name(s), "", body) })
			}
			perSubject++
		}
		p.feeds = append(p.feeds, f)
	}
	for i := range subscribers {
		subject := name(i % max(1, subjects))
		format := wire.NewFixed(subject, "1", payload)
		format.Cycle, format.Publishers = perSubject, publishers
		p.subscribers = append(p.subscribers, subscriber{wire.AppendSub(nil, subject, "", "1"), format})
	}
	return p
}

// queueGroup is one publisher and a queue group of n members on connections of their own.
func queueGroup(n, payload int) pubsub {
	p := crossing(1, n, payload, true)
	p.fanout = 1
	for i := range p.subscribers {
		p.subscribers[i].subs = wire.AppendSub(nil, "bench.0", "workers", "1")
		p.subscribers[i].format.Cycle = 0 // each member sees a part
	}
	return p
}

// distinct is one publisher to n subjects in random order, each with one subscription, spread over ten connections.
func distinct(n, payload int, seed uint64) pubsub {
	const connections = 10
	p := pubsub{fanout: 1}
	name := func(i int) string { return fmt.Sprintf("device.%07d.state", i) }
	sid := func(i int) string { return fmt.Sprint(1_000_000 + i) }
	subs := make([][]byte, connections)
	for i := range n {
		subs[i%connections] = wire.AppendSub(subs[i%connections], name(i), "", sid(i))
	}
	for _, s := range subs {
		p.subscribers = append(p.subscribers, subscriber{s, wire.NewFixed(name(0), sid(0), payload)})
	}
	f := &feed{}
	body := make([]byte, payload)
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
		f.add(func(b []byte) []byte { return wire.AppendPub(b, name(i), "", body) })
	}
	p.feeds = []*feed{f}
	return p
}

// wildcards is one publisher whose every message matches ten of patterns wildcard subscriptions: ten shapes for each
// of patterns/10 groups, spread over ten connections so that each of them gets every message once. The 16 subjects of
// each group are published in random order.
func wildcards(patterns, payload int, seed uint64) pubsub {
	shapes := [...]string{
		"plant.%04d.line.cell.*", "plant.%04d.line.*.*", "plant.%04d.*.cell.*", "plant.%04d.*.*.*", "plant.%04d.>",
		"*.%04d.line.cell.*", "*.%04d.line.>", "*.%04d.*.cell.*", "*.%04d.*.*.*", "*.%04d.>",
	}
	const leaves = 16
	groups := patterns / len(shapes)
	p := pubsub{fanout: len(shapes)}
	sid := func(g, shape int) string { return fmt.Sprint(100_000 + g*len(shapes) + shape) }
	subs := make([][]byte, len(shapes))
	for g := range groups {
		for shape, pattern := range shapes {
			to := (g + shape) % len(subs)
			subs[to] = wire.AppendSub(subs[to], fmt.Sprintf(pattern, g), "", sid(g, shape))
		}
	}
	name := func(g, leaf int) string { return fmt.Sprintf("plant.%04d.line.cell.%02d", g, leaf) }
	for _, s := range subs {
		p.subscribers = append(p.subscribers, subscriber{s, wire.NewFixed(name(0, 0), sid(0, 0), payload)})
	}
	f := &feed{}
	body := make([]byte, payload)
	for _, i := range rand.New(rand.NewPCG(seed, 2)).Perm(groups * leaves) {
		f.add(func(b []byte) []byte { return wire.AppendPub(b, name(i/leaves, i%leaves), "", body) })
	}
	p.feeds = []*feed{f}
	return p
}
