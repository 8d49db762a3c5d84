package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/subject"
)

// A direct get of many messages is answered piece by piece: at each turn of the owner the requests that are under way
// send what is in memory, up to a bound, and one that comes to a message whose bytes were let go waits until they are
// fetched. So no request holds more than a chunk in memory, and publishes, deliveries and other gets go on meanwhile.

const (
	// maxDirectResults is how many subjects a request with multi_last may have, as in NATS.
	maxDirectResults = 1024
	// directMaxBytes ends an answer to a request that sets no max_bytes: NATS's default of max_pending.
	directMaxBytes = 64 << 20
	// maxDirectGets is how many answers of many messages a stream has under way; more requests are refused.
	maxDirectGets = 1024
	// directBurst is how many bytes all of them together send in a turn.
	directBurst = 1 << 20
)

// directAnswer is an answer of many messages that is under way.
type directAnswer struct {
	reply    []byte
	bare     bool // no headers at all
	filter   *stream.Filter
	next     uint64   // the first sequence that is not looked at yet
	seqs     []uint64 // of multi_last: what is still to be sent
	multi    bool
	upTo     uint64 // of multi_last
	left     int    // messages to send at most; negative: no bound
	bytes    int    // that may be sent before the answer ends
	pending  uint64 // messages behind those that were sent
	last     uint64 // sequence of the message that was sent last
	sent     int
	seen     uint64 // the stream's last sequence when pending was counted
	fetching bool
}

// directBatch begins an answer of messages that follow each other.
func (s *Stream) directBatch(ask *api.JSApiMsgGetRequest, reply []byte) {
	a := &directAnswer{reply: reply, bare: ask.NoHeaders, next: ask.Seq, left: max(ask.Batch, 0), bytes: directBytes(ask)}
	if ask.StartTime != nil {
		a.next = s.state.SeqAt(ask.StartTime.UnixNano())
	}
	if ask.NextFor != "" {
		var err error
		if a.filter, err = stream.CompileFilter(ask.NextFor); err != nil {
			s.directStatus(reply, directNotFound)
			return
		}
	}
	a.pending, a.seen = s.state.Pending(a.filter, a.next), s.state.LastSeq()
	s.answerDirect(a)
}

// directMulti begins an answer of the last messages of several subjects.
func (s *Stream) directMulti(ask *api.JSApiMsgGetRequest, reply []byte) {
	a := &directAnswer{reply: reply, multi: true, upTo: ask.UpToSeq, left: -1, bytes: directBytes(ask)}
	if ask.Batch > 0 {
		a.left = ask.Batch
	}
	if ask.UpToTime != nil {
		after := s.state.SeqAt(ask.UpToTime.UnixNano())
		if after <= s.state.FirstSeq() {
			s.directStatus(reply, directNoResults)
			return
		}
		a.upTo = after - 1
	}
	if a.upTo == 0 {
		a.upTo = s.state.LastSeq()
	}
	valid := slices.DeleteFunc(slices.Clone(ask.MultiLastFor), func(f string) bool { return !subject.Valid(f) })
	filter, err := stream.CompileFilter(valid...)
	if err != nil || len(valid) == 0 || s.state.Msgs() == 0 {
		s.directStatus(reply, directNoResults)
		return
	}
	seqs, err := s.state.LastPerSubject(nil, filter, a.upTo, maxDirectResults)
	switch {
	case err != nil:
		s.directStatus(reply, directTooMany)
		return
	case len(seqs) == 0:
		s.directStatus(reply, directNoResults)
		return
	}
	a.pending = uint64(len(seqs))
	for len(seqs) > 0 && seqs[0] < ask.Seq {
		seqs, a.pending = seqs[1:], a.pending-1
	}
	a.seqs = seqs
	s.answerDirect(a)
}

func directBytes(ask *api.JSApiMsgGetRequest) int {
	if ask.MaxBytes == 0 {
		return directMaxBytes
	}
	return ask.MaxBytes
}

func (s *Stream) answerDirect(a *directAnswer) {
	if len(s.gets) >= maxDirectGets {
		s.directStatus(a.reply, directBusy)
		return
	}
	s.gets = append(s.gets, a)
}

