// Package broadcast_test has servers that know of each other only through a store hear each other's broadcasts.
package broadcast_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

const configuration = `
jetstream: true
accounts { APP { users: [{user: app, password: app}] } }
no_auth_user: anybody
authorization { users: [{user: anybody, password: x}] }
broadcast {
  subjects: ["news.>"]
  accounts { APP: "app.*" }
  retention: "1m"
}
`

// node starts a server under a name of its own.
func node(t *testing.T, store rig.Store, name string) *process.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.StartSluice(t, store, "-n", name, "-c", path)
}

// listen subscribes to everything as a user.
func listen(t *testing.T, s *process.Server, user ...nats.Option) (*nats.Conn, chan *nats.Msg) {
	t.Helper()
	nc, err := nats.Connect("nats://"+s.Addr(), user...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 1024)
	for _, subj := range []string{"news.>", "app.>"} {
		if _, err := nc.ChanSubscribe(subj, got); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return nc, got
}

func next(t *testing.T, whose string, got chan *nats.Msg) *nats.Msg {
	t.Helper()
	select {
	case m := <-got:
		return m
	case <-time.After(20 * time.Second):
		t.Fatalf("%s hears nothing", whose)
		return nil
	}
}

func TestServersOfOneStore(t *testing.T) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) {
			a, b := node(t, store, "a"), node(t, store, "b")
			fromA, atA := listen(t, a)
			fromB, atB := listen(t, b)
			app := nats.UserInfo("app", "app")
			appA, atAppA := listen(t, a, app)
			_, atAppB := listen(t, b, app)

			// A request is answered once the message is durable.
			answer, err := fromA.RequestMsg(&nats.Msg{Subject: "news.first", Header: nats.Header{"Colour": {"red"}}, Data: []byte("0")}, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var receipt struct {
				Broadcast     bool
				Node          string
				Epoch, Offset uint64
			}
			if err := json.Unmarshal(answer.Data, &receipt); err != nil || !receipt.Broadcast || receipt.Node != "a" || receipt.Epoch != 1 {
				t.Errorf("answered with %s (%v)", answer.Data, err)
			}
			for i := 1; i < 50; i++ {
				if err := fromA.Publish("news.more", fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := appA.Publish("app.x", []byte("own account")); err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				for whose, got := range map[string]chan *nats.Msg{"a": atA, "b": atB} {
					if m := next(t, whose, got); string(m.Data) != fmt.Sprint(i) || i == 0 && m.Header.Get("Colour") != "red" {
						t.Errorf("%s heard %s %q, want %d", whose, m.Subject, m.Data, i)
					}
				}
			}
			for whose, got := range map[string]chan *nats.Msg{"a": atAppA, "b": atAppB} {
				if m := next(t, whose, got); m.Subject != "app.x" || string(m.Data) != "own account" {
					t.Errorf("%s heard %s %q in its account", whose, m.Subject, m.Data)
				}
			}

			// a dies and comes back in a new epoch; what it broadcasts then follows, once.
			a.Kill()
			again := node(t, store, "a")
			fromAgain, _ := listen(t, again)
			if _, err := fromAgain.Request("news.again", []byte("back"), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if m := next(t, "b", atB); string(m.Data) != "back" {
				t.Errorf("b heard %s %q after the restart", m.Subject, m.Data)
			}
			if _, err := fromB.Request("news.b", []byte("from b"), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if m := next(t, "b", atB); string(m.Data) != "from b" {
				t.Errorf("b heard %q", m.Data)
			}
			for name, got := range map[string]chan *nats.Msg{"a": atA, "b": atB, "a in APP": atAppA, "b in APP": atAppB} {
				if len(got) > 0 {
					t.Errorf("%s heard %d messages too many", name, len(got))
				}
			}
		})
	}
}
