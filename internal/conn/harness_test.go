package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
)

// patience bounds waits that should not be needed.
const patience = 10 * time.Second

// startServer serves on a free port until the test ends.
func startServer(t testing.TB, settings account.Settings, change func(*Options)) (*Server, string) {
	t.Helper()
	dir, err := account.NewDirectory(settings)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Broker:     broker.New(broker.Options{}),
		Directory:  dir,
		ServerID:   "NTEST",
		ServerName: "test",
		GoVersion:  "go",
		Log:        slog.New(slog.DiscardHandler),
		Host:       "127.0.0.1",
		Port:       l.Addr().(*net.TCPAddr).Port,
	}
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s, l.Addr().String()
}

// referenceEnv names the binary of a nats-server to compare with.
const referenceEnv = "SLUICE_NATS_SERVER"

// startReference runs nats-server with a configuration, or skips the test.
func startReference(t testing.TB, config string) string {
	t.Helper()
	binary := os.Getenv(referenceEnv)
	if binary == "" {
		t.Skip(referenceEnv + " is not set")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	config = "listen: \"127.0.0.1:-1\"\nports_file_dir: \"" + dir + "\"\n" + config
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, binary, "-c", file)
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	ports := filepath.Join(dir, filepath.Base(binary)+"_"+strconv.Itoa(cmd.Process.Pid)+".ports")
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(ports)
		if m := regexp.MustCompile(`nats://([0-9.:]+)`).FindSubmatch(text); err == nil && m != nil {
			return string(m[1])
		}
	}
	t.Fatal("nats-server did not start")
	return ""
}

// raw is a client that speaks bytes.
type raw struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, nc)
}

// wrap reads the greeting.
func wrap(t testing.TB, nc net.Conn) *raw {
	t.Helper()
	c := &raw{Conn: nc, t: t, r: bufio.NewReaderSize(nc, 64<<10)}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	line, err := c.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "INFO {") {
		t.Fatalf("greeting %q, %v", line, err)
	}
	return c
}

func (c *raw) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("sending %.40q: %v", s, err)
	}
}

var infoLine = regexp.MustCompile(`INFO \{[^\r\n]*\}[ ]*\r\n`)

// expect reads until it has what is wanted, and fails at the first difference. INFO lines count as "INFO\r\n".
func (c *raw) expect(want string) {
	c.t.Helper()
	got, err := c.readLike(want)
	if got != want {
		c.t.Fatalf("got  %.300q\nwant %.300q\nerror %v", got, want, err)
	}
}

// readLike reads as much as is wanted, or until the first difference.
func (c *raw) readLike(want string) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var got strings.Builder
	for _, part := range strings.SplitAfter(want, "INFO\r\n") {
		text, info := strings.CutSuffix(part, "INFO\r\n")
		for len(text) > 0 {
			n := min(len(text), max(1, c.r.Buffered()))
			b := make([]byte, n)
			n, err := io.ReadFull(c.r, b)
			got.Write(b[:n])
			if err != nil {
				return got.String(), err
			}
			if string(b) != text[:n] {
				rest, _ := c.r.Peek(c.r.Buffered())
				return got.String() + string(rest), nil
			}
			text = text[n:]
		}
		if info {
			line, err := c.r.ReadString('\n')
			got.WriteString(infoLine.ReplaceAllString(line, "INFO\r\n"))
			if err != nil {
				return got.String(), err
			}
		}
	}
	return got.String(), nil
}

// expectClosed checks that nothing more comes and that the server has closed the connection.
func (c *raw) expectClosed() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("instead of the end: %q, %v", rest, err)
	}
}

// handshake connects without verbose and pedantic.
func (c *raw) handshake(more string) {
	c.t.Helper()
	c.send(fmt.Sprintf("CONNECT {\"verbose\":false,\"pedantic\":false%s}\r\nPING\r\n", more))
	c.expect("PONG\r\n")
}

// pause gives others the processor while a test polls for something that no channel tells.
func pause() { time.Sleep(time.Millisecond) }
