package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// consumerConfig is the part of a consumer's configuration that the cases set.
type consumerConfig struct {
	Durable        string        `json:"durable_name,omitempty"`
	Name           string        `json:"name,omitempty"`
	DeliverPolicy  string        `json:"deliver_policy"`
	AckPolicy      string        `json:"ack_policy"`
	ReplayPolicy   string        `json:"replay_policy"`
	MaxDeliver     int           `json:"max_deliver,omitempty"`
	MaxAckPending  int           `json:"max_ack_pending,omitempty"`
	DeliverSubject string        `json:"deliver_subject,omitempty"`
	FlowControl    bool          `json:"flow_control,omitempty"`
	IdleHeartbeat  time.Duration `json:"idle_heartbeat,omitempty"`
	MemStorage     bool          `json:"mem_storage,omitempty"`
	FilterSubject  string        `json:"filter_subject,omitempty"`
	Replicas       int           `json:"num_replicas"`
}

type createConsumer struct {
	Stream string         `json:"stream_name"`
	Config consumerConfig `json:"config"`
}

// consumerInfo is the part of a consumer's state that the cases check.
type consumerInfo struct {
	AckFloor struct {
		StreamSeq int64 `json:"stream_seq"`
	} `json:"ack_floor"`
	AckPending int64 `json:"num_ack_pending"`
	Pending    int64 `json:"num_pending"`
}

// loadedStream makes a stream of n messages of 128 B, rounded up, and says how many they are.
func loadedStream(ctx context.Context, env *Env, n int) (*wire.Client, int64, error) {
	api, err := createStream(ctx, env, limitsStream("file"))
	if err != nil {
		return nil, 0, err
	}
	defer api.Close()
	p, err := startAsyncPublisher(ctx, env, 128)
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	loaded, err := p.load(ctx, n)
	if err != nil {
		return nil, 0, err
	}
	if err := checkStream(api, "BENCH", loaded); err != nil {
		return nil, 0, err
	}
	if err := env.Durable(ctx); err != nil {
		return nil, 0, err
	}
	if api, err = wire.DialClient(ctx, env.Server.Addr(), "_INBOX.bench.api"); err != nil {
		return nil, 0, err
	}
	return api, loaded, checkStream(api, "BENCH", loaded)
}

// order checks that marked messages come one after the other.
type order struct{ next uint32 }

func (o *order) check(data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("a message of %d bytes", len(data))
	}
	if got := binary.LittleEndian.Uint32(data); got != o.next {
		return fmt.Errorf("message out of order: index %d, expected %d (modulo %d)", got, o.next, asyncWindow)
	}
	o.next = (o.next + 1) % asyncWindow
	return nil
}

// fetch pulls batches of 500 and acknowledges every message.
func fetch(ctx context.Context, env *Env) ([]Result, error) {
	const batch = 500
	api, loaded, err := loadedStream(ctx, env, env.Size(200_000, 20_000))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	config := consumerConfig{Durable: "fetch", DeliverPolicy: "all", AckPolicy: "explicit", ReplayPolicy: "instant", MaxAckPending: 2 * batch, Replicas: 1}
	if err := api.API("CONSUMER.DURABLE.CREATE.BENCH.fetch", createConsumer{"BENCH", config}, nil); err != nil {
		return nil, err
	}
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.Write(wire.AppendSub(nil, "_INBOX.bench.fetch", "", "1")); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	pull := wire.AppendPub(nil, "$JS.API.CONSUMER.MSG.NEXT.BENCH.fetch", "_INBOX.bench.fetch", fmt.Appendf(nil, `{"expires":10000000000,"batch":%d}`, batch))
	f := fetcher{conn: conn, pull: pull}
	if err := f.take(batch); err != nil {
		return nil, err
	}
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	taken := int64(batch)
	for ; taken+batch <= loaded && ctx.Err() == nil; taken += batch {
		if err := f.take(batch); err != nil {
			return nil, fmt.Errorf("after %d messages: %w", taken, err)
		}
	}
	if err := awaitSettled(ctx, api, "fetch", taken, loaded-taken); err != nil {
		return nil, err
	}
	sample, err := m.stop(taken - batch)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, sample}}, nil
}

