package engine

import (
	"github.com/nats-io/jsm.go/api"
)

// Domain is the JetStream domain; "" is none.
func (e *Engine) Domain() string { return e.opts.Domain }

// Usage is what an account's streams hold.
type Usage struct {
	Memory, Store                 uint64 // bytes, as NATS accounts them
	ReservedMemory, ReservedStore uint64 // of the streams with max_bytes
	Streams, Consumers            int
	Messages                      uint64
}

// Usage adds up the account's streams.
func (a *Account) Usage() (u Usage) {
	for _, s := range a.Streams("") {
		var bytes, msgs uint64
		var consumers int
		if s.do(func() { bytes, msgs, consumers = s.state.Bytes(), s.state.Msgs(), len(s.consumers) }) != nil {
			continue // deleted meanwhile
		}
		cfg := s.Config()
		use, reserved := &u.Store, &u.ReservedStore
		if cfg.Storage == api.MemoryStorage {
			use, reserved = &u.Memory, &u.ReservedMemory
		}
		*use += bytes
		*reserved += uint64(max(cfg.MaxBytes, 0))
		u.Streams++
		u.Consumers += consumers
		u.Messages += msgs
	}
	return u
}
