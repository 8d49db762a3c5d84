package stream

import (
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/jserr"
)

// The reasons for which an atomic batch is abandoned, as its advisory gives them.
const (
	AbandonedTimeout     = "timeout"
	AbandonedLarge       = "large"
	AbandonedIncomplete  = "incomplete"
	AbandonedUnsupported = "unsupported"
)

// maxBatchID is how long a batch's name may be.
const maxBatchID = 64

// apiLevel is what a publish may require at most in Nats-Required-Api-Level (ADR-44).
const apiLevel = 5

// AtomicBatches are the atomic batches of a stream that are open: their messages wait until the batch is committed.
// They are in memory only; a crash forgets them, and their publishers hear at the next message.
type AtomicBatches struct {
	pool  *BatchPool
	open  map[string]*atomicBatch
	bytes int
	check time.Time // when the next may have waited for too long; zero: none is open
}

type atomicBatch struct {
	last    uint64 // sequence of its last message
	msgs    []Publish
	bodies  [][]byte
	bytes   int
	expires time.Time
}

// NewAtomicBatches makes an empty set. The pool is the server's.
func NewAtomicBatches(pool *BatchPool) *AtomicBatches {
	return &AtomicBatches{pool: pool, open: map[string]*atomicBatch{}}
}

// BatchStep is what follows from a message of an atomic batch.
type BatchStep struct {
	// Err is to be answered; nil and no Commit: the message is staged, which an empty answer says.
	Err *jserr.Error
	// ID of the batch.
	ID string
	// Abandoned: the batch is gone, for this reason, which an advisory tells.
	Abandoned string
	// Commit: the batch is complete, and [State.AcceptBatch] decides. Bodies are the messages' data.
	Commit []Publish
	Bodies [][]byte
}

// BatchID gives the batch that a message says it belongs to; nil: none.
func BatchID(header []byte) []byte { return parseHeaders(header).batch }

// Offer takes a message of an atomic batch, with its data. It copies what it keeps.
func (b *AtomicBatches) Offer(s *State, p Publish, data []byte, now time.Time) BatchStep {
	h := parseHeaders(p.Header)
	step := BatchStep{ID: string(h.batch)}
	if step.Err = s.checkBatchForm(&p, &h); step.Err != nil {
		return step
	}
	seq, ok := parseBatchSeq(h.batchSeq)
	if !ok {
		step.Err = jserr.New(jserr.AtomicPublishMissingSeq)
		return step
	}
	m := batchMessage{p: &p, h: &h, data: data, seq: seq, eob: string(h.batchCommit) == "eob"}
	batch := b.open[step.ID]
	if batch == nil {
		if step.Err = b.begin(step.ID, &m, now); step.Err != nil {
			return step
		}
		batch = b.open[step.ID]
	}
	if step.Err, step.Abandoned = b.append(batch, &m, now); step.Err != nil {
		b.Close(step.ID)
		return step
	}
	if h.batchCommit != nil {
		step.Commit, step.Bodies = batch.msgs, batch.bodies
	}
	return step
}

type batchMessage struct {
	p    *Publish
	h    *headers
	data []byte
	seq  uint64
	eob  bool // it only ends the batch
}

// size of the batch with the message.
func (m *batchMessage) size() uint64 {
	if m.eob {
		return m.seq - 1
	}
	return m.seq
}

// checkBatchForm refuses what the stream does not take as part of any batch.
func (s *State) checkBatchForm(p *Publish, h *headers) *jserr.Error {
	if err := s.checkBatched(p); err != nil {
		return err
	}
	switch {
	case !s.cfg.AllowAtomicPublish:
		return jserr.New(jserr.AtomicPublishDisabled)
	case len(h.batch) > maxBatchID:
		return jserr.New(jserr.AtomicPublishInvalidBatchID)
	}
	return nil
}

