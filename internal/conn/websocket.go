package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sluicemq/sluice/internal/account"
)

// WebsocketOptions say how WebSocket clients are taken. After New only TLS and PingInterval change by a Reload.
type WebsocketOptions struct {
	TLS              *TLSOptions // nil: without TLS; of the options only Config, Map and Pinned count
	Host             string      // INFO host and port
	Port             int
	ConnectURLs      []string
	SameOrigin       bool
	AllowedOrigins   []string      // URLs of pages whose scripts may connect; empty: all
	HandshakeTimeout time.Duration // for TLS and the upgrade; 2 s
	Compression      bool
	// UserCookie, PassCookie and TokenCookie name the cookies that complete a CONNECT; "": none.
	UserCookie, PassCookie, TokenCookie string
	Headers                             map[string]string
	PingInterval                        time.Duration // 0: that of all clients
}

const (
	// DefaultWebsocketHandshake bounds TLS and the upgrade together.
	DefaultWebsocketHandshake = 2 * time.Second
	// maxUpgrades bounds the connections that have not become clients yet; more wait to be accepted.
	maxUpgrades = 1024
	// maxUpgradeBytes bounds the headers of a request.
	maxUpgradeBytes = 16 << 10
)

// reloaded is o with what of next can be taken over. Whether there is TLS stays.
func (o *WebsocketOptions) reloaded(next *WebsocketOptions) *WebsocketOptions {
	if o == nil || next == nil {
		return o
	}
	now := *o
	now.PingInterval = next.PingInterval
	if o.TLS != nil && next.TLS != nil {
		now.TLS = next.TLS
	}
	return &now
}

// ServeWebsocket accepts WebSocket clients from l until Shutdown or LameDuck, and then returns ErrClosed. It closes l.
func (s *Server) ServeWebsocket(l net.Listener) error {
	o := s.options().Websocket
	if o == nil {
		l.Close()
		return errors.New("conn: no websocket options")
	}
	if !s.listen(l) {
		return ErrClosed
	}
	defer s.loops.Done()
	slots := make(chan struct{}, maxUpgrades)
	server := &http.Server{
		Handler:     http.HandlerFunc(s.upgrade),
		ReadTimeout: o.HandshakeTimeout, WriteTimeout: o.HandshakeTimeout, MaxHeaderBytes: maxUpgradeBytes,
		ErrorLog: slog.NewLogLogger(s.options().Log.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				slots <- struct{}{} // on the accepting goroutine
			case http.StateHijacked, http.StateClosed:
				<-slots
			}
		},
	}
	defer server.Close()
	accept := l
	if o.TLS != nil {
		accept = tlsListener{l, s.secureWebsocket}
	}
	err := server.Serve(accept)
	s.mu.Lock()
	_, open := s.listeners[l]
	s.mu.Unlock()
	if !open {
		return ErrClosed
	}
	return fmt.Errorf("conn: accepting WebSocket clients: %w", err)
}

// secureWebsocket is TLS with the options as of the last Reload.
func (s *Server) secureWebsocket(nc net.Conn) net.Conn {
	return tls.Server(&transport{Conn: nc}, s.options().Websocket.TLS.Config)
}

// buffers are those that a frame's beginning is written to.
var frameBuffers sync.Pool

// upgrade makes a request a client.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	opts := s.options()
	o := opts.Websocket
	if path := r.URL.EscapedPath(); strings.HasSuffix(path, "/leafnode") || strings.HasSuffix(path, "/mqtt") {
		http.Error(w, http.StatusText(http.StatusNotFound), http.StatusNotFound)
		return
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: o.HandshakeTimeout, WriteBufferPool: &frameBuffers, EnableCompression: o.Compression,
		CheckOrigin: func(r *http.Request) bool {
			err := o.checkOrigin(r)
			if err != nil {
				opts.Log.Error("websocket handshake error: origin not allowed: " + err.Error())
			}
			return err == nil
		},
	}
	header := http.Header{}
	for name, text := range o.Headers {
		header.Set(name, text)
	}
	ws, err := upgrader.Upgrade(w, r, header)
	if err != nil {
		opts.Log.Debug("websocket handshake error", "remote", r.RemoteAddr, "error", err)
		return
	}
	f := newFrames(ws, r, o)
	if t := o.TLS; t != nil && !pinned(t.Pinned, f.tls) {
		opts.Log.Error("websocket handshake error: " + errNotPinned.Error())
		f.cut()
		return
	}
	s.start(f, account.ConnectionWebsocket)
}

func offersCompression(r *http.Request) bool {
	for _, line := range r.Header.Values("Sec-Websocket-Extensions") {
		for extension := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(extension, ";")
			if strings.EqualFold(strings.TrimSpace(name), "permessage-deflate") {
				return true
			}
		}
	}
	return false
}

func (o *WebsocketOptions) readCookies(r *http.Request) (k cookies) {
	for _, c := range r.Cookies() {
		switch c.Name {
		case "":
		case o.UserCookie:
			k.user = c.Value
		case o.PassCookie:
			k.pass = c.Value
		case o.TokenCookie:
			k.token = c.Value
		}
	}
	return k
}

// checkOrigin refuses scripts of pages that may not connect. A client that names no origin is no page's script
// (RFC 6455, section 1.6).
func (o *WebsocketOptions) checkOrigin(r *http.Request) error {
	text := r.Header.Get("Origin")
	if text == "" {
		text = r.Header.Get("Sec-Websocket-Origin")
	}
	if text == "" || !o.SameOrigin && len(o.AllowedOrigins) == 0 {
		return nil
	}
	origin, err := parseOrigin(text)
	if err != nil {
		return err
	}
	if o.SameOrigin {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		own, err := parseOrigin(scheme + "://" + r.Host)
		if err != nil {
			return err
		}
		if origin != own {
			return errors.New("not same origin")
		}
	}
	if len(o.AllowedOrigins) == 0 {
		return nil
	}
	for _, text := range o.AllowedOrigins {
		if allowed, err := parseOrigin(text); err == nil && allowed == origin {
			return nil
		}
	}
	return errors.New("not in the allowed list")
}

// origin is a scheme, host and port as they are compared.
type origin struct{ scheme, host, port string }

func parseOrigin(text string) (origin, error) {
	u, err := url.ParseRequestURI(text)
	if err != nil {
		return origin{}, err
	}
	o := origin{strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()}
	if o.port == "" && o.scheme == "https" {
		o.port = "443"
	} else if o.port == "" {
		o.port = "80"
	}
	return o, nil
}
