package conn

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// bcrypt of "secret", at the lowest cost.
const hashOfSecret = "$2a$04$gqR68Q8fskFfsk2iWD34TetKWfP9ygHWQg6tt/PVtcBt3sNvjVrrm"

// scene is a configuration, for Sluice and for nats-server, and what clients see under it.
type scene struct {
	name      string
	settings  account.Settings
	options   func(*Options)
	config    string
	exchanges []exchange
}

const connectAs = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,"

var scenes = []scene{
	{
		name:     "user and password",
		settings: account.Settings{Username: "u", Password: "p"},
		config:   `authorization { user: u, password: p }`,
		exchanges: []exchange{
			{"right", connectAs + "\"user\":\"u\",\"pass\":\"p\"}\r\nPING\r\n", "PONG\r\n", false},
			{"wrong password", connectAs + "\"user\":\"u\",\"pass\":\"x\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"wrong user", connectAs + "\"user\":\"x\",\"pass\":\"p\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"nothing", "CONNECT {}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"no connect", "PING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"half an operation", "P", "-ERR 'Authorization Violation'\r\n", true},
			{"jwt", "CONNECT {\"jwt\":\"abc\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"verbose", "CONNECT {\"user\":\"u\",\"pass\":\"p\"}\r\n", "+OK\r\n", false},
		},
	},
	{
		name:     "hashed password",
		settings: account.Settings{Users: []account.UserSettings{{Name: "u", Password: hashOfSecret}}},
		config:   `authorization { users [ {user: u, password: "` + hashOfSecret + `"} ] }`,
		exchanges: []exchange{
			{"right", connectAs + "\"user\":\"u\",\"pass\":\"secret\"}\r\nPING\r\n", "PONG\r\n", false},
			{"the hash itself", connectAs + "\"user\":\"u\",\"pass\":\"" + hashOfSecret + "\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
		},
	},
	{
		name:     "token",
		settings: account.Settings{Token: "tok"},
		config:   `authorization { token: tok }`,
		exchanges: []exchange{
			{"right", connectAs + "\"auth_token\":\"tok\"}\r\nPING\r\n", "PONG\r\n", false},
			{"wrong", connectAs + "\"auth_token\":\"x\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
			{"as a password", connectAs + "\"user\":\"tok\",\"pass\":\"tok\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
		},
	},
	{
		name: "nobody's user",
		settings: account.Settings{
			Users:      []account.UserSettings{{Name: "u", Password: "p", Permissions: &account.Permissions{Publish: account.SubjectPermissions{Allow: []string{"a"}}}}, {Name: "root", Password: "r"}},
			NoAuthUser: "u",
		},
		config: `authorization { users [ {user: u, password: p, permissions: {publish: {allow: ["a"]}}}, {user: root, password: r} ] }
			no_auth_user: u`,
		exchanges: []exchange{
			{"no connect", "PING\r\nPUB b 1\r\nx\r\n", "PONG\r\n-ERR 'Permissions Violation for Publish to \"b\"'\r\n", false},
			{"no credentials", plainConnect + "PUB b 1\r\nx\r\n", "-ERR 'Permissions Violation for Publish to \"b\"'\r\n", false},
			{"credentials", connectAs + "\"user\":\"root\",\"pass\":\"r\"}\r\nPUB b 1\r\nx\r\n", "", false},
			{"wrong credentials", connectAs + "\"user\":\"root\",\"pass\":\"x\"}\r\n", "-ERR 'Authorization Violation'\r\n", true},
		},
	},
	{
		name: "accounts",
		settings: account.Settings{Accounts: []account.AccountSettings{
			{Name: "A", Users: []account.UserSettings{{Name: "a", Password: "a"}}, MaxPayload: 4, MaxSubscriptions: 1},
			{Name: "B", Users: []account.UserSettings{{Name: "b", Password: "b"}}},
		}},
		config: `accounts { A { users [ {user: a, password: a} ], limits { max_payload: 4, max_subs: 1 } }, B { users [ {user: b, password: b} ] } }`,
		exchanges: []exchange{
			{"info", connectAs + "\"user\":\"a\",\"pass\":\"a\",\"protocol\":1}\r\nPING\r\n", "PONG\r\nINFO\r\n", false},
			{"max payload", connectAs + "\"user\":\"a\",\"pass\":\"a\"}\r\nPUB a 4\r\nabcd\r\nPUB a 5\r\n", "-ERR 'Maximum Payload Violation'\r\n", true},
			{"max subscriptions", connectAs + "\"user\":\"a\",\"pass\":\"a\"}\r\nSUB a 1\r\nSUB b 2\r\nPUB b 1\r\nx\r\nPUB a 1\r\nx\r\n",
				"-ERR 'maximum subscriptions exceeded'\r\nMSG a 1 1\r\nx\r\n", false},
			{"second connect moves", connectAs + "\"user\":\"a\",\"pass\":\"a\"}\r\nSUB a 1\r\n" + connectAs + "\"user\":\"b\",\"pass\":\"b\"}\r\nSUB a 1\r\nSUB b 2\r\nPUB a 5\r\nabcde\r\n",
				"MSG a 1 5\r\nabcde\r\n", false},
		},
	},
	{
		name: "permissions",
		settings: account.Settings{Users: []account.UserSettings{{Name: "u", Password: "p", Permissions: &account.Permissions{
			Publish:   account.SubjectPermissions{Allow: []string{"x.>", "w.>", "s"}, Deny: []string{"x.y"}},
			Subscribe: account.SubjectPermissions{Allow: []string{"s q", "s v.*", "w.>", "x.*"}, Deny: []string{"w.no", "w.q bad"}},
		}}}},
		config: `authorization { users [ {user: u, password: p, permissions: {
			publish: {allow: ["x.>", "w.>", "s"], deny: "x.y"}, subscribe: {allow: ["s q", "s v.*", "w.>", "x.*"], deny: ["w.no", "w.q bad"]} } } ] }`,
		exchanges: []exchange{
			{"publish", asU + "PUB x.y 1\r\na\r\nPUB z 1\r\na\r\nPUB x.z 1\r\na\r\n",
				"-ERR 'Permissions Violation for Publish to \"x.y\"'\r\n-ERR 'Permissions Violation for Publish to \"z\"'\r\n", false},
			{"verbose", "CONNECT {\"user\":\"u\",\"pass\":\"p\",\"pedantic\":false}\r\nPUB z 1\r\na\r\nPUB x.z 1\r\na\r\nSUB z 1\r\n",
				"+OK\r\n-ERR 'Permissions Violation for Publish to \"z\"'\r\n+OK\r\n-ERR 'Permissions Violation for Subscription to \"z\"'\r\n", false},
			{"subscribe", asU + "SUB s 1\r\nSUB s q 2\r\nSUB s q2 3\r\nSUB s v.1 4\r\nSUB w.no 5\r\nSUB w.q bad 6\r\nSUB w.q good 7\r\nSUB w.q 8\r\n",
				"-ERR 'Permissions Violation for Subscription to \"s\"'\r\n-ERR 'Permissions Violation for Subscription to \"s\" using queue \"q2\"'\r\n" +
					"-ERR 'Permissions Violation for Subscription to \"w.no\"'\r\n-ERR 'Permissions Violation for Subscription to \"w.q\" using queue \"bad\"'\r\n", false},
			{"wildcard within a star", asU + "SUB x.> 1\r\nPUB x.a.b 1\r\na\r\n", "MSG x.a.b 1 1\r\na\r\n", false},
			{"deny at delivery", asU + "SUB w.> 1\r\nSUB w.* bad 2\r\nPUB w.no 1\r\na\r\nPUB w.yes.no 1\r\nb\r\n", "MSG w.yes.no 1 1\r\nb\r\n", false},
			{"deny at delivery to a queue", asU + "SUB w.* bad 2\r\nPUB w.q 1\r\na\r\nPUB w.r 1\r\nb\r\n", "MSG w.r 2 1\r\nb\r\n", false},
			{"denied publish is no request", asU + "SUB w.r 1\r\nPUB z w.r 1\r\na\r\n", "-ERR 'Permissions Violation for Publish to \"z\"'\r\n", false},
		},
	},
	{
		name: "responses",
		settings: account.Settings{Users: []account.UserSettings{{Name: "u", Password: "p", Permissions: &account.Permissions{
			Publish:   account.SubjectPermissions{Allow: []string{"req"}},
			Responses: &account.ResponsePermission{MaxMsgs: 2, Expires: time.Minute},
		}}, {Name: "v", Password: "p", Permissions: &account.Permissions{Responses: &account.ResponsePermission{}}}}},
		config: `authorization { users [ {user: u, password: p, permissions: { publish: ["req"], allow_responses: { max: 2, expires: "1m" } } },
			{user: v, password: p, permissions: { allow_responses: true } } ] }`,
		exchanges: []exchange{
			{"two", asU + "SUB req 1\r\nSUB back 2\r\nPUB req back 1\r\na\r\nPING\r\nPUB back 1\r\n1\r\nPUB back 1\r\n2\r\nPUB back 1\r\n3\r\n",
				"MSG req 1 back 1\r\na\r\nPONG\r\nMSG back 2 1\r\n1\r\nMSG back 2 1\r\n2\r\n-ERR 'Permissions Violation for Publish to \"back\"'\r\n", false},
			{"at once", asU + "SUB req 1\r\nSUB back 2\r\nPUB req back 1\r\na\r\nPUB back 1\r\n1\r\nPUB back 1\r\n2\r\nPUB back 1\r\n3\r\n",
				"MSG req 1 back 1\r\na\r\nMSG back 2 1\r\n1\r\nMSG back 2 1\r\n2\r\n-ERR 'Permissions Violation for Publish to \"back\"'\r\n", false},
			{"nothing else", connectAs + "\"user\":\"v\",\"pass\":\"p\"}\r\nPUB a 1\r\n1\r\n", "-ERR 'Permissions Violation for Publish to \"a\"'\r\n", false},
		},
	},
	{
		name:     "system users alone",
		settings: account.Settings{Accounts: []account.AccountSettings{{Name: "$SYS", Users: []account.UserSettings{{Name: "s", Password: "s"}}}}},
		config:   `accounts { "$SYS" { users [ {user: s, password: s} ] } }`,
		exchanges: []exchange{
			{"nobody", plainConnect + "PING\r\n", "PONG\r\n", false},
			{"no connect", "PING\r\n", "PONG\r\n", false},
			{"system", connectAs + "\"user\":\"s\",\"pass\":\"s\"}\r\nPUB $NRG.x 1\r\na\r\nPING\r\n", "PONG\r\n", false},
			{"wrong", connectAs + "\"user\":\"s\",\"pass\":\"x\"}\r\nPING\r\n", "-ERR 'Authorization Violation'\r\n", true},
		},
	},
	{
		name:    "limits",
		options: func(o *Options) { o.MaxPayload, o.MaxControlLine, o.MaxSubscriptions, o.MaxSubTokens = 8, 40, 2, 3 },
		config:  "max_payload: 8\nmax_control_line: 40\nmax_subscriptions: 2\nmax_sub_tokens: 3\n",
		exchanges: []exchange{
			{"payload", "CONNECT {\"verbose\":false}\r\nPUB a 8\r\n12345678\r\nPUB a 9\r\n123456789\r\n", "-ERR 'Maximum Payload Violation'\r\n", true},
			{"control line", "CONNECT {\"verbose\":false}\r\nSUB " + "a234567890a234567890a234567890a2345678 1\r\nSUB a234567890a234567890a234567890a23456789 1\r\n",
				"-ERR 'maximum control line exceeded'\r\n", true},
			{"subscriptions", "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB c 3\r\nPUB c 1\r\nx\r\n",
				"-ERR 'maximum subscriptions exceeded'\r\nMSG c 3 1\r\nx\r\n", false},
			{"tokens", "CONNECT {\"verbose\":false}\r\nSUB a.b.c 1\r\nSUB a.b.c.d 2\r\n",
				"-ERR 'Permissions Violation for Subscription to \"a.b.c.d\", too many tokens'\r\n", false},
		},
	},
	{
		name:      "no room",
		options:   func(o *Options) { o.MaxConnections = -1 },
		config:    "max_connections: -1\n",
		exchanges: []exchange{{"refused", "", "-ERR 'maximum connections exceeded'\r\n", true}},
	},
}

const asU = connectAs + "\"user\":\"u\",\"pass\":\"p\"}\r\n"

func TestScenes(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			_, addr := startServer(t, s.settings, s.options)
			runExchanges(t, addr, s.exchanges)
		})
	}
}

func TestScenesWithReference(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			runExchanges(t, startReference(t, s.config), s.exchanges)
		})
	}
}
