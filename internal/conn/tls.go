package conn

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/proto"
)

// TLSOptions say how a port speaks TLS. A Reload changes them for the connections that come after it.
type TLSOptions struct {
	Config  *tls.Config
	Timeout time.Duration // of the handshake; 2 s
	// AllowPlain lets clients in that answer INFO without a handshake.
	AllowPlain bool
	// First has the handshake come before INFO. After Fallback, if it is not 0, a client that has said nothing gets INFO
	// all the same.
	First    bool
	Fallback time.Duration
	// Map takes the user from the client's certificate.
	Map bool
	// Pinned are the SHA-256, in hex, of the public keys that are let in; empty: any.
	Pinned    []string
	RateLimit int64 // handshakes a second; 0: no limit
}

const (
	// DefaultTLSTimeout is nats-server's.
	DefaultTLSTimeout = 2 * time.Second
	// inProcessFallback lets clients in this process do without TLS on a server that wants the handshake first.
	inProcessFallback = 50 * time.Millisecond
	// handshakeRecord is the first byte of a TLS connection; no operation of the protocol begins with it.
	handshakeRecord = 0x16
)

var errNotPinned = errors.New("certificate not pinned")

// required reports tls_required of INFO.
func (t *TLSOptions) required() bool { return t != nil && !t.AllowPlain }

// verifies reports tls_verify of INFO.
func (t *TLSOptions) verifies() bool {
	return t != nil && t.Config.ClientAuth == tls.RequireAndVerifyClientCert
}

// greetTLS greets a client on a port with TLS: INFO and the handshake, in the order that was asked for. False means that
// the connection is closed.
//
// It runs on the connection's goroutine, so that handshakes are bounded as connections are, and by the timeout.
func (c *Conn) greetTLS(t *TLSOptions) bool {
	c.mu.Lock()
	if !c.isOpen() {
		c.mu.Unlock()
		return false
	}
	c.out.writing = true // nobody else writes until it is known in which form
	c.mu.Unlock()
	reason := c.negotiate(t)
	c.mu.Lock()
	if reason != 0 {
		c.closeLocked(reason)
	}
	open := c.isOpen()
	c.mu.Unlock()
	c.writeLoop() // what came meanwhile; after a close it finishes
	return open
}

// negotiate gives the reason to close the connection, or 0.
func (c *Conn) negotiate(t *TLSOptions) Reason {
	info := c.srv.infoFor(c)
	info.Nonce = c.nonce
	fallback := t.Fallback
	if fallback == 0 && c.inProcess() {
		fallback = inProcessFallback
	}
	first := t.First
	if first && fallback > 0 {
		heard, reason := c.hear(fallback)
		if reason != 0 {
			return reason
		}
		first = heard // whatever it is, it came before INFO, and so it must be a handshake
	}
	if !first {
		if err := c.writeNow(info.Append(nil)); err != nil {
			return WriteError
		}
		if c.inProcess() || t.AllowPlain {
			heard, reason := c.hear(t.Timeout)
			if reason != 0 || !heard || c.in.buf[0] != handshakeRecord {
				return reason
			}
		}
	}
	if t.RateLimit > 0 && !c.srv.handshakes.allow(t.RateLimit, time.Now()) {
		c.mu.Lock()
		c.put(proto.AppendErr(nil, proto.TextThrottled))
		c.mu.Unlock()
		return MaxConnectionsExceeded
	}
	if err := c.handshake(t); err != nil {
		c.logHandshake(err)
		return TLSHandshakeError
	}
	if first {
		info.TLSReq = true
		c.mu.Lock()
		c.tlsFirst = true
		c.put(info.Append(nil))
		c.mu.Unlock()
	}
	return 0
}

// hear waits for the client's first bytes, and keeps them.
func (c *Conn) hear(patience time.Duration) (heard bool, reason Reason) {
	c.prepare()
	c.setDeadline(time.Now().Add(patience))
	n, err := c.nc.Read(c.in.buf[len(c.in.buf):cap(c.in.buf)])
	c.setDeadline(time.Time{})
	c.in.buf = c.in.buf[:len(c.in.buf)+n]
	switch {
	case n > 0:
		return true, 0
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, 0
	}
	return false, reasonForRead(err)
}

// setDeadline sets the deadlines of an open connection; one that was closed keeps what interrupts it.
func (c *Conn) setDeadline(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOpen() {
		_ = c.nc.SetDeadline(at)
	}
}

// writeNow writes while nobody else may.
func (c *Conn) writeNow(b []byte) error {
	c.setDeadline(time.Now().Add(c.srv.options().WriteDeadline))
	_, err := c.nc.Write(b)
	c.setDeadline(time.Time{})
	return err
}

// handshake makes the connection one with TLS.
func (c *Conn) handshake(t *TLSOptions) error {
	c.srv.options().Log.Debug(c.label() + " - Starting TLS client connection handshake")
	tr := &transport{Conn: c.nc, ahead: slices.Clone(c.in.buf)}
	c.in.release()
	secure := tls.Server(tr, t.Config)
	c.setDeadline(time.Now().Add(t.Timeout))
	err := secure.Handshake()
	c.setDeadline(time.Time{})
	if err != nil {
		return err
	}
	state := secure.ConnectionState()
	if !pinned(t.Pinned, &state) {
		return errNotPinned
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isOpen() {
		return net.ErrClosed
	}
	c.nc, c.transport, c.tls = secure, tr, &state
	c.raw, c.try = nil, nil // there is no way around the records
	return nil
}

// logHandshake logs as an error what is not a stranger's probe, as nats-server does.
func (c *Conn) logHandshake(err error) {
	log := c.srv.options().Log
	var record tls.RecordHeaderError
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.As(err, &record) && record.Conn != nil {
		log.Debug(c.label() + " - TLS handshake error: " + err.Error())
		return
	}
	var detail strings.Builder
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		for _, cert := range verification.UnverifiedCertificates {
			fmt.Fprintf(&detail, " (%s SHA-256: %x)", cert.Subject, sha256.Sum256(cert.Raw))
		}
	}
	log.Error(c.label() + " - TLS handshake error: " + err.Error() + detail.String())
}

// pinned reports whether the client's key is one of those that are let in.
func pinned(keys []string, state *tls.ConnectionState) bool {
	if len(keys) == 0 {
		return true
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	return slices.Contains(keys, hex.EncodeToString(sum[:]))
}

// port gives the TLS options that hold for this connection's port; nil: none.
func (c *Conn) port() *TLSOptions {
	o := c.srv.options()
	if c.via != account.ConnectionWebsocket {
		return o.TLS
	}
	if o.Websocket == nil {
		return nil
	}
	return o.Websocket.TLS
}

// certificate is the client's, if it was verified.
func (c *Conn) certificate() *x509.Certificate {
	if c.tls == nil || len(c.tls.VerifiedChains) == 0 {
		return nil
	}
	return c.tls.PeerCertificates[0]
}

// rate bounds events a second.
type rate struct {
	mu    sync.Mutex // guards all below
	since time.Time
	n     int64
}

func (r *rate) allow(limit int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= time.Second {
		r.since, r.n = now, 0
	}
	r.n++
	return r.n <= limit
}
