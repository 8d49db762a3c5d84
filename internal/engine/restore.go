package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/archive"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/subject"
	"github.com/sluicemq/sluice/internal/wal"
)

// A restore writes the messages of a backup to the log under the id of a stream that does not exist yet, each entry
// beginning with a record that says so. When all of them are committed, one checkpoint makes the stream: its
// configuration, which sequences it has, its consumers and how far they are. A crash before the checkpoint leaves
// messages in the log that belong to nothing; recovery passes them over, and the next trim lets them go.
//
// Meanwhile the stream's name is taken, and the log is not trimmed. What is in memory is the index of what came and at
// most restoreInFlight bytes that are not committed; committed bytes are under the tail's budget like any others.

const (
	// restoreInFlight bounds the bytes of a restore that wait for the log.
	restoreInFlight = 8 << 20
	// maxLeftOut is how many sequences without a message a chunk leaves out before a new one is begun.
	maxLeftOut = 64
	// maxRestoredSeq bounds sequences, so that counting on from them never overflows.
	maxRestoredSeq = 1<<62 - 1
	// maxRemovedRuns bounds what a backup in the old form may say of messages that are gone.
	maxRemovedRuns = 1 << 22
)

// leaveOut makes room for sequences before seq that have no message. It gives up beyond maxLeftOut.
func (c *chunk) leaveOut(seq uint64) {
	next := c.first + uint64(c.count)
	if c.count == 0 || seq <= next || seq-next > maxLeftOut {
		return
	}
	for ; next < seq; next++ {
		c.offsets = append(c.offsets, 0)
		c.count++
	}
}

// CheckRestore says why a stream cannot be restored under a configuration, as far as that is known before its backup.
func (a *Account) CheckRestore(asked api.StreamConfig) (api.StreamConfig, error) {
	cfg, err := stream.CheckConfig(asked, a.checkLimits(), false)
	if err != nil {
		return cfg, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[cfg.Name] != nil {
		return cfg, jserr.New(jserr.StreamNameExistRestoreFailed)
	}
	if a.limits != nil && a.limits.MaxStreams > 0 && len(a.streams) >= a.limits.MaxStreams {
		return cfg, jserr.New(jserr.MaximumStreamsLimit)
	}
	return cfg, nil
}

// Restore makes a stream out of a backup (see package archive) that it reads to its end. The stream exists, whole and
// durably, when it returns; with an error nothing of it is left. cfg is as CheckRestore returned it.
func (a *Account) Restore(ctx context.Context, cfg api.StreamConfig, backup io.Reader) (*Stream, error) {
	r := &restore{account: a, cfg: cfg, now: time.Now(), created: time.Now().UTC(), ctx: ctx, back: restoreSink{wake: make(chan struct{}, 1)}}
	err := archive.Read(backup, r)
	if err == nil {
		_, err = io.Copy(io.Discard, backup) // whoever sends it says last that it was all
	}
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		r.abandon()
		return nil, err
	}
	return r.stream, nil
}

// restore is a restore that is under way. It is its stream's owner until the stream runs.
type restore struct {
	account *Account
	cfg     api.StreamConfig
	now     time.Time
	ctx     context.Context // of the one call that it lives in
	created time.Time

	stream    *Stream // nil: nothing has come yet
	running   bool    // it is its own owner
	state     api.StreamState
	removed   []record.Gap
	consumers []archive.Consumer

	building *entry
	lastTime int64
	lastSeq  uint64
	sent     []*entry // in the log's hands, oldest first
	inFlight int      // bytes of those
	back     restoreSink
}

// restoreSink counts the entries that the log hands back.
type restoreSink struct {
	n    atomic.Int64
	wake chan struct{} // capacity 1
}

