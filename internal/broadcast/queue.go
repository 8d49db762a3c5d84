package broadcast

import (
	"fmt"
	"sync"
	"time"
)

// messageCost is what a message counts against MaxPending beside its bytes.
const messageCost = 256

// answer is who waits to hear that a message is durable: a client at a reply subject, or a caller.
type answer struct {
	out            *outlet
	reply, subject string
	done           chan outcome // of capacity 1
}

// outcome is what became of a message.
type outcome struct {
	receipt Receipt
	err     error
}

// parcel is the messages of one batch while they gather and while they are written.
type parcel struct {
	body    []byte
	records int
	cost    int
	opened  time.Time
	answers []answer
}

// queue holds what waits to be written: at most MaxPending bytes, the batch being written included. Anyone puts, the
// writer takes. Publishers are gated from half of the bound on, and refused at it.
type queue struct {
	opts    *Options
	metrics *metrics
	wake    chan struct{} // capacity 1

	mu      sync.Mutex // guards what follows
	parcels []*parcel  // only the last one grows
	cost    int
	gate    chan struct{}
	closed  bool
}

func newQueue(opts *Options, met *metrics) *queue {
	return &queue{opts: opts, metrics: met, wake: make(chan struct{}, 1)}
}

// put takes a message in, copying it. a is who waits for it; the zero value is nobody.
func (q *queue) put(m Message, a answer) error {
	size := m.size()
	if size > q.opts.MaxBatch {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, q.opts.MaxBatch)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.cost+size+messageCost > q.opts.MaxPending:
		return ErrFull
	}
	var p *parcel
	if n := len(q.parcels); n > 0 && len(q.parcels[n-1].body)+size <= q.opts.MaxBatch {
		p = q.parcels[n-1]
	} else {
		p = &parcel{opened: time.Now()}
		q.parcels = append(q.parcels, p)
		q.signal() // the first one opens the window, a further one means that the one before is full
	}
	p.body = appendMessage(p.body, &m)
	p.records++
	p.cost += size + messageCost
	q.cost += size + messageCost
	if a.done != nil || a.reply != "" {
		p.answers = append(p.answers, a)
	}
	q.metrics.pending.Set(float64(q.cost))
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// wait gives the gate that publishers are to wait at; nil: none.
func (q *queue) wait() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.cost <= q.opts.MaxPending/2 {
		return nil
	}
	if q.gate == nil {
		q.gate = make(chan struct{})
	}
	return q.gate
}

// take gives the parcel whose time has come, or else when the first one's comes (zero: there is none). ended: nothing is
// left and nothing will come.
func (q *queue) take(now time.Time) (p *parcel, due time.Time, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parcels) == 0 {
		return nil, time.Time{}, q.closed
	}
	p = q.parcels[0]
	if due = p.opened.Add(q.opts.Window); now.Before(due) && len(q.parcels) == 1 && !q.closed {
		return nil, due, false
	}
	q.parcels[0] = nil
	q.parcels = q.parcels[1:]
	return p, time.Time{}, false
}

// release notes that a parcel that was taken is done with.
func (q *queue) release(p *parcel) {
	q.mu.Lock()
	q.cost -= p.cost
	q.metrics.pending.Set(float64(q.cost))
	gate := q.gate
	if q.cost > q.opts.MaxPending/4 && !q.closed {
		gate = nil
	}
	if gate != nil {
		q.gate = nil
	}
	q.mu.Unlock()
	if gate != nil {
		close(gate)
	}
}

// close refuses everything from now on and frees whoever waits at the gate.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	gate := q.gate
	q.gate = nil
	q.mu.Unlock()
	if gate != nil {
		close(gate)
	}
	q.signal()
}
