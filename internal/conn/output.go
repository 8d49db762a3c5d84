package conn

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// output is what waits to be written to the client. It is guarded by Conn.mu.
type output struct {
	bufs    net.Buffers // each a pooled buffer, filled one after the other
	pending int64       // bytes in bufs, and in what the write loop is writing
	writing bool        // somebody writes: the write loop, or a publisher directly
	failed  bool        // a write has failed: there is no point in another
	gate    chan struct{}
	ended   []*broker.Subscription // by their limit, in the batch that is being written
	msgs    int64                  // statistics
	bytes   int64

	// Of whoever writes: see tryWrite.
	ready   func(fd uintptr) bool
	direct  []byte
	written int
	limited bool // a deadline was set
}

// DeliverStaged writes a chunk's messages into the output.
func (c *Conn) DeliverStaged(b *broker.Batch) (gate <-chan struct{}) {
	c.mu.Lock()
	if !c.isOpen() || c.out.gate != nil && b.From != nil && c.srv.options().NoFastProducerStall {
		c.mu.Unlock()
		b.Refused = append(b.Refused, b.Refs...)
		return nil
	}
	before, msgs, size := c.out.pending, c.out.msgs, c.out.bytes
	c.writeBatch(b)
	msgs, size = c.out.msgs-msgs, c.out.bytes-size
	ended, space := c.out.ended, c.space
	c.out.ended = nil
	for _, sub := range ended {
		delete(c.subs, sid(sub))
	}
	gate, start := c.queued(before)
	if start && b.Few && c.out.pending <= directBytes {
		c.writeDirect() // unlocks
	} else {
		if start {
			go c.writeLoop()
		}
		c.mu.Unlock()
	}
	for _, sub := range ended {
		space.Unsubscribe(sub)
	}
	c.last.Store(time.Now().UnixNano())
	c.srv.stats.delivered(msgs, size)
	return gate
}

// writeBatch appends messages to the output, and what cannot be taken to b.Refused. mu is held.
func (c *Conn) writeBatch(b *broker.Batch) {
	special := c.responses != nil || c.srv.tracing()
	var (
		last  *broker.Subscription // of the message before, of which this is known:
		tag   string
		plain bool // it is open and has no limit
		buf   []byte
		size  int
	)
	buf = c.tail()
	msgs := 0
	for i := range b.Refs {
		ref := &b.Refs[i]
		if ref.Sub != last {
			last, tag = ref.Sub, ref.Sub.Tag()
			plain = !last.Closed() && last.Limit() == 0
		}
		if !plain && !c.take(last) {
			b.Refused = append(b.Refused, *ref)
			continue
		}
		last.Delivered++
		msgs++
		m := &b.Msgs[ref.Msg]
		verb := "MSG "
		if m.HeaderLen > 0 {
			verb = "HMSG "
		}
		n := len(verb) + len(m.Subject) + len(tag) + len(m.Wire)
		if n > cap(buf)-len(buf) || special || m.HeaderLen > 0 && !c.headers {
			c.setTail(buf)
			size += c.writeMsg(last, m)
			buf = c.tail()
			continue
		}
		buf = append(buf, verb...)
		buf = append(buf, m.Subject...)
		buf = append(buf, tag...)
		buf = append(buf, m.Wire...)
		c.out.pending += int64(n)
		size += m.Size()
	}
	c.setTail(buf)
	c.out.msgs += int64(msgs)
	c.out.bytes += int64(size)
}

// take reports whether a subscription takes one more message. The one that reaches the limit ends it.
func (c *Conn) take(sub *broker.Subscription) bool {
	limit := sub.Limit()
	if sub.Closed() || limit > 0 && sub.Delivered >= limit {
		return false
	}
	if sub.Delivered+1 == limit {
		c.out.ended = append(c.out.ended, sub)
	}
	return true
}

// tail is the last buffer, which is being filled.
func (c *Conn) tail() []byte {
	if n := len(c.out.bufs); n > 0 {
		return c.out.bufs[n-1]
	}
	return nil
}

// setTail puts the last buffer back after something was appended.
func (c *Conn) setTail(b []byte) {
	if n := len(c.out.bufs); n > 0 {
		c.out.bufs[n-1] = b
	}
}

// Remaining gives how many more messages a subscription takes before it ends.
func (c *Conn) Remaining(sub *broker.Subscription) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isOpen() {
		return 0
	}
	limit := sub.Limit()
	if limit == 0 {
		return math.MaxUint64
	}
	return limit - min(limit, sub.Delivered)
}

// Gone reports whether the connection is closed.
func (c *Conn) Gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.isOpen()
}

// Deliver is never called: a connection is an outlet.
func (c *Conn) Deliver([]broker.Delivery) (gate <-chan struct{}) { return nil }

