package conn

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/sluicemq/sluice/internal/account"
)

func natsConnect(t *testing.T, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestNATSClient(t *testing.T) {
	_, addr := startServer(t, account.Settings{}, nil)
	nc := natsConnect(t, addr, nats.Name("test"))
	if v := nc.ConnectedServerVersion(); v != "2.15.3" {
		t.Errorf("version %q", v)
	}
	sub, err := nc.SubscribeSync("a.*")
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg("a.b")
	m.Header.Set("K", "v")
	m.Data = []byte("data")
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	got, err := sub.NextMsg(patience)
	if err != nil || got.Header.Get("K") != "v" || string(got.Data) != "data" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := nc.Request("nobody", nil, patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a request that nobody hears: %v", err)
	}
	for i := range 2 {
		if _, err := nc.QueueSubscribe("q", "workers", func(m *nats.Msg) { _ = m.Respond(fmt.Append(nil, i)) }); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for range 200 {
		r, err := nc.Request("q", []byte("x"), patience)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(r.Data)]++
	}
	if seen["0"] < 40 || seen["1"] < 40 {
		t.Errorf("the two workers got %v", seen)
	}
	if rtt, err := nc.RTT(); err != nil || rtt <= 0 {
		t.Errorf("RTT %v, %v", rtt, err)
	}
	r, err := nc.Request(userInfoSubject, nil, patience)
	if err != nil || len(r.Data) == 0 {
		t.Errorf("user information: %v", err)
	}
}

func TestNATSClientInProcess(t *testing.T) {
	s, _ := startServer(t, account.Settings{}, nil)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("a")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := nc.Publish("a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		m, err := sub.NextMsg(patience)
		if err != nil || string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d: %v, %v", i, m, err)
		}
	}
}

func TestNKey(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	settings := account.Settings{Users: []account.UserSettings{{NKey: public}, {Name: "u", Password: "p"}}}
	_, addr := startServer(t, settings, nil)
	natsConnect(t, addr, nats.Nkey(public, func(nonce []byte) ([]byte, error) { return user.Sign(nonce) }))
	other, _ := nkeys.CreateUser()
	_, err = nats.Connect("nats://"+addr, nats.Nkey(public, func(nonce []byte) ([]byte, error) { return other.Sign(nonce) }))
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another's signature: %v", err)
	}
	natsConnect(t, addr, nats.UserInfo("u", "p"))
}

// TestQueueGroupLosesNothing lets members drain and come back while messages flow: each message is answered once.
func TestQueueGroupLosesNothing(t *testing.T) {
	_, addr := startServer(t, account.Settings{}, nil)
	var got sync.Map
	var count atomic.Int64
	handle := func(m *nats.Msg) {
		if _, twice := got.LoadOrStore(string(m.Data), true); twice {
			t.Errorf("message %s came twice", m.Data)
		}
		count.Add(1)
	}
	steady := natsConnect(t, addr)
	if _, err := steady.QueueSubscribe("q", "g", handle); err != nil {
		t.Fatal(err)
	}
	if err := steady.Flush(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var members sync.WaitGroup
	for range 3 {
		members.Add(1)
		go func() {
			defer members.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				closed := make(chan struct{})
				nc, err := nats.Connect("nats://"+addr, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := nc.QueueSubscribe("q", "g", handle); err != nil {
					t.Error(err)
				}
				_ = nc.Flush()
				_ = nc.Drain()
				<-closed
			}
		}()
	}
	pub := natsConnect(t, addr)
	const n = 50_000
	for i := range n {
		if err := pub.Publish("q", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Flush(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	members.Wait()
	for deadline := time.Now().Add(patience); count.Load() < n && time.Now().Before(deadline); {
		pause()
	}
	if count.Load() != n {
		t.Errorf("%d of %d messages came", count.Load(), n)
	}
}

// TestInterfaces pins what nats.go wants of a server inside the process.
func TestInterfaces(t *testing.T) {
	var _ nats.InProcessConnProvider = (*Server)(nil)
	var _ net.Conn = (*pipeEnd)(nil)
}
