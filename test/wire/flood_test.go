package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/bench/process"
)

// growth is by how much the server's memory grew over do.
func growth(t *testing.T, server *process.Server, do func()) int64 {
	t.Helper()
	before, err := server.RSS()
	if err != nil {
		t.Fatal(err)
	}
	do()
	stillServes(t, server)
	after, err := server.RSS()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("memory grew by %d MiB from %d MiB", (after-before)>>20, before>>20)
	return after - before
}

func wantGrowthBelow(t *testing.T, mib int64, grown int64) {
	t.Helper()
	if grown>>20 >= mib {
		t.Errorf("memory grew by %d MiB, want less than %d", grown>>20, mib)
	}
}

// dial returns a raw connection that has sent a quiet CONNECT.
func dial(t *testing.T, server *process.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// awaitPong reads until a PONG, whatever comes before it.
func awaitPong(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	var tail []byte
	b := make([]byte, 256<<10)
	for {
		n, err := conn.Read(b)
		tail = append(tail, b[:n]...)
		if bytes.Contains(tail, []byte("PONG\r\n")) {
			return
		}
		if err != nil {
			t.Fatalf("no PONG: %v", err)
		}
		tail = tail[max(0, len(tail)-6):]
	}
}

// writeAll sends lines made for 0 to n-1 in large pieces, and returns early when the server closes.
func writeAll(conn net.Conn, n int, line func(b []byte, i int) []byte) error {
	var b []byte
	for i := range n {
		b = line(b, i)
		if len(b) > 64<<10 || i == n-1 {
			conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
			if _, err := conn.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

func TestTenMillionSubjectsPublished(t *testing.T) {
	server := startSluice(t)
	listener := dial(t, server)
	if _, err := io.WriteString(listener, "SUB nothing.of.this 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	awaitPong(t, listener)
	conn := dial(t, server)
	wantGrowthBelow(t, 64, growth(t, server, func() {
		if err := writeAll(conn, 10_000_000, func(b []byte, i int) []byte { return fmt.Appendf(b, "PUB flood.%d.x 0\r\n\r\n", i) }); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		awaitPong(t, conn)
	}))
}

func TestTenMillionSubscriptionsRefused(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(conf, []byte("max_subscriptions: 1000\nwrite_deadline: \"2s\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := startSluice(t, "-c", conf)
	conn := dial(t, server)
	// The client reads none of the ten million refusals: the server may cut it off, and must not keep them.
	wantGrowthBelow(t, 160, growth(t, server, func() {
		err := writeAll(conn, 10_000_000, func(b []byte, i int) []byte { return fmt.Appendf(b, "SUB flood.%d.x %d\r\n", i, i) })
		t.Logf("sending ended with: %v", err)
	}))
}

func TestManyHalfMessages(t *testing.T) {
	server := startSluice(t)
	const connections, half = 100, 512 << 10
	payload := make([]byte, half)
	wantGrowthBelow(t, 160, growth(t, server, func() {
		for range connections {
			conn := dial(t, server)
			if _, err := fmt.Fprintf(conn, "PUB half %d\r\n%s", 2*half, payload); err != nil {
				t.Fatal(err)
			}
		}
	}))
}

func TestManyClientsWithGarbage(t *testing.T) {
	server := startSluice(t)
	wantGrowthBelow(t, 64, growth(t, server, func() {
		for i := range 2000 {
			conn, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%d garbage\r\n", i)
			conn.SetReadDeadline(time.Now().Add(patience))
			said, err := io.ReadAll(conn)
			if err != nil && !isClosed(err) || !bytes.HasSuffix(said, []byte("-ERR 'Unknown Protocol Operation'\r\n")) {
				t.Fatalf("client %d: %q %v", i, said, err)
			}
			conn.Close()
		}
	}))
}

// TestSlowSubscriberIsDropped has a subscriber that reads nothing: the server drops it, keeps its own memory bounded,
// and delivers everything to the other subscriber.
func TestSlowSubscriberIsDropped(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(conf, []byte("max_pending: 16MB\nwrite_deadline: \"2s\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := startSluice(t, "-c", conf)
	const messages, size = 30_000, 8 << 10
	slow := dial(t, server)
	if _, err := io.WriteString(slow, "SUB stream.of.data 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	awaitPong(t, slow)
	reader, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	all := make(chan struct{})
	got := 0
	sub, err := reader.Subscribe("stream.of.data", func(*nats.Msg) {
		if got++; got == messages {
			close(all)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := reader.Flush(); err != nil {
		t.Fatal(err)
	}
	sender, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	payload := make([]byte, size)
	wantGrowthBelow(t, 128, growth(t, server, func() {
		for range messages {
			if err := sender.Publish("stream.of.data", payload); err != nil {
				t.Fatal(err)
			}
		}
		if err := sender.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		select {
		case <-all:
		case <-time.After(time.Minute):
			t.Fatalf("the other subscriber did not get all of %d messages", messages)
		}
	}))
	// The slow one sees the end of its connection behind what was already on its way.
	slow.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, slow); err != nil && !isClosed(err) {
		t.Errorf("the slow subscriber is still connected after %d bytes: %v", n, err)
	}
}
