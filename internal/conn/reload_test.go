package conn

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/account"
)

func users(a, b *account.Permissions) account.Settings {
	return account.Settings{Accounts: []account.AccountSettings{
		{Name: "A", Users: []account.UserSettings{{Name: "a", Password: "p", Permissions: a}}},
		{Name: "B", Users: []account.UserSettings{{Name: "b", Password: "p", Permissions: b}}},
	}}
}

func login(c *raw, user string) {
	c.t.Helper()
	c.handshake(",\"user\":\"" + user + "\",\"pass\":\"p\"")
}

// reload swaps the directory and lets the server look at its clients again.
func reload(t *testing.T, s *Server, settings account.Settings, change func(*Options)) {
	t.Helper()
	opts := *s.options()
	if change != nil {
		change(&opts)
	}
	if err := opts.Directory.Swap(settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(opts); err != nil {
		t.Fatal(err)
	}
}

func TestReloadUsers(t *testing.T) {
	s, addr := startServer(t, users(nil, nil), nil)
	stays, changed, moved := dial(t, addr), dial(t, addr), dial(t, addr)
	login(stays, "b")
	login(changed, "a")
	login(moved, "b")

	settings := users(nil, nil)
	settings.Accounts[0].Users[0].Password = "other"
	reload(t, s, settings, nil)
	changed.expect("-ERR 'Authorization Violation'\r\n")
	changed.expectClosed()

	moved.send("PING\r\n")
	moved.expect("PONG\r\n")
	// User b moves to account A: its clients are closed without a word, so that they come back.
	settings.Accounts[0].Users, settings.Accounts[1].Users = settings.Accounts[1].Users, nil
	reload(t, s, settings, nil)
	moved.expectClosed()
	stays.expectClosed()
}

func TestReloadPermissions(t *testing.T) {
	s, addr := startServer(t, users(nil, nil), nil)
	c := dial(t, addr)
	login(c, "a")
	c.send("SUB x.1 1\r\nSUB y q 2\r\nSUB z.* 3\r\nPUB x.1 1\r\na\r\nPING\r\n")
	c.expect("MSG x.1 1 1\r\na\r\nPONG\r\n")
	reload(t, s, users(&account.Permissions{
		Publish:   account.SubjectPermissions{Deny: []string{"x.1"}},
		Subscribe: account.SubjectPermissions{Deny: []string{"x.>", "z.no"}, Allow: []string{"x.>", "z.>"}},
	}, nil), nil)
	got, err := c.readLike("-ERR 'Permissions Violation for Subscription to ")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got += line
	}
	for _, want := range []string{`"x.1" (sid "1")'`, `"y" using queue "q" (sid "2")'`} {
		if !strings.Contains(got, "-ERR 'Permissions Violation for Subscription to "+want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	c.send("PUB x.1 1\r\na\r\nPUB z.no 1\r\na\r\nPUB z.yes 1\r\nb\r\nPING\r\n")
	c.expect("-ERR 'Permissions Violation for Publish to \"x.1\"'\r\nMSG z.yes 3 1\r\nb\r\nPONG\r\n")
	reload(t, s, users(nil, nil), nil)
	c.send("PUB z.no 1\r\na\r\nPING\r\n")
	c.expect("MSG z.no 3 1\r\na\r\nPONG\r\n")
}

func TestReloadLimits(t *testing.T) {
	s, addr := startServer(t, account.Settings{}, nil)
	first, second := dial(t, addr), dial(t, addr)
	first.handshake("")
	second.handshake("")
	reload(t, s, account.Settings{}, func(o *Options) { o.MaxPayload, o.MaxConnections = 2, 1 })
	if n := awaitConnections(t, s, 1); n != 1 {
		t.Fatalf("%d connections are left", n)
	}
	third := dial(t, addr)
	third.expect("-ERR 'maximum connections exceeded'\r\n")
	third.expectClosed()
}

func TestReloadMaxPayload(t *testing.T) {
	s, addr := startServer(t, account.Settings{}, nil)
	c := dial(t, addr)
	c.handshake("")
	reload(t, s, account.Settings{}, func(o *Options) { o.MaxPayload = 2 })
	c.send("PUB a 2\r\nxx\r\nPUB a 3\r\nxxx\r\n")
	c.expect("-ERR 'Maximum Payload Violation'\r\n")
	c.expectClosed()
}

func TestReloadTurnsAuthenticationOn(t *testing.T) {
	s, addr := startServer(t, account.Settings{}, nil)
	silent, named := dial(t, addr), dial(t, addr)
	named.handshake("")
	reload(t, s, account.Settings{Token: "t"}, nil)
	silent.expect("-ERR 'Authorization Violation'\r\n")
	silent.expectClosed()
	named.expect("-ERR 'Authorization Violation'\r\n")
	named.expectClosed()
}

func TestReloadConnectURLs(t *testing.T) {
	s, addr := startServer(t, account.Settings{}, nil)
	c, old := dial(t, addr), dial(t, addr)
	c.send("CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n")
	c.expect("PONG\r\nINFO\r\n")
	old.handshake("")
	reload(t, s, account.Settings{}, func(o *Options) { o.ConnectURLs = []string{"10.0.0.1:4222"} })
	line, err := c.r.ReadString('\n')
	if err != nil || !strings.Contains(line, `"connect_urls":["10.0.0.1:4222"]`) {
		t.Errorf("%q, %v", line, err)
	}
	old.send("PING\r\n")
	old.expect("PONG\r\n") // and no INFO
}

func TestAccountConnectionLimit(t *testing.T) {
	settings := users(nil, nil)
	settings.Accounts[0].MaxConnections = 1
	s, addr := startServer(t, settings, nil)
	c := dial(t, addr)
	login(c, "a")
	d := dial(t, addr)
	d.send("CONNECT {\"user\":\"a\",\"pass\":\"p\"}\r\n")
	d.expect("-ERR 'maximum account active connections exceeded'\r\n")
	d.expectClosed()
	c.Close()
	awaitConnections(t, s, 0)
	login(dial(t, addr), "a")
}

// awaitConnections waits until no more connections are open than that.
func awaitConnections(t *testing.T, s *Server, n int) int {
	t.Helper()
	for range 10_000 {
		if s.Stats().Connections <= n {
			break
		}
		pause()
	}
	return s.Stats().Connections
}
