//go:build !windows

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	put := func(k, data string) {
		t.Helper()
		path := filepath.Join(dir, k)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(environment{stdout: &out, stderr: &errs}, append([]string{"check", "--store", "dir://" + dir}, args...))
		return code, out.String(), errs.String()
	}
	if code, out, errs := check(); code != checkClean || !strings.Contains(out, "0 errors") {
		t.Errorf("an empty store: %d %q %q", code, out, errs)
	}
	put("probe/x", "1")
	if code, out, errs := check("--repair"); code != checkClean || !strings.Contains(out, "note probe-leftover probe/x") || !strings.Contains(out, "moved probe/x to quarantine/probe/x, 1 bytes") {
		t.Errorf("a repair: %d %q %q", code, out, errs)
	}
	put("heads/n", "{")
	code, out, _ := check("--json")
	kinds := ""
	for line := range strings.Lines(out) {
		var l struct {
			Severity, Kind, Key string
			Summary             *struct{ Errors int }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		kinds += l.Severity + " " + l.Kind + " " + l.Key + ";"
		if l.Summary != nil && l.Summary.Errors != 1 {
			t.Errorf("%d errors in the summary", l.Summary.Errors)
		}
	}
	if code != checkErrors || kinds != "error head-damaged heads/n;  ;" {
		t.Errorf("a damaged head: %d %q", code, kinds)
	}
	put("good", strings.Repeat("0a", 32)+"\n")
	put("bad", "0a")
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--repair"}, checkFailed, "heads/n cannot be read"},
		{[]string{"--segment-key", "none"}, checkFailed, "no such file"},
		{[]string{"--segment-key", file("bad")}, checkFailed, "is no segment key"},
		{[]string{"--segment-key", file("good")}, checkErrors, ""},
		{[]string{"--segment-key", strings.Repeat("0a", 16)}, checkErrors, ""},
		{[]string{"x"}, checkFailed, `unknown argument "x"`},
		{[]string{"--force-live"}, checkFailed, "not defined"},
		{[]string{"--store", "dir://" + file("none")}, checkFailed, "there is no store"},
		{[]string{"--store", "ftp://x"}, checkFailed, "no such kind of store"},
	} {
		if code, _, errs := check(c.args...); code != c.code || !strings.Contains(errs, c.text) {
			t.Errorf("%q: %d %q", c.args, code, errs)
		}
	}
}
