package conn

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

func TestAccountStatsOutliveConnections(t *testing.T) {
	settings := account.Settings{Accounts: []account.AccountSettings{
		{Name: "A", Users: []account.UserSettings{{Name: "a", Password: "p"}}},
		{Name: "B", Users: []account.UserSettings{{Name: "b", Password: "p"}}},
	}}
	s, addr := startServer(t, settings, func(o *Options) { o.MaxClosed = 1 })
	connect := func(user string) *raw {
		c := dial(t, addr)
		c.send(`CONNECT {"verbose":false,"user":"` + user + `","pass":"p"}` + "\r\nPING\r\n")
		c.expect("PONG\r\n")
		return c
	}
	for range 3 {
		c := connect("a")
		c.send("SUB x 1\r\nPUB x 5\r\nhello\r\nPING\r\n")
		c.expect("MSG x 1 5\r\nhello\r\nPONG\r\n")
		c.Close()
		awaitConnections(t, s, 0) // or its subscription gets what the next one publishes
	}
	open := connect("a")
	open.send("PUB nobody 2\r\nhi\r\nPING\r\n")
	open.expect("PONG\r\n")
	connect("b")
	wantA := AccountStats{Connections: 1, TotalConnections: 4, InMsgs: 4, InBytes: 17, OutMsgs: 3, OutBytes: 15}
	wantB := AccountStats{Connections: 1, TotalConnections: 1}
	deadline := time.Now().Add(patience)
	for {
		got := s.AccountStats()
		if got["A"] == wantA && got["B"] == wantB {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want A %+v and B %+v", got, wantA, wantB)
		}
		time.Sleep(time.Millisecond) // the server notices by and by that the three are gone
	}
}
