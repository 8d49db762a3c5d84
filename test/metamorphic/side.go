package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/bench/process"
)

// patience is how long an answer that must come may take.
const patience = 5 * time.Second

// side is one of the two servers with its only client.
type side struct {
	name   string
	cfg    process.Config
	server *process.Server
	nc     *nats.Conn
	listen map[string]*nats.Subscription // interest in push consumers' deliver subjects

	// arrivals are what came and was not sorted yet. The client's read loop fills it, so that what came before an answer is
	// there when the answer is.
	arrivals chan *nats.Msg

	mu    sync.Mutex
	heard map[string][]*nats.Msg // deliveries, statuses, republished messages and advisories by subject or inbox, in order
}

// ears are what the client always listens to. Of deletions nats-server does not always tell, and of messages that reached
// max_deliver with the next pull.
var ears = []string{
	"again.>",
	"$JS.EVENT.ADVISORY.STREAM.CREATED.*", "$JS.EVENT.ADVISORY.STREAM.UPDATED.*", "$JS.EVENT.ADVISORY.CONSUMER.CREATED.*.*",
	"$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.*.*", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.*.*",
}

// sort puts what came to an inbox, or to the subjects themselves of the ears, where it belongs. mu is held.
func (s *side) sort() {
	for {
		select {
		case m := <-s.arrivals:
			key := m.Sub.Subject
			if slices.Contains(ears, key) {
				key = m.Subject
			}
			s.heard[key] = append(s.heard[key], m)
		default:
			return
		}
	}
}

// start runs the server, again after stop, and connects.
func (s *side) start(ctx context.Context) error {
	var err error
	if s.server, err = process.Start(ctx, s.cfg); err != nil {
		return err
	}
	return s.connect()
}

func (s *side) connect() error {
	var err error
	if s.nc, err = nats.Connect(s.server.URL(), nats.NoReconnect(), nats.Timeout(patience)); err != nil {
		return fmt.Errorf("connect to %s: %w", s.name, err)
	}
	for _, subject := range ears {
		if _, err := s.nc.ChanSubscribe(subject, s.arrivals); err != nil {
			return err
		}
	}
	return s.nc.FlushTimeout(patience)
}

// open begins to listen to an inbox.
func (s *side) open(inbox string) error {
	sub, err := s.nc.ChanSubscribe(inbox, s.arrivals)
	if err != nil {
		return err
	}
	s.listen[inbox] = sub
	return s.nc.FlushTimeout(patience)
}

func (s *side) shut(inbox string) error {
	sub := s.listen[inbox]
	if sub == nil {
		return nil
	}
	delete(s.listen, inbox)
	if err := sub.Unsubscribe(); err != nil {
		return err
	}
	return s.nc.FlushTimeout(patience)
}

// hangUp ends the client with its pulls and its interest.
func (s *side) hangUp() {
	s.nc.Close()
	clear(s.listen)
}

// stop ends the server, as an operator or as a crash does.
func (s *side) stop(signal string) error {
	s.hangUp()
	if signal == "KILL" {
		s.server.Kill()
		return nil
	}
	return s.server.Stop()
}

// ask sends a request and returns the normal form of its answer; silence is an answer too.
func (s *side) ask(m message) string {
	msg := m.msg()
	reply, err := s.nc.RequestMsg(msg, patience)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "no responders"
	case err != nil:
		return err.Error()
	}
	return normal(reply)
}

// askMany sends a request and returns the answers up to a status, which direct gets of many messages end with, or the
// only one that has no place among others.
func (s *side) askMany(m message) string {
	inbox := s.nc.NewRespInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection otherwise
	msg := m.msg()
	msg.Reply = inbox
	if err := s.nc.PublishMsg(msg); err != nil {
		return err.Error()
	}
	var lines []string
	for {
		reply, err := sub.NextMsg(patience)
		if err != nil {
			return strings.Join(append(lines, err.Error()), "\n")
		}
		lines = append(lines, normal(reply))
		if reply.Header.Get("Status") != "" || reply.Header.Get("Nats-Num-Pending") == "" {
			return strings.Join(lines, "\n")
		}
	}
}

func (m message) msg() *nats.Msg {
	msg := &nats.Msg{Subject: m.subject, Data: []byte(m.data)}
	for i := 0; i+1 < len(m.header); i += 2 {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header[m.header[i]] = append(msg.Header[m.header[i]], m.header[i+1])
	}
	return msg
}

// heardBy is the normal form of what came to each inbox and subject.
func (s *side) heardBy() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sort()
	out := make(map[string][]string, len(s.heard))
	for key, msgs := range s.heard {
		for _, m := range msgs {
			out[key] = append(out[key], normalDelivery(m))
		}
	}
	return out
}

// delivery is the message at a place of an inbox.
func (s *side) delivery(inbox string, index int) *nats.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sort()
	return s.heard[inbox][index]
}

// reset empties the server and what was heard of it, for the next run.
func (s *side) reset() error {
	for inbox := range s.listen {
		if err := s.shut(inbox); err != nil {
			return err
		}
	}
	names := s.ask(message{subject: "$JS.API.STREAM.NAMES"})
	for _, name := range streamNames {
		if strings.Contains(names, `"`+name+`"`) {
			s.ask(message{subject: "$JS.API.STREAM.DELETE." + name})
		}
	}
	if names := s.ask(message{subject: "$JS.API.STREAM.NAMES"}); !strings.Contains(names, `"total":0`) {
		return fmt.Errorf("%s has streams left: %s", s.name, names)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sort()
	s.heard = map[string][]*nats.Msg{}
	return nil
}

func newSide(name string, cfg process.Config) *side {
	return &side{name: name, cfg: cfg, listen: map[string]*nats.Subscription{}, heard: map[string][]*nats.Msg{}, arrivals: make(chan *nats.Msg, 1<<16)}
}
