package broadcast

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
)

// maxGateWait bounds how long the delivery of a node's batches waits for local subscribers that are behind.
const maxGateWait = 2 * time.Second

// outlet delivers to the subscribers of one account.
type outlet struct {
	space  *broker.Space
	intake *intake

	mu  sync.Mutex // guards what follows; never held while waiting
	pub *broker.Publisher
}

func newOutlet(s *Service, space *broker.Space) *outlet {
	o := &outlet{space: space}
	o.intake = &intake{service: s, out: o}
	o.pub = space.NewPublisherFor(broker.PublisherOptions{Origin: s.origin, Self: o.intake, NoEcho: true})
	return o
}

// deliver stages a message for all subscribers but the intake.
func (o *outlet) deliver(m broker.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pub.Publish(m)
}

// flush hands over what is staged, and waits a bounded time for subscribers that are behind.
func (o *outlet) flush(ctx context.Context) {
	o.mu.Lock()
	gate := o.pub.Flush()
	o.mu.Unlock()
	if gate == nil {
		return
	}
	timer := time.NewTimer(maxGateWait)
	defer timer.Stop()
	select {
	case <-gate:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// failure is the answer to a publish that was not broadcast.
type failure struct {
	Broadcast bool `json:"broadcast"` // true: which kind of answer it is
	Error     struct {
		Code        int    `json:"code"`
		Description string `json:"description"`
	} `json:"error"`
}

func errorBody(err error) []byte {
	f := failure{Broadcast: true}
	if err == nil {
		return nil
	}
	f.Error.Code, f.Error.Description = 503, err.Error()
	switch {
	case errors.Is(err, ErrTooLarge):
		f.Error.Code = 413
	case errors.Is(err, ErrUnknown):
		f.Error.Code = 500
	}
	body, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"broadcast":true,"error":{"code":500}}`)
	}
	return body
}

// tell answers those who wait for a parcel.
func (s *Service) tell(p *parcel, o outcome) {
	var body []byte
	for i := range p.answers {
		a := &p.answers[i]
		if a.done != nil {
			a.done <- o
			continue
		}
		if s.answeredElsewhere(a) {
			continue
		}
		if body == nil {
			if body = errorBody(o.err); o.err == nil {
				body, _ = json.Marshal(o.receipt)
			}
		}
		a.out.space.PublishOnce(broker.Msg{Subject: []byte(a.reply), Data: body})
	}
}
