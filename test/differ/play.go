package differ

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// patience is how long an answer that must come may take.
const patience = 20 * time.Second

// silence is how long a server says nothing after damaged bytes until it counts as having said all.
const silence = 100 * time.Millisecond

// transcript is what a server said in a round: by step, by client. Step 0 is the connecting.
type transcript [][connections][]byte

const closedMark = "<closed>"

var pong = []byte("PONG\r\n")

// client is one connection of a round.
type client struct {
	conn   net.Conn
	closed bool
}

// play runs a plan against a server. An answer that does not come is an error that says in which step.
func play(p plan, addr string) (transcript, error) {
	var clients [connections]*client
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.conn.Close()
			}
		}
	}()
	var t transcript
	var said [connections][]byte
	for i := range clients {
		conn, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			return t, err
		}
		clients[i] = &client{conn: conn}
		if said[i], err = clients[i].exchange([][]byte{p.connects[i]}, 0); err != nil {
			return t, fmt.Errorf("connect: %w", err)
		}
	}
	t = append(t, said)
	for n, s := range p.steps {
		var said [connections][]byte
		var err error
		if s.broken {
			said[s.client] = clients[s.client].listen(s.fragments)
		} else if said[s.client], err = clients[s.client].exchange(s.fragments, s.pings); err != nil {
			return t, fmt.Errorf("step %d: %w", n+1, err)
		}
		// What the sender has a PONG for has been handed to the others: their next PONG comes after it.
		for i, c := range clients {
			if i == s.client {
				continue
			}
			if said[i], err = c.exchange(nil, 0); err != nil {
				return t, fmt.Errorf("step %d, client %d: %w", n+1, i, err)
			}
		}
		t = append(t, said)
	}
	return t, nil
}

// exchange writes the fragments and a PING of its own, and reads until as many PONGs came or the server closed.
func (c *client) exchange(fragments [][]byte, pings int) ([]byte, error) {
	if c.closed {
		return nil, nil
	}
	written := c.write(append(fragments[:len(fragments):len(fragments)], []byte("PING\r\n")))
	c.conn.SetReadDeadline(time.Now().Add(patience))
	var got []byte
	b := make([]byte, 64<<10)
	for countPongs(got) < pings+1 {
		n, err := c.conn.Read(b)
		got = append(got, b[:n]...)
		if isClosed(err) {
			c.closed = true
			break
		}
		if err != nil {
			return got, fmt.Errorf("%d of %d PONGs: %w, after %q", countPongs(got), pings+1, err, got)
		}
	}
	c.conn.SetWriteDeadline(time.Now())
	<-written
	c.conn.SetWriteDeadline(time.Time{})
	if c.closed {
		got = append(got, closedMark...)
	}
	return got, nil
}

// listen writes damaged bytes and a PING, and reads until the server closes or says nothing more.
func (c *client) listen(fragments [][]byte) []byte {
	if c.closed {
		return nil
	}
	c.write(append(fragments[:len(fragments):len(fragments)], []byte("PING\r\n")))
	var got []byte
	b := make([]byte, 64<<10)
	for {
		c.conn.SetReadDeadline(time.Now().Add(silence))
		n, err := c.conn.Read(b)
		got = append(got, b[:n]...)
		if isClosed(err) {
			c.closed = true
			return append(got, closedMark...)
		}
		if err != nil {
			return got
		}
	}
}

// write sends in the background, so that both sides can be full of bytes at once.
func (c *client) write(fragments [][]byte) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range fragments {
			if _, err := c.conn.Write(f); err != nil {
				return // the server has closed: what it said before tells why
			}
		}
	}()
	return done
}

// countPongs counts PONG lines outside of payloads.
func countPongs(b []byte) int {
	n := 0
	for _, f := range split(b) {
		if bytes.Equal(f.text, pong) {
			n++
		}
	}
	return n
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// frame is a line, or a message with its body.
type frame struct {
	text []byte
	sid  string // of a message
	key  string // of a message: everything but the sid
	core string // of a message: subject, reply and payload, without what a subscriber without headers does not see
}

// Subject, sid, reply with a space after it, size of the headers, size.
var messageLine = regexp.MustCompile(`^H?MSG (\S+) (\S+) (\S+ )??(?:(\d+) )?(\d+)\r\n`)

// split takes a server's bytes apart. What is no whole frame is the last one.
func split(b []byte) []frame {
	var out []frame
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			return append(out, frame{text: b})
		}
		f := frame{text: b[:end]}
		if m := messageLine.FindSubmatchIndex(b[:end]); m != nil {
			text := func(group int) string { return string(b[max(0, m[2*group]):max(0, m[2*group+1])]) }
			headers, _ := strconv.Atoi(text(4)) // a message without them has none
			size, err := strconv.Atoi(text(5))
			if err != nil || headers > size || size > len(b)-end-2 {
				return append(out, frame{text: b})
			}
			body := b[end : end+size+2]
			f = frame{text: b[:end+size+2], sid: text(2)}
			f.key = string(b[:m[4]]) + string(b[m[5]:end+size+2])
			f.core = fmt.Sprintf("%s %s%q", text(1), text(3), body[headers:size])
			end += size + 2
		}
		out = append(out, f)
		b = b[end:]
	}
	return out
}
