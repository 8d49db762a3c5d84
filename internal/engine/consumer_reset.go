package engine

import (
	"context"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

// ResetConsumer makes a consumer start over at a sequence, or with 0 after its acknowledgement floor. That is committed
// when it returns. It gives the sequence and the info of the consumer as it was at that moment.
func (s *Stream) ResetConsumer(ctx context.Context, name string, seq uint64) (info api.ConsumerInfo, at uint64, err error) {
	type result struct {
		info api.ConsumerInfo
		at   uint64
	}
	res := &result{}
	err = s.doCommitted(ctx, func() (*entry, error) {
		c := s.consumers[name]
		if c == nil || c.dropping {
			return nil, jserr.New(jserr.ConsumerNotFound)
		}
		at, err := c.machine.Reset(seq, s.now)
		if err != nil {
			return nil, err
		}
		res.info, res.at = c.machine.Info(s.now, &s.consumerFx), at
		c.wake()
		c.changed(s.now)
		s.settleAll(c.filter) // what it skips, nobody may need
		if !c.logged {
			return nil, nil
		}
		e := s.newEntry(s.appendProgress(nil, c), 1, false)
		s.appendSettled(e)
		return e, nil
	})
	if err != nil {
		return info, 0, consumerError(err)
	}
	return res.info, res.at, nil
}

// UnpinConsumer takes the pin of a priority group from the client that has it.
func (s *Stream) UnpinConsumer(name, group string) error {
	result := make(chan error, 1)
	err := s.do(func() {
		c := s.consumers[name]
		if c == nil {
			result <- jserr.New(jserr.ConsumerNotFound)
			return
		}
		result <- c.machine.Unpin(group, &s.consumerFx)
		c.wake()
		c.changed(s.now)
	})
	if err == nil {
		err = <-result
	}
	return consumerError(err)
}
