// Package wire is a NATS client of the load generator's own: it writes pre-built bytes and reads by scanning for the
// borders of messages, so that the client costs little beside the server that it measures.
//
// The protocol is described at https://docs.nats.io/reference/reference-protocols/nats-protocol.
package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// ErrServer wraps what a server said with -ERR.
var ErrServer = errors.New("server error")

// ErrProtocol says that bytes from the server are not what the protocol allows at that place.
var ErrProtocol = errors.New("protocol violation")

// ConnectLine is the CONNECT that nats.go sends, as far as it changes what a server does.
const ConnectLine = `CONNECT {"verbose":false,"pedantic":false,"echo":true,"headers":true,"no_responders":true,"protocol":1,"lang":"go","version":"1.55.0"}` + "\r\n"

// readBufferSize is the buffer of a connection, in bytes. It also bounds a message.
const readBufferSize = 256 << 10

// Conn is one client connection. One goroutine may read (Next, CountFixed) while others write.
type Conn struct {
	nc   *net.TCPConn
	buf  []byte
	r, w int // the unread bytes are buf[r:w]

	writeMu sync.Mutex // above the socket's write side: pongs are written by the reader
}

// Options of Dial; the zero value is right for a busy connection.
type Options struct {
	ReadBuffer int // bytes; default 256 KiB. Idle connections take a small one
}

// Dial connects, sends CONNECT and returns when the server has answered a PING.
func Dial(ctx context.Context, addr string, opts Options) (*Conn, error) {
	if opts.ReadBuffer == 0 {
		opts.ReadBuffer = readBufferSize
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	c := &Conn{nc: nc.(*net.TCPConn), buf: make([]byte, opts.ReadBuffer)}
	if err := c.handshake(); err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return c, nil
}

func (c *Conn) handshake() error {
	c.SetReadTimeout(30 * time.Second)
	line, err := c.line()
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("INFO ")) {
		return fmt.Errorf("%w: %q where INFO belongs", ErrProtocol, clip(line))
	}
	if err := c.Write([]byte(ConnectLine)); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	c.SetReadTimeout(0)
	return nil
}

// Write sends b whole.
func (c *Conn) Write(b []byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	_, err := c.nc.Write(b)
	return err
}

// Flush sends PING and reads until the server's PONG. Only for a connection that nobody else reads; messages that
// arrive meanwhile are a protocol violation.
func (c *Conn) Flush() error {
	if err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	m, err := c.Next()
	if err != nil {
		return err
	}
	if m.Kind != Pong {
		return fmt.Errorf("%w: a message on %q where PONG belongs", ErrProtocol, m.Subject)
	}
	return nil
}

// SetReadTimeout bounds every later read; zero is no bound.
func (c *Conn) SetReadTimeout(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	// Fails on a closed connection only, which the next read reports.
	_ = c.nc.SetReadDeadline(t)
}

// Close ends the connection at once: unsent bytes are dropped and the server sees a reset. It leaves no port waiting.
func (c *Conn) Close() error {
	// Fails on a closed connection only.
	_ = c.nc.SetLinger(0)
	return c.nc.Close()
}

