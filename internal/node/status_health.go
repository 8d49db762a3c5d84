package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/monitor"
)

// troubleAfter is how long the store may be silent before the server is not healthy. A little longer than publishers
// are kept waiting, and far longer than a request that is only slow.
const troubleAfter = 5 * time.Second

var (
	errStarting   = errors.New("the server is starting")
	errRecovering = errors.New("JetStream is starting")
)

// Ready implements monitor.HealthSource.
func (s status) Ready() error {
	if s.ending.Load() {
		return monitor.ErrEnding
	}
	if _, clients, _ := s.parts(); clients == nil {
		return errStarting
	}
	return nil
}

// JetStreamReady implements monitor.HealthSource. A store that does not answer is no reason: it is for CheckAssets to
// tell. Those who ask whether JetStream is enabled restart a server where it is not, and that would not help.
func (s status) JetStreamReady() (configured bool, err error) {
	opts, _, st := s.parts()
	if opts.JetStream.Enabled && st == nil {
		err = errRecovering
	}
	return opts.JetStream.Enabled, err
}

// CheckAssets implements monitor.HealthSource. All streams stand on one store: they are well when it is.
func (s status) CheckAssets(account, stream, consumer string) (monitor.Found, []monitor.HealthzError) {
	_, _, st := s.parts()
	if st == nil {
		return monitor.FoundNothing, nil
	}
	if err := st.trouble(); err != nil {
		return monitor.FoundNothing, []monitor.HealthzError{{Type: "JETSTREAM", Error: err.Error()}}
	}
	return st.find(account, stream, consumer), nil
}

// trouble is what keeps acknowledgements from being given; nil when all is well.
func (st *storage) trouble() error {
	seconds := func(d time.Duration) time.Duration { return d.Round(time.Second) }
	if err := st.wal.Err(); err != nil {
		return fmt.Errorf("the log is lost: %w", err)
	}
	if d := st.wal.Stalled(); d > troubleAfter {
		return fmt.Errorf("the store does not answer: nothing has been written for %v", seconds(d))
	}
	if d := st.head.Stale(); d > troubleAfter {
		return fmt.Errorf("the store does not answer: the node's last sign of life in it is %v old", seconds(d))
	}
	return nil
}

// find says how far names lead.
func (st *storage) find(account, stream, consumer string) monitor.Found {
	a := st.engine.Account(account)
	if a == nil {
		return monitor.FoundNothing
	}
	s, err := a.Stream(stream)
	if err != nil {
		return monitor.FoundAccount
	}
	if _, err := s.ConsumerInfo(consumer); err != nil {
		return monitor.FoundStream
	}
	return monitor.FoundConsumer
}
