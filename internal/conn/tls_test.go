package conn

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/certtest"
)

// secureServer listens with TLS.
func secureServer(t testing.TB, ca *certtest.Authority, settings account.Settings, change func(*TLSOptions)) (*Server, string) {
	t.Helper()
	return startServer(t, settings, func(o *Options) {
		o.LongFirstPing = true
		o.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}, ClientCAs: ca.Pool()}}
		if change != nil {
			change(o.TLS)
		}
	})
}

// greeting reads INFO byte by byte, so that what follows stays in the connection.
func greeting(t testing.TB, nc net.Conn) string {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	defer nc.SetReadDeadline(time.Time{})
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\r\n")); line = append(line, b[0]) {
		if _, err := nc.Read(b); err != nil {
			t.Fatalf("greeting %q: %v", line, err)
		}
	}
	return string(line)
}

// secure dials as NATS's clients do: INFO, then the handshake.
func secure(t testing.TB, addr string, config *tls.Config) (*raw, string) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	info := greeting(t, nc)
	return over(t, tls.Client(nc, config)), info
}

// over is a client that has been greeted.
func over(t testing.TB, nc net.Conn) *raw {
	return &raw{Conn: nc, t: t, r: bufio.NewReaderSize(nc, 64<<10)}
}

func clientTLS(ca *certtest.Authority, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: certs}
}

func TestTLSRoundTrip(t *testing.T) {
	ca := certtest.New(t)
	s, addr := secureServer(t, ca, account.Settings{}, nil)
	sub, info := secure(t, addr, clientTLS(ca))
	if !strings.Contains(info, `"tls_required":true`) || strings.Contains(info, "tls_verify") || strings.Contains(info, "tls_available") {
		t.Errorf("INFO is %s", info)
	}
	sub.handshake("")
	sub.send("SUB a 1\r\nPING\r\n")
	sub.expect("PONG\r\n")
	pub, _ := secure(t, addr, clientTLS(ca))
	pub.handshake("")

	// Large and small messages, more than goes into one record or one corked write.
	var want, out strings.Builder
	for i := range 300 {
		payload := strings.Repeat(string(rune('a'+i%26)), 1+i*37%9000)
		if i == 150 {
			payload = strings.Repeat("big", 100_000)
		}
		size := itoa(len(payload))
		out.WriteString("PUB a " + size + "\r\n" + payload + "\r\n")
		want.WriteString("MSG a 1 " + size + "\r\n" + payload + "\r\n")
	}
	go io.WriteString(pub, out.String())
	sub.expect(want.String())
	snap, _ := s.Connection(1, false)
	if snap.TLS == nil || snap.TLS.Version != tls.VersionTLS13 || snap.TLSFirst {
		t.Errorf("monitoring shows %+v", snap.TLS)
	}
}

func itoa(n int) string { return string(appendInt(nil, n)) }

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// TestTLSBadInput: whatever comes in place of a handshake, the connection is closed without a word and nothing stays.
func TestTLSBadInput(t *testing.T) {
	ca := certtest.New(t)
	tests := []struct {
		name, input string
	}{
		{"a client without TLS", "CONNECT {}\r\nPING\r\n"},
		{"garbage", "\x16\x03\x01\x00\x05hello"},
		{"zeros", strings.Repeat("\x00", 600)},
		{"a record too large", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1000)},
		{"half a handshake", "\x16\x03\x01\x00\xf0\x01\x00"},
		{"one byte", "\x16"},
		{"silence", ""},
	}
	s, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.Timeout = 150 * time.Millisecond })
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, addr)
			c.send(tc.input)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			rest, err := io.ReadAll(c.r)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection stays open")
			}
			if bytes.Contains(rest, []byte("-ERR")) {
				t.Errorf("the client was told %q", rest)
			}
		})
	}
	waitFor(t, func() bool { return s.Stats().Connections == 0 })
	closed, _ := s.ClosedConnections()
	for _, c := range closed {
		if c.Reason != "TLS Handshake Failure" {
			t.Errorf("closed for %s", c.Reason)
		}
	}
	if len(closed) != len(tests) {
		t.Errorf("%d connections were closed", len(closed))
	}
}

func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); pause() {
		if time.Now().After(end) {
			t.Fatal("it does not come to be")
		}
	}
}

// TestTLSShutdownDuringHandshakes: connections that are in a handshake hold no shutdown up.
func TestTLSShutdownDuringHandshakes(t *testing.T) {
	ca := certtest.New(t)
	s, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.Timeout = time.Hour })
	var all []*raw
	for range 20 {
		c := dial(t, addr)
		c.send("\x16\x03\x01\x00\xf0\x01")
		all = append(all, c)
	}
	waitFor(t, func() bool { return s.Stats().Connections == 20 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		c.expectClosed()
	}
}