// Committed implements wal.Sink.
func (s *restoreSink) Committed(entries []*wal.Entry) {
	s.n.Add(int64(len(entries)))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin takes the stream's name.
func (r *restore) begin() error {
	if r.stream != nil {
		return nil
	}
	s, isNew, err := r.account.reserve(r.cfg)
	if err == nil && !isNew || errors.Is(err, jserr.New(jserr.StreamNameExist)) {
		err = jserr.New(jserr.StreamNameExistRestoreFailed)
	}
	if err != nil {
		return err
	}
	r.stream = s
	// As in a recovery, the limits come into force when all is there.
	free := boundless()
	free.Storage = r.cfg.Storage
	s.state, err = stream.New(free, r.created)
	s.effects.Each = func(gone stream.Removed) { s.tail.removed(gone.Seq) }
	return err
}

// Created implements archive.Target.
func (r *restore) Created(at time.Time) error {
	if !at.IsZero() {
		r.created = at.UTC()
	}
	return r.begin()
}

// State implements archive.Target.
func (r *restore) State(st api.StreamState) error {
	if st.LastSeq > maxRestoredSeq || st.FirstSeq > maxRestoredSeq {
		return fmt.Errorf("%w: sequence %d", archive.ErrTooLarge, max(st.FirstSeq, st.LastSeq))
	}
	r.state = st
	if err := r.begin(); err != nil {
		return err
	}
	return r.room(st.Bytes)
}

// room says whether there is room for more bytes.
func (r *restore) room(more uint64) error {
	sh := &r.stream.share
	for _, p := range []*pool{sh.own, sh.server} {
		limit := p.limit.Load()
		if limit >= 0 && (more > math.MaxInt64 || p.used.Load() > limit-int64(more)) {
			if r.cfg.Storage == api.MemoryStorage {
				return jserr.New(jserr.MemoryResourcesExceeded)
			}
			return jserr.New(jserr.StorageResourcesExceeded)
		}
	}
	return nil
}

// Removed implements archive.Target.
func (r *restore) Removed(first, last uint64) error {
	if n := len(r.removed); n > 0 && r.removed[n-1].Last+1 == first {
		r.removed[n-1].Last = last
		return nil
	}
	if len(r.removed) == maxRemovedRuns {
		return fmt.Errorf("%w: removed messages", archive.ErrTooLarge)
	}
	r.removed = append(r.removed, record.Gap{First: first, Last: last})
	return nil
}

// Consumer implements archive.Target.
func (r *restore) Consumer(c archive.Consumer) error {
	r.consumers = append(r.consumers, c)
	return nil
}

// Message implements archive.Target.
func (r *restore) Message(m archive.Message) error {
	if err := r.check(&m); err != nil {
		return err
	}
	if e := r.building; e != nil {
		c := e.chunk
		c.leaveOut(m.Seq)
		if m.Seq != c.first+uint64(c.count) || len(e.Data) >= maxChunkBytes {
			if err := r.send(); err != nil {
				return err
			}
		}
	}
	s := r.stream
	if r.building == nil {
		e := s.newEntry(record.Append(nil, record.StreamRestore, s.id, nil), 1, false)
		e.Sink, e.chunk = &r.back, &chunk{first: m.Seq}
		r.building = e
	}
	r.lastTime, r.lastSeq = max(r.lastTime, m.Time), m.Seq
	e, c := r.building, r.building.chunk
	stored := record.StoredMessage{Seq: m.Seq, Time: r.lastTime, Subject: []byte(m.Subject), Header: m.Header, Data: m.Data}
	c.offsets = append(c.offsets, uint32(len(e.Data)))
	e.Data = record.AppendMessage(e.Data, s.id, &stored)
	e.Records++
	c.count++
	c.live++
	return nil
}

// check refuses messages that no publisher could have stored.
func (r *restore) check(m *archive.Message) error {
	switch {
	case r.stream == nil:
		return fmt.Errorf("%w: a message comes first", archive.ErrCorrupt)
	case m.Seq > maxRestoredSeq || m.Seq <= r.lastSeq:
		return fmt.Errorf("%w: message sequence %d", archive.ErrCorrupt, m.Seq)
	case m.Time < 0 || !subject.ValidLiteral(m.Subject):
		return fmt.Errorf("%w: message %d has subject %q", archive.ErrCorrupt, m.Seq, m.Subject)
	case len(m.Header) > 0 && !(bytes.HasPrefix(m.Header, []byte("NATS/1.0")) && bytes.HasSuffix(m.Header, []byte("\r\n\r\n"))):
		return fmt.Errorf("%w: the header of message %d", archive.ErrCorrupt, m.Seq)
	case r.cfg.MaxMsgSize > 0 && len(m.Header)+len(m.Data) > int(r.cfg.MaxMsgSize):
		return fmt.Errorf("message sequence %d exceeds maximum message size", m.Seq)
	}
	return nil
}

// send makes the chunk that is being built part of the state and hands it to the log.
func (r *restore) send() error {
	e, s := r.building, r.stream
	if e == nil {
		return nil
	}
	r.building = nil
	e.chunk.bytes = len(e.Data)
	data := e.Data // as in closeChunk: the chunk must not keep the entry
	e.chunk.data.Store(&data)
	s.tail.push(e.chunk)
	for seq := e.chunk.first; seq <= e.chunk.last(); seq++ {
		if e.chunk.offsets[seq-e.chunk.first] == 0 {
			continue // left out: the entry's first record is no message
		}
		m, err := e.chunk.message(e.Data, seq)
		if err != nil {
			return err
		}
		err = s.state.Apply(stream.Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Size: len(m.Data)}, &s.effects)
		if err != nil {
			return fmt.Errorf("engine: restoring stream %s: %w", s.name, err)
		}
	}
	s.count()
	if err := r.room(0); err != nil {
		return err
	}
	if s.log == nil {
		return r.ctx.Err()
	}
	for {
		err := s.log.Append(&e.Entry)
		if err == nil {
			break
		}
		if !errors.Is(err, wal.ErrFull) {
			return fmt.Errorf("engine: restoring stream %s: %w", s.name, err)
		}
		if err := r.await(retryFull); err != nil {
			return err
		}
	}
	r.sent = append(r.sent, e)
	r.inFlight += len(e.Data)
	return r.drain(restoreInFlight)
}

