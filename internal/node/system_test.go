package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/config"
)

const asSystem = `,"user":"sys","pass":"p"`

func withSystem(o *config.Options) {
	twoAccounts(o)
	o.Auth.Accounts = append(o.Auth.Accounts, account.AccountSettings{Name: "SYS", Users: []account.UserSettings{{Name: "sys", Password: "p"}}})
	o.Auth.SystemAccount = "SYS"
}

// awaitMsg reads until a message to the subject comes, and gives its body.
func (c *wire) awaitMsg(subject string) string {
	c.t.Helper()
	for {
		if strings.HasPrefix(c.line(), "MSG "+subject+" ") {
			return c.line()
		}
	}
}

// What a closed connection was subscribed to can be seen afterwards, unless it was much.
func TestClosedConnectionsKeepTheirSubscriptions(t *testing.T) {
	n, _ := start(t, options(withSystem))
	sys := dial(t, n, asSystem)
	defer sys.Close()
	sys.send("SUB $SYS.ACCOUNT.*.DISCONNECT d\r\n")
	long := strings.Repeat("x", 1500)
	tests := []struct {
		subjects []string
		want     string
	}{
		{[]string{"a.b", "c.>"}, `"subscriptions_list":["a.b","c.\u003e"]`},
		{[]string{"a." + long, "b." + long}, ""},
		{make([]string, 33), ""},
	}
	for _, tc := range tests {
		c := dial(t, n, asA)
		for i, s := range tc.subjects {
			if s == "" {
				s = fmt.Sprint("many.", i)
			}
			c.send(fmt.Sprintf("SUB %s %d\r\n", s, i+1))
		}
		c.send("PING\r\n")
		c.line()
		c.Close()
		sys.awaitMsg("$SYS.ACCOUNT.A.DISCONNECT")
		got := sys.request("$SYS.REQ.SERVER.PING.CONNZ", `{"state":1,"subscriptions":true,"sort":"stop","limit":1}`)
		if !strings.Contains(got, `"subscriptions":`+fmt.Sprint(len(tc.subjects))) || tc.want == "" && strings.Contains(got, "_list") || !strings.Contains(got, tc.want) {
			t.Errorf("%d subjects: %s", len(tc.subjects), got)
		}
	}
}

func TestSystemAccountActs(t *testing.T) {
	n, _ := start(t, options(withSystem))
	sys, a := dial(t, n, asSystem), dial(t, n, asA+`,"protocol":1`)
	defer sys.Close()
	defer a.Close()
	connz := sys.request("$SYS.REQ.ACCOUNT.A.CONNZ", "")
	_, rest, _ := strings.Cut(connz, `"cid":`)
	cid, _, _ := strings.Cut(rest, ",")
	to := "$SYS.REQ.SERVER." + n.id + "."
	sys.must(to+"LDM", `{"cid":`+cid+`}`)
	for told := ""; !strings.Contains(told, `"ldm":true`); {
		told = a.line()
	}
	sys.must(to+"KICK", `{"cid":`+cid+`}`)
	if line, err := a.r.ReadString('\n'); err == nil {
		t.Errorf("after the kick: %s", line)
	}
	if got := sys.request(to+"RELOAD", ""); !strings.Contains(got, errNoFile.Error()) {
		t.Error(got)
	}
	n.OnReload(func() error { return errors.New("it is bad") })
	if got := sys.request(to+"RELOAD", ""); !strings.Contains(got, `"error":{"code":500,"description":"it is bad"}`) {
		t.Error(got)
	}
	// Accounts that a reload brings are served too.
	n.OnReload(func() error {
		return n.Reload(options(func(o *config.Options) {
			withSystem(o)
			o.Auth.Accounts = append(o.Auth.Accounts, account.AccountSettings{Name: "C", Users: []account.UserSettings{{Name: "c", Password: "p"}}})
		}))
	})
	sys.must(to+"RELOAD", "")
	c := dial(t, n, `,"user":"c","pass":"p"`)
	defer c.Close()
	if got := c.must("$SYS.REQ.ACCOUNT.PING.STATZ", ""); !strings.Contains(got, `"account_statz":[{"acc":"C"`) {
		t.Error(got)
	}
}

func TestShutdownIsAnnounced(t *testing.T) {
	n, _ := start(t, options(withSystem))
	sys := dial(t, n, asSystem)
	defer sys.Close()
	sys.send("SUB $SYS.SERVER.*.SHUTDOWN 1\r\nPING\r\n")
	sys.line()
	ended := make(chan error, 1)
	go func() { ended <- n.Shutdown(context.Background()) }()
	if body := sys.awaitMsg("$SYS.SERVER." + n.id + ".SHUTDOWN"); !strings.Contains(body, `"id":"`+n.id+`"`) {
		t.Error(body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