// begin opens a batch.
func (b *AtomicBatches) begin(id string, m *batchMessage, now time.Time) *jserr.Error {
	switch {
	case m.seq != 1 && m.size() > uint64(b.limits().Size):
		return b.tooLarge()
	case m.seq != 1:
		return jserr.New(jserr.AtomicPublishIncompleteBatch)
	case len(b.open) >= b.limits().PerStream, !b.pool.take(&b.pool.atomic, b.limits().Total):
		return jserr.New(jserr.AtomicPublishTooManyInflight)
	}
	b.open[id] = &atomicBatch{}
	if b.check.IsZero() {
		b.check = now.Add(b.limits().Timeout)
	}
	return nil
}

func (b *AtomicBatches) limits() *BatchLimits { return b.pool.limits.Load() }

func (b *AtomicBatches) tooLarge() *jserr.Error {
	return jserr.New(jserr.AtomicPublishTooLargeBatch, "size", b.limits().Size)
}

// append stages a message, or says why the batch ends.
func (b *AtomicBatches) append(batch *atomicBatch, m *batchMessage, now time.Time) (err *jserr.Error, abandoned string) {
	h := m.h
	if h.batchCommit != nil && !m.eob && string(h.batchCommit) != "1" {
		return jserr.New(jserr.AtomicPublishInvalidBatchCommit), ""
	}
	header := m.p.Header
	if len(h.level) > 0 {
		if level, err := strconv.Atoi(string(h.level)); err != nil || level > apiLevel {
			return jserr.New(jserr.RequiredApiLevel), AbandonedUnsupported
		}
		header = appendWithout(nil, header, "Nats-Required-Api-Level")
	}
	batch.last++
	batch.expires = now.Add(b.limits().Timeout)
	bytes := len(m.p.Subject) + len(header) + len(m.data)
	switch {
	case batch.last != m.seq, m.seq == 1 && m.eob:
		return jserr.New(jserr.AtomicPublishIncompleteBatch), AbandonedIncomplete
	case m.size() > uint64(b.limits().Size):
		return b.tooLarge(), AbandonedLarge
	case m.eob:
		// It is not stored; the last message says in its stead that the batch is complete.
		last := &batch.msgs[len(batch.msgs)-1]
		last.Header = appendField(last.Header, "Nats-Batch-Commit", "1")
		return nil, ""
	case b.bytes+bytes > b.limits().Bytes, !b.pool.takeBytes(bytes):
		return jserr.New(jserr.InsufficientResources), AbandonedLarge
	}
	b.bytes += bytes
	batch.bytes += bytes
	room := make([]byte, 0, bytes)
	room = append(append(append(room, m.p.Subject...), header...), m.data...)
	body, head := len(m.p.Subject)+len(header), len(m.p.Subject)
	batch.msgs = append(batch.msgs, Publish{Subject: room[:head:head], Header: room[head:body:body], Size: len(m.data), Quota: m.p.Quota})
	batch.bodies = append(batch.bodies, room[body:])
	return nil, ""
}

// Close forgets a batch: it was committed, or cannot be.
func (b *AtomicBatches) Close(id string) {
	batch := b.open[id]
	if batch == nil {
		return
	}
	b.bytes -= batch.bytes
	b.pool.bytes.Add(-int64(batch.bytes))
	b.pool.give(&b.pool.atomic)
	delete(b.open, id)
	if len(b.open) == 0 {
		b.check = time.Time{}
	}
}

// CloseAll forgets all.
func (b *AtomicBatches) CloseAll() {
	for id := range b.open {
		b.Close(id)
	}
}

// NextTimeout is when Timeouts is to be asked; zero: no batch is open.
func (b *AtomicBatches) NextTimeout() time.Time { return b.check }

// Timeouts closes the batches that waited for too long and lists them.
func (b *AtomicBatches) Timeouts(now time.Time) (ids []string) {
	if b.check.IsZero() || now.Before(b.check) {
		return nil
	}
	next := now.Add(b.limits().Timeout)
	for id, batch := range b.open {
		switch {
		case !now.Before(batch.expires):
			ids = append(ids, id)
		case batch.expires.Before(next):
			next = batch.expires
		}
	}
	b.check = next
	for _, id := range ids {
		b.Close(id)
	}
	return ids
}

func parseBatchSeq(d []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(d), 10, 64)
	return n, err == nil
}
