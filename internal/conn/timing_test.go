package conn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
)

// bubble runs a test in virtual time against a server that is reached inside the process.
func bubble(t *testing.T, settings account.Settings, change func(*Options), test func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir, err := account.NewDirectory(settings)
		if err != nil {
			t.Fatal(err)
		}
		opts := Options{Broker: broker.New(broker.Options{}), Directory: dir, ServerID: "N", ServerName: "n", Log: slog.New(slog.DiscardHandler)}
		if change != nil {
			change(&opts)
		}
		s, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // what is left over fails the test
	})
}

// inProcess connects inside the bubble. Reads have no deadline there: a wait that never ends is found by synctest.
func inProcess(t *testing.T, s *Server) *raw {
	t.Helper()
	nc, err := s.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, nc)
}

// after runs expect, and checks how long it took in virtual time.
func after(t *testing.T, from, to time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took < from || took > to {
		t.Errorf("took %v, want between %v and %v", took, from, to)
	}
}

// await reads without a deadline.
func (c *raw) await(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Time{})
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := c.r.Read(got[n:])
		if n += m; err != nil {
			c.t.Fatalf("got %q, %v, want %q", got[:n], err, want)
		}
	}
	if string(got) != want {
		c.t.Fatalf("got %q, want %q", got, want)
	}
}

func TestAuthenticationTimeout(t *testing.T) {
	bubble(t, account.Settings{Token: "t"}, nil, func(t *testing.T, s *Server) {
		c := inProcess(t, s)
		after(t, 2*time.Second, 2*time.Second, func() { c.await("-ERR 'Authentication Timeout'\r\n") })
		c.expectClosed()
		synctest.Wait()
		if list, _ := s.ClosedConnections(); len(list) != 1 || list[0].Reason != "Authentication Timeout" {
			t.Errorf("closed: %+v", list)
		}
	})
}

func TestPings(t *testing.T) {
	bubble(t, account.Settings{}, func(o *Options) { o.PingInterval = 10 * time.Second }, func(t *testing.T, s *Server) {
		c := inProcess(t, s)
		c.handshake("")
		// The first one early, to learn the round-trip time, then by interval; two unanswered ones are the end.
		after(t, 2*time.Second, 2400*time.Millisecond, func() { c.await("PING\r\n") })
		c.send("PONG\r\n")
		after(t, 10*time.Second, 10*time.Second, func() { c.await("PING\r\n") })
		after(t, 10*time.Second, 10*time.Second, func() { c.await("PING\r\n") })
		after(t, 10*time.Second, 10*time.Second, func() { c.await("-ERR 'Stale Connection'\r\n") })
		c.expectClosed()
		synctest.Wait()
		if n := s.Stats().StaleConnections; n != 1 {
			t.Errorf("%d stale connections counted", n)
		}
	})
}

func TestBusyClientIsNotPinged(t *testing.T) {
	bubble(t, account.Settings{}, func(o *Options) { o.PingInterval = 10 * time.Second }, func(t *testing.T, s *Server) {
		c := inProcess(t, s)
		c.handshake("")
		c.await("PING\r\n")
		c.send("PONG\r\n")
		for range 20 {
			time.Sleep(3 * time.Second)
			c.send("PUB a 1\r\nx\r\n")
		}
		// Had there been pings, the first thing to come would not be this.
		c.send("PING\r\n")
		c.await("PONG\r\n")
	})
}

func TestLameDuck(t *testing.T) {
	change := func(o *Options) { o.LameDuckDuration, o.LameDuckGrace = 30*time.Second, 10*time.Second }
	bubble(t, account.Settings{}, change, func(t *testing.T, s *Server) {
		var clients []*raw
		for range 10 {
			c := inProcess(t, s)
			c.send("CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n")
			c.await("PONG\r\n")
			if line, _ := c.r.ReadString('\n'); !strings.Contains(line, `"connect_info":true`) {
				t.Fatalf("after the first PONG: %q", line)
			}
			clients = append(clients, c)
		}
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- s.LameDuck(context.Background()) }()
		for _, c := range clients {
			_ = c.SetReadDeadline(time.Time{})
			line, err := c.r.ReadString('\n')
			for err == nil && line == "PING\r\n" {
				c.send("PONG\r\n")
				line, err = c.r.ReadString('\n')
			}
			if !strings.Contains(line, `"ldm":true`) {
				t.Fatalf("%q, %v", line, err)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the news took %v", took)
		}
		if _, err := s.InProcessConn(); !errors.Is(err, ErrClosed) {
			t.Errorf("a new client is met with %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// Ten seconds of grace, then nine pauses of half to one second.
		if took := time.Since(start); took < 14*time.Second || took > 20*time.Second {
			t.Errorf("lame duck mode took %v", took)
		}
		if n := s.Stats().Connections; n > 1 { // the last may still be going
			t.Errorf("%d clients are left", n)
		}
	})
}

func TestLameDuckEndsWithContext(t *testing.T) {
	bubble(t, account.Settings{}, nil, func(t *testing.T, s *Server) {
		inProcess(t, s).handshake("")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.LameDuck(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("LameDuck: %v", err)
		}
	})
}

// TestSlowConsumerByDeadline: a client that does not read is given up after the write deadline; others are not.
func TestSlowConsumerByDeadline(t *testing.T) {
	bubble(t, account.Settings{}, func(o *Options) { o.WriteDeadline = 5 * time.Second }, func(t *testing.T, s *Server) {
		slow, fast, pub := inProcess(t, s), inProcess(t, s), inProcess(t, s)
		slow.handshake("")
		fast.handshake("")
		pub.handshake("")
		slow.send("SUB a 1\r\nPING\r\n")
		slow.await("PONG\r\n")
		fast.send("SUB a 1\r\nPING\r\n")
		fast.await("PONG\r\n")
		payload := strings.Repeat("x", 100_000)
		for range 3 {
			pub.send("PUB a 100000\r\n" + payload + "\r\n")
			fast.await("MSG a 1 100000\r\n" + payload + "\r\n")
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		list, _ := s.ClosedConnections()
		if len(list) != 1 || list[0].Reason != "Slow Consumer (Write Deadline)" {
			t.Fatalf("closed: %+v", list)
		}
		if n := s.Stats().SlowConsumers; n != 1 {
			t.Errorf("%d slow consumers counted", n)
		}
		pub.send("PUB a 1\r\nx\r\n")
		fast.await("PING\r\nMSG a 1 1\r\nx\r\n")
	})
}

func TestShutdownSaysNothingAndCloses(t *testing.T) {
	bubble(t, account.Settings{}, nil, func(t *testing.T, s *Server) {
		c := inProcess(t, s)
		c.handshake("")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.expectClosed()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}
