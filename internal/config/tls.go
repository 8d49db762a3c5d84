package config

import (
	"crypto/tls"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// TLS is a block tls { }, with nats-server's meaning. The files are read by Load, and anew by every reload.
type TLS struct {
	CertFile, KeyFile string
	Certs             []CertPair // several, of which a client gets the first that fits it; excludes CertFile
	CAFile            string     // who signs clients' certificates; "" is the system's list
	// Verify asks every client for a certificate, VerifyOptional checks that of a client which has one.
	Verify, VerifyOptional bool
	// Map takes the user from the client's certificate. It goes with Verify.
	Map     bool
	Timeout time.Duration // for the handshake; default 2 s
	// HandshakeFirst begins with the handshake and sends INFO after it. With a FallbackDelay a client that says nothing for
	// so long gets INFO first.
	HandshakeFirst   bool
	FallbackDelay    time.Duration
	MinVersion       uint16        // default TLS 1.2
	CipherSuites     []uint16      // for TLS 1.2; nil: those that are secure
	CurvePreferences []tls.CurveID // nil: Go's
	// PinnedCerts are the clients that are let in, each the hex-encoded SHA-256 of a public key; empty: any.
	PinnedCerts []string
	// RateLimit bounds the handshakes a second; 0: no bound.
	RateLimit int64
	// Given stands in place of the files, for programs that embed a server.
	Given *tls.Config
}

// CertPair is a certificate and its key.
type CertPair struct{ CertFile, KeyFile string }

const (
	// DefaultTLSTimeout bounds a handshake, DefaultFallbackDelay is the "auto" of handshake_first. Both are nats-server's.
	DefaultTLSTimeout    = 2 * time.Second
	DefaultFallbackDelay = 50 * time.Millisecond
)

func (t *TLS) setDefaults() {
	if t != nil {
		setDefault(&t.Timeout, DefaultTLSTimeout)
		setDefault(&t.MinVersion, uint16(tls.VersionTLS12))
	}
}

// clone is a copy whose defaults can be set.
func (t *TLS) clone() *TLS {
	if t == nil {
		return nil
	}
	c := *t
	return &c
}

// tls gives the setter of a block tls { }. The block's files are read at once, so that a fault has its line.
func (d *decoder) tls(field **TLS) setter {
	return func(v value) {
		t, before := &TLS{}, len(d.faults)
		s := settings{}
		d.certificateSettings(s, t)
		d.handshakeSettings(s, t)
		d.cipherSettings(s, t)
		var insecure bool
		s.add(d.flag(&insecure), "allow_insecure_cipher_suites")
		d.block(v, s)
		if !insecure {
			d.refuseInsecure(v, t.CipherSuites)
		}
		if len(d.faults) > before {
			return
		}
		if _, err := t.Load(); err != nil {
			d.fault(v, "%v", err)
			return
		}
		*field = t
	}
}

func (d *decoder) certificateSettings(s settings, t *TLS) {
	s.add(d.text(&t.CertFile), "cert_file")
	s.add(d.text(&t.KeyFile), "key_file")
	s.add(d.text(&t.CAFile), "ca_file")
	s.add(func(v value) { t.Certs = d.certPairs(v) }, "certs", "certificates")
	s.add(d.verify(t), "verify")
	s.add(func(v value) {
		if on, ok := d.asBool(v); ok {
			t.Map, t.Verify = on, t.Verify || on
		}
	}, "verify_and_map")
	s.add(d.pinnedCerts(&t.PinnedCerts), "pinned_certs")
	s.add(func(v value) {
		if on, ok := d.asBool(v); ok && on {
			d.fault(v, "not supported in this context")
		}
	}, "verify_cert_and_check_known_urls")
	s.inert(d, "it is about connections that a server makes itself", "insecure")
	s.refuse(d, "certificates come from files", "cert_store", "cert_match_by", "cert_match", "ca_certs_match", "cert_match_skip_invalid")
	s.refuse(d, noOCSP, "ocsp_peer")
}

func (d *decoder) handshakeSettings(s settings, t *TLS) {
	s.add(d.authTimeout(&t.Timeout), "timeout")
	s.add(d.handshakeFirst(t), "handshake_first", "first", "immediate")
	s.add(number(d, &t.RateLimit, 0, math.MaxInt32), "connection_rate_limit")
	s.add(func(v value) {
		name, ok := d.asText(v)
		if version, known := tlsVersions[strings.ToLower(name)]; known {
			t.MinVersion = version
		} else if ok {
			d.fault(v, "unsupported TLS version: %q; use \"1.2\" or \"1.3\"", name)
		}
	}, "min_version")
}

func (d *decoder) cipherSettings(s settings, t *TLS) {
	s.add(func(v value) { t.CurvePreferences = named(d, v, "curve preference", curves) }, "curve_preferences")
	s.add(func(v value) {
		t.CipherSuites = named(d, v, "cipher", cipherSuites(tls.CipherSuites(), tls.InsecureCipherSuites()))
	}, "cipher_suites")
}

func (d *decoder) refuseInsecure(block value, suites []uint16) {
	secure := cipherSuites(tls.CipherSuites())
	for _, id := range suites {
		if name := tls.CipherSuiteName(id); secure[name] != id {
			d.fault(d.places[block.path+".cipher_suites"],
				"insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: %s", name)
		}
	}
}

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

var curves = map[string]tls.CurveID{
	"SecP384r1MLKEM1024": tls.SecP384r1MLKEM1024, "SecP256r1MLKEM768": tls.SecP256r1MLKEM768, "X25519MLKEM768": tls.X25519MLKEM768,
	"X25519": tls.X25519, "CurveP256": tls.CurveP256, "CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521,
}

func cipherSuites(lists ...[]*tls.CipherSuite) map[string]uint16 {
	byName := map[string]uint16{}
	for _, list := range lists {
		for _, s := range list {
			byName[s.Name] = s.ID
		}
	}
	return byName
}

// named reads a list of names of things.
func named[T any](d *decoder, v value, what string, known map[string]T) (found []T) {
	if items, ok := v.v.([]any); !ok || len(items) == 0 {
		d.fault(v, "expected a list of names that is not empty")
		return nil
	}
	for _, item := range v.list() {
		name, ok := d.asText(item)
		if !ok {
			continue
		}
		if id, ok := known[name]; ok {
			found = append(found, id)
		} else {
			d.fault(item, "unrecognized %s %s", what, name)
		}
	}
	return found
}

// verify reads true, false or "optional".
func (d *decoder) verify(t *TLS) setter {
	return func(v value) {
		switch is := v.v.(type) {
		case bool:
			t.Verify = t.Verify || is
			return
		case string:
			if strings.EqualFold(is, "optional") {
				t.VerifyOptional = true
				return
			}
		}
		d.fault(v, "expected a boolean or 'optional'")
	}
}

// handshakeFirst reads a boolean, "auto" or how long to wait for the client's first byte.
func (d *decoder) handshakeFirst(t *TLS) setter {
	return func(v value) {
		if on, ok := v.v.(bool); ok {
			t.HandshakeFirst = on
			return
		}
		text, ok := d.asText(v)
		if !ok {
			return
		}
		switch strings.ToLower(text) {
		case "true", "on":
			t.HandshakeFirst = true
		case "false", "off":
			t.HandshakeFirst = false
		case "auto", "auto_fallback":
			t.HandshakeFirst, t.FallbackDelay = true, DefaultFallbackDelay
		default:
			delay, err := time.ParseDuration(text)
			if err != nil || delay < 0 {
				d.fault(v, `expected true, false, "auto" or a duration, got %q`, text)
				return
			}
			t.HandshakeFirst, t.FallbackDelay = true, delay
		}
	}
}

var pin = regexp.MustCompile("^[a-f0-9]{64}$")

func (d *decoder) pinnedCerts(field *[]string) setter {
	return func(v value) {
		if _, ok := v.v.([]any); !ok {
			d.fault(v, "expected a list of hex-encoded sha256 of DER encoded SubjectPublicKeyInfo")
			return
		}
		for _, item := range v.list() {
			key, ok := d.asText(item)
			if key = strings.ToLower(key); ok && !pin.MatchString(key) {
				d.fault(item, "key %s does not look like hex-encoded sha256 of DER encoded SubjectPublicKeyInfo", key)
			}
			*field = append(*field, key)
		}
		slices.Sort(*field)
	}
}

func (d *decoder) certPairs(v value) (pairs []CertPair) {
	if _, ok := v.v.([]any); !ok {
		d.fault(v, "expected a list of blocks { cert_file, key_file }")
		return nil
	}
	for _, item := range v.list() {
		var p CertPair
		s := settings{}
		s.add(d.text(&p.CertFile), "cert_file")
		s.add(d.text(&p.KeyFile), "key_file")
		d.block(item, s)
		if p.CertFile == "" || p.KeyFile == "" {
			d.fault(item, "both 'cert_file' and 'cert_key' options are required")
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// faults tells what is wrong with the block whatever the files hold.
func (t *TLS) faults() (reasons []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			reasons = append(reasons, fmt.Sprintf(format, args...))
		}
	}
	check(t.CertFile == "" || t.KeyFile != "", "missing 'key_file' in TLS configuration")
	check(t.CertFile != "" || t.KeyFile == "", "missing 'cert_file' in TLS configuration")
	check(t.CertFile == "" || len(t.Certs) == 0, "cannot combine 'cert_file' option with 'certs' option")
	check(!t.Verify || !t.VerifyOptional, "cannot combine 'verify: optional' with options requiring client certificates")
	check(t.Given != nil || t.CertFile != "" || t.KeyFile != "" || len(t.Certs) > 0, "TLS Server certificate must be present and valid")
	check(t.Timeout >= 0, "timeout %v is negative", t.Timeout)
	check(t.FallbackDelay >= 0, "handshake_first %v is negative", t.FallbackDelay)
	for _, p := range t.PinnedCerts {
		check(pin.MatchString(p), "'pinned_certs' key %s does not look like hex-encoded sha256 of DER encoded SubjectPublicKeyInfo", p)
	}
	return reasons
}
