package stream

import (
	"encoding/json"
	"math/big"

	"github.com/sluicemq/sluice/internal/jserr"
)

// A stream of counters (ADR-49) takes messages that say by how much the counter of their subject changes, in Nats-Incr,
// and stores them with what it then counts to as their data. A counter begins at 0 where its subject has no message.

// maxCounters bounds the counters that are remembered. One that is not is learned from its last message.
const maxCounters = 1 << 16

// counter is what a subject counts to with a message.
type counter struct {
	seq     uint64
	total   *big.Int // nil: the message's data is no counter
	sources []byte   // Nats-Counter-Sources
}

// counterOf gives a subject's counter. When only its last message tells, need is that message's sequence.
func (s *State) counterOf(text []byte) (c counter, need uint64) {
	id := s.names.find(text)
	if id == 0 {
		return counter{total: new(big.Int)}, 0
	}
	row := s.names.row(id)
	last := row.last
	if s.flight.holds(row.flight) {
		last = s.flight.at(row.flight - 1).seq
	}
	if last == 0 {
		return counter{total: new(big.Int)}, 0
	}
	if c, ok := s.counters[string(text)]; ok && c.seq == last {
		return c, 0
	}
	return counter{}, last
}

// Learn tells the message that [Accepted.Need] asked for.
func (s *State) Learn(seq uint64, subject, header, data []byte) {
	c := counter{seq: seq}
	if len(header) > 0 {
		c.sources = append(c.sources, parseHeaders(header).counterSources...)
	}
	var value struct {
		Val string `json:"val"`
	}
	if json.Unmarshal(data, &value) == nil {
		if total, ok := new(big.Int).SetString(value.Val, 10); ok {
			c.total = total
		}
	}
	s.remember(subject, c)
}

// remember keeps a counter. Those of messages in flight cannot be learned and stay.
func (s *State) remember(subject []byte, c counter) {
	if s.counters == nil {
		s.counters = map[string]counter{}
	}
	if _, ok := s.counters[string(subject)]; !ok && len(s.counters) >= maxCounters {
		for key, old := range s.counters {
			if old.seq <= s.lastSeq {
				delete(s.counters, key)
				break
			}
		}
	}
	s.counters[string(subject)] = c
}

// checkIncrement refuses an increment that the stream or the message does not go with.
func (s *State) checkIncrement(c *candidate) *jserr.Error {
	h := c.headers
	if len(h.increment) == 0 {
		return nil
	}
	increment, ok := new(big.Int).SetString(string(h.increment), 10)
	switch {
	case !ok:
		return jserr.New(jserr.MessageIncrInvalid)
	case !s.cfg.AllowMsgCounter:
		return jserr.New(jserr.MessageIncrDisabled)
	case c.size > 0:
		return jserr.New(jserr.MessageIncrPayload)
	case len(h.rollup) > 0, len(h.expectedStream) > 0, len(h.expectedLastID) > 0, len(h.expectedSubject) > 0,
		len(h.expectedLast) > 0, len(h.expectedLastOfSubject) > 0:
		return jserr.New(jserr.MessageIncrInvalid)
	}
	c.increment = increment
	return nil
}

// addUp makes of an increment what is stored. base is the counter before it.
func (s *State) addUp(c *candidate, base counter) *jserr.Error {
	if base.total == nil {
		return jserr.New(jserr.MessageCounterBroken)
	}
	c.counter = counter{total: new(big.Int).Add(base.total, c.increment), sources: base.sources}
	c.data = append(append([]byte(`{"val":"`), c.counter.total.String()...), `"}`...)
	c.size = len(c.data)
	if len(base.sources) > 0 {
		c.header = appendField(appendWithout(nil, c.header, "Nats-Counter-Sources"), "Nats-Counter-Sources", string(base.sources))
	}
	switch {
	case s.tooLarge(len(c.header), c.size):
		return jserr.New(jserr.StreamMessageExceedsMaximum)
	case len(c.header) > maxHeaderBytes:
		return jserr.New(jserr.StreamHeaderExceedsMaximum)
	}
	return nil
}
