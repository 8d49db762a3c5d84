// Package rig builds and starts the programs that the tests of this module drive: Sluice, and, as others made them, the
// reference server, the nats CLI and an S3 server.
package rig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// program is an executable that is looked for at most once per test process.
type program struct {
	name string
	env  string // the variable that names a ready one
	find func() (string, error)

	once sync.Once
	path string
	err  error
}

var (
	sluice    = &program{name: "sluice", env: "SLUICE_BIN", find: buildSluice}
	reference = tool("nats-server", "REF_NATS_SERVER")
	cli       = tool("nats", "NATS_BIN")
	s3Server  = tool("versitygw", "VERSITYGW_BIN")
)

// SluiceBinary is the path of the server under test: $SLUICE_BIN, or built from the source.
func SluiceBinary(t testing.TB) string { return sluice.of(t) }

// ReferenceBinary is the path of nats-server: $REF_NATS_SERVER, or installed into the cache.
func ReferenceBinary(t testing.TB) string { return reference.of(t) }

// CLIBinary is the path of the nats CLI: $NATS_BIN, or installed into the cache.
func CLIBinary(t testing.TB) string { return cli.of(t) }

func (p *program) of(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		if path := os.Getenv(p.env); path != "" {
			p.path, p.err = exec.LookPath(path)
			return
		}
		p.path, p.err = p.find()
	})
	if p.err != nil {
		t.Fatalf("no %s: %v", p.name, p.err)
	}
	return p.path
}

// tool is a program that .ci/tool installs.
func tool(name, env string) *program {
	return &program{name: name, env: env, find: func() (string, error) {
		out, err := output(exec.Command("bash", filepath.Join(root(), ".ci", "tool"), name))
		return strings.TrimSpace(out), err
	}}
}

// buildSluice builds into the cache. Packages that are tested in parallel build the same, each in a file of its own
// that then takes the name, so that none runs half a binary.
func buildSluice() (string, error) {
	cache := filepath.Join(root(), ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	temp := filepath.Join(cache, fmt.Sprintf("sluice.%d", os.Getpid()))
	build := exec.Command("go", "build", "-o", temp, "./cmd/sluice")
	build.Dir = root() // Sluice's own module, whose go.sum this one need not repeat
	if _, err := output(build); err != nil {
		return "", err
	}
	path := filepath.Join(cache, "sluice")
	return path, os.Rename(temp, path)
}

// output runs a command and returns what it printed to its standard output.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return string(out), nil
}

// root is the folder of the checkout.
func root() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..")
}
