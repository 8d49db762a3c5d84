package stream

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// FastMessage is what the reply subject of a message of a fast batch says (ADR-50):
//
//	<prefix>.<batch>.<acknowledge every>.<gap mode>.<sequence>.<operation>.$FI
type FastMessage struct {
	ID     []byte // of the batch; points into the reply subject
	Seq    uint64
	flow   uint16
	gapOK  bool
	ping   bool
	commit bool
	eob    bool // it only ends the batch
}

// The operations of fast batches.
const (
	fastStart = iota
	fastAppend
	fastCommit
	fastCommitEOB
	fastPing
)

// IsFast reports whether a reply subject is that of a message of a fast batch.
func IsFast(reply []byte) bool {
	return len(reply) > len(fastBatchReply) && bytes.HasSuffix(reply, fastBatchReply)
}

// ParseFast reads a reply subject for which IsFast holds.
func ParseFast(reply []byte) (m FastMessage, ok bool) {
	rest := reply[:len(reply)-len(fastBatchReply)]
	token := func() []byte {
		dot := bytes.LastIndexByte(rest, '.')
		if dot < 0 {
			ok = false
			return nil
		}
		t := rest[dot+1:]
		rest = rest[:dot]
		return t
	}
	ok = true
	op := int64(parseSequence(token()))
	seq, err := strconv.ParseUint(view(token()), 10, 64)
	mode, flow := token(), int64(parseSequence(token()))
	m = FastMessage{ID: token(), Seq: seq, gapOK: string(mode) == "ok", ping: op == fastPing,
		eob: op == fastCommitEOB, commit: op == fastCommit || op == fastCommitEOB}
	switch {
	case !ok, op < fastStart, op > fastPing, err != nil, seq == 0, seq == math.MaxUint64, !m.gapOK && string(mode) != "fail":
		return m, false
	case seq == 1 && (m.eob || op == fastAppend), seq != 1 && op == fastStart:
		return m, false
	case flow <= 0:
		flow = 10
	}
	m.flow = uint16(min(flow, math.MaxUint16))
	return m, true
}

// mostFlow is how many messages of all fast batches go between two acknowledgements at most.
const mostFlow = 500

// FastBatches are the fast batches of a stream that are open. Their messages are stored as they come; what is kept here
// is how far each batch is, so that its publisher hears of it now and then.
type FastBatches struct {
	pool  *BatchPool
	open  map[string]*fastBatch
	check time.Time // when the next may have waited for too long; zero: none is open
}

type fastBatch struct {
	id        string
	last      uint64 // sequence of its last message
	stored    uint64 // up to here all are stored, or never will be
	told      uint64 // up to here its publisher was told
	streamSeq uint64 // of the last that was stored
	pending   int    // messages on their way into the log
	every     uint16 // an acknowledgement goes out for so many messages
	mostEvery uint16 // what the publisher asked for
	gapOK     bool
	commit    bool // it ends when nothing is pending
	expires   time.Time
}

// NewFastBatches makes an empty set. The pool is the server's.
func NewFastBatches(pool *BatchPool) *FastBatches {
	return &FastBatches{pool: pool, open: map[string]*fastBatch{}}
}

func (b *FastBatches) limits() *BatchLimits { return b.pool.limits.Load() }

// FastReply is an answer to a publisher: a body, or the acknowledgement of the whole batch.
type FastReply struct {
	Body []byte // nil: an acknowledgement of Count messages of the batch ID, the last of which is Seq in the stream
	Err  *jserr.Error
	ID   string
	Seq  uint64
	// Count of the messages of the batch.
	Count uint64
	// Duplicate: the only message was stored before.
	Duplicate bool
}

func flowAck(seq uint64, every uint16) FastReply {
	b := strconv.AppendUint([]byte(`{"type":"ack","seq":`), seq, 10)
	b = strconv.AppendUint(append(b, `,"msgs":`...), uint64(every), 10)
	return FastReply{Body: append(b, '}')}
}

func flowGap(want, got uint64) FastReply {
	b := strconv.AppendUint([]byte(`{"type":"gap","last_seq":`), want, 10)
	b = strconv.AppendUint(append(b, `,"seq":`...), got, 10)
	return FastReply{Body: append(b, '}')}
}

