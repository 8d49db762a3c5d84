package sluice_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice"
	"github.com/sluicemq/sluice/internal/certtest"
)

// TestTLSConfig: an embedded server takes the program's own configuration, and in-process clients do without.
func TestTLSConfig(t *testing.T) {
	ca := certtest.New(t)
	srv, _ := start(t, sluice.Options{
		Name: "secure", Store: "mem://", Host: "127.0.0.1", Port: sluice.RandomPort,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{ca.Leaf(t, nil)}},
	})
	if !strings.HasPrefix(srv.ClientURL(), "tls://") {
		t.Errorf("clients are sent to %s", srv.ClientURL())
	}
	nc, err := nats.Connect(srv.ClientURL(), nats.Secure(&tls.Config{RootCAs: ca.Pool()}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if state, err := nc.TLSConnectionState(); err != nil || !state.HandshakeComplete {
		t.Errorf("%+v, %v", state, err)
	}
	connect(t, srv)
}
