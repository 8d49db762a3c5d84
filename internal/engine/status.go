package engine

import (
	"maps"
	"slices"

	"github.com/nats-io/jsm.go/api"
)

// infosPerTurn is how many consumers tell how they stand in one turn of their stream's owner.
const infosPerTurn = 128

// ConsumerInfos tells how all consumers stand, in the order of their names. It does so in several turns of the stream's
// owner, so that deliveries go on meanwhile.
func (s *Stream) ConsumerInfos() ([]api.ConsumerInfo, error) {
	names, err := s.ConsumerNames()
	if err != nil {
		return nil, err
	}
	infos := make([]api.ConsumerInfo, 0, len(names))
	for some := range slices.Chunk(names, infosPerTurn) {
		err := s.do(func() {
			for _, name := range some {
				if c := s.consumers[name]; c != nil {
					infos = append(infos, s.consumerInfo(c))
				}
			}
		})
		if err != nil {
			return nil, consumerError(err)
		}
	}
	return infos, nil
}

// Pool is how full one kind of storage of the server is, in bytes.
type Pool struct {
	// Used is what streams hold, in flight or visible, Reserved the sum of their max_bytes.
	Used, Reserved int64
}

// Pools sums up the server's storage: memory, as of storage: memory, and the store. It asks no stream.
func (e *Engine) Pools() (memory, store Pool) {
	of := func(p *pool) Pool { return Pool{Used: max(p.used.Load(), 0), Reserved: max(p.reserved.Load(), 0)} }
	return of(&e.pools.memory), of(&e.pools.store)
}

// Streams counts the streams that are up.
func (e *Engine) Streams() (n int) {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.accounts))
	e.mu.Unlock()
	for _, a := range all {
		n += len(a.Streams(""))
	}
	return n
}