// fill reads more bytes behind the unread ones, which it moves to the front of the buffer first.
func (c *Conn) fill() error {
	if c.r > 0 {
		copy(c.buf, c.buf[c.r:c.w])
		c.w -= c.r
		c.r = 0
	}
	if c.w == len(c.buf) {
		return fmt.Errorf("%w: more than %d bytes without a border", ErrProtocol, len(c.buf))
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// line returns the next line without its CR LF. It is valid until the next read.
func (c *Conn) line() ([]byte, error) {
	for from := c.r; ; {
		if i := bytes.IndexByte(c.buf[from:c.w], '\n'); i >= 0 {
			line := c.buf[c.r : from+i]
			c.r = from + i + 1
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		scanned := c.w - c.r
		if err := c.fill(); err != nil {
			return nil, err
		}
		from = c.r + scanned
	}
}

// Kind of a Message.
type Kind byte

// What a server sends that a reader sees. PING is answered, INFO and +OK are skipped, -ERR is an error.
const (
	Msg Kind = iota
	Pong
)

// Message is what Next read. Its slices are valid until the next read.
type Message struct {
	Kind           Kind
	Subject, Reply []byte
	SID            int
	Header         []byte // with its version line and closing empty line; nil if there is none
	Data           []byte
}

// Buffered tells whether unread bytes are waiting, so that a caller can gather its answers until there are none.
func (c *Conn) Buffered() bool { return c.r < c.w }

// Next reads the next message or PONG.
func (c *Conn) Next() (Message, error) {
	for {
		line, err := c.line()
		if err != nil {
			return Message{}, err
		}
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")):
			return c.message(line[4:], false)
		case bytes.HasPrefix(line, []byte("HMSG ")):
			return c.message(line[5:], true)
		case bytes.Equal(line, []byte("PONG")):
			return Message{Kind: Pong}, nil
		}
		if err := c.control(line); err != nil {
			return Message{}, err
		}
	}
}

// control handles a line that is no message.
func (c *Conn) control(line []byte) error {
	switch {
	case bytes.Equal(line, []byte("PING")):
		return c.Write([]byte("PONG\r\n"))
	case bytes.HasPrefix(line, []byte("INFO ")), bytes.Equal(line, []byte("+OK")):
		return nil
	case bytes.HasPrefix(line, []byte("-ERR ")):
		return fmt.Errorf("%w: %s", ErrServer, clip(line[5:]))
	}
	return fmt.Errorf("%w: unknown line %q", ErrProtocol, clip(line))
}

// message reads the body that follows the arguments of MSG or HMSG.
func (c *Conn) message(args []byte, headers bool) (Message, error) {
	sizes := 1
	if headers {
		sizes = 2
	}
	// The line lies in the buffer, whose bytes move when the body has to be read: keep offsets.
	start := c.r
	fields, n := fields(args)
	if n != 2+sizes && n != 3+sizes {
		return Message{}, fmt.Errorf("%w: arguments %q", ErrProtocol, clip(args))
	}
	total, err := strconv.Atoi(string(fields[n-1]))
	if err != nil || total < 0 || total+2 > len(c.buf) {
		return Message{}, fmt.Errorf("%w: size in %q", ErrProtocol, clip(args))
	}
	header := 0
	if headers {
		if header, err = strconv.Atoi(string(fields[n-2])); err != nil || header < 0 || header > total {
			return Message{}, fmt.Errorf("%w: header size in %q", ErrProtocol, clip(args))
		}
	}
	sid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return Message{}, fmt.Errorf("%w: sid in %q", ErrProtocol, clip(args))
	}
	m := Message{Kind: Msg, Subject: fields[0], SID: sid}
	if n == 3+sizes {
		m.Reply = fields[2]
	}
	if c.w-c.r < total+2 {
		// The body is not whole: reading on may overwrite the line, so keep copies.
		m.Subject, m.Reply = bytes.Clone(m.Subject), bytes.Clone(m.Reply)
		for c.w-c.r < total+2 {
			if err := c.fill(); err != nil {
				return Message{}, err
			}
		}
		start = c.r
	}
	body := c.buf[start : start+total]
	if c.buf[start+total] != '\r' || c.buf[start+total+1] != '\n' {
		return Message{}, fmt.Errorf("%w: no CR LF after %d bytes on %q", ErrProtocol, total, m.Subject)
	}
	c.r = start + total + 2
	if headers {
		m.Header = body[:header]
	}
	m.Data = body[header:]
	return m, nil
}

// fields splits the arguments of a message, of which there are at most five.
func fields(args []byte) (out [5][]byte, n int) {
	for len(args) > 0 {
		i := bytes.IndexByte(args, ' ')
		if i < 0 {
			i = len(args)
		}
		if n == len(out) {
			return out, n + 1
		}
		out[n] = args[:i]
		n++
		args = args[min(i+1, len(args)):]
	}
	return out, n
}

// clip shortens what an error quotes.
func clip(b []byte) []byte { return b[:min(len(b), 200)] }
