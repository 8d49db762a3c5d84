package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// streamConfig is the part of a stream's configuration that the cases set.
type streamConfig struct {
	Name              string   `json:"name"`
	Subjects          []string `json:"subjects"`
	Storage           string   `json:"storage"`
	Retention         string   `json:"retention"`
	Discard           string   `json:"discard"`
	MaxConsumers      int      `json:"max_consumers"`
	MaxMsgs           int64    `json:"max_msgs"`
	MaxBytes          int64    `json:"max_bytes"`
	MaxMsgsPerSubject int64    `json:"max_msgs_per_subject"`
	MaxMsgSize        int      `json:"max_msg_size"`
	Replicas          int      `json:"num_replicas"`
	PersistMode       string   `json:"persist_mode,omitempty"`
	AllowDirect       bool     `json:"allow_direct,omitempty"`
	AllowRollup       bool     `json:"allow_rollup_hdrs,omitempty"`
	DenyDelete        bool     `json:"deny_delete,omitempty"`
}

// streamInfo is the part of a stream's state that the cases check.
type streamInfo struct {
	State struct {
		Messages int64 `json:"messages"`
		LastSeq  int64 `json:"last_seq"`
	} `json:"state"`
}

func limitsStream(storage string) streamConfig {
	return streamConfig{
		Name: "BENCH", Subjects: []string{"bench.>"}, Storage: storage, Retention: "limits", Discard: "old", MaxConsumers: -1,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, Replicas: 1,
	}
}

// createStream makes the stream and returns the connection for further requests.
func createStream(ctx context.Context, env *Env, cfg streamConfig) (*wire.Client, error) {
	api, err := wire.DialClient(ctx, env.Server.Addr(), "_INBOX.bench.api")
	if err != nil {
		return nil, err
	}
	if err := api.API("STREAM.CREATE."+cfg.Name, cfg, nil); err != nil {
		api.Close()
		return nil, err
	}
	return api, nil
}

// checkStream compares what is in the stream with what was acknowledged.
func checkStream(api *wire.Client, stream string, acknowledged int64) error {
	var info streamInfo
	if err := api.API("STREAM.INFO."+stream, nil, &info); err != nil {
		return err
	}
	if info.State.Messages != acknowledged {
		return fmt.Errorf("messages lost or doubled: %d acknowledged, the stream holds %d", acknowledged, info.State.Messages)
	}
	return nil
}

// ackSequence reads the stream sequence from a PubAck.
func ackSequence(m wire.Message) (int64, error) {
	i := bytes.Index(m.Data, []byte(`"seq":`))
	if i < 0 || bytes.Contains(m.Data, []byte(`"error"`)) {
		return 0, fmt.Errorf("not acknowledged: %.60q %.200q", m.Header, m.Data)
	}
	digits := m.Data[i+len(`"seq":`):]
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	return strconv.ParseInt(string(digits[:end]), 10, 64)
}

// asyncWindow is how many publishes may be unacknowledged: nats.go's default of 4,000.
const asyncWindow = 4000

// asyncPublisher publishes with an acknowledgement for each message, many at a time.
type asyncPublisher struct {
	flow *flow
	conn *wire.Conn
	feed *feed
	sum  atomic.Int64 // of all sequences acknowledged so far
	last atomic.Int64 // the highest of them
}

// publishChunk is how many messages an asyncPublisher writes at once.
const publishChunk = 100

func startAsyncPublisher(ctx context.Context, env *Env, payload int) (*asyncPublisher, error) {
	p, err := dialAsyncPublisher(ctx, env)
	if err != nil {
		return nil, err
	}
	p.feed = &feed{}
	// As many reply subjects as may be under way, so that each outstanding one is unique.
	for chunk := range asyncWindow / publishChunk {
		var b []byte
		for i := range publishChunk {
			body := make([]byte, payload)
			wire.PutMark(body, chunk*publishChunk+i, 0)
			b = wire.AppendPub(b, "bench.events", ackInbox(chunk*publishChunk+i), body)
		}
		p.feed.chunks, p.feed.counts = append(p.feed.chunks, b), append(p.feed.counts, publishChunk)
	}
	return p, nil
}

// ackInbox is where the acknowledgement of a message goes: a subject that no other outstanding one has.
func ackInbox(index int) string { return fmt.Sprintf("_INBOX.bench.acks.%04d", index%asyncWindow) }

// dialAsyncPublisher connects a publisher that has nothing to publish yet.
func dialAsyncPublisher(ctx context.Context, env *Env) (*asyncPublisher, error) {
	conn, err := wire.Dial(ctx, env.Server.Addr(), wire.Options{})
	if err != nil {
		return nil, err
	}
	p := &asyncPublisher{flow: newFlow(1, 1, asyncWindow), conn: conn}
	if err := conn.Write(wire.AppendSub(nil, "_INBOX.bench.acks.*", "", "1")); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	go func() { p.flow.fail(p.readAcks()) }()
	return p, nil
}

