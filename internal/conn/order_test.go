package conn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// choosy is a connection that takes a random part of what is written without waiting, and sometimes nothing or an error.
type choosy struct {
	net.Conn
	random *rand.Rand // of whoever writes, of which there is one at a time
	direct *int       // bytes that were written without waiting
}

func (c choosy) TryWrite(b []byte) (int, error) {
	switch c.random.IntN(8) {
	case 0:
		return 0, nil
	case 1:
		return 0, errors.New("some failure")
	case 2, 3:
		b = b[:c.random.IntN(len(b)+1)]
	}
	for range c.random.IntN(64) {
		runtime.Gosched() // somebody queues more meanwhile
	}
	n, err := c.Conn.(tryWriter).TryWrite(b)
	*c.direct += n
	return n, err
}

// TestOrderOfDirectWrites has a subscriber that is reached by publishers' own writes, of which many are cut short, and by
// its write loop in turn: it gets every message once, whole, and in order for each publisher.
func TestOrderOfDirectWrites(t *testing.T) {
	const publishers, messages = 6, 500
	for _, kind := range []string{"cut short", "pipe", "small socket"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s, addr := startServer(t, account.Settings{}, func(o *Options) { o.LongFirstPing = true })
			direct := 0
			sub := connectKind(t, s, kind, choosy{random: rand.New(rand.NewPCG(seed, 0)), direct: &direct})
			_ = sub.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprint(sub, "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPING\r\n")
			random := rand.New(rand.NewPCG(seed, 1))
			r := bufio.NewReader(&dawdler{sub, random})
			awaitPong(t, r)
			for p := range publishers {
				pub := dial(t, addr)
				pub.handshake("")
				go func() {
					random := rand.New(rand.NewPCG(seed, uint64(2+p)))
					for i := range messages {
						// Mostly chunks of one message, which go the direct way.
						n := random.IntN(300)
						if random.IntN(10) == 0 {
							n = random.IntN(2 * directBytes)
						}
						_, _ = pub.Write(fmt.Appendf(nil, "PUB a %d\r\n%s\r\n", n+16, body(p, i, n)))
						if random.IntN(2) == 0 { // lets the subscriber catch up
							_, _ = pub.Write([]byte("PING\r\n"))
							_, _ = pub.r.ReadString('\n')
						}
					}
				}()
			}
			var next [publishers]int
			for range publishers * messages {
				var size int
				if _, err := fmt.Fscanf(r, "MSG a 1 %d\r\n", &size); err != nil {
					t.Fatalf("after %v messages: %v", next, err)
				}
				got := make([]byte, size+2)
				if _, err := io.ReadFull(r, got); err != nil {
					t.Fatal(err)
				}
				var p, i int
				if _, err := fmt.Sscanf(string(got[:16]), "%d %d", &p, &i); err != nil {
					t.Fatalf("a message that begins %q", got[:16])
				}
				if i != next[p] || !bytes.Equal(got, append(body(p, i, size-16), '\r', '\n')) {
					t.Fatalf("message %d of publisher %d, want %d, or it is damaged", i, p, next[p])
				}
				next[p]++
			}
			sub.Close()
			awaitConnections(t, s, publishers)
			if kind == "cut short" && direct == 0 {
				t.Error("nothing was written directly")
			}
		})
	}
}

// body is the i-th payload of a publisher: who and which in 16 bytes, then n more.
func body(p, i, n int) []byte {
	b := fmt.Appendf(nil, "%d %-14d", p, i)
	return append(b, bytes.Repeat([]byte{'a' + byte((p+i)%26)}, n)...)
}

// connectKind gives the client's end of a connection of a kind.
func connectKind(t *testing.T, s *Server, kind string, c choosy) net.Conn {
	t.Helper()
	switch kind {
	case "cut short":
		server, client := newPipe()
		c.Conn = server
		if !s.start(c, account.ConnectionStandard) {
			t.Fatal("refused")
		}
		return client
	case "pipe":
		nc, err := s.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	// Of a socket with small buffers the kernel itself takes parts only.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.(*net.TCPConn).SetWriteBuffer(8 << 10)
	if !s.start(accepted, account.ConnectionStandard) {
		t.Fatal("refused")
	}
	return nc
}

// dawdler reads a little at a time, and sometimes lets others run first.
type dawdler struct {
	io.Reader
	random *rand.Rand
}

func (d *dawdler) Read(b []byte) (int, error) {
	for range d.random.IntN(4) {
		runtime.Gosched()
	}
	return d.Reader.Read(b[:min(len(b), 1+d.random.IntN(4096))])
}

func awaitPong(t *testing.T, r *bufio.Reader) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "PONG\r\n" {
			break
		}
	}
}
