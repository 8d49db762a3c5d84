// Package wire_test speaks the client protocol in raw bytes, good and bad, to Sluice and to nats-server, and expects
// the same bytes from both.
package wire_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

var update = flag.Bool("update", false, "write what the reference server answers into the scenario files")

// quiet is how long a server that has said everything must stay silent.
const quiet = 50 * time.Millisecond

// patience is how long a server may take for an answer.
const patience = 10 * time.Second

type starter func(t testing.TB, args ...string) *process.Server

func startSluice(t testing.TB, args ...string) *process.Server {
	return rig.StartSluice(t, rig.DirStore(t), args...)
}

func TestSluice(t *testing.T)    { testScenarios(t, startSluice) }
func TestReference(t *testing.T) { testScenarios(t, rig.StartReference) }

func testScenarios(t *testing.T, start starter) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		all := readScenarios(t, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			// Scenarios without a configuration of their own share a server, one after the other.
			plain := start(t)
			for i := range all {
				s := &all[i]
				t.Run(s.title, func(t *testing.T) {
					server := plain
					if len(s.conf) > 0 {
						conf := filepath.Join(t.TempDir(), "server.conf")
						if err := os.WriteFile(conf, []byte(strings.Join(s.conf, "\n")+"\n"), 0o644); err != nil {
							t.Fatal(err)
						}
						server = start(t, "-c", conf)
					}
					s.play(t, server)
					stillServes(t, server)
				})
			}
		})
		if *update {
			if err := writeScenarios(file, all); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// play sends and expects; with -update it records instead.
func (s *scenario) play(t *testing.T, server *process.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range s.steps {
		st := &s.steps[i]
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			// A server that has seen enough closes while we still send: what it said counts, not this error.
			_, _ = conn.Write(st.bytes())
		}()
		var got []byte
		if *update {
			got, _ = readQuiet(conn, 8*quiet)
			st.want = got
		} else {
			got = readExpected(conn, st.want, i == len(s.steps)-1)
		}
		if !bytes.Equal(got, st.want) {
			t.Errorf("step %d\n%s\ngot:\n%s\nwant:\n%s", i+1, strings.Join(st.send, "\n"), strings.Join(escape(got), "\n"), strings.Join(escape(st.want), "\n"))
		}
		conn.SetWriteDeadline(time.Now())
		<-sent
		conn.SetWriteDeadline(time.Time{})
	}
}

// readQuiet reads until the server closes or says nothing for the given time.
func readQuiet(conn net.Conn, pause time.Duration) (got []byte, closed bool) {
	b := make([]byte, 64<<10)
	for {
		conn.SetReadDeadline(time.Now().Add(pause))
		n, err := conn.Read(b)
		got = append(got, b[:n]...)
		switch {
		case err == nil:
		case isClosed(err):
			return append(normalise(got), closedMark...), true
		default:
			return normalise(got), false
		}
	}
}

// readExpected reads until what is expected has come, however long that takes, and, after the last step, makes sure
// that nothing follows.
func readExpected(conn net.Conn, want []byte, last bool) []byte {
	var raw []byte
	b := make([]byte, 64<<10)
	conn.SetReadDeadline(time.Now().Add(patience))
	for {
		got := normalise(raw)
		if bytes.Equal(got, want) || !bytes.HasPrefix(want, got) && !bytes.HasPrefix(raw[bytes.LastIndexByte(raw, '\n')+1:], []byte("INFO")) {
			if !last || bytes.HasSuffix(want, []byte(closedMark)) {
				more, _ := readQuiet(conn, quiet/50)
				return append(got, more...)
			}
			more, _ := readQuiet(conn, quiet)
			return append(got, more...)
		}
		n, err := conn.Read(b)
		raw = append(raw, b[:n]...)
		if isClosed(err) {
			return append(normalise(raw), closedMark...)
		}
		if err != nil {
			return normalise(raw)
		}
	}
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// stillServes makes sure that the server lives and answers others.
func stillServes(t testing.TB, server *process.Server) {
	t.Helper()
	if err := server.Exited(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", server.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "INFO " && string(b) != "-ERR " {
		t.Fatalf("the server does not serve any more: %q %v", b, err)
	}
}
