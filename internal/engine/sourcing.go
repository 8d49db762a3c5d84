package engine

import (
	"time"

	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nuid"

	"github.com/sluicemq/sluice/internal/stream"
)

// Mirrors and sources, of this server and of others, read a stream through consumers of their own kind. Direct ones have
// no acknowledgements and no state, and appear in no list; durable ones, with the ack policy flow_control, start over at
// their acknowledgement floor whenever their reader asks for them again.

// Identity tells a stream from another one that had its name before (header Nats-Stream-Identity).
func (s *Stream) Identity() string { return stream.ShortHash(s.created.UTC().Format(time.RFC3339Nano)) }

// freeName draws a name for a consumer that has none.
func (s *Stream) freeName() string {
	for {
		if name := stream.ShortHash(nuid.Next()); s.consumers[name] == nil {
			return name
		}
	}
}

// forSource reports whether a consumer is a mirror's or a source's. Such consumers do not count.
func forSource(cfg *api.ConsumerConfig) bool { return cfg.Direct || cfg.Sourcing }

// adaptSourcing makes of a mirror's or source's request what nats-server makes of it: in a stream that lets messages go
// once they are acknowledged, a consumer that acknowledges; elsewhere, one with a name of its own. A durable one starts
// where it did first.
func (s *Stream) adaptSourcing(cfg *api.ConsumerConfig) {
	if cfg.Direct && cfg.Sourcing && cfg.Name != "" {
		if s.Config().Retention != api.LimitsPolicy {
			cfg.Direct, cfg.Durable, cfg.AckPolicy = false, cfg.Name, api.AckFlowControl
			cfg.AckWait, cfg.MaxDeliver, cfg.InactiveThreshold = 0, 0, 0
		} else {
			cfg.Name += "-" + stream.ShortHash(nuid.Next())
		}
	}
	if c := s.consumers[cfg.Name]; c != nil && cfg.Sourcing && cfg.Durable != "" {
		old := c.machine.Config()
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = old.DeliverPolicy, old.OptStartSeq, old.OptStartTime
	}
}

// startOver puts a source's consumer back to its acknowledgement floor, since its reader begins anew.
func (s *Stream) startOver(c *Consumer) {
	if _, err := c.machine.Reset(0, s.now); err != nil {
		s.engine.opts.Logger.Error("a source's consumer cannot start over", "stream", s.name, "consumer", c.name, "error", err)
		return
	}
	c.wake()
	c.changed(s.now)
}

// countConsumers counts the consumers that keep says yes to.
func (s *Stream) countConsumers(keep func(*api.ConsumerConfig) bool) (n int) {
	for _, c := range s.consumers {
		if cfg := c.machine.Config(); keep(&cfg) {
			n++
		}
	}
	return n
}

// public reports whether a consumer appears in lists and counts.
func public(cfg *api.ConsumerConfig) bool { return !cfg.Direct }

// limited reports whether a consumer counts against the limits.
func limited(cfg *api.ConsumerConfig) bool { return !forSource(cfg) }