// writeMsg appends a message of any kind and size, and gives the size of its header and payload. mu is held.
func (c *Conn) writeMsg(sub *broker.Subscription, m *proto.Pub) int {
	if c.responses != nil && m.ReplyLen > 0 {
		c.responses.expect(m.Reply())
	}
	verb := "MSG "
	if m.HeaderLen > 0 {
		verb = "HMSG "
	}
	if c.srv.tracing() {
		c.traceOut(verb, sub, m)
	}
	if m.HeaderLen > 0 && !c.headers {
		return c.writeStripped(sub, m)
	}
	tag := sub.Tag()
	line := len(verb) + len(m.Subject) + len(tag)
	c.out.pending += int64(line + len(m.Wire))
	whole := line + len(m.Wire)
	if whole > pageBuffer {
		whole = line // the rest may be cut
	}
	b := c.room(whole)
	*b = append(*b, verb...)
	*b = append(*b, m.Subject...)
	*b = append(*b, tag...)
	c.spread(m.Wire)
	return m.Size()
}

// writeStripped is for a client that does not understand headers: it gets the payload alone.
func (c *Conn) writeStripped(sub *broker.Subscription, m *proto.Pub) int {
	data, tag := m.Data(), sub.Tag()
	n := 4 + len(m.Subject) + len(tag) + int(m.ReplyLen) + 1 + 20
	b := c.room(n)
	start := len(*b)
	d := append(*b, "MSG "...)
	d = append(d, m.Subject...)
	d = append(d, tag...)
	if m.ReplyLen > 0 {
		d = append(d, m.Reply()...)
		d = append(d, ' ')
	}
	d = strconv.AppendInt(d, int64(len(data)), 10)
	*b = append(d, "\r\n"...)
	c.out.pending += int64(len(*b) - start + len(data) + 2)
	c.spread(data)
	c.spread([]byte("\r\n"))
	return len(data)
}

// room gives the last buffer, with space for n more bytes, or a new one. Buffers grow with what is queued, so that an
// answer takes a small one and a stream of messages large ones.
func (c *Conn) room(n int) *[]byte {
	bufs := c.out.bufs
	if last := len(bufs) - 1; last >= 0 {
		b := &c.out.bufs[last]
		if cap(*b)-len(*b) >= n {
			return b
		}
		n = max(n, min(growth*cap(*b), maxBuffer))
	}
	c.out.bufs = append(bufs, getBuffer(n))
	return &c.out.bufs[len(c.out.bufs)-1]
}

// spread appends data that may be longer than a buffer.
func (c *Conn) spread(data []byte) {
	for len(data) > 0 {
		b := c.room(1)
		n := min(cap(*b)-len(*b), len(data))
		*b = append(*b, data[:n]...)
		data = data[n:]
	}
}

// send queues protocol bytes. mu is held.
func (c *Conn) send(b []byte) {
	if c.put(b) {
		go c.writeLoop()
	}
}

// answer queues protocol bytes and tries to write them at once.
func (c *Conn) answer(b []byte) {
	c.mu.Lock()
	if c.put(b) {
		c.writeDirect() // unlocks
		return
	}
	c.mu.Unlock()
}

// sendErr queues an -ERR line.
func (c *Conn) sendErr(text string) { c.answer(proto.AppendErr(nil, text)) }

// put queues protocol bytes; start means that the caller has to write. mu is held.
func (c *Conn) put(b []byte) (start bool) {
	if !c.isOpen() {
		return false
	}
	if c.srv.tracing() {
		c.trace("->>", fmt.Sprintf("[%s]", bytes.TrimRight(b, " \r\n")))
	}
	before := c.out.pending
	c.out.pending += int64(len(b))
	c.spread(b)
	_, start = c.queued(before)
	return start
}

// queued sees to what was just added: it gives a gate where the client is behind, and gives the client up where it is
// too far behind. With start the caller has become the one who writes. mu is held.
func (c *Conn) queued(before int64) (gate <-chan struct{}, start bool) {
	if c.out.pending == before {
		return nil, false
	}
	limit := c.srv.options().MaxPending
	if c.out.pending > limit {
		c.slowConsumer()
		return nil, false
	}
	start = !c.out.writing
	c.out.writing = true
	if c.out.pending > watermark(limit) {
		if c.out.gate == nil {
			c.out.gate = make(chan struct{})
		}
		return c.out.gate, start
	}
	return nil, start
}

// watermark is how much may wait for a client before publishers do: three quarters of max_pending, as in nats-server.
func watermark(maxPending int64) int64 { return maxPending / 4 * 3 }

// slowConsumer gives up a client whose output is over MaxPending. mu is held.
func (c *Conn) slowConsumer() {
	c.srv.stats.slow.Add(1)
	o := c.srv.options()
	o.Log.Info(c.label() + " - Slow Consumer Detected: MaxPending of " + strconv.FormatInt(o.MaxPending, 10) + " Exceeded")
	c.closeLocked(SlowConsumerPendingBytes)
}

// openGate lets publishers go on.
func (c *Conn) openGate() {
	if c.out.gate != nil {
		close(c.out.gate)
		c.out.gate = nil
	}
}
