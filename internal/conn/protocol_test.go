package conn

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/account"
)

// plainConnect is a CONNECT without acknowledgements.
const plainConnect = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n"

// exchange is what a client sends and what it gets, after the greeting.
type exchange struct {
	name string
	in   string
	out  string // up to and including the PONG to a PING that the test sends last, unless closed
	end  bool   // the server closes the connection
}

var exchanges = []exchange{
	// These come first, before the interest of others can linger.
	{"no responders", plainConnect + "SUB r 1\r\nPUB a.b r 1\r\nx\r\n",
		"HMSG r 1 35 35\r\nNATS/1.0 503\r\nNats-Subject: a.b\r\n\r\n\r\n", false},
	{"no responders to a wildcard", plainConnect + "SUB r.* 5\r\nPUB abc r.1 0\r\n\r\n",
		"HMSG r.1 5 35 35\r\nNATS/1.0 503\r\nNats-Subject: abc\r\n\r\n\r\n", false},
	{"no responders to a queue", plainConnect + "SUB r q 1\r\nPUB a r 1\r\nx\r\n", "", false},
	{"ping", plainConnect + "PING\r\n", "PONG\r\n", false},
	{"lower case", "connect {\"verbose\":false}\r\nping\r\nsub a 1\r\npub a 2\r\nhi\r\n", "PONG\r\nMSG a 1 2\r\nhi\r\n", false},
	{"line feeds alone", "CONNECT {\"verbose\":false}\nSUB a 1\nPUB a 2\nhi\r\n", "MSG a 1 2\r\nhi\r\n", false},
	{"blanks and tabs", plainConnect + "SUB \t a\t  1\r\nPUB\t a  \t r   002\r\nhi\r\n", "MSG a 1 r 002\r\nhi\r\n", false},
	{"trailing blanks", plainConnect + "SUB a 1  \r\nPUB a 2 \r\nhi\r\n", "MSG a 1 2\r\nhi\r\n", false},
	{"ping with garbage", plainConnect + "PINGabc def\r\nPONG xyz\r\n+OK whatever\r\n", "PONG\r\n", false},
	{"no connect at all", "PING\r\nSUB a 1\r\nPUB a 1\r\nx\r\n", "PONG\r\n+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\n", false},
	{"verbose", "CONNECT {\"verbose\":true,\"pedantic\":false}\r\nSUB a 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nUNSUB 1\r\n",
		"+OK\r\n+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\n+OK\r\nMSG a 1 1\r\ny\r\n+OK\r\n", false},
	{"empty payload", plainConnect + "SUB a 1\r\nPUB a 0\r\n\r\n", "MSG a 1 0\r\n\r\n", false},
	{"reply", plainConnect + "SUB a 1\r\nPUB a back 1\r\nx\r\n", "MSG a 1 back 1\r\nx\r\n", false},
	{"headers", plainConnect + "SUB a 1\r\nHPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", false},
	{"headers and reply", plainConnect + "SUB a 1\r\nHPUB a  back 12  14\r\nNATS/1.0\r\n\r\nhi\r\n",
		"HMSG a 1 back 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", false},
	{"header of no length", plainConnect + "SUB a 1\r\nHPUB a r 0 2\r\nhi\r\n", "MSG a 1 r 2\r\nhi\r\n", false},
	{"header that is none", plainConnect + "SUB a 1\r\nHPUB a 2 2\r\nhi\r\n", "HMSG a 1 2 2\r\nhi\r\n", false},
	{"headers without consent", "CONNECT {\"verbose\":false}\r\nHPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n", "", true},
	{"headers longer than all", plainConnect + "HPUB a 14 12\r\n", "", true},
	{"queue", plainConnect + "SUB a q 1\r\nPUB a 1\r\nx\r\n", "MSG a 1 1\r\nx\r\n", false},
	{"wildcards", plainConnect + "SUB a.* 1\r\nPUB a.b 1\r\nx\r\nPUB a 1\r\ny\r\nPUB a.b.c 1\r\nz\r\n", "MSG a.b 1 1\r\nx\r\n", false},
	{"tail wildcard", plainConnect + "SUB a.> 1\r\nPUB a.b.c 1\r\nx\r\nPUB a 1\r\ny\r\n", "MSG a.b.c 1 1\r\nx\r\n", false},
	{"publish to a wildcard", plainConnect + "SUB a.* 1\r\nSUB a.b 2\r\nPUB a.* 1\r\nx\r\n", "MSG a.* 1 1\r\nx\r\n", false},
	{"pedantic", "CONNECT {\"verbose\":false,\"pedantic\":true}\r\nSUB a.* 1\r\nPUB a.* 1\r\nx\r\n",
		"-ERR 'Invalid Publish Subject'\r\nMSG a.* 1 1\r\nx\r\n", false},
	{"publish to empty tokens", plainConnect + "SUB > 1\r\nPUB a..b 1\r\nx\r\nPUB .a 1\r\nx\r\nPUB a. 1\r\nx\r\n", "", false},
	{"invalid subscription", plainConnect + "SUB a..b 1\r\nSUB .a 2\r\nSUB a.>.b 3\r\nSUB a. 4\r\n",
		strings.Repeat("-ERR 'Invalid Subject'\r\n", 4), false},
	{"invalid subscription, verbose", "CONNECT {\"verbose\":true,\"pedantic\":false}\r\nSUB a..b 1\r\n", "+OK\r\n-ERR 'Invalid Subject'\r\n", false},
	{"same sid twice", plainConnect + "SUB a 1\r\nSUB b 1\r\nPUB b 1\r\nx\r\nPUB a 1\r\ny\r\n", "MSG a 1 1\r\ny\r\n", false},
	{"unsubscribe", plainConnect + "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPUB a 1\r\ny\r\n", "MSG a 1 1\r\nx\r\n", false},
	{"unsubscribe what is not there", plainConnect + "UNSUB 77\r\n", "", false},
	{"unsubscribe after two", plainConnect + "SUB a 1\r\nUNSUB 1 2\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nPUB a 1\r\nz\r\n",
		"MSG a 1 1\r\nx\r\nMSG a 1 1\r\ny\r\n", false},
	{"unsubscribe after those that came", plainConnect + "SUB a 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nUNSUB 1 2\r\nPUB a 1\r\nz\r\n",
		"MSG a 1 1\r\nx\r\nMSG a 1 1\r\ny\r\n", false},
	{"unsubscribe with a bad count", plainConnect + "SUB a 1\r\nUNSUB 1 abc\r\nPUB a 1\r\nz\r\n", "", false},
	{"unsubscribe after zero", plainConnect + "SUB a 1\r\nUNSUB 1 0\r\nPUB a 1\r\nz\r\n", "", false},
	{"echo off", "CONNECT {\"verbose\":false,\"echo\":false}\r\nSUB a 1\r\nPUB a 1\r\nx\r\n", "", false},
	{"second connect", plainConnect + "SUB a 1\r\n" + "CONNECT {\"verbose\":false}\r\nPUB a 1\r\nx\r\n", "", false},
	{"second connect keeps options", "CONNECT {\"verbose\":false,\"echo\":false}\r\nCONNECT {}\r\nSUB a 1\r\nPUB a 1\r\nx\r\n", "", false},
	{"no responders not wanted", "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB r 1\r\nPUB a r 1\r\nx\r\n", "", false},
	{"no responders without headers", "CONNECT {\"verbose\":false,\"no_responders\":true}\r\n",
		"-ERR 'no responders requires headers support'\r\n", true},
	{"protocol of the future", "CONNECT {\"verbose\":false,\"protocol\":2}\r\n", "-ERR 'invalid client protocol'\r\n", true},
	{"protocol of the past", "CONNECT {\"verbose\":false,\"protocol\":-1}\r\n", "-ERR 'invalid client protocol'\r\n", true},
	{"protocol 1 gets an INFO", "CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\nPING\r\n", "PONG\r\nINFO\r\nPONG\r\n", false},
	{"connect with an account", "CONNECT {\"verbose\":false,\"account\":\"x\"}\r\n", "-ERR 'Authorization Violation'\r\n", true},
	{"connect without blank", "CONNECT{\"verbose\":false}\r\n", "", false},
	{"connect with bad JSON", "CONNECT {\"verbose\":fal\r\n", "", true},
	{"connect with a wrong type", "CONNECT {\"verbose\":1}\r\n", "", true},
	{"connect without argument", "CONNECT \r\n", "", true},
	{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"half a verb", "PUX", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"verb without blank", "SUBa 1\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"server verbs", "MSG a 1 1\r\nx\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"route verbs", "RS+ a\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"empty line", plainConnect + "\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"hmsg", plainConnect + "HMSG a b c\r\n\r\n", "", false},
	{"err", plainConnect + "-ERR 'x'\r\n", "", true},
	{"info", plainConnect + "INFO {}\r\n", "", false},
	{"bad info", plainConnect + "INFO x\r\n", "", true},
	{"payload too long", plainConnect + "PUB a 1\r\nxy\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"payload with line feed only", plainConnect + "PUB a 1\r\nx\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"negative length", plainConnect + "PUB a -1\r\n", "", true},
	{"no number", plainConnect + "PUB a x\r\n", "", true},
	{"length overflow", plainConnect + "PUB a 99999999999999999999999\r\n", "", true},
	{"two gigabytes", plainConnect + "PUB a 2147483648\r\n", "", true},
	{"above max payload", plainConnect + "PUB a 1048577\r\n", "-ERR 'Maximum Payload Violation'\r\n", true},
	{"header above max payload", plainConnect + "HPUB a 12 1048577\r\n", "-ERR 'Maximum Payload Violation'\r\n", true},
	{"too few arguments", plainConnect + "PUB a\r\n", "", true},
	{"too many arguments", plainConnect + "PUB a b c 1\r\n", "", true},
	{"subscribe without sid", plainConnect + "SUB a\r\n", "", true},
	{"subscribe with four arguments", plainConnect + "SUB a b c d\r\n", "", true},
	{"unsubscribe without sid", plainConnect + "UNSUB \r\n", "", true},
	{"control line too long", plainConnect + "SUB " + strings.Repeat("a", 4095) + " 1\r\n", "-ERR 'maximum control line exceeded'\r\n", true},
	{"control line just right", plainConnect + "SUB " + strings.Repeat("a", 4094) + " 1\r\n", "", false},
	{"publish line too long", plainConnect + "PUB " + strings.Repeat("a", 4095) + " 1\r\nx\r\n", "-ERR 'maximum control line exceeded'\r\n", true},
	{"control line without end", plainConnect + "SUB " + strings.Repeat("a", 5000), "-ERR 'maximum control line exceeded'\r\n", true},
	{"reserved reply", plainConnect + "PUB a $JS.API.x 1\r\nx\r\nPUB a _R_.x 1\r\nx\r\nPUB a _GR_.x 1\r\nx\r\nPUB a $GR.x 1\r\nx\r\n",
		"-ERR 'Permissions Violation for Publish with Reply of \"$JS.API.x\"'\r\n" +
			"-ERR 'Permissions Violation for Publish with Reply of \"_R_.x\"'\r\n" +
			"-ERR 'Permissions Violation for Publish with Reply of \"_GR_.x\"'\r\n" +
			"-ERR 'Permissions Violation for Publish with Reply of \"$GR.x\"'\r\n", false},
	{"reserved subjects", plainConnect + "PUB _GR_.x 1\r\nx\r\nPUB $GR.x 1\r\nx\r\nPUB $NRG.x 1\r\nx\r\n",
		"-ERR 'Permissions Violation for Publish to \"_GR_.x\"'\r\n" +
			"-ERR 'Permissions Violation for Publish to \"$GR.x\"'\r\n" +
			"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\n", false},
	{"system queue group", plainConnect + "SUB a _sys_ 1\r\n", "-ERR 'Permissions Violation for Subscription to \"a\" using queue \"_sys_\"'\r\n", false},
	{"order of echo and error", plainConnect + "SUB a 1\r\nPUB a 1\r\nx\r\nPUB $GR.x 1\r\nx\r\nPUB a 1\r\ny\r\n",
		"MSG a 1 1\r\nx\r\n-ERR 'Permissions Violation for Publish to \"$GR.x\"'\r\nMSG a 1 1\r\ny\r\n", false},
	{"carriage return in a line", plainConnect + "SUB a 1\r\nPUB a\rb 12\n\r\n", "-ERR 'Unknown Protocol Operation'\r\n", true},
	{"first byte is the line's end", plainConnect + "SUB \na 1\r\nPUB a 1\r\nx\r\n", "MSG a 1 1\r\nx\r\n", false},
}

func TestExchanges(t *testing.T) {
	_, addr := startServer(t, account.Settings{}, nil)
	runExchanges(t, addr, exchanges)
}

func TestExchangesWithReference(t *testing.T) {
	runExchanges(t, startReference(t, ""), exchanges)
}

func runExchanges(t *testing.T, addr string, list []exchange) {
	for _, e := range list {
		t.Run(e.name, func(t *testing.T) {
			runExchange(t, dial(t, addr), e)
		})
	}
}

func runExchange(t *testing.T, c *raw, e exchange) {
	t.Helper()
	if e.end {
		c.send(e.in)
		c.expect(e.out)
		c.expectClosed()
		return
	}
	c.send(e.in + "PING\r\n")
	c.expect(e.out + "PONG\r\n")
}

func TestExchangesInProcess(t *testing.T) {
	s, _ := startServer(t, account.Settings{}, nil)
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			nc, err := s.InProcessConn()
			if err != nil {
				t.Fatal(err)
			}
			runExchange(t, wrap(t, nc), e)
		})
	}
}