func (p *asyncPublisher) readAcks() error {
	gathered := 0
	for {
		m, err := p.conn.Next()
		if err != nil {
			return err
		}
		if m.Kind != wire.Msg {
			continue
		}
		seq, err := ackSequence(m)
		if err != nil {
			return err
		}
		p.sum.Add(seq)
		p.last.Store(max(p.last.Load(), seq))
		if gathered++; !p.conn.Buffered() || gathered == publishChunk {
			p.flow.deliver(gathered)
			gathered = 0
		}
	}
}

// run publishes for d and waits for the last acknowledgement.
func (p *asyncPublisher) run(ctx context.Context, d time.Duration) error {
	if err := p.flow.publish(ctx, 0, p.conn, p.feed, time.Now().Add(d)); err != nil {
		return err
	}
	return p.flow.drain(ctx)
}

// load publishes n messages, rounded up to whole chunks, and returns how many.
func (p *asyncPublisher) load(ctx context.Context, n int) (int64, error) {
	for p.flow.published.Load() < int64(n) {
		chunk, k := p.feed.next()
		if err := p.write(ctx, chunk, k); err != nil {
			return 0, err
		}
	}
	return p.finish(ctx)
}

// loadEach publishes n messages of one payload, to a subject for each, and returns how many.
func (p *asyncPublisher) loadEach(ctx context.Context, n int, payload []byte, subject func(i int) string) (int64, error) {
	var chunk []byte
	for i := 0; i < n; {
		chunk = chunk[:0]
		k := min(publishChunk, n-i)
		for range k {
			chunk = wire.AppendPub(chunk, subject(i), ackInbox(i), payload)
			i++
		}
		if err := p.write(ctx, chunk, k); err != nil {
			return 0, err
		}
	}
	return p.finish(ctx)
}

// write publishes a chunk of k messages when the window has room for it.
func (p *asyncPublisher) write(ctx context.Context, chunk []byte, k int) error {
	err := p.flow.waitFor(ctx, 0, func() bool {
		return p.flow.published.Load()+int64(k)-p.flow.delivered.Load() <= asyncWindow
	})
	if err != nil {
		return err
	}
	p.flow.published.Add(int64(k))
	return p.conn.Write(chunk)
}

// finish waits for the last acknowledgement and says how many there were.
func (p *asyncPublisher) finish(ctx context.Context) (int64, error) {
	if err := p.flow.drain(ctx); err != nil {
		return 0, err
	}
	return p.check()
}

// check says how many messages were acknowledged, each with a sequence of its own from 1 on.
func (p *asyncPublisher) check() (int64, error) {
	if err := p.flow.exact(); err != nil {
		return 0, err
	}
	n := p.flow.published.Load()
	if last := p.last.Load(); last != n || p.sum.Load() != n*(n+1)/2 {
		return 0, fmt.Errorf("%d messages acknowledged, but their sequences are not 1 to %d (the highest is %d)", n, n, last)
	}
	return n, nil
}

func (p *asyncPublisher) close() {
	p.flow.closed.Store(true)
	p.conn.Close()
}

// asyncPublish is one publisher with many publishes under way.
func asyncPublish(payload int) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) {
		if err := env.Durable(ctx); err != nil {
			return nil, err
		}
		api, err := createStream(ctx, env, limitsStream("file"))
		if err != nil {
			return nil, err
		}
		defer api.Close()
		p, err := startAsyncPublisher(ctx, env, payload)
		if err != nil {
			return nil, err
		}
		defer p.close()
		if err := p.run(ctx, env.Duration/4); err != nil {
			return nil, err
		}
		before := p.flow.published.Load()
		m, err := env.startMeter()
		if err != nil {
			return nil, err
		}
		if err := p.run(ctx, env.Duration); err != nil {
			return nil, err
		}
		sample, err := m.stop(p.flow.published.Load() - before)
		if err != nil {
			return nil, err
		}
		n, err := p.check()
		if err != nil {
			return nil, err
		}
		return []Result{{env.Name, sample}}, checkStream(api, "BENCH", n)
	}
}

// syncPublish is publishers that each wait for the acknowledgement of one message before they publish the next.
func syncPublish(publishers int, cfg streamConfig) func(context.Context, *Env) ([]Result, error) {
	return func(ctx context.Context, env *Env) ([]Result, error) {
		if err := env.Durable(ctx); err != nil {
			return nil, err
		}
		api, err := createStream(ctx, env, cfg)
		if err != nil {
			return nil, err
		}
		defer api.Close()
		var callers []*caller
		for i := range publishers {
			c, err := newCaller(ctx, env, fmt.Sprintf("_INBOX.bench.acks.%02d", i), "bench.events", make([]byte, 128))
			if err != nil {
				return nil, err
			}
			defer c.conn.Close()
			callers = append(callers, c)
		}
		sample, total, err := measureCalls(ctx, env, callers, nil, func(m wire.Message) error {
			_, err := ackSequence(m)
			return err
		})
		if err != nil {
			return nil, err
		}
		return []Result{{env.Name, sample}}, checkStream(api, "BENCH", total)
	}
}