func TestTLSVerify(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	good, bad := ca.Leaf(t, nil), other.Leaf(t, nil)
	sum := sha256.Sum256(good.Leaf.RawSubjectPublicKeyInfo)
	key := hex.EncodeToString(sum[:])
	tests := []struct {
		name   string
		auth   tls.ClientAuthType
		pinned []string
		certs  []tls.Certificate
		in     bool
		info   bool
	}{
		{"required and shown", tls.RequireAndVerifyClientCert, nil, []tls.Certificate{good}, true, true},
		{"required and missing", tls.RequireAndVerifyClientCert, nil, nil, false, true},
		{"required, of another authority", tls.RequireAndVerifyClientCert, nil, []tls.Certificate{bad}, false, true},
		{"optional and missing", tls.VerifyClientCertIfGiven, nil, nil, true, false},
		{"optional, of another authority", tls.VerifyClientCertIfGiven, nil, []tls.Certificate{bad}, false, false},
		{"pinned", tls.RequireAndVerifyClientCert, []string{key}, []tls.Certificate{good}, true, true},
		{"another is pinned", tls.RequireAndVerifyClientCert, []string{strings.Repeat("0", 64)}, []tls.Certificate{good}, false, true},
		{"pinned and missing", tls.NoClientCert, []string{key}, nil, false, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.Config.ClientAuth, o.Pinned = tc.auth, tc.pinned })
			config := clientTLS(ca)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(tc.certs) == 0 {
					return &tls.Certificate{}, nil
				}
				return &tc.certs[0], nil
			}
			c, info := secure(t, addr, config)
			if strings.Contains(info, `"tls_verify":true`) != tc.info {
				t.Errorf("INFO is %s", info)
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			_, err := io.WriteString(c, "CONNECT {\"verbose\":false}\r\nPING\r\n")
			if err == nil {
				var line string
				line, err = c.r.ReadString('\n')
				if err == nil && line != "PONG\r\n" {
					t.Errorf("got %q", line)
				}
			}
			if (err == nil) != tc.in {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestTLSAndPlain: who may do without TLS, and what INFO says of it.
func TestTLSAndPlain(t *testing.T) {
	ca := certtest.New(t)
	s, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.AllowPlain, o.Timeout = true, 100*time.Millisecond })
	c, info := secure(t, addr, clientTLS(ca))
	if strings.Contains(info, "tls_required") || !strings.Contains(info, `"tls_available":true`) {
		t.Errorf("INFO is %s", info)
	}
	c.handshake("")

	plain := dial(t, addr)
	plain.send("PING\r\n")
	plain.expect("PONG\r\n")
	late := dial(t, addr)
	waitFor(t, func() bool {
		snap, ok := s.Connection(3, false)
		return ok && time.Since(snap.Start) > 120*time.Millisecond
	})
	late.handshake("")
	whole := dial(t, addr)
	whole.send("CONNECT {\"verbose\":false}\r\nSUB x 1\r\nPUB x 2\r\nhi\r\nPING\r\n")
	whole.expect("MSG x 1 2\r\nhi\r\nPONG\r\n")
}

func TestTLSInProcess(t *testing.T) {
	ca := certtest.New(t)
	for _, first := range []bool{false, true} {
		s, _ := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.First = first })
		nc, err := s.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if info := greeting(t, nc); strings.Contains(info, "tls_required") || !strings.Contains(info, `"tls_available":true`) {
			t.Errorf("INFO is %s", info)
		}
		over(t, nc).handshake("")

		nc, err = s.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		secure := over(t, tls.Client(nc, clientTLS(ca)))
		if first {
			greeting(t, secure.Conn)
		} else {
			greeting(t, nc)
		}
		secure.handshake("")
	}
}

func TestTLSHandshakeFirst(t *testing.T) {
	ca := certtest.New(t)
	for _, fallback := range []time.Duration{0, 50 * time.Millisecond} {
		s, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.First, o.Fallback, o.Timeout = true, fallback, 300*time.Millisecond })
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(nc, clientTLS(ca))
		t.Cleanup(func() { c.Close() })
		if info := greeting(t, c); !strings.Contains(info, `"tls_required":true`) {
			t.Errorf("INFO is %s", info)
		}
		over(t, c).handshake("")
		if snap, _ := s.Connection(1, false); !snap.TLSFirst {
			t.Error("monitoring does not show that the handshake came first")
		}
		if fallback > 0 {
			late, _ := secure(t, addr, clientTLS(ca))
			late.handshake("")
			continue
		}
		silent, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		over(t, silent).expectClosed()
	}
}

func TestTLSRateLimit(t *testing.T) {
	ca := certtest.New(t)
	_, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.RateLimit = 2 })
	refused := 0
	for range 6 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		greeting(t, nc)
		_ = nc.SetDeadline(time.Now().Add(patience))
		if err := tls.Client(nc, clientTLS(ca)).Handshake(); err != nil {
			refused++
		}
		nc.Close()
	}
	if refused == 0 || refused > 4 {
		t.Errorf("%d of 6 handshakes were refused", refused)
	}
}

