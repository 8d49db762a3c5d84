package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jserr"
)

const (
	// chunkWithin is how long a restore waits for the next chunk, as in nats-server.
	chunkWithin = 5 * time.Second
	// chunksHigh and chunksMax bound the bytes of chunks that wait to be read: beyond the first the sender is asked to
	// wait, beyond the second the restore fails.
	chunksHigh, chunksMax = 8 << 20, 64 << 20
)

func streamRestore(_ context.Context, r *request) (any, error) {
	if r.isEmpty() {
		return nil, jserr.New(jserr.BadRequest)
	}
	var ask api.JSApiStreamRestoreRequest
	if err := r.decode(&ask); err != nil {
		return nil, err
	}
	name := r.name(4)
	if ask.Config.Name == "" {
		ask.Config.Name = name
	}
	switch {
	case ask.Config.Name != name:
		return nil, jserr.New(jserr.StreamMismatch)
	case strings.ContainsAny(name, `\/`):
		return nil, jserr.New(jserr.StreamNameContainsPathSeparators)
	}
	cfg, err := r.account.CheckRestore(ask.Config)
	if err != nil {
		return nil, err
	}
	if err := r.service.beginTransfer(); err != nil {
		return nil, err
	}
	in := &chunkReader{space: r.account.Space(), account: r.account.Name(), stream: name, wake: make(chan struct{}, 1)}
	deliver := "$JS.SNAPSHOT.RESTORE." + name + "." + nuid.Next()
	if in.sub, err = in.space.Subscribe(deliver, "", in); err != nil {
		r.service.endTransfer()
		return nil, jserr.New(jserr.RestoreSubscribeFailed, "subject", deliver, "err", err)
	}
	r.then = func(ctx context.Context) {
		defer r.service.endTransfer()
		r.takeRestore(ctx, cfg, in)
	}
	return struct {
		head
		DeliverSubject string `json:"deliver_subject"`
	}{head{Type: schema + "stream_restore_response"}, deliver}, nil
}

// takeRestore reads the backup that the requester sends and answers its last, empty chunk.
func (r *request) takeRestore(ctx context.Context, cfg api.StreamConfig, in *chunkReader) {
	r.adviseTransfer("restore_create", "RESTORE_CREATE", transferEvent{Stream: cfg.Name})
	start := time.Now().UTC()
	in.ctx, in.timer = ctx, time.NewTimer(chunkWithin)
	s, err := r.account.Restore(ctx, cfg, in)
	last, drained := in.drain()
	if drained != nil && !errors.Is(err, drained) {
		err = drained
	}
	end := time.Now().UTC()
	total := in.total
	r.adviseTransfer("restore_complete", "RESTORE_COMPLETE", transferEvent{Stream: cfg.Name, Start: &start, End: &end, Bytes: &total})
	if err != nil {
		r.service.log.Warn("A restore failed", "account", r.account.Name(), "stream", cfg.Name, "error", err)
	}
	if len(last) > 0 {
		body, err := json.Marshal(restoreAnswer(s, err))
		if err != nil {
			r.service.log.Error("encoding the answer to a restore", "stream", cfg.Name, "error", err)
			return
		}
		in.space.PublishOnce(broker.Msg{Subject: last, Data: body})
	}
}

// restoreAnswer is what the last chunk is answered with.
func restoreAnswer(s *engine.Stream, err error) any {
	h := head{Type: schema + "stream_create_response"}
	var info engine.Info
	if err == nil {
		info, err = s.Info(api.JSApiStreamInfoRequest{})
	}
	if err != nil {
		var known *jserr.Error
		if !errors.As(err, &known) {
			known = jserr.New(jserr.StreamRestore, "err", err)
		}
		h.Error = known.API()
		return h
	}
	info.Domain = "" // as nats-server answers
	return streamAnswer{head: h, streamInfo: streamInfoOf(&info)}
}

// chunkReader gives the chunks that arrive as one run of bytes, and answers each once it was read.
type chunkReader struct {
	ctx             context.Context // of the one restore that reads
	space           *broker.Space
	account, stream string
	sub             *broker.Subscription
	timer           *time.Timer
	rest            []byte // of the chunk that is being read
	reply           []byte // of that chunk
	total           int64
	last            []byte // reply of the empty chunk
	err             error

	wake   chan struct{} // capacity 1: something came
	mu     sync.Mutex    // guards what follows
	chunks []chunk
	bytes  int
	fault  error
	gate   chan struct{}
	closed bool
}

// chunk is a part of a backup.
type chunk struct{ data, reply []byte }

// Deliver implements broker.Receiver.
func (c *chunkReader) Deliver(batch []broker.Delivery) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for i := range batch {
		d := &batch[i]
		c.bytes += len(d.Data)
		switch {
		case c.fault != nil:
		case len(d.Reply) == 0:
			c.fault = fmt.Errorf("restore for stream '%s > %s' requires reply subject for each chunk", c.account, c.stream)
		case c.bytes > chunksMax:
			c.fault = fmt.Errorf("restore for stream '%s > %s' received more chunks than were answered", c.account, c.stream)
		default:
			c.chunks = append(c.chunks, chunk{append([]byte(nil), d.Data...), append([]byte(nil), d.Reply...)})
		}
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	if c.bytes > chunksHigh {
		if c.gate == nil {
			c.gate = make(chan struct{})
		}
		return c.gate
	}
	return nil
}

// Read implements io.Reader.
func (c *chunkReader) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// next answers the chunk that was read and waits for another. io.EOF follows the empty one.
func (c *chunkReader) next() error {
	if c.reply != nil {
		c.space.PublishOnce(broker.Msg{Subject: c.reply})
		c.reply = nil
	}
	if c.err != nil {
		return c.err
	}
	c.timer.Reset(chunkWithin)
	got, err := c.await()
	switch {
	case err != nil:
		c.err = err
	case len(got.data) == 0:
		c.last, c.err = got.reply, io.EOF
	default:
		c.rest, c.reply = got.data, got.reply
		c.total += int64(len(got.data))
		return nil
	}
	return c.err
}

func (c *chunkReader) await() (chunk, error) {
	for {
		if got, ok, err := c.pop(); ok || err != nil {
			return got, err
		}
		select {
		case <-c.wake:
		case <-c.timer.C:
			return chunk{}, fmt.Errorf("restore for stream '%s > %s' is stalled", c.account, c.stream)
		case <-c.ctx.Done():
			return chunk{}, c.ctx.Err()
		}
	}
}

func (c *chunkReader) pop() (got chunk, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.chunks) == 0 {
		return got, false, c.fault
	}
	got = c.chunks[0]
	c.chunks = c.chunks[1:]
	c.bytes -= len(got.data)
	if c.gate != nil && c.bytes <= chunksHigh/2 {
		close(c.gate)
		c.gate = nil
	}
	return got, true, nil
}

// drain reads what still comes, if the restore has ended before its chunks, and gives the reply of the last one. An
// error says that there is no last one.
func (c *chunkReader) drain() (last []byte, err error) {
	for c.err == nil {
		c.rest = nil
		_ = c.next() // c.err has it
	}
	c.space.Unsubscribe(c.sub)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.gate != nil {
		close(c.gate)
		c.gate = nil
	}
	if c.err == io.EOF {
		return c.last, nil
	}
	return nil, c.err
}
