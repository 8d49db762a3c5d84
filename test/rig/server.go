package rig

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
)

// Store is where a Sluice server keeps its data, as its flags and environment tell it.
type Store struct {
	Name string // "dir" or "s3", for the names of subtests
	Args []string
	Env  []string
}

// Stores are a fresh directory store and a fresh bucket on a real S3 server, which lives as long as the test.
func Stores(t testing.TB) []Store {
	t.Helper()
	return []Store{DirStore(t), S3Store(t)}
}

// DirStore is an empty directory store.
func DirStore(t testing.TB) Store {
	t.Helper()
	return Store{Name: "dir", Args: []string{"--store", "dir://" + filepath.Join(t.TempDir(), "store")}}
}

const (
	s3Access = "sluice-test"
	s3Secret = "sluice-test-secret"
)

// S3Store starts an S3 server with an empty bucket.
func S3Store(t testing.TB) Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := start(t, process.Config{
		Binary: s3Server.of(t),
		Listen: func(port int) []string {
			return []string{"--port", "127.0.0.1:" + strconv.Itoa(port), "--quiet", "--access", s3Access, "--secret", s3Secret}
		},
		Args: []string{"posix", filepath.Join(dir, "data")},
		Dir:  dir,
		Ready: func(addr string) bool {
			// Any HTTP answer will do: without credentials it is a refusal.
			response, err := http.Get("http://" + addr + "/")
			if err != nil {
				return false
			}
			response.Body.Close()
			return true
		},
	})
	return Store{
		Name: "s3",
		Args: []string{"--store", "s3://bucket/sluice?region=us-east-1&endpoint=http://" + s.Addr() + "&path_style=true"},
		Env:  []string{"AWS_ACCESS_KEY_ID=" + s3Access, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_REGION=us-east-1"},
	}
}

// nodeName is the same for every start, since it says whose log on the store a server continues.
const nodeName = "node-1"

// StartSluice starts the server under test with JetStream on the store. The test fails if it does not start, or if it
// has died by itself when the test ends.
func StartSluice(t testing.TB, store Store, args ...string) *process.Server {
	t.Helper()
	return start(t, SluiceConfig(t, store, args...))
}

// SluiceConfig is what StartSluice starts, for tests that start it themselves.
func SluiceConfig(t testing.TB, store Store, args ...string) process.Config {
	t.Helper()
	return process.Config{
		Binary: SluiceBinary(t), Args: append(append([]string{"-js", "-n", nodeName}, store.Args...), args...), Env: store.Env, Dir: t.TempDir(),
		StartTimeout: 30 * time.Second,
	}
}

// StartReference starts nats-server.
func StartReference(t testing.TB, args ...string) *process.Server {
	t.Helper()
	return start(t, process.Config{Binary: ReferenceBinary(t), Args: args, Dir: t.TempDir()})
}

func start(t testing.TB, cfg process.Config) *process.Server {
	t.Helper()
	s, err := process.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Exited(); errors.Is(err, process.ErrExited) {
			t.Error(err)
			return
		}
		s.Kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", filepath.Base(cfg.Binary), s.LogTail())
		}
	})
	return s
}
