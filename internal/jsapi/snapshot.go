package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/subject"
)

// A snapshot goes to the requester in chunks, as many at once as its window has room for; each is answered. Sizes and
// times are those of nats-server.
const (
	chunkDefault, chunkLeast, chunkMost    = 128 << 10, 1 << 10, 1 << 20
	windowDefault, windowLeast, windowMost = 8 << 20, 1 << 10, 32 << 20

	// interestWithin is how long somebody may take to listen on the deliver subject.
	interestWithin = 2 * time.Second
	// chunkAnswerWithin is how long no chunk may be answered.
	chunkAnswerWithin = 5 * time.Second
)

func streamSnapshot(_ context.Context, r *request) (any, error) {
	if r.isEmpty() {
		return nil, jserr.New(jserr.BadRequest)
	}
	s, err := r.account.Stream(r.name(4))
	if err != nil {
		return nil, err
	}
	var ask api.JSApiStreamSnapshotRequest
	if err := r.decode(&ask); err != nil {
		return nil, err
	}
	if !subject.ValidLiteral(ask.DeliverSubject) || consumer.ReservedDestination(ask.DeliverSubject) {
		return nil, jserr.New(jserr.SnapshotDeliverSubjectInvalid)
	}
	if err := r.service.beginTransfer(); err != nil {
		return nil, err
	}
	sn, err := s.Snapshot(!ask.NoConsumers)
	if err != nil {
		r.service.endTransfer()
		return nil, err
	}
	r.then = func(ctx context.Context) {
		defer r.service.endTransfer()
		r.sendSnapshot(ctx, sn, &ask)
	}
	cfg := sn.Config
	cfg.Metadata = leveled(cfg.Metadata, "0")
	listed(cfg.Metadata)
	return struct {
		head
		Config streamConfig    `json:"config"`
		State  api.StreamState `json:"state"`
	}{head{Type: schema + "stream_snapshot_response"}, toStreamConfig(cfg), sn.State}, nil
}

// sendSnapshot sends a snapshot to its requester.
func (r *request) sendSnapshot(ctx context.Context, sn *engine.Snapshot, ask *api.JSApiStreamSnapshotRequest) {
	name := sn.Config.Name
	r.adviseTransfer("snapshot_create", "SNAPSHOT_CREATE", transferEvent{Stream: name, State: &sn.State})
	start := time.Now().UTC()
	w, err := newChunkWriter(ctx, r.account.Space(), name, ask)
	if err == nil {
		if err = sn.Write(ctx, w); err == nil {
			err = w.flush()
		}
		w.end(err)
	}
	ev := transferEvent{Stream: name, Start: &start}
	if err != nil {
		ev.Error = err.Error()
		r.service.log.Warn("A snapshot failed", "account", r.account.Name(), "stream", name, "error", err)
	}
	end := time.Now().UTC()
	ev.End = &end
	r.adviseTransfer("snapshot_complete", "SNAPSHOT_COMPLETE", ev)
}

var (
	errNoInterest = errors.New("no interest")
	errNoFlow     = errors.New("no flow response")
)

// chunkWriter sends what is written to it in chunks.
type chunkWriter struct {
	ctx   context.Context // of the one snapshot that it sends
	space *broker.Space
	to    []byte
	acks  string // subject of the answers, to which size and index are added
	sub   *broker.Subscription
	chunk []byte // of the chunk's capacity
	sent  int    // full chunks
	slots chan struct{}

	unwatch func()
	gone    chan struct{} // capacity 1: nobody listens any more
	there   chan struct{} // capacity 1: somebody listens
	seen    atomic.Bool   // somebody has listened
	timer   *time.Timer
}

func clampSize(asked, usual, least, most int) int {
	if asked == 0 {
		asked = usual
	}
	return min(max(asked, least), most)
}

