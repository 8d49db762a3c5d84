package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

const (
	kvStream = "KV_bench"
	kvPrefix = "$KV.bench."
)

// kvBucket is a bucket's stream as client libraries make it, with one value of history.
func kvBucket(storage string) streamConfig {
	cfg := limitsStream(storage)
	cfg.Name, cfg.Subjects, cfg.Discard, cfg.MaxMsgsPerSubject = kvStream, []string{kvPrefix + ">"}, "new", 1
	cfg.AllowDirect, cfg.AllowRollup, cfg.DenyDelete = true, true, true
	return cfg
}

// kvKeys is how many keys puts and gets choose among, at random.
const kvKeys = 10_000

func kvKey(i int) string { return fmt.Sprintf("%suser.%06d", kvPrefix, i) }

// shuffled renders a request for every key, in a random order that is the same in every run.
func shuffled(render func(key int) []byte) [][]byte {
	var out [][]byte
	for _, key := range rand.New(rand.NewPCG(kvKeys, 3)).Perm(kvKeys) {
		out = append(out, render(key))
	}
	return out
}

const kvInbox = "_INBOX.bench.kv"

// kvPut is one client that puts values of 128 B, one after the other.
func kvPut(storage string) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) {
		if err := env.Durable(ctx); err != nil {
			return nil, err
		}
		api, err := createStream(ctx, env, kvBucket(storage))
		if err != nil {
			return nil, err
		}
		defer api.Close()
		c, err := newCaller(ctx, env, kvInbox, "", nil)
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		requests := shuffled(func(key int) []byte { return wire.AppendPub(nil, kvKey(key), kvInbox, make([]byte, 128)) })
		last := int64(0)
		sample, total, err := measureCalls(ctx, env, []*caller{c}, func(_, n int) []byte { return requests[n%kvKeys] }, func(m wire.Message) error {
			seq, err := ackSequence(m)
			if err == nil && seq != last+1 {
				err = fmt.Errorf("revision %d after %d", seq, last)
			}
			last = seq
			return err
		})
		if err != nil {
			return nil, err
		}
		return []Result{{env.Name, sample}}, checkStream(api, kvStream, min(total, kvKeys))
	}
}

// kvLoad puts every key once, windowed, and checks that the bucket holds them.
func kvLoad(ctx context.Context, env *Env, api *wire.Client, keys int) error {
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Write(wire.AppendSub(nil, kvInbox, "", "1")); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	const window = 1000
	for from := 0; from < keys; from += window {
		var b []byte
		n := min(window, keys-from)
		for i := range n {
			b = wire.AppendPub(b, kvKey(from+i), kvInbox, fmt.Appendf(make([]byte, 0, 128), "%0128d", from+i))
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
			if _, err := ackSequence(m); err != nil {
				return err
			}
		}
	}
	return checkStream(api, kvStream, int64(keys))
}

// kvGet is one client that gets random keys by direct get, one after the other.
func kvGet(ctx context.Context, env *Env) ([]Result, error) {
	if err := env.Durable(ctx); err != nil {
		return nil, err
	}
	api, err := createStream(ctx, env, kvBucket("file"))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	if err := kvLoad(ctx, env, api, kvKeys); err != nil {
		return nil, err
	}
	c, err := newCaller(ctx, env, kvInbox, "", nil)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	requests := shuffled(func(key int) []byte {
		return wire.AppendPub(nil, "$JS.API.DIRECT.GET."+kvStream+"."+kvKey(key), kvInbox, nil)
	})
	sample, _, err := measureCalls(ctx, env, []*caller{c}, func(_, n int) []byte { return requests[n%kvKeys] }, func(m wire.Message) error {
		_, subject, ok := bytes.Cut(m.Header, []byte("Nats-Subject: "+kvPrefix+"user."))
		if !ok || len(m.Data) != 128 || !bytes.HasPrefix(subject, m.Data[128-6:]) {
			return fmt.Errorf("not the key's value: %q %q", m.Header, m.Data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, sample}}, nil
}

// kvWatch measures how long a watcher of all keys waits for the end of the initial state.
func kvWatch(ctx context.Context, env *Env) ([]Result, error) {
	keys := env.Size(100_000, 10_000)
	api, err := createStream(ctx, env, kvBucket("file"))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	if err := kvLoad(ctx, env, api, keys); err != nil {
		return nil, err
	}
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	watch, err := startPush(ctx, env, api, kvStream, consumerConfig{DeliverPolicy: "last_per_subject", FilterSubject: kvPrefix + ">"})
	if err != nil {
		return nil, err
	}
	defer watch.conn.Close()
	next := 0
	err = watch.read(int64(keys), func(data []byte) error {
		if want := fmt.Appendf(nil, "%06d", next); !bytes.HasSuffix(data, want) {
			return errors.New("keys out of order or lost")
		}
		next++
		return nil
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(m.began)
	sample, err := m.stop(int64(keys))
	if err != nil {
		return nil, err
	}
	sample[Seconds] = took.Seconds()
	return []Result{{env.Name, sample}}, nil
}
