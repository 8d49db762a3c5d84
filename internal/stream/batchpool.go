package stream

import "sync/atomic"

// BatchPool counts the open batches of all streams of a server against its bounds. It is safe for concurrent use.
type BatchPool struct {
	// MaxAtomic and MaxFast are how many of each kind may be open.
	MaxAtomic, MaxFast int64
	// MaxBytes bounds the messages of all atomic batches that are open.
	MaxBytes int64

	atomic, fast, bytes atomic.Int64
}

// NewBatchPool makes a pool with the bounds of nats-server, 1,000 atomic batches and 50,000 fast ones, and 256 MiB.
func NewBatchPool() *BatchPool {
	return &BatchPool{MaxAtomic: 1000, MaxFast: 50_000, MaxBytes: 256 << 20}
}

func (p *BatchPool) takeBytes(n int) bool {
	if p.bytes.Add(int64(n)) > p.MaxBytes {
		p.bytes.Add(-int64(n))
		return false
	}
	return true
}

func (p *BatchPool) take(n *atomic.Int64, most int64) bool {
	if n.Add(1) > most {
		n.Add(-1)
		return false
	}
	return true
}

func (p *BatchPool) give(n *atomic.Int64) { n.Add(-1) }