// newChunkWriter waits a moment until somebody listens.
func newChunkWriter(ctx context.Context, space *broker.Space, stream string, ask *api.JSApiStreamSnapshotRequest) (*chunkWriter, error) {
	size := clampSize(ask.ChunkSize, chunkDefault, chunkLeast, chunkMost)
	window := max(clampSize(ask.WindowSize, windowDefault, windowLeast, windowMost), size)
	w := &chunkWriter{
		ctx: ctx, space: space, to: []byte(ask.DeliverSubject), acks: "$JS.SNAPSHOT.ACK." + stream + "." + nuid.Next(),
		chunk: make([]byte, 0, size), slots: make(chan struct{}, window/size),
		gone: make(chan struct{}, 1), there: make(chan struct{}, 1),
	}
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
	var err error
	if w.sub, err = space.Subscribe(w.acks+".>", "", w); err != nil {
		return nil, fmt.Errorf("jsapi: listening for the answers to a snapshot: %w", err)
	}
	w.unwatch = space.WatchInterest(ask.DeliverSubject, broker.PlainInterest(), w.interest)
	if !space.HasInterest(ask.DeliverSubject) {
		select {
		case <-w.there:
		case <-time.After(interestWithin):
		case <-ctx.Done():
		}
	} else {
		w.seen.Store(true)
	}
	w.timer = time.NewTimer(chunkAnswerWithin)
	return w, nil
}

// interest hears whether somebody listens.
func (w *chunkWriter) interest(is bool) {
	signal := w.gone
	if is {
		w.seen.Store(true)
		signal = w.there
	} else if !w.seen.Load() {
		return // not yet
	}
	select {
	case signal <- struct{}{}:
	default:
	}
}

// Deliver implements broker.Receiver: answers to chunks make room for further ones.
func (w *chunkWriter) Deliver(batch []broker.Delivery) <-chan struct{} {
	for range batch {
		select {
		case w.slots <- struct{}{}:
		default: // more answers than chunks
		}
	}
	return nil
}

// Write implements io.Writer.
func (w *chunkWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		if len(w.chunk) == 0 {
			if err := w.await(); err != nil {
				return n, err
			}
		}
		part := b[:min(len(b), cap(w.chunk)-len(w.chunk))]
		w.chunk = append(w.chunk, part...)
		n, b = n+len(part), b[len(part):]
		if len(w.chunk) == cap(w.chunk) {
			w.sent++
			reply := w.acks + "." + strconv.Itoa(len(w.chunk)) + "." + strconv.Itoa(w.sent)
			w.space.PublishOnce(broker.Msg{Subject: w.to, Reply: []byte(reply), Data: w.chunk})
			w.chunk = w.chunk[:0]
			w.timer.Reset(chunkAnswerWithin)
		}
	}
	return n, nil
}

// await waits for room in the window.
func (w *chunkWriter) await() error {
	select {
	case <-w.gone:
		return errNoInterest
	default:
	}
	select {
	case <-w.slots:
		return nil
	case <-w.gone:
		return errNoInterest
	case <-w.timer.C:
		return errNoFlow
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// flush sends what is left.
func (w *chunkWriter) flush() error {
	if len(w.chunk) > 0 {
		w.space.PublishOnce(broker.Msg{Subject: w.to, Data: w.chunk})
	}
	return nil
}

// end sends the status that ends the snapshot. As in nats-server a short one, of less than a chunk, ends without.
func (w *chunkWriter) end(err error) {
	w.unwatch()
	w.space.Unsubscribe(w.sub)
	w.timer.Stop()
	var status string
	switch {
	case errors.Is(err, errNoInterest):
		status = "NATS/1.0 408 No Interest\r\n\r\n"
	case errors.Is(err, errNoFlow):
		status = "NATS/1.0 408 No Flow Response\r\n\r\n"
	case err != nil:
		status = "NATS/1.0 500 " + oneLine(err.Error()) + "\r\n\r\n"
	case w.sent > 0:
		status = "NATS/1.0 204\r\n\r\n"
	}
	w.space.PublishOnce(broker.Msg{Subject: w.to, Header: []byte(status)})
}

// oneLine makes a text fit for a header.
func oneLine(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}
