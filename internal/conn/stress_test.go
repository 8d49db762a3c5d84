package conn

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// stressEnv is how long TestStress runs; a second where it is not set.
const stressEnv = "SLUICE_STRESS"

// TestStress connects, subscribes, publishes, unsubscribes, drains and kills at random, and looks for leaks.
func TestStress(t *testing.T) {
	duration := time.Second
	if v := os.Getenv(stressEnv); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		duration = d
	}
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		s, addr := startServer(t, account.Settings{}, func(o *Options) { o.MaxPending, o.WriteDeadline = 2<<20, time.Second })
		deadline := time.Now().Add(duration)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var clients sync.WaitGroup
		for i := range 16 {
			clients.Add(1)
			go func() {
				defer clients.Done()
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				for time.Now().Before(deadline) {
					life(t, s, addr, random)
				}
			}()
		}
		clients.Wait()
		if n := awaitConnections(t, s, 0); n > 0 {
			t.Errorf("%d connections are left", n)
		}
		space := s.options().Broker.Space(account.DefaultName)
		if n := space.Subscriptions(); n != 1 { // that of user information
			t.Errorf("%d subscriptions are left", n)
		}
	})
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		pause()
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines are left, there were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// life is one client's.
func life(t *testing.T, s *Server, addr string, random *rand.Rand) {
	var nc net.Conn
	var err error
	if random.IntN(2) == 0 {
		nc, err = s.InProcessConn()
	} else {
		nc, err = net.Dial("tcp", addr)
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	if random.IntN(8) > 0 { // some never read
		go func() { _, _ = io.Copy(io.Discard, nc) }()
	}
	var in strings.Builder
	in.WriteString("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n")
	for range random.IntN(60) {
		subject := fmt.Sprintf("s.%d", random.IntN(6))
		switch random.IntN(8) {
		case 0:
			fmt.Fprintf(&in, "SUB s.%d %d\r\n", random.IntN(6), random.IntN(10))
		case 1:
			fmt.Fprintf(&in, "SUB s.* q%d %d\r\n", random.IntN(2), random.IntN(10))
		case 2:
			fmt.Fprintf(&in, "UNSUB %d %d\r\n", random.IntN(10), random.IntN(5))
		case 3:
			in.WriteString("PING\r\n")
		case 4:
			fmt.Fprintf(&in, "PUB %s s.%d 2\r\nhi\r\n", subject, random.IntN(6))
		case 5:
			n := random.IntN(20_000)
			fmt.Fprintf(&in, "PUB %s %d\r\n%s\r\n", subject, n, strings.Repeat("x", n))
		default:
			for range random.IntN(100) {
				fmt.Fprintf(&in, "PUB %s 3\r\nabc\r\n", subject)
			}
		}
		if random.IntN(4) == 0 {
			if _, err := io.WriteString(nc, in.String()); err != nil {
				return // given up as a slow consumer
			}
			in.Reset()
		}
	}
	_, _ = io.WriteString(nc, in.String()[:random.IntN(in.Len()+1)]) // maybe killed in the middle
}
