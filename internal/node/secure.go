package node

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/conn"
)

// secured are the TLS configurations of the ports as their files were when they were read; nil: no TLS.
type secured struct{ clients, websocket *tls.Config }

// readSecured reads the files.
func readSecured(o *config.Options) (s secured, err error) {
	if s.clients, err = readTLS(o.TLS); err != nil {
		return secured{}, fmt.Errorf("tls: %w", err)
	}
	if o.Websocket.Port == 0 {
		return s, nil
	}
	if s.websocket, err = readTLS(o.Websocket.TLS); err != nil {
		return secured{}, fmt.Errorf("websocket: tls: %w", err)
	}
	return s, nil
}

func readTLS(t *config.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c, err := t.Load()
	if err != nil {
		return nil, err
	}
	// Small records at a connection's start help pages to be drawn, not messages.
	c.DynamicRecordSizingDisabled = true
	return c, nil
}

// connTLS are the options of a port; nil: no TLS.
func connTLS(t *config.TLS, c *tls.Config) *conn.TLSOptions {
	if t == nil {
		return nil
	}
	return &conn.TLSOptions{Config: c, Timeout: t.Timeout, First: t.HandshakeFirst, Fallback: t.FallbackDelay, Map: t.Map,
		Pinned: t.PinnedCerts, RateLimit: t.RateLimit}
}

// websocketOptions are those of the WebSocket edge; nil: there is none.
func (n *Node) websocketOptions(o *config.Options, s secured) *conn.WebsocketOptions {
	w := &o.Websocket
	if w.Port == 0 {
		return nil
	}
	c := &conn.WebsocketOptions{
		TLS: connTLS(w.TLS, s.websocket), Host: w.Host, SameOrigin: w.SameOrigin, AllowedOrigins: w.AllowedOrigins,
		HandshakeTimeout: w.HandshakeTimeout, Compression: w.Compression,
		UserCookie: w.UserCookie, PassCookie: w.PassCookie, TokenCookie: w.TokenCookie,
		Headers: w.Headers, PingInterval: w.PingInterval,
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.websocket != nil {
		c.Port = n.websocket.Addr().(*net.TCPAddr).Port
	}
	if host, port, err := config.SplitAdvertise(w.Advertise, c.Port); w.Advertise != "" && err == nil {
		c.ConnectURLs = []string{net.JoinHostPort(host, strconv.Itoa(port))}
	}
	return c
}

// monitorTLS is that of the monitoring port, which asks nobody for a certificate; nil: no TLS.
func (n *Node) monitorTLS(o *config.Options) *tls.Config {
	if o.HTTPSPort == 0 {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			n.mu.Lock()
			c := n.secured.clients
			n.mu.Unlock()
			if c == nil {
				return nil, fmt.Errorf("a reload has taken the certificate away")
			}
			c = c.Clone()
			c.ClientAuth = tls.NoClientCert
			return c, nil
		},
	}
}

// certificateEnd is when the first certificate of a port ends; zero: there is none.
func certificateEnd(c *tls.Config) (end time.Time) {
	if c == nil {
		return end
	}
	for _, cert := range c.Certificates {
		if cert.Leaf != nil && (end.IsZero() || cert.Leaf.NotAfter.Before(end)) {
			end = cert.Leaf.NotAfter
		}
	}
	return end
}
