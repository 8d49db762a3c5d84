package metamorphic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// restart ends Sluice and starts it again, while the reference goes on and only loses its client, and what is in memory.
// What Sluice may forget when it is killed is the progress of consumers that nobody was promised:
//
//   - a consumer may stand where it stood earlier, so that it delivers again what was delivered before, but never what it
//     confirmed to be acknowledged;
//   - a message that a work queue or interest stream let go without a promise may be there again.
//
// Where it does so, that is checked, and what is left of the difference is taken away, so that the run goes on.
func (p *pair) restart(ctx context.Context, o operation) (string, error) {
	if o.quiet {
		if difference := p.quieten(); difference != "" {
			return difference, nil
		}
	}
	listening := slices.DeleteFunc(slices.Sorted(maps.Keys(p.sluice.listen)), func(inbox string) bool { return strings.HasPrefix(inbox, "pull.") })
	err := p.both(func(s *side) error {
		if s == p.reference {
			return s.reconnect()
		}
		if err := s.stop(o.signal); err != nil {
			return err
		}
		return s.start(ctx)
	})
	if err != nil {
		return "", err
	}
	if o.signal == "KILL" && !o.quiet {
		if difference := p.reconcile(); difference != "" {
			return difference, nil
		}
	}
	return "", p.both(func(s *side) error {
		for _, inbox := range listening {
			if err := s.open(inbox); err != nil {
				return err
			}
		}
		return nil
	})
}

// quieten waits until Sluice has stored all progress.
func (p *pair) quieten() string {
	for stream := range p.states {
		for _, c := range p.sluice.consumers(stream) {
			if c.Config.AckPolicy == "none" {
				// It is not asked for signs of life; resuming it stores where it stands.
				resume := message{subject: fmt.Sprintf("$JS.API.CONSUMER.PAUSE.%s.%s", stream, c.Name)}
				if difference := p.request(operation{messages: []message{resume}}); difference != "" {
					return difference
				}
				continue
			}
			if answer := p.sluice.ask(message{subject: signOfLife(stream, c.Name), data: "+WPI"}); answer != "" {
				return fmt.Sprintf("a sign of life of %s/%s is answered with %q", stream, c.Name, answer)
			}
		}
	}
	return ""
}

// reconnect makes the reference look restarted: streams and consumers in memory are gone, and so are the requests of its
// client.
func (s *side) reconnect() error {
	s.hangUp()
	var err error
	if s.nc, err = nats.Connect(s.server.URL(), nats.NoReconnect(), nats.Timeout(patience)); err != nil {
		return fmt.Errorf("connect to %s: %w", s.name, err)
	}
	names := s.ask(message{subject: "$JS.API.STREAM.NAMES"})
	for _, stream := range streamNames {
		if !strings.Contains(names, `"`+stream+`"`) {
			continue
		}
		if strings.Contains(s.ask(message{subject: "$JS.API.STREAM.INFO." + stream}), `"storage":"memory"`) {
			s.ask(message{subject: "$JS.API.STREAM.DELETE." + stream})
			continue
		}
		for name, c := range s.consumers(stream) {
			if c.Config.InMemory {
				s.ask(message{subject: fmt.Sprintf("$JS.API.CONSUMER.DELETE.%s.%s", stream, name)})
			}
		}
	}
	s.nc.Close()
	return s.connect()
}

// consumerState is what a kill may set back.
type consumerState struct {
	Name   string `json:"name"`
	Config struct {
		AckPolicy      string `json:"ack_policy"`
		DeliverSubject string `json:"deliver_subject"`
		InMemory       bool   `json:"mem_storage"`
	} `json:"config"`
	Delivered struct {
		Consumer uint64 `json:"consumer_seq"`
		Stream   uint64 `json:"stream_seq"`
	} `json:"delivered"`
	AckFloor struct {
		Consumer uint64 `json:"consumer_seq"`
		Stream   uint64 `json:"stream_seq"`
	} `json:"ack_floor"`
	AckPending  int    `json:"num_ack_pending"`
	Redelivered int    `json:"num_redelivered"`
	Pending     uint64 `json:"num_pending"`
}

func (s *side) consumers(stream string) map[string]consumerState {
	return consumersIn(s.ask(message{subject: "$JS.API.CONSUMER.LIST." + stream}))
}

