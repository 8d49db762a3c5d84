package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// streamOf makes a stream of n messages of 16 B, each on the subject that is given for its index.
func streamOf(ctx context.Context, env *Env, api *wire.Client, n int, subject func(i int) string) error {
	p, err := dialAsyncPublisher(ctx, env)
	if err != nil {
		return err
	}
	defer p.close()
	loaded, err := p.loadEach(ctx, n, make([]byte, 16), subject)
	if err != nil {
		return err
	}
	return checkStream(api, "BENCH", loaded)
}

const (
	rareMessages  = 10
	rareConsumers = 20   // that each find all rare messages, one after the other
	commonOnes    = 1000 // subjects of the other messages
)

// rareSubject finds the few messages of one subject among very many others, through pull consumers with that filter that
// are made for it. The time is what one consumer takes from the request that makes it to its last message: the median of
// all; p50 and p99 are of single pulls.
func rareSubject(ctx context.Context, env *Env) ([]Result, error) {
	n := env.Size(10_000_000, 100_000)
	api, err := createStream(ctx, env, limitsStream("file"))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	var want []int64 // stream sequences of the rare messages
	err = streamOf(ctx, env, api, n, func(i int) string {
		if i%(n/rareMessages) == n/rareMessages/2 {
			want = append(want, int64(i+1))
			return "bench.rare"
		}
		return "bench.common." + strconv.Itoa(i%commonOnes)
	})
	if err != nil {
		return nil, err
	}
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	var pulls latencies
	var times []time.Duration
	for i := range rareConsumers {
		began := time.Now()
		if err := findRare(api, fmt.Sprintf("rare%d", i), want, &pulls); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	sample, err := m.stop(rareConsumers * rareMessages)
	if err != nil {
		return nil, err
	}
	delete(sample, Rate)
	pulls.percentiles(sample)
	slices.Sort(times)
	sample[Seconds] = times[len(times)/2].Seconds()
	return []Result{{env.Name, sample}}, nil
}

// findRare makes a consumer and pulls its messages one by one.
func findRare(api *wire.Client, name string, want []int64, pulls *latencies) error {
	config := consumerConfig{Name: name, DeliverPolicy: "all", AckPolicy: "none", ReplayPolicy: "instant", FilterSubject: "bench.rare", MemStorage: true, Replicas: 1}
	var info consumerInfo
	if err := api.API("CONSUMER.CREATE.BENCH."+name+".bench.rare", createConsumer{"BENCH", config}, &info); err != nil {
		return err
	}
	if info.Pending != int64(len(want)) {
		return fmt.Errorf("%d messages are pending, want %d", info.Pending, len(want))
	}
	for _, seq := range want {
		began := time.Now()
		m, err := api.Pull("$JS.API.CONSUMER.MSG.NEXT.BENCH."+name, []byte(`{"batch":1,"expires":5000000000}`))
		if err != nil {
			return err
		}
		pulls.add(time.Since(began))
		if string(m.Subject) != "bench.rare" || !bytes.Contains(m.Reply, fmt.Appendf(nil, ".%d.", seq)) {
			return fmt.Errorf("%q with reply %q, want the rare message %d: %q", m.Subject, m.Reply, seq, m.Header)
		}
	}
	return nil
}

// manySubjects measures the memory of a stream with a message on each of very many subjects, a quarter of a minute after the
// server has become idle.
func manySubjects(ctx context.Context, env *Env) ([]Result, error) {
	n := env.Size(1_000_000, 100_000)
	api, err := createStream(ctx, env, limitsStream("file"))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	before, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	if err := streamOf(ctx, env, api, n, func(i int) string { return fmt.Sprintf("bench.device.%07d.state", i) }); err != nil {
		return nil, err
	}
	if err := env.awaitIdle(ctx); err != nil {
		return nil, err
	}
	if !env.Quick { // caches and heaps that are let go a while after the load
		if err := sleep(ctx, 12*time.Second); err != nil {
			return nil, err
		}
	}
	after, err := env.settledRSS(ctx)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, Sample{Bytes: float64(after-before) / float64(n)}}}, nil
}

// awaitIdle waits, for half a minute at most, until the server does next to nothing any more: what it puts in order after
// a load needs memory for a moment.
func (e *Env) awaitIdle(ctx context.Context) error {
	const look, idle = 500 * time.Millisecond, 25 * time.Millisecond
	used, err := e.Server.CPU()
	for until := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(until); {
		if err := sleep(ctx, look); err != nil {
			return err
		}
		before := used
		if used, err = e.Server.CPU(); err == nil && used-before < idle {
			return nil
		}
	}
	return err
}
