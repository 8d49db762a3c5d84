package broadcast

import (
	"errors"
	"strings"

	"github.com/sluicemq/sluice/internal/broker"
)

// intake takes what is published in one account to broadcast subjects. It is a receiver of the broker.
type intake struct {
	service *Service
	out     *outlet
	subs    []*broker.Subscription
}

// Deliver implements broker.Receiver.
func (in *intake) Deliver(batch []broker.Delivery) <-chan struct{} {
	s := in.service
	account := in.out.space.Account()
	for i := range batch {
		d := &batch[i]
		if d.From == s.origin {
			continue // it came out of a log, here or through another account's export
		}
		var a answer
		if len(d.Reply) > 0 {
			a = answer{out: in.out, reply: strings.Clone(string(d.Reply)), subject: string(d.Subject)}
		}
		if err := s.queue.put(Message{Account: account, Msg: d.Msg}, a); err != nil {
			s.refuse(a, err)
		}
	}
	return s.queue.wait()
}

// refuse tells a client that its message is not broadcast. It runs on a publisher's goroutine.
func (s *Service) refuse(a answer, err error) {
	reason := "full"
	switch {
	case errors.Is(err, ErrTooLarge):
		reason = "too_large"
	case errors.Is(err, ErrClosed):
		reason = "closed"
	}
	s.metrics.refused.WithLabelValues(reason).Inc()
	if a.reply != "" && !s.answeredElsewhere(&a) {
		a.out.space.PublishOnce(broker.Msg{Subject: []byte(a.reply), Data: errorBody(err)})
	}
}

// answeredElsewhere reports whether a stream acknowledges the message: two acknowledgements would take each other's place.
func (s *Service) answeredElsewhere(a *answer) bool {
	return s.opts.Answers != nil && s.opts.Answers(a.out.space.Account(), a.subject)
}
