package conn

import (
	"io"
	"time"
)

// input is the read side's buffer. Between reads it holds at most what the parser could not use yet.
type input struct {
	buf  []byte // what is there: rest of the last chunk, then new bytes
	want int    // how large a buffer to read into
	slow int    // reads in a row that left most of the buffer unused
	n    int
	err  error
	// ready is tryRead, bound once.
	ready func(fd uintptr) bool
}

// readWaiter is a connection that can wait for input without holding a buffer.
type readWaiter interface{ WaitReadable() error }

const (
	// growth is the factor from one size of ordinary buffers to the next.
	growth = 4
	// slowToShrink is how many small reads in a row shrink the buffer.
	slowToShrink = 4
)

// release gives the buffer back.
func (in *input) release() {
	if in.buf != nil {
		putBuffer(in.buf)
		in.buf = nil
	}
}

// read waits for input and appends it to the buffer.
func (c *Conn) read() error {
	in := &c.in
	var err error
	if c.raw != nil {
		in.n, in.err = 0, nil
		if err = c.raw.Read(in.ready); err == nil {
			err = in.err
		}
	} else {
		if w, ok := c.nc.(readWaiter); ok {
			c.park()
			if err := w.WaitReadable(); err != nil {
				return err
			}
		}
		c.prepare()
		in.n, err = c.nc.Read(in.buf[len(in.buf):cap(in.buf)])
	}
	if in.n == 0 {
		if err == nil {
			err = io.EOF
		}
		return err
	}
	in.buf = in.buf[:len(in.buf)+in.n]
	c.adapt()
	return nil
}

// adapt sizes the next buffer by what was read.
func (c *Conn) adapt() {
	in := &c.in
	switch {
	case len(in.buf) == cap(in.buf) && in.want < maxBuffer:
		in.want *= growth
		in.slow = 0
	case in.n < in.want/growth && in.want > minBuffer:
		if in.slow++; in.slow >= slowToShrink {
			in.want /= growth
			in.slow = 0
		}
	default:
		in.slow = 0
	}
}

// prepare makes room for reading: at least what the parser needs to get on, as far as that has arrived already, so
// that a length alone makes no memory.
func (c *Conn) prepare() {
	in := &c.in
	if in.want == 0 {
		in.want = minBuffer
	}
	have := len(in.buf)
	need := max(in.want, have+1)
	if n := c.parser.Need(); n > need {
		need = min(n, max(need, growth*have))
	}
	if cap(in.buf) >= need {
		return
	}
	old := in.buf
	in.buf = append(getBuffer(need), old...)
	if old != nil {
		putBuffer(old)
	}
}

// tryRead is called when there may be input: it reads without waiting. False means that there is none.
func (c *Conn) tryRead(fd uintptr) bool {
	in := &c.in
	c.prepare()
	n, again, err := readFD(fd, in.buf[len(in.buf):cap(in.buf)])
	if again {
		c.park()
		return false
	}
	in.n, in.err = n, err
	return true
}

// park gives up what an idle connection need not hold.
func (c *Conn) park() {
	in := &c.in
	switch {
	case len(in.buf) == 0:
		in.release()
	case c.parser.Need() == 0 && cap(in.buf) > pageBuffer && len(in.buf) < minBuffer:
		old := in.buf
		in.buf = append(getBuffer(minBuffer), old...)
		putBuffer(old)
	}
}

// newChunks is how many chunks of input a connection is new for: what a client says first, and its subscriptions.
const newChunks = 4

// readLoop is the connection's goroutine.
func (c *Conn) readLoop() {
	defer c.cleanup()
	for chunk := 0; ; chunk++ {
		// A port that takes clients with and without TLS has read what one without sent first.
		if chunk > 0 || len(c.in.buf) == 0 {
			if err := c.read(); err != nil {
				c.leave(reasonForRead(err))
				return
			}
		}
		c.parser.Feed(c.in.buf)
		open := false
		if chunk < newChunks {
			c.srv.door.turn()
			open = c.process()
			c.srv.door.turnOver()
		} else {
			open = c.process()
		}
		if !open {
			return
		}
		c.stall()
		rest := c.parser.Rest()
		c.in.buf = c.in.buf[:copy(c.in.buf[:cap(c.in.buf)], rest)]
	}
}

// leave has cleanup close the connection when it is its turn, or does so now where closing may have to wait for the
// client.
func (c *Conn) leave(reason Reason) {
	if c.transport != nil || c.frames != nil {
		c.close(reason)
	}
	c.left = reason
}

func reasonForRead(err error) Reason {
	if err == io.EOF {
		return ClientClosed
	}
	return ReadError
}

func (c *Conn) touch(now time.Time, client bool) {
	n := now.UnixNano()
	c.last.Store(n)
	if client {
		c.lastIn.Store(n)
	}
}
