package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/certtest"
)

// inPlaces replaces CERT, KEY and CA by files that are there.
func inPlaces(t *testing.T) (replace func(string) string, cert, key, caFile string) {
	t.Helper()
	dir, ca := t.TempDir(), certtest.New(t)
	cert, key = certtest.Write(t, dir, "server", ca.Leaf(t, nil))
	caFile = ca.File(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "junk"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := strings.NewReplacer("PAIR", `cert_file: "CERT", key_file: "KEY"`)
	files := strings.NewReplacer("CERT", cert, "KEY", key, "CA", caFile, "JUNK", filepath.Join(dir, "junk"))
	return func(s string) string { return files.Replace(r.Replace(s)) }, cert, key, caFile
}

func TestLoadTLS(t *testing.T) {
	replace, cert, key, ca := inPlaces(t)
	pin := strings.Repeat("ab", 32)
	tests := []struct {
		name, text string
		want       Options
	}{
		{"plain", "tls { PAIR }", Options{TLS: &TLS{CertFile: cert, KeyFile: key}}},
		{"clients' certificates", `tls { PAIR, ca_file: "CA", verify: true, timeout: 0.5 }`,
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, CAFile: ca, Verify: true, Timeout: 500 * time.Millisecond}}},
		{"map", `tls { PAIR, verify_and_map: true, timeout: "3s" }` + "\nallow_non_tls: true",
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, Verify: true, Map: true, Timeout: 3 * time.Second}, AllowNonTLS: true}},
		{"optional", `tls { PAIR, verify: "optional", pinned_certs: ["` + strings.ToUpper(pin) + `"] }`,
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, VerifyOptional: true, PinnedCerts: []string{pin}}}},
		{"handshake first", "tls { PAIR, handshake_first: true }", Options{TLS: &TLS{CertFile: cert, KeyFile: key, HandshakeFirst: true}}},
		{"handshake first, else after a while", `tls { PAIR, first: "auto" }`,
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, HandshakeFirst: true, FallbackDelay: 50 * time.Millisecond}}},
		{"handshake first for a time", `tls { PAIR, immediate: "300ms", connection_rate_limit: 10 }`,
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, HandshakeFirst: true, FallbackDelay: 300 * time.Millisecond, RateLimit: 10}}},
		{"algorithms", `tls { PAIR, min_version: "1.3", curve_preferences: [X25519, CurveP256], cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256] }`,
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
				CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}}},
		{"insecure algorithms", "tls { PAIR, cipher_suites: [TLS_RSA_WITH_RC4_128_SHA], allow_insecure_cipher_suites: true }",
			Options{TLS: &TLS{CertFile: cert, KeyFile: key, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}}}},
		{"several certificates", "tls { certs: [ { PAIR }, { PAIR } ] }", Options{TLS: &TLS{Certs: []CertPair{{cert, key}, {cert, key}}}}},
		{"https", "tls { PAIR }\nhttps: \"127.0.0.1:8443\"", Options{TLS: &TLS{CertFile: cert, KeyFile: key}, HTTPHost: "127.0.0.1", HTTPSPort: 8443}},
		{"websocket", "websocket { listen: \"127.0.0.1:-1\", no_tls: true, same_origin: true, allowed_origins: [\"http://a\"], compress: true\n handshake_timeout: \"3s\", headers { X-A: b }, user_cookie: u, pass_cookie: p, token_cookie: t, advertise: \"a:1\", ping_interval: \"5s\" }",
			Options{Websocket: Websocket{Host: "127.0.0.1", Port: -1, NoTLS: true, SameOrigin: true, AllowedOrigins: []string{"http://a"}, Compression: true, HandshakeTimeout: 3 * time.Second,
				Headers: map[string]string{"X-A": "b"}, UserCookie: "u", PassCookie: "p", TokenCookie: "t", Advertise: "a:1", PingInterval: 5 * time.Second}}},
		{"websocket with TLS and a user", "ws { port: 9001, tls { PAIR }, authorization { user: a, password: b, timeout: 4 } }",
			Options{Websocket: Websocket{Port: 9001, TLS: &TLS{CertFile: cert, KeyFile: key}},
				Auth: account.Settings{Websocket: account.WebsocketSettings{Username: "a", Password: "b", Timeout: 4 * time.Second}}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Load(write(t, replace(tc.text)))
			if err != nil {
				t.Fatal(err)
			}
			if got = onlyFields(got); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("\ngot  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestLoadRefusesTLS(t *testing.T) {
	replace, _, _, _ := inPlaces(t)
	tests := []struct {
		text string
		want []string
	}{
		{"\ntls { }", []string{":2: tls: TLS Server certificate must be present and valid"}},
		{`tls { cert_file: "CERT" }`, []string{":1: tls: missing 'key_file' in TLS configuration"}},
		{`tls { key_file: "KEY" }`, []string{":1: tls: missing 'cert_file' in TLS configuration"}},
		{`tls { cert_file: "/none", key_file: "KEY" }`, []string{":1: tls: error parsing X509 certificate/key pair: open /none"}},
		{`tls { cert_file: "JUNK", key_file: "KEY" }`, []string{":1: tls: error parsing X509 certificate/key pair: tls: failed to find any PEM data"}},
		{`tls { certs: [ { PAIR }, { cert_file: "CERT", key_file: "JUNK" } ] }`, []string{":1: tls: error parsing X509 certificate/key pair 2/2"}},
		{`tls { PAIR, ca_file: "JUNK" }`, []string{":1: tls: failed to parse root ca certificate"}},
		{`tls { PAIR, ca_file: "/none" }`, []string{":1: tls: reading ca_file: open /none"}},
		{`tls { PAIR, certs: [ { PAIR } ] }`, []string{":1: tls: cannot combine 'cert_file' option with 'certs' option"}},
		{`tls { PAIR, verify: optional, verify_and_map: true }`, []string{":1: tls: cannot combine 'verify: optional'"}},
		{"tls {\n PAIR\n foo: 1\n cert_store: x\n ocsp_peer: true\n verify: 3\n}", []string{":3: tls.foo: unknown setting", ":4: tls.cert_store: not supported", ":5: tls.ocsp_peer: not supported", ":6: tls.verify: expected a boolean or 'optional'"}},
		{"tls {\n PAIR\n min_version: \"1.1\"\n curve_preferences: [X]\n cipher_suites: [Y]\n pinned_certs: [abc]\n handshake_first: maybe\n timeout: []\n}",
			[]string{":3: tls.min_version: unsupported TLS version", ":4: tls.curve_preferences[0]: unrecognized curve preference X", ":5: tls.cipher_suites[0]: unrecognized cipher Y",
				":6: tls.pinned_certs[0]: key abc does not look like", ":7: tls.handshake_first: expected true, false", ":8: tls.timeout: expected a number"}},
		{"tls {\n PAIR\n cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n}", []string{":3: tls.cipher_suites: insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: TLS_RSA_WITH_RC4_128_SHA"}},
		{"tls {\n PAIR\n cipher_suites: []\n certs: [ { cert_file: x } ]\n}", []string{":3: tls.cipher_suites: expected a list of names that is not empty", ":4: tls.certs[0]: both 'cert_file' and 'cert_key' options are required"}},
		{"https_port: 8443", []string{":1: https_port: TLS cert and key required for HTTPS"}},
		{"tls { PAIR }\nhttp_port: 1\nhttps_port: 2", []string{":3: https_port: can't specify both HTTP (1) and HTTPs (2) ports"}},
		{"websocket { port: 1 }", []string{":1: websocket: websocket requires TLS configuration"}},
		{"websocket {\n port: 1\n no_tls: true\n jwt_cookie: x\n what: y\n}", []string{":4: websocket.jwt_cookie: not supported", ":5: websocket.what: unknown setting"}},
		{"websocket {\n port: 1\n no_tls: true\n allowed_origins: [\"ftp://x\"]\n headers { Upgrade: x, Sec-WebSocket-Y: z }\n}",
			[]string{":4: websocket.allowed_origins: unable to parse allowed origin \"ftp://x\": allowed origins must be absolute URLs", ":5: websocket.headers: websocket: invalid header", ":5: websocket.headers: websocket: invalid header"}},
		{"port: 5\nwebsocket {\n port: 5\n no_tls: true\n no_auth_user: x\n}", []string{":3: websocket.port: port 5 is another's", ":5: websocket.no_auth_user: \"x\" is no user"}},
		{"authorization { users: [ { user: a } ] }\nwebsocket { port: 1, no_tls: true, authorization { user: b, password: c } }",
			[]string{":2: websocket.authorization: websocket authentication username not compatible with presence of users/nkeys"}},
	}
	for _, tc := range tests {
		_, err := Load(write(t, replace(tc.text)))
		faults := Faults(err)
		if len(faults) != len(tc.want) {
			t.Errorf("%q: %d faults:\n%v", tc.text, len(faults), err)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(faults[i].Error(), want) {
				t.Errorf("%q: fault %d is %q, want %q", tc.text, i, faults[i], want)
			}
		}
	}
}

// TestTLSDefaults: clients that do TLS have longer to authenticate, as for nats-server.
func TestTLSDefaults(t *testing.T) {
	o := Options{TLS: &TLS{Timeout: 5 * time.Second}}
	o.SetDefaults()
	if o.Auth.Timeout != 6*time.Second || o.TLS.MinVersion != tls.VersionTLS12 {
		t.Errorf("%v, %v", o.Auth.Timeout, o.TLS.MinVersion)
	}
}

func TestReloadTLS(t *testing.T) {
	tests := []struct {
		name     string
		old, new Options
		live     bool
	}{
		{"from none", Options{}, Options{TLS: &TLS{CertFile: "a"}}, true},
		{"to none", Options{TLS: &TLS{CertFile: "a"}}, Options{}, true},
		{"another file for websocket", Options{Websocket: Websocket{TLS: &TLS{CertFile: "a"}}}, Options{Websocket: Websocket{TLS: &TLS{CertFile: "b"}}}, true},
		{"websocket from none", Options{}, Options{Websocket: Websocket{TLS: &TLS{CertFile: "b"}}}, false},
		{"websocket's port", Options{}, Options{Websocket: Websocket{Port: 1}}, false},
		{"https_port", Options{}, Options{HTTPSPort: 1}, false},
	}
	for _, tc := range tests {
		if _, err := Reloadable(&tc.old, &tc.new); (err == nil) != tc.live {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
