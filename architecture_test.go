package sluice_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// floors are the storeys of the house, from the ground up: a package imports only from storeys below its own, or what
// beside says. ARCHITECTURE.md has the picture.
var floors = [][]string{
	{"version", "key", "jserr", "subject", "proto", "record", "logging", "certtest", "store", "archive"},
	{"store/dir", "store/mem", "store/s3", "store/fault", "store/metered", "store/storetest/gateway", "store/storetest"},
	{"store/storeurl", "wal", "segment", "manifest", "compact", "cache"},
	{"head", "account", "broker", "stream", "consumer"},
	{"config", "engine", "check", "broadcast"},
	{"conn", "jsapi", "monitor", "sysapi"},
	{"node"},
}

// beside are imports within a storey.
var beside = map[string][]string{
	"proto":  {"subject"},
	"sysapi": {"monitor"}, // the reports are the same, however one asks
}

func TestImportsPointDownward(t *testing.T) {
	const module = "github.com/sluicemq/sluice/"
	level := map[string]int{}
	for i, floor := range floors {
		for _, p := range floor {
			level[p] = i
		}
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module+"internal/")
		if strings.HasSuffix(from, "/gen") {
			continue // a generator is run by hand
		}
		at, known := level[from]
		if !known {
			t.Errorf("%s is on no storey", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"internal/")
			if !ours {
				if strings.HasPrefix(imported, module) {
					t.Errorf("%s imports %s", from, imported)
				}
				continue
			}
			if level[to] < at || allowed(from, to) {
				continue
			}
			t.Errorf("%s imports %s, which is not below it", from, to)
		}
	}
}

// The model of the protocol is to be judged beside the code, so it shares nothing with it, and nothing uses it.
func TestModelStandsAlone(t *testing.T) {
	const module, model = "github.com/sluicemq/sluice", "github.com/sluicemq/sluice/sim/protocol"
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}: {{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(line, ": ")
		seen = seen || path == model
		if path == model && strings.Contains(imports, module) || path != model && strings.Contains(imports, model) {
			t.Errorf("%s imports %s", path, imports)
		}
	}
	if !seen {
		t.Errorf("%s was not listed", model)
	}
}

func allowed(from, to string) bool {
	for _, p := range beside[from] {
		if p == to {
			return true
		}
	}
	return false
}
