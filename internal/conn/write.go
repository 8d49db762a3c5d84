package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	// directBytes is the most that a publisher writes by itself: an answer, a handful of messages. For more it pays to
	// have the write loop do it beside the publisher.
	directBytes = 16 << 10
	// maxVectors bounds one writev.
	maxVectors = 1024
	// closeDeadline bounds what a client that is being closed may still take.
	closeDeadline = 2 * time.Second
)

// tryWriter is a connection that can be written to without waiting.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// writeDirect writes the little that there is on the caller's goroutine, as far as that needs no waiting; it spares a
// goroutine and, in a request's way, its latency. The caller holds mu, which is given up, and is the one who writes.
func (c *Conn) writeDirect() {
	bufs := c.out.bufs
	if len(bufs) != 1 || c.raw == nil && c.try == nil {
		go c.writeLoop()
		c.mu.Unlock()
		return
	}
	c.out.bufs = nil
	c.mu.Unlock()
	b := bufs[0]
	n := c.tryWrite(b)
	c.mu.Lock()
	c.out.pending -= int64(n)
	if n < len(b) {
		// Errors too are left to the write loop, which meets them again.
		b = b[:copy(b, b[n:])]
		bufs[0] = b
		c.out.bufs = append(bufs, c.out.bufs...)
	} else {
		putBuffer(b)
		if c.out.bufs == nil {
			bufs[0] = nil
			c.out.bufs = bufs[:0]
		}
	}
	if len(c.out.bufs) > 0 || !c.isOpen() {
		go c.writeLoop()
	} else {
		c.out.writing = false
	}
	c.mu.Unlock()
}

// tryWrite writes what the socket takes at once.
func (c *Conn) tryWrite(b []byte) int {
	if c.try != nil {
		n, _ := c.try.TryWrite(b)
		return n
	}
	if c.out.limited {
		// The write loop's deadline may have passed.
		_ = c.nc.SetWriteDeadline(time.Time{})
		c.out.limited = false
	}
	c.out.direct = b
	c.out.written = 0
	_ = c.raw.Write(c.out.ready)
	c.out.direct = nil
	return c.out.written
}

// writeReady is called by tryWrite with the socket.
func (c *Conn) writeReady(fd uintptr) bool {
	c.out.written = writeFD(fd, c.out.direct)
	return true
}

// writeLoop writes until nothing is left, and then ends. After close it writes the rest, if it should, and closes the
// socket. Whoever starts it has set writing.
func (c *Conn) writeLoop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out.bufs) > 0 && !c.out.failed && (c.isOpen() || c.closed.flushes()) {
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
		if c.out.pending <= watermark(c.srv.options().MaxPending) {
			c.openGate()
		}
	}
	c.out.writing = false
	if !c.isOpen() {
		c.finish()
	}
}

// write writes buffers and gives them back to the pools.
func (c *Conn) write(bufs net.Buffers, closing bool) (n int64, err error) {
	deadline := c.srv.options().WriteDeadline
	if closing {
		deadline = min(deadline, closeDeadline)
	}
	c.out.limited = true
	if c.transport != nil {
		c.transport.cork()
	}
	var kept [16][]byte
	v := net.Buffers(kept[:0]) // WriteTo eats its receiver
	for at := 0; at < len(bufs) && err == nil; at += maxVectors {
		v = append(v[:0], bufs[at:min(at+maxVectors, len(bufs))]...)
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
	if c.transport != nil {
		err = errors.Join(err, c.transport.uncork())
		if err == nil {
			// The reader writes too, and a deadline that has passed would break the connection.
			err = c.transport.SetWriteDeadline(time.Time{})
		}
	}
	for i, b := range bufs {
		putBuffer(b)
		bufs[i] = nil
	}
	return n, err
}

// writeFailed closes the connection. mu is held.
func (c *Conn) writeFailed(err error, chunks int) {
	c.out.failed = true
	if !c.isOpen() {
		return
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.closeLocked(WriteError)
		return
	}
	if c.connected {
		o := c.srv.options()
		c.srv.stats.slow.Add(1)
		o.Log.Info(c.label() + " - Slow Consumer Detected: WriteDeadline of " + o.WriteDeadline.String() + " exceeded with " +
			strconv.Itoa(chunks) + " chunks of " + strconv.FormatInt(c.out.pending, 10) + " total bytes.")
	}
	c.closeLocked(SlowConsumerWriteDeadline)
}

// finish closes the socket of a connection that was closed and has nothing more to write. mu is held.
func (c *Conn) finish() {
	for _, b := range c.out.bufs {
		putBuffer(b)
	}
	c.out.bufs = nil
	c.out.pending = 0
	c.openGate()
	if c.sock != nil && c.closed != ClientClosed && c.closed.flushes() {
		_ = c.sock.Control(drain)
	}
	c.part()
	c.ended()
}

// maxDrained bounds what drain reads.
const maxDrained = 256 << 10

// drain throws away input that has arrived but was not read. A socket that is closed with unread input is reset, and a
// client that is reset may not get to read why.
func drain(fd uintptr) {
	b := getBuffer(maxBuffer)
	defer putBuffer(b)
	for read := 0; read < maxDrained; {
		n, _, err := readFD(fd, b[:cap(b)])
		if n == 0 || err != nil {
			return
		}
		read += n
	}
}

// ended is called by each of the two halves of the connection when it is through. mu is held.
func (c *Conn) ended() {
	if c.halves--; c.halves == 0 {
		c.srv.loops.Done()
	}
}
