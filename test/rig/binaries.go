// Package rig builds and starts the programs that the tests of this module drive: Sluice, and, as others made them, the
// reference server, the nats CLI and an S3 server.
package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Versions of the programs that are not Sluice.
const (
	referenceModule = "github.com/nats-io/nats-server/v2@v2.15.3"
	cliModule       = "github.com/nats-io/natscli/nats@v0.5.0"
	s3Module        = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
)

// program is an executable that is built at most once per test process.
type program struct {
	env   string // the variable that names a ready one
	name  string
	build func(dir string) *exec.Cmd

	once sync.Once
	path string
	err  error
}

func installed(env, name, module string) *program {
	return &program{env: env, name: name, build: func(dir string) *exec.Cmd {
		cmd := exec.Command("go", "install", module)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
		return cmd
	}}
}

var (
	sluice = &program{env: "SLUICE_BIN", name: "sluice", build: func(dir string) *exec.Cmd {
		// In Sluice's own module, whose go.sum this one need not repeat.
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "sluice"), "./cmd/sluice")
		_, here, _, _ := runtime.Caller(0)
		cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..")
		return cmd
	}}
	reference = installed("NATS_SERVER_BIN", "nats-server", referenceModule)
	cli       = installed("NATS_BIN", "nats", cliModule)
	s3Server  = installed("VERSITYGW_BIN", "versitygw", s3Module)
)

// SluiceBinary is the path of the server under test: $SLUICE_BIN, or built from the source.
func SluiceBinary(t testing.TB) string { return sluice.find(t) }

// ReferenceBinary is the path of nats-server: $NATS_SERVER_BIN, or installed into the cache.
func ReferenceBinary(t testing.TB) string { return reference.find(t) }

// CLIBinary is the path of the nats CLI: $NATS_BIN, or installed into the cache.
func CLIBinary(t testing.TB) string { return cli.find(t) }

func (p *program) find(t testing.TB) string {
	t.Helper()
	p.once.Do(func() { p.path, p.err = p.locate() })
	if p.err != nil {
		t.Fatalf("no %s: %v", p.name, p.err)
	}
	return p.path
}

// locate builds into the cache under a lock, since packages are tested in parallel. A program of a fixed version is
// built once and kept; Sluice is built each time, which is quick when nothing changed.
func (p *program) locate() (string, error) {
	if path := os.Getenv(p.env); path != "" {
		return exec.LookPath(path)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "sluice-test", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path := filepath.Join(dir, p.name)
	if _, err := os.Stat(path); err == nil && p != sluice {
		return path, nil
	}
	if out, err := p.build(dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}
