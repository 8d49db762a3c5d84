package conn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// corkBytes is how much of a corked transport goes into one write.
	corkBytes = 64 << 10
	// farewell bounds what closing a connection may wait to write its last record or frame.
	farewell = 100 * time.Millisecond
)

// transport is the connection under a TLS connection. It gives the bytes back that were read to see what the client
// wants, and while it is corked it gathers records, each of at most 16 KiB, so that a batch of messages takes one write
// and not many.
type transport struct {
	net.Conn
	ahead []byte // read before; the reader's own

	closing atomic.Bool

	mu     sync.Mutex // guards all below; held while writing, since the reader writes too: alerts, key updates
	corked bool
	gather []byte // a pooled buffer, or nil
}

func (t *transport) Read(b []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(b, t.ahead)
		if t.ahead = t.ahead[n:]; len(t.ahead) == 0 {
			t.ahead = nil
		}
		return n, nil
	}
	return t.Conn.Read(b)
}

func (t *transport) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.corked {
		return t.Conn.Write(b)
	}
	if len(t.gather)+len(b) > corkBytes {
		if err := t.flush(); err != nil {
			return 0, err
		}
	}
	if len(b) > corkBytes {
		return t.Conn.Write(b)
	}
	if t.gather == nil {
		t.gather = getBuffer(corkBytes)
	}
	t.gather = append(t.gather, b...)
	return len(b), nil
}

// cork has writes gathered until uncork.
func (t *transport) cork() {
	t.mu.Lock()
	t.corked = true
	t.mu.Unlock()
}

// uncork writes what was gathered.
func (t *transport) uncork() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.corked = false
	err := t.flush()
	if t.gather != nil {
		putBuffer(t.gather)
		t.gather = nil
	}
	return err
}

// flush writes. mu is held.
func (t *transport) flush() error {
	if len(t.gather) == 0 {
		return nil
	}
	_, err := t.Conn.Write(t.gather)
	t.gather = t.gather[:0]
	return err
}

// SetWriteDeadline leaves a connection that is being closed no more than its farewell: crypto/tls would give its last
// alert five seconds.
func (t *transport) SetWriteDeadline(at time.Time) error {
	if most := time.Now().Add(farewell); t.closing.Load() && (at.IsZero() || at.After(most)) {
		at = most
	}
	return t.Conn.SetWriteDeadline(at)
}

// leave bounds all writes from now on, one under way too.
func (t *transport) leave() {
	t.closing.Store(true)
	_ = t.Conn.SetWriteDeadline(time.Now().Add(farewell))
}

// tlsListener makes connections whose handshake is done at the first read, with the options of that moment.
type tlsListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l tlsListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(nc), nil
}
