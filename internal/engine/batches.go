package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/stream"
)

// The messages of an atomic batch gather in memory. When it is committed all of them go into one entry of the log, so
// that a crash keeps all or none, and become visible in one turn of the owner, between which and another nobody reads.

// configuredBatches takes over what a configuration says of batches.
func (s *Stream) configuredBatches(cfg *api.StreamConfig) {
	s.allowAtomic, s.allowFast, s.counts = cfg.AllowAtomicPublish, cfg.AllowBatchPublish, cfg.AllowMsgCounter
	if !s.allowAtomic {
		s.atomic.CloseAll()
	}
	if !s.allowFast {
		s.fast.CloseAll()
	}
}

// closeBatches forgets all batches, for a stream that ends.
func (s *Stream) closeBatches() {
	s.atomic.CloseAll()
	s.fast.CloseAll()
}

// closeStaleBatches forgets the batches that waited for too long.
func (s *Stream) closeStaleBatches() {
	for _, id := range s.atomic.Timeouts(s.now) {
		s.abandoned(id, stream.AbandonedTimeout)
	}
	s.fast.Timeouts(s.now)
}

// publishAtomic takes a message of an atomic batch.
func (s *Stream) publishAtomic(m *broker.Msg, now time.Time) {
	p := stream.Publish{Subject: m.Subject, Header: m.Header, Reply: m.Reply, Size: len(m.Data), Quota: s.share.check}
	step := s.atomic.Offer(s.state, p, m.Data, now)
	switch {
	case step.Err != nil:
		s.refuse(m.Reply, step.Err)
		if step.Abandoned != "" {
			s.abandoned(step.ID, step.Abandoned)
		}
	case step.Commit != nil:
		s.commitBatch(&step, bytes.Clone(m.Reply))
	case len(m.Reply) > 0 && !s.noAck:
		s.pub.Publish(broker.Msg{Subject: m.Reply})
	}
}

// commitBatch accepts a whole batch.
func (s *Stream) commitBatch(step *stream.BatchStep, reply []byte) {
	accepted, need, err := s.state.AcceptBatch(step.Commit, s.now)
	if need > 0 {
		kept := *step
		s.learn(need, func() { s.commitBatch(&kept, reply) }, func(err error) {
			s.atomic.Close(kept.ID)
			s.refuse(reply, err)
		})
		return
	}
	s.atomic.Close(step.ID)
	if err != nil {
		s.refuse(reply, err)
		return
	}
	s.seal() // of its own, so that its size is bounded by that of a batch
	for i := range accepted {
		e := s.addAccepted(&accepted[i], step.Bodies[i])
		if i == len(accepted)-1 && !s.noAck {
			e.addAck(accepted[i].Seq, reply, false)
			e.extendAck(batchFields(step.ID, uint64(len(accepted))))
		}
	}
	s.seal()
}

// batchFields are what the acknowledgement of a batch says of it.
func batchFields(id string, count uint64) string {
	return fmt.Sprintf(",\"batch\":%q,\"count\":%d", id, count)
}

// publishFast takes a message of a fast batch. It is stored like any other; what differs are the answers.
func (s *Stream) publishFast(m *broker.Msg, now time.Time) {
	p := stream.Publish{Subject: m.Subject, Header: m.Header, Reply: m.Reply, Size: len(m.Data), Quota: s.share.check}
	replies, store := s.fast.Offer(s.state, &p, now, s.fastReplies[:0])
	s.answerFast(m.Reply, replies)
	if store {
		m.Header = p.Header
		s.storeFast(m, p)
	}
}

func (s *Stream) storeFast(m *broker.Msg, p stream.Publish) {
	acc, err := s.state.AcceptFast(p, s.now)
	if acc.Need > 0 {
		kept := cloneMsg(m)
		p.Subject, p.Header, p.Reply = kept.Subject, kept.Header, kept.Reply
		s.learn(acc.Need, func() { s.storeFast(&kept, p) }, func(err error) { s.refuse(kept.Reply, err) })
		return
	}
	fast, _ := stream.ParseFast(m.Reply) // it was offered
	if e := s.entryInFlight(acc.Seq); acc.Duplicate && e != nil {
		s.fast.Accepted(fast.ID)
		e.addFast(acc.Seq, m.Reply, true)
		return
	}
	if err != nil || acc.Duplicate {
		s.answerFast(m.Reply, s.fast.Refused(&fast, acc.Seq, err, s.fastReplies[:0]))
		return
	}
	s.fast.Accepted(fast.ID)
	s.addAccepted(&acc, m.Data).addFast(acc.Seq, m.Reply, false)
}

// addFast notes the publisher of a fast batch that waits for seq.
func (e *entry) addFast(seq uint64, reply []byte, duplicate bool) {
	e.addAck(seq, reply, duplicate)
	e.acks[len(e.acks)-1].fast = true
}

// fastStored tells a fast batch that one of its messages is stored.
func (s *Stream) fastStored(reply []byte, seq uint64, duplicate bool) {
	if fast, ok := stream.ParseFast(reply); ok {
		s.answerFast(reply, s.fast.Stored(&fast, seq, duplicate, s.fastReplies[:0]))
	}
}

// answerFast answers the publisher of a fast batch.
func (s *Stream) answerFast(reply []byte, replies []stream.FastReply) {
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Err != nil:
			s.refuse(reply, r.Err)
		case r.Body != nil:
			s.pub.Publish(broker.Msg{Subject: reply, Data: r.Body})
		default:
			s.pubAck(reply, r.Seq, r.Duplicate, []byte(batchFields(r.ID, r.Count)))
		}
	}
	clear(replies)
	s.fastReplies = replies[:0]
}

// abandoned announces that a batch is given up: io.nats.jetstream.advisory.v1.stream_batch_abandoned.
func (s *Stream) abandoned(id, reason string) {
	subj := "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED." + s.name
	if !s.account.space.HasInterest(subj) {
		return
	}
	body, err := json.Marshal(struct {
		Type   string    `json:"type"`
		ID     string    `json:"id"`
		Time   time.Time `json:"timestamp"`
		Stream string    `json:"stream"`
		Domain string    `json:"domain,omitempty"`
		Batch  string    `json:"batch"`
		Reason string    `json:"reason"`
	}{"io.nats.jetstream.advisory.v1.stream_batch_abandoned", nuid.Next(), s.now.UTC(), s.name, s.engine.opts.Domain, id, reason})
	if err == nil {
		s.pub.Publish(broker.Msg{Subject: []byte(subj), Data: body})
	}
}