func flowErr(seq uint64, err *jserr.Error) FastReply {
	body, _ := json.Marshal(struct {
		Type  string        `json:"type"`
		Seq   uint64        `json:"seq"`
		Error *api.ApiError `json:"error"`
	}{"err", seq, err.API()})
	return FastReply{Body: body}
}

// Offer takes a message of a fast batch. The replies go out; store tells whether [State.AcceptFast] is to decide on it,
// after which Accepted or Refused follows.
func (b *FastBatches) Offer(s *State, p *Publish, now time.Time, out []FastReply) (replies []FastReply, store bool) {
	fail := func(err *jserr.Error) ([]FastReply, bool) { return append(out, FastReply{Err: err}), false }
	m, ok := ParseFast(p.Reply)
	if err := s.checkFastForm(p, &m, ok); err != nil {
		return fail(err)
	}
	b.Timeouts(now)
	batch := b.open[string(m.ID)]
	if batch == nil {
		var err *jserr.Error
		if batch, err = b.begin(&m, now); err != nil {
			return fail(err)
		}
	}
	if len(p.Header) > 0 {
		if h := parseHeaders(p.Header); len(h.level) > 0 {
			if level, err := strconv.Atoi(string(h.level)); err != nil || level > apiLevel {
				b.close(batch)
				return fail(jserr.New(jserr.RequiredApiLevel))
			}
			p.Header = appendWithout(nil, p.Header, "Nats-Required-Api-Level")
		}
	}
	batch.expires = now.Add(b.limits().Timeout)
	if m.ping {
		return b.ping(batch, &m, out), false
	}
	if batch.commit {
		return out, false // it ended early; its publisher waits for the acknowledgement
	}
	batch.last++
	if batch.last != m.Seq {
		out = append(out, flowGap(batch.last, m.Seq))
		if !batch.gapOK || m.Seq < batch.last {
			batch.last--
			return b.end(batch, out), false
		}
		batch.last = m.Seq
	}
	if m.eob {
		batch.last--
		if batch.pending == 0 {
			batch.stored = batch.last
		}
		return b.end(batch, out), false
	}
	if m.commit {
		batch.commit = true
	} else if m.Seq == 1 && !s.cfg.NoAck {
		out = append(out, flowAck(0, batch.every))
	}
	return out, true
}

func (s *State) checkFastForm(p *Publish, m *FastMessage, valid bool) *jserr.Error {
	if err := s.checkBatched(p); err != nil {
		return err
	}
	switch {
	case !s.cfg.AllowBatchPublish:
		return jserr.New(jserr.BatchPublishDisabled)
	case !valid:
		return jserr.New(jserr.BatchPublishInvalidPattern)
	case len(m.ID) > maxBatchID:
		return jserr.New(jserr.BatchPublishInvalidBatchID)
	}
	return nil
}

func (b *FastBatches) begin(m *FastMessage, now time.Time) (*fastBatch, *jserr.Error) {
	switch {
	case m.Seq != 1 || m.ping:
		return nil, jserr.New(jserr.BatchPublishUnknownBatchID)
	case len(b.open) >= b.limits().FastPerStream, !b.pool.take(&b.pool.fast, b.limits().FastTotal):
		return nil, jserr.New(jserr.BatchPublishTooManyInflight)
	}
	batch := &fastBatch{id: string(m.ID), gapOK: m.gapOK, mostEvery: m.flow, every: min(mostFlow, m.flow)}
	b.open[batch.id] = batch
	if len(b.open) > 1 {
		batch.every = 1 // it speeds up as it goes
	}
	if b.check.IsZero() {
		b.check = now.Add(b.limits().Timeout)
	}
	return batch, nil
}

// ping answers a publisher that has not heard for a while.
func (b *FastBatches) ping(batch *fastBatch, m *FastMessage, out []FastReply) []FastReply {
	if m.Seq > batch.last {
		out = append(out, flowGap(batch.last+1, m.Seq+1))
		if !batch.gapOK {
			before := len(out)
			if out = b.end(batch, out); len(out) > before {
				return out
			}
			return append(out, flowAck(batch.told, batch.every))
		}
		batch.last = m.Seq
		if batch.pending == 0 {
			batch.stored = batch.last
		}
		var told bool
		if out, told = b.flow(batch, out); told {
			return out
		}
	}
	return append(out, flowAck(batch.told, batch.every))
}