func consumersIn(answer string) map[string]consumerState {
	var list struct {
		Consumers []consumerState `json:"consumers"`
	}
	out := map[string]consumerState{}
	if json.Unmarshal([]byte(answer), &list) == nil {
		for _, c := range list.Consumers {
			out[c.Name] = c
		}
	}
	return out
}

func (s *side) info(stream, consumer string) string {
	return s.ask(message{subject: fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.%s", stream, consumer)})
}

// reconcile checks what Sluice forgot when it was killed, and removes it on both sides.
func (p *pair) reconcile() string {
	v := p.sluice.view()
	states := v.states()
	for _, stream := range slices.Sorted(maps.Keys(p.states)) {
		before, ours := p.states[stream], states[stream]
		for seq := ours.FirstSeq; seq != 0 && seq <= ours.LastSeq; seq++ {
			if !ours.has(seq) || before.has(seq) {
				continue
			}
			if !p.loose[stream][seq] {
				return fmt.Sprintf("message %d of %s was gone for good and is back after a kill", seq, stream)
			}
			p.sluice.ask(message{subject: "$JS.API.STREAM.MSG.DELETE." + stream, data: fmt.Sprintf(`{"seq":%d}`, seq)})
		}
	}
	ours, theirs := p.positions(p.sluice.view()), p.positions(p.reference.view())
	for _, stream := range slices.Sorted(maps.Keys(p.states)) {
		wants := consumersIn(theirs["consumers of "+stream])
		for name, c := range consumersIn(ours["consumers of "+stream]) {
			// Where one is missing, the comparison that follows tells.
			if want, ok := wants[name]; ok && c != want {
				if difference := p.checkSetBack(stream, c, want); difference != "" {
					return difference
				}
			}
		}
	}
	p.loose = map[string]seqSet{}
	return ""
}

// checkSetBack looks at a consumer that stands elsewhere than the reference's: it may only stand earlier, and what it
// confirmed does not come again. Then it is deleted on both sides.
func (p *pair) checkSetBack(stream string, ours, theirs consumerState) string {
	name := ours.Name
	if ours.Delivered.Consumer > theirs.Delivered.Consumer || ours.Delivered.Stream > theirs.Delivered.Stream || ours.AckFloor.Stream > theirs.AckFloor.Stream {
		return fmt.Sprintf("%s/%s is ahead after a kill:\n--- nats-server:\n%s\n--- Sluice:\n%s", stream, name, p.reference.info(stream, name), p.sluice.info(stream, name))
	}
	for seq := range p.firm[stream+"/"+name] {
		if seq > ours.AckFloor.Stream && seq > ours.Delivered.Stream {
			return fmt.Sprintf("%s/%s confirmed message %d and stands before it after a kill: %s", stream, name, seq, p.sluice.info(stream, name))
		}
	}
	if ours.Config.DeliverSubject == "" {
		if difference := p.drain(stream, name); difference != "" {
			return difference
		}
	}
	if answers := p.request(operation{messages: []message{{subject: fmt.Sprintf("$JS.API.CONSUMER.DELETE.%s.%s", stream, name)}}}); answers != "" {
		return answers
	}
	delete(p.firm, stream+"/"+name)
	return ""
}

// drain takes all that Sluice's consumer has to give.
func (p *pair) drain(stream, consumer string) string {
	inbox := p.sluice.nc.NewRespInbox()
	sub, err := p.sluice.nc.SubscribeSync(inbox)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection otherwise
	for {
		next := message{subject: fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer), data: `{"batch":1,"expires":200000000}`}.msg()
		next.Reply = inbox
		if err := p.sluice.nc.PublishMsg(next); err != nil {
			return err.Error()
		}
		m, err := sub.NextMsg(patience)
		if err != nil {
			return "draining " + stream + "/" + consumer + ": " + err.Error()
		}
		t := ackTokens(m.Reply)
		if t == nil {
			return "" // a status: no more comes, or as much is unacknowledged as may be
		}
		seq, _ := strconv.ParseUint(t[5], 10, 64) // the servers write numbers
		if p.firm[stream+"/"+consumer][seq] {
			return fmt.Sprintf("%s/%s confirmed message %d and delivers it again after a kill: %s", stream, consumer, seq, m.Reply)
		}
		if !strings.HasPrefix(m.Subject, "s") {
			return "a delivery of " + m.Subject
		}
	}
}