func TestTLSMap(t *testing.T) {
	ca := certtest.New(t)
	users := account.Settings{Users: []account.UserSettings{
		{Name: "a@example.com"}, {Name: "localhost", ConnectionTypes: []string{"WEBSOCKET"}},
		{Name: "CN=carol,O=Example", Permissions: &account.Permissions{Publish: account.SubjectPermissions{Allow: []string{"x"}}}},
	}}
	_, addr := secureServer(t, ca, users, func(o *TLSOptions) { o.Map, o.Config.ClientAuth = true, tls.RequireAndVerifyClientCert })
	in := func(change func(*x509.Certificate)) *raw {
		c, _ := secure(t, addr, clientTLS(ca, ca.Leaf(t, change)))
		return c
	}
	in(func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }).handshake("")
	in(func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }).handshake(`,"user":"other"`)

	carol := in(func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{CommonName: "carol", Organization: []string{"Example"}}, nil
	})
	carol.handshake("")
	carol.send("PUB y 0\r\n\r\n")
	carol.expect("-ERR 'Permissions Violation for Publish to \"y\"'\r\n")

	wrong := in(func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} })
	wrong.send("CONNECT {\"pass\":\"x\"}\r\n")
	wrong.expect("-ERR 'Authorization Violation'\r\n")
	nobody := in(nil) // localhost may come over WebSocket only
	nobody.send("CONNECT {\"user\":\"a@example.com\"}\r\n")
	nobody.expect("-ERR 'Authorization Violation'\r\n")
	nobody.expectClosed()
}

// TestTLSReload: new certificates are for new connections, the old ones go on; a key that is not pinned any more ends its
// connection.
func TestTLSReload(t *testing.T) {
	ca, next := certtest.New(t), certtest.New(t)
	s, addr := secureServer(t, ca, account.Settings{}, func(o *TLSOptions) { o.Config.ClientAuth = tls.RequestClientCert })
	old, _ := secure(t, addr, clientTLS(ca))
	old.handshake("")
	reload(t, s, account.Settings{}, func(o *Options) {
		o.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{next.Leaf(t, nil)}}}
	})
	old.handshake("")
	c, _ := secure(t, addr, clientTLS(next))
	c.handshake("")
	stale, _ := secure(t, addr, clientTLS(ca))
	if err := stale.Conn.(*tls.Conn).Handshake(); err == nil {
		t.Error("the old certificate is still shown")
	}
	reload(t, s, account.Settings{}, func(o *Options) {
		now := *o.TLS
		now.Pinned = []string{strings.Repeat("1", 64)}
		o.TLS = &now
	})
	old.expectClosed()
	c.expectClosed()

	reload(t, s, account.Settings{}, func(o *Options) { o.TLS = nil })
	dial(t, addr).handshake("")
}

// TestTLSSlowConsumer: a client that does not read is dropped, and closing it takes no five seconds.
func TestTLSSlowConsumer(t *testing.T) {
	ca := certtest.New(t)
	s, addr := startServer(t, account.Settings{}, func(o *Options) {
		o.TLS = &TLSOptions{Config: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}}}
		o.MaxPending, o.WriteDeadline = 1<<20, 200*time.Millisecond
	})
	sub, _ := secure(t, addr, clientTLS(ca))
	sub.handshake("")
	sub.send("SUB > 1\r\nPING\r\n")
	sub.expect("PONG\r\n")
	pub, _ := secure(t, addr, clientTLS(ca))
	pub.handshake("")
	payload := strings.Repeat("x", 100_000)
	begun := time.Now()
	for s.Stats().SlowConsumers == 0 {
		pub.send("PUB a 100000\r\n" + payload + "\r\n")
		if time.Since(begun) > patience {
			t.Fatal("it is not dropped")
		}
	}
	waitFor(t, func() bool { return s.Stats().Connections == 1 })
	pub.send("PING\r\n")
	pub.expect("PONG\r\n")
}

// TestTLSConcurrent has many clients publish to each other, for the race detector.
func TestTLSConcurrent(t *testing.T) {
	ca := certtest.New(t)
	_, addr := secureServer(t, ca, account.Settings{}, nil)
	const clients, messages = 8, 200
	var subscribed, done sync.WaitGroup
	subscribed.Add(clients)
	for range clients {
		done.Go(func() {
			c, _ := secure(t, addr, clientTLS(ca))
			c.handshake("")
			c.send("SUB a 1\r\nPING\r\n")
			c.expect("PONG\r\n")
			subscribed.Done()
			subscribed.Wait()
			c.send(strings.Repeat("PUB a 5\r\nhello\r\n", messages))
			c.expect(strings.Repeat("MSG a 1 5\r\nhello\r\n", clients*messages))
		})
	}
	done.Wait()
}
