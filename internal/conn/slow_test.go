package conn

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// TestSlowConsumerByPendingBytes floods two subscribers, of which one does not read: that one is dropped, memory stays
// bounded, and the other gets everything in order.
func TestSlowConsumerByPendingBytes(t *testing.T) {
	const (
		messages   = 40_000
		size       = 1000
		maxPending = 8 << 20
	)
	s, addr := startServer(t, account.Settings{}, func(o *Options) { o.MaxPending, o.LongFirstPing = maxPending, true })
	slow, fast, pub := dial(t, addr), dial(t, addr), dial(t, addr)
	for _, c := range []*raw{slow, fast} {
		c.handshake("")
		c.send("SUB a 1\r\nPING\r\n")
		c.expect("PONG\r\n")
	}
	pub.handshake("")
	got := make(chan error, 1)
	go func() { got <- countMessages(fast.r, messages, size) }()
	_ = fast.SetReadDeadline(time.Now().Add(time.Minute))

	before := heap()
	peak := before
	filler := bytes.Repeat([]byte("x"), size-8)
	var chunk []byte
	for i := range messages {
		chunk = fmt.Appendf(chunk, "PUB a %d\r\n%08d%s\r\n", size, i, filler)
		if len(chunk) > 256<<10 {
			pub.send(string(chunk))
			chunk = chunk[:0]
			peak = max(peak, heap())
		}
	}
	pub.send(string(chunk) + "PING\r\n")
	_ = pub.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := pub.r.ReadString('\n'); line != "PONG\r\n" {
		t.Fatalf("the publisher got %q, %v", line, err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	list, _ := s.ClosedConnections()
	if len(list) != 1 || list[0].Reason != "Slow Consumer (Pending Bytes)" {
		t.Errorf("closed: %+v", list)
	}
	// Both may hold what may be pending, plus a chunk, twice over for what the collector has not found yet.
	if used := peak - before; used > 4*maxPending {
		t.Errorf("memory grew by %d MiB", used>>20)
	}
	if s.Stats().Stalls == 0 {
		t.Error("the publisher was never made to wait")
	}
}

// heap is how much memory is in use.
func heap() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// countMessages reads numbered messages of one subscription.
func countMessages(r io.Reader, n, size int) error {
	head := fmt.Sprintf("MSG a 1 %d\r\n", size)
	msg := make([]byte, len(head)+size+2)
	for i := range n {
		if _, err := io.ReadFull(r, msg); err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
		if want := fmt.Sprintf("%s%08d", head, i); string(msg[:len(want)]) != want {
			return fmt.Errorf("message %d is %q", i, msg[:len(want)])
		}
	}
	return nil
}

// TestLargePayloads sends payloads around the sizes of buffers, cut at every kind of place.
func TestLargePayloads(t *testing.T) {
	_, addr := startServer(t, account.Settings{}, nil)
	c := dial(t, addr)
	c.handshake("")
	c.send("SUB a 1\r\n")
	for _, size := range []int{0, 1, 1000, 1022, 1024, 4000, 4096, 16 << 10, 64<<10 - 20, 64 << 10, 64<<10 + 1, 300_000, 1 << 20} {
		payload := bytes.Repeat([]byte{'a' + byte(size%26)}, size)
		in := fmt.Appendf(nil, "PUB a %d\r\n%s\r\n", size, payload)
		for cut := 7; len(in) > 0; cut *= 3 {
			n := min(cut, len(in))
			c.send(string(in[:n]))
			in = in[n:]
		}
		c.expect(fmt.Sprintf("MSG a 1 %d\r\n%s\r\n", size, payload))
	}
}

// TestIdleHoldsNoBuffers looks at what a connection keeps when it has nothing to do.
func TestIdleHoldsNoBuffers(t *testing.T) {
	s, addr := startServer(t, account.Settings{}, nil)
	c := dial(t, addr)
	c.handshake("")
	c.send("SUB a 1\r\nPUB a 3\r\nabc\r\nPING\r\n")
	c.expect("MSG a 1 3\r\nabc\r\nPONG\r\n")
	conn := s.all()[0]
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		conn.mu.Lock()
		idle := len(conn.out.bufs) == 0 && !conn.out.writing && conn.out.pending == 0
		conn.mu.Unlock()
		if idle {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection still has output")
		}
	}
	c.Close()
	for s.Stats().Connections > 0 {
		runtime.Gosched()
	}
	if conn.in.buf != nil {
		t.Error("a closed connection holds a read buffer")
	}
}
