package conn

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// output is what waits to be written to the client. It is guarded by Conn.mu.
type output struct {
	bufs    net.Buffers // each a pooled buffer, filled one after the other
	pending int64       // bytes in bufs, and in what the write loop is writing
	writing bool        // a write loop runs
	gate    chan struct{}
	msgs    int64 // statistics
	bytes   int64
}

// Back-pressure. From the watermark on, three quarters of MaxPending as in nats-server, publishers are made to wait.
const (
	watermarkNum = 3
	watermarkDen = 4
)

// DeliverStaged writes a chunk's messages into the output.
func (c *Conn) DeliverStaged(b *broker.Batch) (gate <-chan struct{}) {
	c.mu.Lock()
	if !c.isOpen() {
		c.mu.Unlock()
		b.Refused = append(b.Refused, b.Refs...)
		return nil
	}
	before := c.out.pending
	var ended []*broker.Subscription
	msgs, bytes := int64(0), int64(0)
	for i := range b.Refs {
		ref := &b.Refs[i]
		sub := ref.Sub
		if sub.Closed() {
			b.Refused = append(b.Refused, *ref)
			continue
		}
		if limit := sub.Limit(); limit > 0 {
			if sub.Delivered >= limit {
				b.Refused = append(b.Refused, *ref)
				continue
			}
			if sub.Delivered+1 == limit {
				ended = append(ended, sub)
			}
		}
		sub.Delivered++
		m := &b.Msgs[ref.Msg]
		if c.responses != nil && m.ReplyLen > 0 {
			c.responses.expect(m.Reply())
		}
		msgs++
		bytes += c.writeMsg(sub, m)
	}
	c.out.msgs += msgs
	c.out.bytes += bytes
	for _, sub := range ended {
		delete(c.subs, sid(sub))
	}
	gate = c.queued(before)
	c.mu.Unlock()
	for _, sub := range ended {
		c.space.Unsubscribe(sub)
	}
	c.srv.stats.delivered(msgs, bytes)
	return gate
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

// Deliver is never called: a connection is an outlet.
func (c *Conn) Deliver([]broker.Delivery) (gate <-chan struct{}) { return nil }

// writeMsg appends a message, and gives the size of its header and payload. mu is held.
func (c *Conn) writeMsg(sub *broker.Subscription, m *proto.Pub) int64 {
	verb := "MSG "
	if m.HeaderLen > 0 {
		if !c.headers {
			return c.writeStripped(sub, m)
		}
		verb = "HMSG "
	}
	tag := sub.Tag()
	n := len(verb) + len(m.Subject) + len(tag) + len(m.Wire)
	c.out.pending += int64(n)
	if n <= pageBuffer {
		b := c.room(n)
		d := *b
		d = append(d, verb...)
		d = append(d, m.Subject...)
		d = append(d, tag...)
		*b = append(d, m.Wire...)
	} else {
		line := len(verb) + len(m.Subject) + len(tag)
		b := c.room(line)
		d := *b
		d = append(d, verb...)
		d = append(d, m.Subject...)
		*b = append(d, tag...)
		c.spread(m.Wire)
	}
	return int64(m.Size())
}

// writeStripped is for a client that does not understand headers: it gets the payload alone.
func (c *Conn) writeStripped(sub *broker.Subscription, m *proto.Pub) int64 {
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
	return int64(len(data))
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
		n = max(n, min(4*cap(*b), maxBuffer))
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
	if !c.isOpen() {
		return
	}
	before := c.out.pending
	c.out.pending += int64(len(b))
	c.spread(b)
	c.queued(before)
}

// sendErr queues an -ERR line.
func (c *Conn) sendErr(text string) {
	c.mu.Lock()
	c.send(proto.AppendErr(nil, text))
	c.mu.Unlock()
}

// queued sees to what was just added: it starts the write loop, gives a gate where the client is behind, and gives
// the client up where it is too far behind. mu is held.
func (c *Conn) queued(before int64) (gate <-chan struct{}) {
	if c.out.pending == before {
		return nil
	}
	limit := c.srv.options().MaxPending
	if c.out.pending > limit {
		c.slowConsumer()
		return nil
	}
	if !c.out.writing {
		c.startWriting()
	}
	if c.out.pending > limit/watermarkDen*watermarkNum {
		if c.out.gate == nil {
			c.out.gate = make(chan struct{})
		}
		return c.out.gate
	}
	return nil
}

// slowConsumer gives up a client whose output is over MaxPending. mu is held.
func (c *Conn) slowConsumer() {
	c.srv.stats.slow.Add(1)
	c.srv.options().Log.Info(c.label() + " - Slow Consumer Detected: MaxPending of " +
		strconv.FormatInt(c.srv.options().MaxPending, 10) + " Exceeded")
	c.closeLocked(SlowConsumerPendingBytes)
}

// openGate lets publishers go on.
func (c *Conn) openGate() {
	if c.out.gate != nil {
		close(c.out.gate)
		c.out.gate = nil
	}
}

// maxVectors bounds one writev.
const maxVectors = 1024

// startWriting starts the write loop. mu is held, and the read loop has not ended.
func (c *Conn) startWriting() {
	c.out.writing = true
	c.srv.loops.Add(1)
	go c.writeLoop()
}

// writeLoop writes until nothing is left, and then ends. After close it writes the rest, if it should, and closes the
// socket.
func (c *Conn) writeLoop() {
	defer c.srv.loops.Done()
	c.mu.Lock()
	for {
		if len(c.out.bufs) == 0 || !c.isOpen() && !c.closed.flushes() {
			c.out.writing = false
			if !c.isOpen() {
				c.dropOutput()
				c.mu.Unlock()
				c.nc.Close()
				return
			}
			c.mu.Unlock()
			return
		}
		bufs := c.out.bufs
		c.out.bufs = nil
		closing := !c.isOpen()
		c.mu.Unlock()
		n, err := c.write(bufs, closing)
		c.mu.Lock()
		c.out.pending -= n
		if err != nil {
			c.writeFailed(err, len(bufs))
			continue
		}
		if c.out.pending <= c.srv.options().MaxPending/watermarkDen*watermarkNum {
			c.openGate()
		}
	}
}

// write writes buffers and gives them back to the pools.
func (c *Conn) write(bufs net.Buffers, closing bool) (n int64, err error) {
	deadline := c.srv.options().WriteDeadline
	if closing {
		deadline = min(deadline, closeDeadline)
	}
	for at := 0; at < len(bufs) && err == nil; at += maxVectors {
		part := bufs[at:min(at+maxVectors, len(bufs))]
		var kept [16][]byte
		v := net.Buffers(append(kept[:0], part...)) // WriteTo eats its receiver
		if err = c.nc.SetWriteDeadline(time.Now().Add(deadline)); err != nil {
			break
		}
		var m int64
		m, err = v.WriteTo(c.nc)
		n += m
		if err == io.ErrShortWrite {
			err = nil
		}
	}
	for i, b := range bufs {
		putBuffer(b)
		bufs[i] = nil
	}
	return n, err
}

// closeDeadline bounds what a client that is being closed may still take.
const closeDeadline = 2 * time.Second

// writeFailed closes the connection. mu is held.
func (c *Conn) writeFailed(err error, chunks int) {
	if !c.isOpen() {
		c.closed = WriteError // nothing more to flush
		return
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.closeLocked(WriteError)
		return
	}
	if c.connected {
		c.srv.stats.slow.Add(1)
		c.srv.options().Log.Info(c.label() + " - Slow Consumer Detected: WriteDeadline of " +
			c.srv.options().WriteDeadline.String() + " exceeded with " + strconv.Itoa(chunks) + " chunks of " +
			strconv.FormatInt(c.out.pending, 10) + " total bytes.")
	}
	c.closeLocked(SlowConsumerWriteDeadline)
}

// dropOutput frees what will not be written. mu is held, and no write loop runs.
func (c *Conn) dropOutput() {
	for _, b := range c.out.bufs {
		putBuffer(b)
	}
	c.out.bufs = nil
	c.out.pending = 0
	c.openGate()
}
