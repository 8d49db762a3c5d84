package stream

import (
	"errors"
	"sync/atomic"
	"time"
)

// BatchLimits bound the batches that are open. 0 takes the default, which is nats-server's but for the bytes.
type BatchLimits struct {
	// PerStream is how many atomic batches may be open in a stream; 50. FastPerStream is the same of fast ones; 1,000.
	PerStream, FastPerStream int
	// Total and FastTotal are how many may be open in the server; 1,000 and 50,000.
	Total, FastTotal int
	// Size is how many messages an atomic batch may have; 1,000.
	Size int
	// Bytes bounds the messages of the atomic batches that are open in a stream, 64 MiB, TotalBytes those of the server,
	// 256 MiB.
	Bytes, TotalBytes int
	// Timeout is how long a batch waits for its next message; 10 s.
	Timeout time.Duration
}

func (l *BatchLimits) setDefaults() {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&l.PerStream, 50)
	set(&l.FastPerStream, 1000)
	set(&l.Total, 1000)
	set(&l.FastTotal, 50_000)
	set(&l.Size, 1000)
	set(&l.Bytes, 64<<20)
	set(&l.TotalBytes, 256<<20)
	if l.Timeout == 0 {
		l.Timeout = 10 * time.Second
	}
}

// Validate reports every fault.
func (l *BatchLimits) Validate() error {
	for _, n := range []int{l.PerStream, l.FastPerStream, l.Total, l.FastTotal, l.Size, l.Bytes, l.TotalBytes, int(l.Timeout)} {
		if n < 0 {
			return errors.New("stream: a limit of batches is negative")
		}
	}
	return nil
}

// BatchPool counts the open batches of all streams of a server against its limits. It is safe for concurrent use.
type BatchPool struct {
	limits              atomic.Pointer[BatchLimits]
	atomic, fast, bytes atomic.Int64
}

// NewBatchPool makes a pool.
func NewBatchPool(limits BatchLimits) *BatchPool {
	p := &BatchPool{}
	p.SetLimits(limits)
	return p
}

// SetLimits changes the limits. What is open stays.
func (p *BatchPool) SetLimits(limits BatchLimits) {
	limits.setDefaults()
	p.limits.Store(&limits)
}

func (p *BatchPool) take(n *atomic.Int64, most int) bool {
	if n.Add(1) > int64(most) {
		n.Add(-1)
		return false
	}
	return true
}

func (p *BatchPool) takeBytes(n int) bool {
	if p.bytes.Add(int64(n)) > int64(p.limits.Load().TotalBytes) {
		p.bytes.Add(-int64(n))
		return false
	}
	return true
}

func (p *BatchPool) give(n *atomic.Int64) { n.Add(-1) }