// drain waits until at most left bytes are not committed.
func (r *restore) drain(left int) error {
	for r.inFlight > left {
		if err := r.await(time.Hour); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the log to hand something back, for a bounded time.
func (r *restore) await(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.back.wake:
	case <-timer.C:
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	s := r.stream
	for n := r.back.n.Swap(0); n > 0; n-- {
		e := r.sent[0]
		r.sent = r.sent[1:]
		r.inFlight -= len(e.Data)
		if e.Err != nil {
			return fmt.Errorf("engine: restoring stream %s: %w", s.name, e.Err)
		}
		s.engine.grew(e)
		s.tail.enter(e.chunk, place{log: s.log.ID(), pos: e.Position})
		s.noteChunk(s.engine.mark(e.chunk.place), r.now)
		s.tail.count(e.chunk)
	}
	return nil
}

// finish makes the stream out of what came.
func (r *restore) finish() error {
	s := r.stream
	err := r.send()
	if err == nil {
		err = r.drain(0)
	}
	if err == nil {
		err = r.settle()
	}
	if err == nil {
		err = r.addConsumers()
	}
	if err != nil {
		return err
	}
	s.created = r.created
	s.effects.Each = s.removed
	r.running = true
	go s.run()
	if s.log != nil {
		// It is not to be taken back any more: a checkpoint that is on its way may be committed whoever waits for it.
		_, err = s.checkpoint(context.WithoutCancel(r.ctx))
	}
	if err == nil {
		err = s.subscribe(s.Config())
	}
	if err != nil {
		return err
	}
	s.inbox.command(func() {
		for _, c := range s.consumers {
			c.start()
		}
		s.settleAll(nil)
		s.openOrigins()
	})
	s.markUp()
	return nil
}

// settle brings the state to what the backup says, and the limits into force.
func (r *restore) settle() error {
	s := r.stream
	for _, g := range r.removed {
		for m, ok := s.state.Next(nil, g.First); ok && m.Seq <= g.Last; m, ok = s.state.Next(nil, m.Seq+1) {
			s.state.Delete(m.Seq, &s.effects)
		}
	}
	if r.state.FirstSeq > 0 {
		s.state.RemoveBefore(r.state.FirstSeq, &s.effects)
		s.state.Skip(r.state.FirstSeq - 1)
	}
	s.state.Skip(r.state.LastSeq)
	s.effects.Reset()
	if err := s.state.UpdateConfig(r.cfg, &s.effects); err != nil {
		return fmt.Errorf("engine: restoring stream %s: %w", s.name, err)
	}
	s.effects.Reset()
	s.count()
	return nil
}

// addConsumers makes the backup's consumers.
func (r *restore) addConsumers() error {
	s := r.stream
	for _, b := range r.consumers {
		if err := r.addConsumer(&b); err != nil {
			return fmt.Errorf("error restoring consumer [%q]: %w", b.Name, err)
		}
	}
	s.now = r.now
	for _, c := range s.consumers {
		c.machine.Resume(r.now)
		s.noteStranger(c)
	}
	return nil
}

func (r *restore) addConsumer(b *archive.Consumer) error {
	s := r.stream
	cfg := b.Config
	cfg.Name = b.Name
	checked, err := consumer.CheckConfig(cfg, s.Config(), s.account.consumerLimits(), false)
	if err != nil {
		return err
	}
	if s.consumers[b.Name] != nil {
		return jserr.New(jserr.ConsumerAlreadyExists)
	}
	if err := s.checkWorkQueue(&checked, nil); err != nil {
		return err
	}
	created := b.Created
	if created.IsZero() {
		created = r.now.UTC()
	}
	c, err := s.newConsumer(b.Name, checked, created, false)
	if err != nil {
		return err
	}
	last := s.state.LastSeq()
	st := consumer.Standing{
		DeliveredConsumer: b.State.Delivered.Consumer, DeliveredStream: min(b.State.Delivered.Stream, last),
		FloorConsumer: b.State.AckFloor.Consumer, FloorStream: min(b.State.AckFloor.Stream, last),
	}
	for seq, p := range b.State.Pending {
		if seq <= last {
			d := consumer.Delivery{Stream: seq, Consumer: p.Sequence, At: p.Timestamp}
			d.Deliveries = uint32(min(b.State.Redelivered[seq]+1, math.MaxUint32))
			st.Pending = append(st.Pending, d)
		}
	}
	for seq, n := range b.State.Redelivered {
		if _, pending := b.State.Pending[seq]; !pending && checked.MaxDeliver > 0 && n+1 >= uint64(checked.MaxDeliver) && s.state.Has(seq) {
			st.GivenUp = append(st.GivenUp, seq)
		}
	}
	slices.Sort(st.GivenUp)
	return c.machine.Assume(st)
}

// abandon gives the stream's name back.
func (r *restore) abandon() {
	s := r.stream
	if s == nil || s.isUp() {
		return
	}
	s.account.forget(s)
	close(s.up)
	// What the log still holds of it comes back to a sink that nobody looks at.
	s.unsubscribe()
	end := func() {
		s.tail.release()
		s.share.set(0)
	}
	if !r.running {
		end()
		return
	}
	s.inbox.command(func() { end(); s.end() })
}
