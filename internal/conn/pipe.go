package conn

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBytes is how much one direction of a pipe holds before its writer waits.
const pipeBytes = 64 << 10

// newPipe makes a connection inside the process. Unlike [net.Pipe] it has a buffer, so that a writer does not have to
// meet its reader for every write.
func newPipe() (server, client net.Conn) {
	a, b := newHalf(), newHalf()
	return &pipeEnd{in: a, out: b}, &pipeEnd{in: b, out: a}
}

// pipeEnd is one end.
type pipeEnd struct{ in, out *half }

// half is one direction.
type half struct {
	mu       sync.Mutex
	cond     sync.Cond
	buf      []byte // nil when empty for a while
	at       int    // of which the first bytes have been read
	eof      bool   // the writer closed
	gone     bool   // the reader closed
	readEnd  limit
	writeEnd limit
}

// limit is a deadline.
type limit struct {
	timer  *time.Timer
	passed bool
	serial int // of the deadline that holds
}

func newHalf() *half {
	h := &half{}
	h.cond.L = &h.mu
	return h
}

// wait waits until there is something to read. mu is held.
func (h *half) wait() error {
	for {
		switch {
		case h.gone:
			return io.ErrClosedPipe
		case h.readEnd.passed:
			return os.ErrDeadlineExceeded
		case len(h.buf) > h.at:
			return nil
		case h.eof:
			return io.EOF
		}
		h.cond.Wait()
	}
}

// WaitReadable waits until a Read would not, without holding a buffer meanwhile.
func (p *pipeEnd) WaitReadable() error {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.in.wait()
}

func (p *pipeEnd) Read(b []byte) (int, error) {
	h := p.in
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if err := h.wait(); err != nil {
		return 0, err
	}
	n := copy(b, h.buf[h.at:])
	if h.at += n; h.at == len(h.buf) {
		putBuffer(h.buf)
		h.buf, h.at = nil, 0
	}
	h.cond.Broadcast()
	return n, nil
}

func (p *pipeEnd) Write(b []byte) (n int, err error) {
	h := p.out
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.eof || h.gone:
			return n, io.ErrClosedPipe
		case h.writeEnd.passed:
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		}
		if free := pipeBytes - (len(h.buf) - h.at); free > 0 {
			m := min(free, len(b)-n)
			h.add(b[n : n+m])
			n += m
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

// TryWrite writes as much as there is room for.
func (p *pipeEnd) TryWrite(b []byte) (n int, err error) {
	h := p.out
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.eof || h.gone {
		return 0, io.ErrClosedPipe
	}
	if n = min(pipeBytes-(len(h.buf)-h.at), len(b)); n > 0 {
		h.add(b[:n])
		h.cond.Broadcast()
	}
	return n, nil
}

// add appends to the buffer, and moves what is unread to a larger one, or to the front, where there is no room.
func (h *half) add(b []byte) {
	if cap(h.buf)-len(h.buf) < len(b) {
		unread := h.buf[h.at:]
		if need := len(unread) + len(b); need > cap(h.buf) {
			grown := append(getBuffer(need), unread...)
			if h.buf != nil {
				putBuffer(h.buf)
			}
			h.buf = grown
		} else {
			h.buf = h.buf[:copy(h.buf[:cap(h.buf)], unread)]
		}
		h.at = 0
	}
	h.buf = append(h.buf, b...)
}

// Close ends both directions: the other end reads what is there, and then the end.
func (p *pipeEnd) Close() error {
	p.out.mu.Lock()
	p.out.eof = true
	p.out.cond.Broadcast()
	p.out.mu.Unlock()
	h := p.in
	h.mu.Lock()
	h.gone = true
	if h.buf != nil {
		putBuffer(h.buf)
		h.buf, h.at = nil, 0
	}
	h.cond.Broadcast()
	h.mu.Unlock()
	p.in.set(&p.in.readEnd, time.Time{})
	p.out.set(&p.out.writeEnd, time.Time{})
	return nil
}

// set changes a deadline.
func (h *half) set(l *limit, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.serial++
	l.passed = false
	if t.IsZero() {
		return
	}
	d := time.Until(t)
	if d <= 0 {
		l.passed = true
		h.cond.Broadcast()
		return
	}
	serial := l.serial
	l.timer = time.AfterFunc(d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.serial == serial {
			l.passed = true
			h.cond.Broadcast()
		}
	})
}

func (p *pipeEnd) SetReadDeadline(t time.Time) error  { p.in.set(&p.in.readEnd, t); return nil }
func (p *pipeEnd) SetWriteDeadline(t time.Time) error { p.out.set(&p.out.writeEnd, t); return nil }
func (p *pipeEnd) SetDeadline(t time.Time) error {
	_ = p.SetReadDeadline(t)
	return p.SetWriteDeadline(t)
}

func (p *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (p *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

// pipeAddr is the address of either end, as net.Pipe has it.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
