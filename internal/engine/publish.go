package engine

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// maxInFlightBytes bounds what a stream has accepted and the log has not committed. Beyond it publishes stay in the
// inbox, whose gate slows the publishers.
const maxInFlightBytes = 16 << 20

// retryFull is how soon entries that found the log full are offered again.
const retryFull = 5 * time.Millisecond

// publishWaiting accepts the publishes that the owner took, as far as the log has room.
func (s *Stream) publishWaiting(now time.Time) {
	if s.stalled() && !s.asyncPersist {
		s.seal()
		return // what is accepted now could be answered only when the store is back
	}
	bag := &s.mail.publishes
	for s.nextPublish < len(bag.letters) && s.mayAccept() {
		l := &bag.letters[s.nextPublish]
		s.nextPublish++
		s.heldBytes -= int(l.end-l.begin) + letterOverhead
		m := bag.msg(l)
		if l.kind == letterSourced {
			s.takeSourced(l.reading, &m, now)
		} else {
			s.publish(&m, now)
		}
		if s.building != nil && len(s.building.Data) >= maxChunkBytes {
			s.seal()
		}
	}
	s.seal()
}

func (s *Stream) mayAccept() bool {
	return s.failed == nil && !s.deleting && !s.learning && len(s.unsent) == 0 && !s.holding() && s.inFlightBytes < maxInFlightBytes
}

// A store that takes nothing is waited for. After stallPatience publishes are not accepted any more, and those that are
// held back, or come, are refused, so that their senders hear of it rather than time out.
const (
	stallPatience = 4 * time.Second
	stallCheck    = 250 * time.Millisecond
)

// stalled reports whether the store has been in trouble for too long.
func (s *Stream) stalled() bool { return s.log != nil && s.log.Stalled() >= stallPatience }

// refuseStalled answers the publishes that are held back because the store has been in trouble for too long.
func (s *Stream) refuseStalled() {
	bag := &s.mail.publishes
	if s.nextPublish >= len(bag.letters) || s.failed == nil && !s.stalled() {
		return
	}
	for ; s.nextPublish < len(bag.letters); s.nextPublish++ {
		l, why := &bag.letters[s.nextPublish], jserr.New(jserr.StreamStoreFailed, "err", "the store does not answer")
		if l.kind == letterSourced {
			s.dropSourced(l.reading, why)
			continue
		}
		m := bag.msg(l)
		s.refuse(m.Reply, why)
	}
	s.heldBytes = 0
}

// publish checks one message and makes it part of the chunk that is being built. Messages of batches go their own way.
func (s *Stream) publish(m *broker.Msg, now time.Time) {
	switch {
	case s.allowFast && stream.IsFast(m.Reply):
		s.publishFast(m, now)
		return
	case s.allowAtomic && len(m.Header) > 0 && len(stream.BatchID(m.Header)) > 0:
		s.publishAtomic(m, now)
		return
	}
	acc, err := s.state.Accept(stream.Publish{Subject: m.Subject, Header: m.Header, Reply: m.Reply, Size: len(m.Data), Quota: s.share.check, Wanted: s.wants}, now)
	switch {
	case err != nil:
		s.refuse(m.Reply, err)
	case acc.Need > 0:
		kept := cloneMsg(m)
		s.learn(acc.Need, func() { s.publish(&kept, s.now) }, func(err error) { s.refuse(kept.Reply, err) })
	case acc.Duplicate:
		if e := s.entryInFlight(acc.Seq); e != nil {
			e.addAck(acc.Seq, m.Reply, true)
		} else {
			s.pubAck(m.Reply, acc.Seq, true, nil)
		}
	default:
		e := s.addAccepted(&acc, m.Data)
		if !s.noAck {
			e.addAck(acc.Seq, m.Reply, false)
			if s.counts {
				e.extendAck(",\"val\":\"" + acc.Total + "\"")
			}
		}
	}
}

// addAccepted puts an accepted message into the chunk that is being built.
func (s *Stream) addAccepted(a *stream.Accepted, data []byte) *entry {
	if a.Unwanted {
		return s.addMessage(&record.StoredMessage{Seq: a.Seq, Time: a.Time})
	}
	if a.Data != nil {
		data = a.Data
	}
	return s.addMessage(&record.StoredMessage{Seq: a.Seq, Time: a.Time, Subject: a.Subject, Header: a.Header, Data: data})
}

// entryInFlight finds the entry that carries an accepted sequence to the log, or nil when that is committed.
func (s *Stream) entryInFlight(seq uint64) *entry {
	if b := s.building; b != nil && b.chunk.count > 0 && seq >= b.chunk.first {
		return b
	}
	if s.asyncPersist {
		return nil
	}
	for _, list := range [][]*entry{s.unsent, s.sent} {
		for i := len(list) - 1; i >= 0; i-- {
			c := list[i].chunk
			switch {
			case c == nil || seq < c.first:
			case seq <= c.last():
				return list[i]
			default:
				return nil
			}
		}
	}
	return nil
}