type fetcher struct {
	conn  *wire.Conn
	pull  []byte
	order order
	acks  []byte
}

// take fetches and acknowledges one batch of n. Acknowledgements leave whenever nothing more has been received.
func (f *fetcher) take(n int) error {
	if err := f.conn.Write(f.pull); err != nil {
		return err
	}
	f.conn.SetReadTimeout(stallTimeout)
	for range n {
		m, err := f.conn.Next()
		if err != nil {
			return err
		}
		if m.Kind != wire.Msg || len(m.Reply) == 0 {
			return fmt.Errorf("a fetch ended early: %.80q", m.Header)
		}
		if err := f.order.check(m.Data); err != nil {
			return err
		}
		f.acks = wire.AppendPub(f.acks, string(m.Reply), "", []byte("+ACK"))
		if !f.conn.Buffered() {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	return f.flush()
}

func (f *fetcher) flush() error {
	if len(f.acks) == 0 {
		return nil
	}
	err := f.conn.Write(f.acks)
	f.acks = f.acks[:0]
	return err
}

// awaitSettled polls until the consumer has handled every acknowledgement, and checks its numbers.
func awaitSettled(ctx context.Context, api *wire.Client, consumer string, acked, pending int64) error {
	deadline := time.Now().Add(stallTimeout)
	for {
		var info consumerInfo
		if err := api.API("CONSUMER.INFO.BENCH."+consumer, nil, &info); err != nil {
			return err
		}
		if info.AckFloor.StreamSeq == acked && info.AckPending == 0 && info.Pending == pending {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the consumer did not settle: %+v, expected floor %d and %d pending", info, acked, pending)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// orderedConsume reads the whole stream through a push consumer with flow control, as an ordered consumer does.
func orderedConsume(ctx context.Context, env *Env) ([]Result, error) {
	api, loaded, err := loadedStream(ctx, env, env.Size(400_000, 40_000))
	if err != nil {
		return nil, err
	}
	defer api.Close()
	push, err := startPush(ctx, env, api, "BENCH", consumerConfig{DeliverPolicy: "all"})
	if err != nil {
		return nil, err
	}
	defer push.conn.Close()
	var o order
	warm := loaded / 10
	if err := push.read(warm, o.check); err != nil {
		return nil, err
	}
	m, err := env.startMeter()
	if err != nil {
		return nil, err
	}
	if err := push.read(loaded-warm, o.check); err != nil {
		return nil, err
	}
	sample, err := m.stop(loaded - warm)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, sample}}, nil
}

// push is a connection that a push consumer delivers to.
type push struct {
	conn *wire.Conn
}

// startPush subscribes, and creates the consumer with flow control and without acknowledgements.
func startPush(ctx context.Context, env *Env, api *wire.Client, stream string, config consumerConfig) (*push, error) {
	const inbox = "_INBOX.bench.push"
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return nil, err
	}
	if err := conn.Write(wire.AppendSub(nil, inbox, "", "1")); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	config.Name, config.AckPolicy, config.ReplayPolicy, config.MaxDeliver = "ordered", "none", "instant", 1
	config.DeliverSubject, config.FlowControl, config.IdleHeartbeat = inbox, true, 5*time.Second
	config.MemStorage, config.Replicas = true, 1
	return &push{conn}, api.API("CONSUMER.CREATE."+stream+".ordered", createConsumer{stream, config}, nil)
}

// read takes n messages, answers flow control, and hands every payload to check.
func (p *push) read(n int64, check func(data []byte) error) error {
	for taken := int64(0); taken < n; {
		p.conn.SetReadTimeout(stallTimeout)
		// A new deadline for every message would be felt; one for every thousand is as good.
		for range 1000 {
			m, err := p.conn.Next()
			if err != nil {
				return fmt.Errorf("message %d of %d: %w", taken+1, n, err)
			}
			if bytes.HasPrefix(m.Header, []byte("NATS/1.0 100")) {
				if len(m.Reply) > 0 {
					if err := p.conn.Write(wire.AppendPub(nil, string(m.Reply), "", nil)); err != nil {
						return err
					}
				}
				continue
			}
			if err := check(m.Data); err != nil {
				return err
			}
			if taken++; taken == n {
				return nil
			}
		}
	}
	return nil
}
