package node

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/certtest"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/monitor"
)

// TestSecurePorts has TLS on all three ports, users by certificate, monitoring that shows it, and certificates that are
// exchanged while the server runs.
func TestSecurePorts(t *testing.T) {
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := certtest.Write(t, dir, "server", ca.Leaf(t, nil))
	block := &config.TLS{CertFile: cert, KeyFile: key, CAFile: ca.File(t, dir), Verify: true, Map: true}
	o := options(func(o *config.Options) {
		o.HTTPPort, o.HTTPSPort, o.TLS = 0, config.RandomPort, block
		o.Websocket = config.Websocket{Host: "127.0.0.1", Port: config.RandomPort, TLS: &config.TLS{CertFile: cert, KeyFile: key}}
		o.Auth.Users = []account.UserSettings{{Name: "localhost", Password: "p"}}
	})
	n, _ := start(t, o)
	for url, scheme := range map[string]string{n.ClientURL(): "tls://", n.WebsocketURL(): "wss://", n.MonitorURL(): "https://"} {
		if !strings.HasPrefix(url, scheme) {
			t.Errorf("%s is no %s", url, scheme)
		}
	}
	trust := &tls.Config{RootCAs: ca.Pool()}
	mutual := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Leaf(t, nil)}}
	nc, err := nats.Connect(n.ClientURL(), nats.Secure(mutual), nats.UserInfo("ignored", "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if nc, err := nats.Connect(n.ClientURL(), nats.Secure(trust), nats.UserInfo("localhost", "p")); err == nil {
		nc.Close()
		t.Error("a client without a certificate is let in")
	}
	ws, err := nats.Connect(n.WebsocketURL(), nats.Secure(trust), nats.UserInfo("localhost", "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()

	web := http.Client{Transport: &http.Transport{TLSClientConfig: trust}, Timeout: 10 * time.Second}
	defer web.CloseIdleConnections()
	get := func(path string, v any) {
		t.Helper()
		answer, err := web.Get(n.MonitorURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	var varz monitor.Varz
	get("/varz", &varz)
	if !varz.TLSRequired || !varz.TLSVerify || varz.TLSCertNotAfter.IsZero() || varz.HTTPSPort == 0 || varz.HTTPPort != 0 || varz.TLSTimeout != 2 ||
		varz.Websocket.Port == 0 || varz.Websocket.TLSCertNotAfter.IsZero() || varz.AuthTimeout != 3 {
		t.Errorf("/varz is %+v", varz)
	}
	var connz monitor.Connz
	get("/connz?auth=1", &connz)
	if len(connz.Conns) != 2 {
		t.Fatalf("%d connections", len(connz.Conns))
	}
	for i, kind := range []string{"nats", "websocket"} {
		c := connz.Conns[i]
		if c.Kind != "Client" || c.Type != kind || c.TLSVersion != "1.3" || !strings.HasPrefix(c.TLSCipher, "TLS_") || c.AuthorizedUser != "localhost" {
			t.Errorf("connection %d is %+v", i, c)
		}
		if got := len(c.TLSPeerCerts); got != 1-i {
			t.Errorf("connection %d has %d certificates", i, got)
		}
	}
	reloadCertificates(t, n, o, cert, key)
}

func reloadCertificates(t *testing.T, n *Node, o config.Options, cert, key string) {
	next, dir := certtest.New(t), t.TempDir()
	newCert, newKey := certtest.Write(t, dir, "next", next.Leaf(t, nil))
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(newCert, cert)
	if err := n.Reload(o); err == nil {
		t.Error("a certificate with the key of another is taken")
	}
	move(newKey, key)
	if err := n.Reload(o); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{n.ClientURL(), n.WebsocketURL(), n.MonitorURL()} {
		if _, err := shown(t, url).Verify(x509.VerifyOptions{Roots: next.Pool()}); err != nil {
			t.Errorf("%s shows the old certificate", url)
		}
	}
}

// shown is the certificate that a port shows.
func shown(t *testing.T, url string) (cert *x509.Certificate) {
	t.Helper()
	scheme, addr, _ := strings.Cut(url, "://")
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	if scheme == "tls" { // INFO comes first, and no byte behind it
		for b := make([]byte, 1); b[0] != '\n'; {
			if _, err := nc.Read(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState().PeerCertificates[0]
}

// TestGivenTLS is for programs that embed a server.
func TestGivenTLS(t *testing.T) {
	ca := certtest.New(t)
	n, _ := start(t, options(func(o *config.Options) {
		o.TLS = &config.TLS{Given: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}}}
	}))
	nc, err := nats.Connect(n.ClientURL(), nats.Secure(&tls.Config{RootCAs: ca.Pool()}))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if nc, err = nats.Connect("", nats.InProcessServer(n)); err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