// end completes a batch: at once when nothing is pending, else when the last message is stored.
func (b *FastBatches) end(batch *fastBatch, out []FastReply) []FastReply {
	batch.commit = true
	if batch.last != batch.stored {
		return out
	}
	b.close(batch)
	return append(out, FastReply{ID: batch.id, Seq: batch.streamSeq, Count: batch.last})
}

// flow acknowledges what is stored when it is time to, and adapts how often that is.
func (b *FastBatches) flow(batch *fastBatch, out []FastReply) (replies []FastReply, told bool) {
	every := uint64(batch.every)
	if batch.stored < batch.told+every {
		return out, false
	}
	batch.told += (batch.stored - batch.told) / every * every
	most := min(max(uint16(mostFlow/max(len(b.open), 1)), 1), batch.mostEvery)
	switch {
	case batch.every < most:
		batch.every = uint16(min(2*uint32(batch.every), uint32(most)))
	case batch.every > most:
		batch.every = max(batch.every/2, most)
	}
	return append(out, flowAck(batch.told, batch.every)), true
}

// Accepted notes that a message of a batch is on its way into the log.
func (b *FastBatches) Accepted(id []byte) {
	if batch := b.open[string(id)]; batch != nil {
		batch.pending++
	}
}

// Stored notes that the log has a message that was accepted, or the one that it is a duplicate of.
func (b *FastBatches) Stored(m *FastMessage, streamSeq uint64, duplicate bool, out []FastReply) []FastReply {
	batch := b.open[string(m.ID)]
	if batch == nil || batch.pending == 0 {
		return out // it took too long
	}
	batch.pending--
	if !duplicate || batch.streamSeq == 0 {
		batch.streamSeq = streamSeq
	}
	batch.stored = m.Seq
	if batch.pending == 0 {
		batch.stored = batch.last
	}
	if batch.commit && batch.stored == batch.last {
		return b.end(batch, out)
	}
	out, _ = b.flow(batch, out)
	return out
}

// Refused follows up on a message that was not accepted, or is the duplicate of one that is stored.
func (b *FastBatches) Refused(m *FastMessage, original uint64, err *jserr.Error, out []FastReply) []FastReply {
	batch := b.open[string(m.ID)]
	if batch == nil {
		return out
	}
	duplicate := err == nil
	if duplicate {
		if batch.pending == 0 {
			batch.stored = m.Seq
			out, _ = b.flow(batch, out)
		}
		if !m.commit {
			return out
		}
	}
	if !m.gapOK && batch.last == 1 {
		// A batch that fails at once is answered like any publish.
		b.close(batch)
		if duplicate {
			return append(out, FastReply{ID: batch.id, Seq: original, Count: m.Seq, Duplicate: true})
		}
		return append(out, FastReply{Err: err})
	}
	if !duplicate {
		out = append(out, flowErr(m.Seq, err))
		if m.gapOK && !m.commit {
			return out
		}
		batch.last--
		if batch.pending == 0 {
			batch.stored = batch.last
		}
	}
	return b.end(batch, out)
}

func (b *FastBatches) close(batch *fastBatch) {
	b.pool.give(&b.pool.fast)
	delete(b.open, batch.id)
	if len(b.open) == 0 {
		b.check = time.Time{}
	}
}

// CloseAll forgets all.
func (b *FastBatches) CloseAll() {
	for _, batch := range b.open {
		b.close(batch)
	}
}

// NextTimeout is when Timeouts is to be asked; zero: no batch is open.
func (b *FastBatches) NextTimeout() time.Time { return b.check }

// Timeouts closes the batches that waited for too long.
func (b *FastBatches) Timeouts(now time.Time) {
	if b.check.IsZero() || now.Before(b.check) {
		return
	}
	next := now.Add(b.limits().Timeout)
	for _, batch := range b.open {
		switch {
		case batch.commit, batch.pending > 0: // the log is slow, not the publisher
		case !now.Before(batch.expires):
			b.close(batch)
		case batch.expires.Before(next):
			next = batch.expires
		}
	}
	if len(b.open) > 0 {
		b.check = next
	}
}
