package config

import (
	"net/url"
	"strings"
	"time"
)

// Websocket is the block of that name: a port for clients that speak the NATS protocol in WebSocket frames.
type Websocket struct {
	Host      string // to listen on; default 0.0.0.0
	Port      int    // 0: not; RandomPort takes a free one
	Advertise string // the "host" or "host:port" that INFO's connect_urls names
	// TLS of the port. Without it NoTLS must be set.
	TLS   *TLS
	NoTLS bool
	// SameOrigin and AllowedOrigins say which pages' scripts may connect; clients that name no origin always may.
	SameOrigin     bool
	AllowedOrigins []string
	// HandshakeTimeout is for a client to ask for the upgrade; default 2 s.
	HandshakeTimeout time.Duration
	Compression      bool // permessage-deflate for clients that offer it
	// UserCookie, PassCookie and TokenCookie name cookies that hold what a CONNECT leaves out.
	UserCookie, PassCookie, TokenCookie string
	Headers                             map[string]string // further headers of the answer to an upgrade
	PingInterval                        time.Duration     // default: that of all clients
}

const defaultHandshakeTimeout = 2 * time.Second

func (w *Websocket) setDefaults() {
	setDefault(&w.Host, defaultHost)
	setDefault(&w.HandshakeTimeout, defaultHandshakeTimeout)
	w.TLS.setDefaults()
}

// withoutTLS is what cannot change while the port is open.
func (w Websocket) withoutTLS() Websocket {
	w.TLS = nil
	return w
}

func (d *decoder) websocket(v value, o *Options) {
	w, a := &o.Websocket, &o.Auth.Websocket
	s := settings{}
	s.add(d.listen(&w.Host, &w.Port, "websocket.host", "websocket.port"), "listen")
	s.add(d.text(&w.Host), "host", "net")
	s.add(d.port(&w.Port), "port")
	s.add(d.text(&w.Advertise), "advertise")
	s.add(d.flag(&w.NoTLS), "no_tls")
	s.add(d.tls(&w.TLS), "tls")
	s.add(d.flag(&w.SameOrigin), "same_origin")
	s.add(d.texts(&w.AllowedOrigins), "allowed_origins", "allowed_origin", "allow_origins", "allow_origin", "origins", "origin")
	s.add(d.durationOrSeconds(&w.HandshakeTimeout), "handshake_timeout")
	s.add(d.flag(&w.Compression), "compression", "compress")
	s.add(func(v value) {
		s := settings{}
		s.add(d.text(&a.Username), "user", "username")
		s.add(d.text(&a.Password), "password", "pass")
		s.add(d.text(&a.Token), "token")
		s.add(d.authTimeout(&a.Timeout), "timeout")
		d.block(v, s)
	}, "authorization", "authentication")
	s.add(d.text(&a.NoAuthUser), "no_auth_user")
	s.add(d.text(&w.UserCookie), "user_cookie")
	s.add(d.text(&w.PassCookie), "pass_cookie")
	s.add(d.text(&w.TokenCookie), "token_cookie")
	s.add(d.metadata(&w.Headers), "headers")
	s.add(d.durationOrSeconds(&w.PingInterval), "ping_interval")
	s.refuse(d, noOperator, "jwt_cookie")
	d.block(v, s)
}

func (v *validator) websocket(o *Options) {
	w := &o.Websocket
	v.check(validPort(w.Port), "websocket.port", "%d is no port", w.Port)
	v.check(w.HandshakeTimeout > 0, "websocket.handshake_timeout", "%v is not positive", w.HandshakeTimeout)
	v.check(w.PingInterval >= 0, "websocket.ping_interval", "%v is negative", w.PingInterval)
	v.tls(w.TLS, "websocket.tls")
	if w.Port == 0 {
		return // as for nats-server, nothing else matters
	}
	v.check(w.Port < 0 || w.Port != o.Port && w.Port != o.HTTPPort && w.Port != o.HTTPSPort, "websocket.port", "port %d is another's", w.Port)
	v.check(w.TLS != nil || w.NoTLS, "websocket", "websocket requires TLS configuration")
	if w.Advertise != "" {
		_, _, err := SplitAdvertise(w.Advertise, w.Port)
		v.check(err == nil, "websocket.advertise", "%v", err)
	}
	for _, origin := range w.AllowedOrigins {
		u, err := url.ParseRequestURI(origin)
		if err != nil {
			v.check(false, "websocket.allowed_origins", "unable to parse allowed origin: %v", err)
			continue
		}
		v.check(u.Scheme == "http" || u.Scheme == "https", "websocket.allowed_origins",
			"unable to parse allowed origin %q: allowed origins must be absolute URLs with http or https scheme", origin)
		v.check(u.Host != "", "websocket.allowed_origins", "unable to parse allowed origin %q: host is required", origin)
	}
	for name, text := range w.Headers {
		lower := strings.ToLower(name)
		switch {
		case strings.HasPrefix(lower, "sec-websocket-"):
			v.check(false, "websocket.headers", `websocket: invalid header %q, "Sec-WebSocket-" prefix not allowed`, name)
		case lower == "host", lower == "content-length", lower == "connection", lower == "upgrade", lower == "nats-no-masking":
			v.check(false, "websocket.headers", "websocket: invalid header %q not allowed", name)
		}
		v.check(!strings.ContainsAny(name+text, "\r\n"), "websocket.headers", "header %q has a line break", name)
	}
}
