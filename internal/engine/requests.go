package engine

import (
	"bytes"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
)

// answerRequests works off what consumers' clients sent.
func (s *Stream) answerRequests(now time.Time) {
	bag := &s.mail.requests
	for i := range bag.letters {
		l := &bag.letters[i]
		m := bag.msg(l)
		switch l.kind {
		case letterAck:
			s.acked(&m, now)
		case letterNext:
			if c := l.consumer; !c.gone {
				if needsNewerAPI(m.Header) {
					c.machine.RefuseLevel(m.Reply, &s.consumerFx)
				} else {
					c.machine.Pull(m.Reply, m.Data, now, &s.consumerFx)
				}
				c.ask()
			}
		case letterFlow:
			if c := s.consumers[flowConsumer(m.Subject)]; c != nil {
				c.machine.FlowControl(m.Subject, m.Header, now, &s.consumerFx)
				c.ask()
			}
		case letterDirect:
			s.directGet(&m)
		}
	}
	for _, c := range s.asked {
		c.isAsked = false
		c.wake()
		c.changed(now)
	}
	clear(s.asked)
	s.asked = s.asked[:0]
	s.answerSynced()
}

// ask notes that a consumer's machine was told something: several requests in a row are followed up once.
func (c *Consumer) ask() {
	if !c.isAsked {
		c.isAsked = true
		c.stream.asked = append(c.stream.asked, c)
	}
}

// flowConsumer is the consumer that a flow control subject names: $JS.FC.<stream>.<consumer>.<id>.
func flowConsumer(subj []byte) string {
	parts := bytes.SplitN(subj, []byte{'.'}, 5)
	if len(parts) < 5 {
		return ""
	}
	return string(parts[3])
}

// acked takes an answer to a delivered message.
func (s *Stream) acked(m *broker.Msg, now time.Time) {
	a, ok := consumer.ParseAckSubject(m.Subject)
	c := s.consumers[string(a.Consumer)]
	if !ok || c == nil || !c.machine.TakesAcks() {
		s.noResponders(m)
		return
	}
	answer := c.machine.Ack(&a, m.Data, m.Reply, now, &s.consumerFx)
	c.ask()
	if !answer || len(m.Reply) == 0 {
		return
	}
	if !c.logged {
		s.pub.Publish(broker.Msg{Subject: m.Reply})
		return
	}
	if len(c.syncReplies) == 0 {
		s.syncing = append(s.syncing, c)
	}
	c.syncReplies = append(c.syncReplies, append([]byte(nil), m.Reply...))
}

// noResponders answers what nobody here waits for, as a client's publish to a subject without subscribers is answered.
func (s *Stream) noResponders(m *broker.Msg) {
	if len(m.Reply) == 0 {
		return
	}
	b := proto.AppendStatusLine(nil, 503, "")
	b = proto.AppendHeaderField(b, "Nats-Subject", string(m.Subject))
	s.pub.Publish(broker.Msg{Subject: m.Reply, Header: append(b, "\r\n"...)})
}

// answerSynced writes the progress of the consumers whose acknowledgements want an answer, which goes out once it is
// committed: a double acknowledgement that was answered is never forgotten.
func (s *Stream) answerSynced() {
	if len(s.syncing) == 0 || s.holding() {
		return
	}
	var replies [][]byte
	var data []byte
	for _, c := range s.syncing {
		replies = append(replies, c.syncReplies...)
		c.syncReplies = nil
		// Also when nothing changed since the last record: that one may not be committed yet, and this one follows it.
		data = s.appendProgress(data, c)
	}
	records := len(s.syncing)
	clear(s.syncing)
	s.syncing = s.syncing[:0]
	e := s.newEntry(data, records, false)
	s.appendSettled(e)
	e.then = append(e.then, func(err error) {
		if err != nil {
			return
		}
		for _, r := range replies {
			s.pub.Publish(broker.Msg{Subject: r})
		}
	})
	s.write(e)
}

// appendProgress adds the record of what changed in a consumer, which may be nothing.
func (s *Stream) appendProgress(dst []byte, c *Consumer) []byte {
	s.progress = c.machine.Progress(s.progress[:0])
	return record.AppendConsumer(dst, record.ConsumerProgress, s.id, c.name, s.progress)
}

// writeProgress hands consumers' progress to the log when its window is over. It rides along with what else goes there.
func (s *Stream) writeProgress(now time.Time) {
	if s.log == nil && len(s.settled) > 0 {
		e := s.newEntry(nil, 0, false)
		s.appendSettled(e)
		s.write(e)
	}
	if s.progressAt.IsZero() || now.Before(s.progressAt) || !s.mayWriteProgress() {
		return
	}
	data, records := s.progressRecords(nil)
	e := s.newEntry(data, records, true)
	s.appendSettled(e)
	if e.Records > 0 {
		s.write(e)
	}
}

// mayWriteProgress: or else it waits, for good or until the stream was quiet.
func (s *Stream) mayWriteProgress() bool { return s.failed == nil && !s.deleting && !s.holding() }

// progressRecords adds the records of all consumers with something new.
func (s *Stream) progressRecords(dst []byte) (data []byte, records int) {
	for _, c := range s.dirty {
		c.dirty = false
		if !c.gone && c.machine.Dirty() {
			dst = s.appendProgress(dst, c)
			records++
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
	s.progressAt = time.Time{}
	return dst, records
}