// trySend offers an entry to the log and reports whether it is dealt with.
func (s *Stream) trySend(e *entry) bool {
	err := s.offer(e)
	switch {
	case err == nil:
		s.sent = append(s.sent, e)
		return true
	case errors.Is(err, wal.ErrFull):
		return false
	}
	e.Err = err
	s.committed(e)
	return true
}

// sendUnsent offers the entries that found the log full once more.
func (s *Stream) sendUnsent() {
	for len(s.unsent) > 0 && s.mayPass(s.unsent[0]) && s.trySend(s.unsent[0]) {
		s.unsent[0] = nil
		s.unsent = s.unsent[1:]
		s.ahead = max(s.ahead-1, 0)
	}
	if len(s.unsent) == 0 {
		s.unsent = nil
	}
	s.lookQuiet()
}

// returned takes the oldest entries that were sent back from the log.
func (s *Stream) returned(n int) {
	for _, e := range s.sent[:n] {
		s.committed(e)
	}
	clear(s.sent[:n])
	s.sent = s.sent[n:]
	if len(s.sent) == 0 {
		s.sent = nil
	}
	s.lookQuiet()
}

// committed makes an entry's messages visible and answers who waits for it.
func (s *Stream) committed(e *entry) {
	if e.chunk != nil {
		s.inFlightBytes -= len(e.Data)
	}
	if e.Err != nil && !errors.Is(e.Err, wal.ErrEntry) {
		s.fail(e.Err)
	}
	if e.Err == nil && s.log != nil {
		s.engine.grew(e)
	}
	if e.chunk != nil && e.Err == nil {
		at := place{log: s.log.ID(), pos: e.Position}
		s.tail.enter(e.chunk, at)
		s.noteChunk(s.engine.mark(at), s.now)
		if s.asyncPersist {
			s.tail.count(e.chunk)
		} else {
			s.tail.push(e.chunk)
			s.applyChunk(e.chunk)
			s.acknowledge(e)
			s.tail.count(e.chunk) // last: once it is counted, another stream may have it let go
		}
		s.lookTail()
	}
	for _, then := range e.then {
		then(e.Err)
	}
}

// applyChunk makes the messages of a chunk visible. The chunk is the tail's newest.
func (s *Stream) applyChunk(c *chunk) {
	data := *c.data.Load()
	for seq := c.first; seq <= c.last(); seq++ {
		if !c.has(seq) {
			continue
		}
		m, err := c.message(data, seq)
		if err != nil {
			s.fail(err)
			return
		}
		s.applyMessage(&m)
	}
}

// applyMessage makes one message visible and tells the consumers of it and of what it pushed out.
func (s *Stream) applyMessage(m *record.StoredMessage) {
	s.effects.Reset()
	s.applying = m.Seq
	err := s.state.Apply(stream.Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Size: len(m.Data)}, &s.effects)
	if err != nil {
		s.fail(err)
		return
	}
	s.applying = 0
	kept := s.state.Has(m.Seq) // not if it is unwanted, or larger than the stream may be: then it never was visible
	if kept {
		s.visible(m)
	}
	s.spread()
	if kept && s.interestOnly && len(s.interested.in(m.Subject)) == 0 {
		s.letGo(m.Seq, m.Subject)
		return
	}
	if len(s.effects.Republish.Subject) > 0 {
		s.republish(m, &s.effects.Republish)
	}
}

// acknowledge answers the publishers of an entry.
func (s *Stream) acknowledge(e *entry) {
	for i := range e.acks {
		a := &e.acks[i]
		reply := e.reply[a.begin:a.end:a.end]
		if a.fast {
			s.fastStored(reply, a.seq, a.duplicate)
			continue
		}
		s.pubAck(reply, a.seq, a.duplicate, e.reply[a.end:a.extra])
	}
}

// pubAck answers one publisher: the PubAck of the JetStream wire API. extra are further fields.
func (s *Stream) pubAck(reply []byte, seq uint64, duplicate bool, extra []byte) {
	if len(reply) == 0 || s.noAck {
		return
	}
	b := append(s.scratch[:0], s.ackPrefix...)
	b = strconv.AppendUint(b, seq, 10)
	if duplicate {
		b = append(b, `,"duplicate": true`...)
	}
	b = append(append(b, extra...), '}')
	s.scratch = b
	s.pub.Publish(broker.Msg{Subject: reply, Data: b})
}

// refuse answers a publisher with an error.
func (s *Stream) refuse(reply []byte, err error) {
	if len(reply) == 0 || s.noAck {
		return
	}
	var e *jserr.Error
	if !errors.As(err, &e) {
		e = jserr.New(jserr.StreamStoreFailed, "err", err)
	}
	body, _ := json.Marshal(struct {
		Error  *api.ApiError `json:"error"`
		Stream string        `json:"stream"`
		Seq    uint64        `json:"seq"`
	}{e.API(), s.name, 0})
	s.pub.Publish(broker.Msg{Subject: reply, Data: body})
}
