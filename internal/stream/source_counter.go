package stream

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"

	"github.com/sluicemq/sluice/internal/jserr"
)

// A stream of counters that has sources adds up what they count (ADR-49): it stores of each message the difference to what
// it knew of that source's counter, which Nats-Counter-Sources keeps.

// countSourced makes of a source's counter what is stored. When only the last message of the subject tells what to add it
// to, need is that message's sequence.
func (s *State) countSourced(c *candidate, subj, data []byte, key string) (need uint64, err *jserr.Error) {
	increment := c.headers.increment
	if len(increment) == 0 {
		return 0, jserr.New(jserr.MessageIncrMissing)
	}
	if _, ok := new(big.Int).SetString(string(increment), 10); !ok {
		return 0, jserr.New(jserr.MessageIncrInvalid)
	}
	base, need := s.counterOf(c.text)
	if need > 0 {
		return need, nil
	}
	value, ok := counterValue(data)
	sources := map[string]map[string]string{}
	if len(base.sources) > 0 && json.Unmarshal(base.sources, &sources) != nil || !ok {
		return 0, jserr.New(jserr.MessageCounterBroken)
	}
	name, _, _ := strings.Cut(key, " ")
	before := new(big.Int)
	if known, ok := sources[name][string(subj)]; ok {
		before.SetString(known, 10)
	}
	if sources[name] == nil {
		sources[name] = map[string]string{}
	}
	sources[name][string(subj)] = value.String()
	base.sources, _ = json.Marshal(sources) // strings can be marshaled
	c.increment = value.Sub(value, before)
	c.header = replaceField(c.header, "Nats-Incr", c.increment.String())
	return 0, s.addUp(c, base)
}

// counterValue reads the data of a counter's message.
func counterValue(data []byte) (*big.Int, bool) {
	var value struct {
		Val string `json:"val"`
	}
	if json.Unmarshal(data, &value) != nil {
		return nil, false
	}
	return new(big.Int).SetString(value.Val, 10)
}

// replaceField copies a header block with another value in the first field of a key, which is there.
func replaceField(block []byte, key, value string) []byte {
	at := bytes.Index(block, []byte("\r\n"+key+":"))
	if at < 0 {
		return block
	}
	begin := at + len("\r\n") + len(key) + 1
	end := begin + bytes.Index(block[begin:], lineEnd)
	return append(append(append(append([]byte(nil), block[:begin]...), ' '), value...), block[end:]...)
}
