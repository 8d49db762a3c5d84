package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/certtest"
	"github.com/sluicemq/sluice/internal/config"
)

func TestTLSFlags(t *testing.T) {
	dir, ca := t.TempDir(), certtest.New(t)
	cert, key := certtest.Write(t, dir, "server", ca.Leaf(t, nil))
	caFile, file := ca.File(t, dir), filepath.Join(dir, "s.conf")
	if err := os.WriteFile(file, []byte("tls { cert_file: \""+cert+"\", key_file: \""+key+"\", timeout: 7 }"), 0o600); err != nil {
		t.Fatal(err)
	}
	pair := "--tlscert " + cert + " --tlskey " + key
	given := func(change func(*config.TLS)) *config.TLS {
		want := &config.TLS{CertFile: cert, KeyFile: key}
		if change != nil {
			change(want)
		}
		o := config.Options{TLS: want}
		o.SetDefaults()
		return want
	}
	tests := []struct {
		args string
		want *config.TLS
		err  string
	}{
		{"", nil, ""},
		{"--tls " + pair, given(nil), ""},
		{pair, given(nil), ""},
		{pair + " -tlsverify -tlscacert " + caFile, given(func(w *config.TLS) { w.Verify, w.CAFile = true, caFile }), ""},
		{pair + " --tlsverify=optional", given(func(w *config.TLS) { w.VerifyOptional = true }), ""},
		{pair + " --tlsverify=x", nil, "neither true, false nor optional"},
		{"--tls", nil, "TLS Server certificate must be present and valid"},
		{"--tlscert " + cert, nil, "TLS Server private key must be present and valid"},
		{"--tlscert " + file + " --tlskey " + key, nil, "error parsing X509 certificate/key pair"},
		{"--https_port 8443", nil, "TLS cert and key required for HTTPS"},
		{"-ms 8443 " + pair, given(nil), ""},
		{"-c " + file, given(func(w *config.TLS) { w.Timeout = 7e9 }), ""},
		{"-c " + file + " --tls=false", nil, ""},
		{"-c " + file + " " + pair, given(nil), ""},
	}
	for _, tc := range tests {
		f, err := parseFlags(strings.Fields(tc.args))
		var o config.Options
		if err == nil {
			o, err = f.options()
		}
		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v, want %s", tc.args, err, tc.err)
			}
		case err != nil || !reflect.DeepEqual(o.TLS, tc.want):
			t.Errorf("%s: %+v, %v", tc.args, o.TLS, err)
		}
	}
}
