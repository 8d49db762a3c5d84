package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/consumer"
)

// session is the client's connection to one life of the node.
type session struct {
	life    int
	space   *broker.Space
	pub     *broker.Publisher // of the driver
	journal *journal
	streams func(name string) string // the label of a stream's present incarnation
	newest  func(label, subject string, seq uint64)
	gone    atomic.Bool // nothing is heard any more

	mu   sync.Mutex // guards mail
	mail []delivery
}

// delivery is a message that wants an acknowledgement.
type delivery struct {
	stream, consumer string
	seq              uint64
	deliveries       uint64
	reply            string
}

func newSession(life int, space *broker.Space, j *journal, streams func(string) string) (*session, error) {
	s := &session{life: life, space: space, pub: space.NewPublisher(), journal: j, streams: streams}
	for _, subj := range []string{"_INBOX.>", "deliver.>"} {
		if _, err := space.Subscribe(subj, "", s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Deliver implements broker.Receiver.
func (s *session) Deliver(batch []broker.Delivery) <-chan struct{} {
	if s.gone.Load() {
		return nil
	}
	for i := range batch {
		s.heard(&batch[i])
	}
	return nil
}

func (s *session) heard(d *broker.Delivery) {
	if a, ok := consumer.ParseAckSubject(d.Reply); ok {
		got := delivery{string(a.Stream), string(a.Consumer), a.StreamSeq, a.Deliveries, string(d.Reply)}
		s.journal.add(Event{
			Kind: Delivered, Life: s.life, Stream: s.streams(got.stream), Consumer: got.consumer,
			Message: parsePayload(d.Data), Seq: got.seq, Deliveries: got.deliveries, Subject: string(d.Subject),
		})
		s.mu.Lock()
		s.mail = append(s.mail, got)
		s.mu.Unlock()
		return
	}
	parts := strings.Split(string(d.Subject), ".")
	if len(parts) < 3 {
		return
	}
	switch parts[1] {
	case "p": // of a publish: _INBOX.p.<message>.<label>.<subject>
		s.pubAck(parts, d.Data)
	case "a": // of an acknowledgement: _INBOX.a.<op>.<label>
		if len(d.Header) > 0 {
			return // a status: nobody took it
		}
		op, _ := strconv.Atoi(parts[2])
		s.journal.add(Event{Kind: AckDone, Life: s.life, Stream: parts[3], Op: op})
	}
}

func (s *session) pubAck(parts []string, data []byte) {
	n, _ := strconv.Atoi(parts[2])
	var ack struct {
		Seq       uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Error     *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	e := Event{Kind: Acked, Life: s.life, Stream: parts[3], Message: n}
	switch err := json.Unmarshal(data, &ack); {
	case err != nil:
		e.Kind, e.Text = Note, fmt.Sprintf("the acknowledgement %q: %v", data, err)
	case ack.Error != nil:
		e.Kind, e.Text = Refused, ack.Error.Description
	default:
		e.Seq, e.Duplicate = ack.Seq, ack.Duplicate
	}
	s.journal.add(e)
	if e.Kind == Acked && s.newest != nil {
		s.newest(e.Stream, strings.Join(parts[4:], "."), e.Seq)
	}
}

// take gives the deliveries since the last call.
func (s *session) take() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	mail := s.mail
	s.mail = nil
	return mail
}

// send publishes; the driver alone does.
func (s *session) send(subject, reply, header, data string) {
	s.pub.Publish(broker.Msg{Subject: []byte(subject), Reply: []byte(reply), Header: []byte(header), Data: []byte(data)})
	s.pub.Flush()
}

// payload is the bytes of a message: they follow from its number.
func payload(n int) string {
	size := n * 7919 % 200
	if n%31 == 0 {
		size = 3000
	}
	return fmt.Sprintf("m%d|%s", n, strings.Repeat(string(rune('a'+n%26)), size))
}

// parsePayload gives the number of a message, or 0 if its bytes are not those that were sent.
func parsePayload(data []byte) int {
	text, _, _ := strings.Cut(string(data), "|")
	n, err := strconv.Atoi(strings.TrimPrefix(text, "m"))
	if err != nil || payload(n) != string(data) {
		return 0
	}
	return n
}