// serveGets goes on with the answers of many messages, each in its turn.
func (s *Stream) serveGets() {
	budget := directBurst
	for n := len(s.gets); n > 0 && budget > 0 && s.gate == nil; n-- {
		a := s.gets[0]
		s.gets = s.gets[1:]
		if a.fetching || s.serveGet(a, &budget) {
			s.gets = append(s.gets, a)
		}
	}
	if len(s.gets) == 0 {
		s.gets = nil
	}
}

// directWork reports whether an answer could go on without anything new.
func (s *Stream) directWork() bool {
	for _, a := range s.gets {
		if !a.fetching {
			return s.gate == nil
		}
	}
	return false
}

// serveGet sends what it can of an answer and reports whether there is more to come.
func (s *Stream) serveGet(a *directAnswer, budget *int) (more bool) {
	for *budget > 0 {
		if a.left == 0 || a.bytes <= 0 && a.sent > 0 {
			s.endDirect(a)
			return false
		}
		seq, ok := s.nextDirect(a)
		if !ok {
			if a.sent == 0 && !a.multi {
				s.directStatus(a.reply, directNotFound)
			} else {
				s.endDirect(a)
			}
			return false
		}
		m, ok, err := s.load(seq, func(err error) {
			a.fetching = false
			if err != nil {
				a.fail(s)
			}
		})
		if err != nil {
			s.directStatus(a.reply, directUnavailable)
			return false
		}
		if !ok {
			a.fetching = true
			return true
		}
		*budget -= s.sendDirect(a, &m)
	}
	return true
}

// fail ends an answer whose next message cannot be read.
func (a *directAnswer) fail(s *Stream) {
	for i, g := range s.gets {
		if g == a {
			s.gets = append(s.gets[:i:i], s.gets[i+1:]...)
			s.directStatus(a.reply, directUnavailable)
			return
		}
	}
}

// nextDirect names the next message of an answer, which stays the next until it is sent.
func (s *Stream) nextDirect(a *directAnswer) (seq uint64, ok bool) {
	if !a.multi {
		m, ok := s.state.Next(a.filter, a.next)
		return m.Seq, ok
	}
	for len(a.seqs) > 0 && !s.state.Has(a.seqs[0]) {
		a.seqs, a.pending = a.seqs[1:], a.pending-1 // removed since the answer began
	}
	if len(a.seqs) == 0 {
		return 0, false
	}
	return a.seqs[0], true
}

// sendDirect sends one message and tells its bytes.
func (s *Stream) sendDirect(a *directAnswer, m *record.StoredMessage) int {
	if a.multi {
		a.seqs = a.seqs[1:]
	}
	a.next = m.Seq + 1
	out := broker.Msg{Subject: a.reply, Data: m.Data}
	if !a.bare {
		if a.pending > 0 {
			a.pending-- // not without headers: nats-server counts where it writes them
		}
		b := s.openDirect(m)
		b = proto.AppendHeaderField(b, "Nats-Num-Pending", strconv.FormatUint(a.pending, 10))
		b = proto.AppendHeaderField(b, "Nats-Last-Sequence", strconv.FormatUint(a.last, 10))
		s.scratch = append(b, "\r\n"...)
		out.Header = s.scratch
	}
	s.pub.Publish(out)
	a.last = m.Seq
	a.sent++
	a.left--
	size := len(m.Subject) + len(m.Header) + len(m.Data)
	a.bytes -= size
	return size + letterOverhead
}

// endDirect sends the status that ends an answer.
func (s *Stream) endDirect(a *directAnswer) {
	if !a.multi && s.state.LastSeq() > a.seen {
		a.pending = s.state.Pending(a.filter, a.next)
	}
	header := fmt.Appendf(nil, "NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n", a.pending, a.last)
	if a.multi {
		header = fmt.Appendf(header, "Nats-UpTo-Sequence: %d\r\n", a.upTo)
	}
	s.pub.Publish(broker.Msg{Subject: a.reply, Header: append(header, "\r\n"...)})
}
