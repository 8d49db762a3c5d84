package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/logging"
)

const userKey = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyFields clears what every loaded configuration has.
func onlyFields(o Options) Options {
	o.ConfigFile, o.ConfigDigest, o.ConfigWarnings = "", "", nil
	return o
}

func TestLoad(t *testing.T) {
	t.Setenv("SLUICE_TEST_PORT", "5001")
	t.Setenv("SLUICE_TEST_USERS", "[{user: e, password: f}]")
	responses := func(n int, d time.Duration) *account.Permissions {
		return &account.Permissions{Responses: &account.ResponsePermission{MaxMsgs: n, Expires: d}}
	}
	tests := []struct {
		name, text string
		want       Options
	}{
		{"empty", "", Options{}},
		{"network", "server_name: a\nlisten: 127.0.0.1:4333\nclient_advertise: \"h:1\"\nhttp: \"10.0.0.1:8222\"\nhttp_base_path: x/",
			Options{ServerName: "a", Host: "127.0.0.1", Port: 4333, ClientAdvertise: "h:1", HTTPHost: "10.0.0.1", HTTPPort: 8222, HTTPBasePath: "/x"}},
		{"aliases", "net = localhost; port = -1; monitor_port = 8223", Options{Host: "localhost", Port: -1, HTTPPort: 8223}},
		{"listen with a port only", "listen: 4444\nhttp: 8222", Options{Port: 4444, HTTPPort: 8222}},
		{"listen and the same port", "listen: \"0.0.0.0:4444\"\nport: 4444", Options{Host: "0.0.0.0", Port: 4444}},
		{"case of names", "Server_Name: b\nMAX_PAYLOAD: 1", Options{ServerName: "b", MaxPayload: 1}},
		{"limits", "max_connections: 10\nmax_subs: 5\nmax_payload: 2MB\nmax_pending: 1GB\nmax_control_line: 8kb\nmax_closed_clients: 3\nmax_sub_tokens: 4\nno_fast_producer_stall: true",
			Options{MaxConnections: 10, MaxSubscriptions: 5, MaxPayload: 2 << 20, MaxPending: 1 << 30, MaxControlLine: 8 << 10, MaxClosedClients: 3, MaxSubTokens: 4, NoFastProducerStall: true}},
		{"no clients at all", "max_connections: 0", Options{MaxConnections: -1}},
		{"times", "ping_interval: \"20s\"\nping_max: 3\nwrite_deadline: 2\nlame_duck_duration: \"45s\"\nlame_duck_grace_period: \"3s\"\nno_header_support: true\nwrite_timeout: close",
			Options{PingInterval: 20 * time.Second, MaxPingsOut: 3, WriteDeadline: 2 * time.Second, LameDuckDuration: 45 * time.Second, LameDuckGracePeriod: 3 * time.Second, NoHeaders: true}},
		{"logging", "debug: true\ntrace_verbose: yes\nlogtime: false\nlogtime_utc: on\nlogfile: /tmp/x\nlogfile_size_limit: 1k\nlog_max_num: 3\nmax_traced_msg_len: 9\npidfile: p\nports_file_dir: q",
			Options{Log: logging.Options{Debug: true, Trace: true, NoTime: true, UTC: true, File: "/tmp/x", SizeLimit: 1000, MaxFiles: 3}, TraceVerbose: true, MaxTracedMsgLen: 9, PidFile: "p", PortsFileDir: "q"}},
		{"tags", "server_tags: [a, \"b:c\"]\nserver_metadata { Key: v }", Options{Tags: []string{"a", "b:c"}, Metadata: map[string]string{"Key": "v"}}},
		{"jetstream by switch", "jetstream: enabled", Options{JetStream: JetStream{Enabled: true}}},
		{"jetstream off", "jetstream: false", Options{}},
		{"jetstream block", "jetstream { store_dir: /d, max_mem: 1G, max_file_store: \"10T\", sync: always, domain: HUB, unique_tag: \" AZ:\"\nlimits { max_ack_pending: 123, max_request_batch: 7, duplicate_window: 1h, default_max_consumers: -1, batch { max_inflight_per_stream: 3, max_inflight_total: 4, max_msgs: 5, timeout: 6s } } }",
			Options{JetStream: JetStream{Enabled: true, StoreDir: "/d", MaxMemory: 1e9, MaxStore: 10 << 40, SyncAlways: true, Domain: "HUB", UniqueTag: "az:",
				Limits: JetStreamLimits{MaxAckPending: 123, MaxRequestBatch: 7, DuplicateWindow: time.Hour, DefaultMaxConsumers: -1,
					Batch: BatchLimits{MaxInflightPerStream: 3, MaxInflightTotal: 4, MaxMsgs: 5, Timeout: 6 * time.Second}}}}},
		{"jetstream block, off", "jetstream { enabled: false, sync_interval: 10s }", Options{JetStream: JetStream{SyncInterval: 10 * time.Second}}},
		{"store dir outside the block", "jetstream {}\nstore_dir: /e", Options{JetStream: JetStream{Enabled: true, StoreDir: "/e"}}},
		{"store", "store: \"s3://b/p?region=eu\"", Options{Store: Store{URL: "s3://b/p?region=eu"}}},
		{"prices", "store { url: \"mem://\", prices { get: 0, put: 0.01, storage_gb_month: 1 } }",
			Options{Store: Store{URL: "mem://", Prices: &Prices{Put: 0.01, List: 0.005, StorageGBMonth: 1}}}},
		{"segments", "store { url: \"mem://\", segments { key: \"00112233445566778899aabbccddeeff\", old_keys: [\"ffeeddccbbaa99887766554433221100\"], replay: 64MB, grace: \"1m\", deleted_within: \"2h\", every: \"1s\" }, cache { memory: 16MB, path: /c, disk: 1GB } }",
			Options{Store: Store{URL: "mem://", Segments: Segments{Key: "00112233445566778899aabbccddeeff", OldKeys: []string{"ffeeddccbbaa99887766554433221100"},
				ReplayBytes: 64 << 20, Grace: time.Minute, DeletedWithin: 2 * time.Hour, Every: time.Second}, Cache: Cache{Memory: 16 << 20, Path: "/c", Disk: 1 << 30}}}},
		{"store block", "store { url: \"mem://\", commit_rate: 2.5, commit_burst: 9, batch_bytes: 1MB }", Options{Store: Store{URL: "mem://", CommitRate: 2.5, CommitBurst: 9, BatchBytes: 1 << 20}}},
		{"broadcast", "jetstream: true\naccounts { APP {} }\nbroadcast { subjects: [\"news.>\", a], accounts { APP: \"x.*\" }, window: 50ms, poll: 100ms, idle_poll: 1s, retention: \"10m\", max_batch: 1MB, max_pending: 8MB }",
			Options{JetStream: JetStream{Enabled: true}, Auth: account.Settings{Accounts: []account.AccountSettings{{Name: "APP"}}}, Broadcast: Broadcast{Enabled: true,
				Subjects: map[string][]string{"$G": {"news.>", "a"}, "APP": {"x.*"}}, Window: 50 * time.Millisecond, Poll: 100 * time.Millisecond,
				IdlePoll: time.Second, Retention: 10 * time.Minute, MaxBatch: 1 << 20, MaxPending: 8 << 20}}},
		{"broadcast, only listening", "jetstream: true\nbroadcast {}", Options{JetStream: JetStream{Enabled: true}, Broadcast: Broadcast{Enabled: true}}},
		{"single user", "authorization { user: u, pass: p, timeout: 0.5 }", Options{Auth: account.Settings{Username: "u", Password: "p", Timeout: 500 * time.Millisecond}}},
		{"token", "authorization { token: \"$2a$11$x\", timeout: \"3s\" }", Options{Auth: account.Settings{Token: "$2a$11$x", Timeout: 3 * time.Second}}},
		{"unquoted bcrypt", "authorization { token: $2a$11$x }", Options{Auth: account.Settings{Token: "$2a$11$x"}}},
		{"users with default permissions", "authorization { default_permissions { publish: x, sub: [\"y.>\", \"z q\"] }\nusers: [ {user: a, password: b}, {nkey: " + userKey + ", allowed_connection_types: [STANDARD], permissions { pub { deny: d } } } ] }",
			Options{Auth: account.Settings{Users: []account.UserSettings{
				{Name: "a", Password: "b", Permissions: &account.Permissions{Publish: account.SubjectPermissions{Allow: []string{"x"}}, Subscribe: account.SubjectPermissions{Allow: []string{"y.>", "z q"}}}},
				{NKey: userKey, ConnectionTypes: []string{"STANDARD"}, Permissions: &account.Permissions{Publish: account.SubjectPermissions{Deny: []string{"d"}}}}}}}},
		{"responses", "authorization { users: [ {user: a, permissions {allow_responses: true}}, {user: b, permissions {allow_responses: {max: 5, expires: \"1m\"}}}, {user: c, permissions {allow_responses: {max: -1}}}, {user: d, permissions {allow_responses: off}} ] }",
			Options{Auth: account.Settings{Users: []account.UserSettings{{Name: "a", Permissions: responses(1, 2*time.Minute)}, {Name: "b", Permissions: responses(5, time.Minute)},
				{Name: "c", Permissions: responses(-1, 2*time.Minute)}, {Name: "d", Permissions: &account.Permissions{}}}}}},
		{"accounts", "accounts { A { jetstream: enabled, users: [{user: a, password: b}], limits { max_conn: 1, max_subs: 2, max_pay: 3 } }\nB { jetstream { max_mem: 1K, disk: 2, streams: 3, consumers: 4, max_bytes: true } }, C { jetstream: disabled } }",
			Options{Auth: account.Settings{Accounts: []account.AccountSettings{
				{Name: "A", Users: []account.UserSettings{{Name: "a", Password: "b"}}, JetStream: defaultAccountLimits(), MaxConnections: 1, MaxSubscriptions: 2, MaxPayload: 3},
				{Name: "B", JetStream: &account.JetStreamLimits{MaxMemory: 1000, MaxStore: 2, MaxStreams: 3, MaxConsumers: 4, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1, MaxBytesRequired: true}},
				{Name: "C"}}}}},
		{"accounts by list", "accounts: [A, B]\nsystem_account: B", Options{Auth: account.Settings{SystemAccount: "B", Accounts: []account.AccountSettings{{Name: "A"}, {Name: "B"}}}}},
		{"no_auth_user", "accounts { A { users: [{user: a}] } }\nno_auth_user: a", Options{Auth: account.Settings{NoAuthUser: "a", Accounts: []account.AccountSettings{{Name: "A", Users: []account.UserSettings{{Name: "a"}}}}}}},
		{"variables", "P = 5000\nport: $P\nhttp: $SLUICE_TEST_PORT\nauthorization { users: $SLUICE_TEST_USERS }", Options{Port: 5000, HTTPPort: 5001,
			Auth: account.Settings{Users: []account.UserSettings{{Name: "e", Password: "f"}}}}},
		{"variable in accounts", "accounts { U: [{user: a}], A { users: $U } }", Options{Auth: account.Settings{Accounts: []account.AccountSettings{{Name: "A", Users: []account.UserSettings{{Name: "a"}}}}}}},
		{"json", `{"port": 4555, "jetstream": {"store_dir": "/x"}}`, Options{Port: 4555, JetStream: JetStream{Enabled: true, StoreDir: "/x"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Load(write(t, tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got.ConfigDigest, "sha256:") {
				t.Errorf("digest %q", got.ConfigDigest)
			}
			if got := onlyFields(got); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("\ngot  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // line:column, setting and the start of the reason; one entry a fault
	}{
		{"unknown", "\nfoo: 1", []string{":2: foo: unknown setting"}},
		{"unsupported at the top", "port: 1\ncluster { port: 2 }\n  ocsp: true\nmqtt: {}\noperator: x",
			[]string{":2: cluster: not supported", ":3: ocsp: not supported", ":4: mqtt: not supported", ":5: operator: not supported"}},
		{"unsupported inside", "jetstream {\n  cipher: aes\n  what: 1\n  limits { max_ha_assets: 1 }\n}",
			[]string{":2: jetstream.cipher: not supported", ":3: jetstream.what: unknown setting", ":4: jetstream.limits.max_ha_assets: not supported"}},
		{"users and limits", "accounts {\n A {\n  nkey: x\n  nope: 1\n  users: [\n   {\n    user: a\n    x: 1\n   }\n  ]\n  limits { max_leafs: 1 }\n }\n \"$G\" {}\n}",
			[]string{":3: accounts.A.nkey: not supported", ":4: accounts.A.nope: unknown", ":8: accounts.A.users[0].x: unknown", ":11: accounts.A.limits.max_leafs: not supported", ":13: accounts.$G: the name of the default account is reserved"}},
		{"types", "port: x\nserver_name: 7\ndebug: 1\nlisten: []\nmax_payload: \"1MB\"\nlame_duck_duration: 40\nhttp: a\njetstream: maybe\naccounts: 3\nserver_tags: [1 ]",
			[]string{":1: port: expected a whole number, got a string", ":2: server_name: expected a string, got the number 7; put it in quotes", ":3: debug: expected true or false",
				":4: listen: expected a port or host:port, got a list", ":5: max_payload: expected a whole number", ":6: lame_duck_duration: expected a duration", ":7: http: expected host:port",
				":8: jetstream: expected \"enabled\"", ":9: accounts: expected a block", ":10: server_tags[0]: expected a string"}},
		{"ranges", "port: 70000\nmax_payload: 4GB\nlame_duck_duration: 10s\nping_max: -1\nwrite_timeout: retry\nstore { batch_bytes: 2GB }",
			[]string{":1: port: 70000 is out of the range", ":2: max_payload: 4294967296 is out", ":3: lame_duck_duration: 10s is too short", ":4: ping_max", ":5: write_timeout: not supported: \"retry\"", ":6: store.batch_bytes"}},
		{"prices", "store {\nurl: \"mem://\"\nprices {\nput: -1\nget: cheap\nlist: 2000000\nhead: 1\n} }",
			[]string{":4: store.prices.put: -1 is out of the range 0 to", ":5: store.prices.get: expected a price such as 0.005, got", ":6: store.prices.list: 2e+06 is out", ":7: store.prices.head"}},
		{"broadcast", "jetstream: true\nbroadcast {\nsubjects: [\"a.>\", \"a.b\", \"$X.a\", \">\"]\naccounts {\nQ: z\n}\nidle_poll: 100ms\nretention: 10h\n}",
			[]string{":3: broadcast.subjects: \"a.>\" and \"a.b\" overlap", ":3: broadcast.subjects: \"$X.a\": the first token", ":3: broadcast.subjects: \">\": the first token", ":3: broadcast.subjects: \"a.>\" and \">\" overlap",
				":3: broadcast.subjects: \"a.b\" and \">\" overlap", ":3: broadcast.subjects: \"$X.a\" and \">\" overlap", ":5: broadcast.accounts.Q: there is no account", ":7: broadcast.idle_poll: 100ms is shorter"}},
		{"broadcast, forms", "broadcast {\nwindow: 1\npoll: 1ms\nmax_batch: 1\nwhat: 1\n}",
			[]string{":2: broadcast.window: expected a duration", ":3: broadcast.poll: 1ms is too short", ":4: broadcast.max_batch: 1 is out", ":5: broadcast.what: unknown"}},
		{"broadcast without a store", "\nbroadcast { subjects: a }", []string{":2: broadcast: needs jetstream"}},
		{"no prices", "store { url: \"mem://\", prices: low }", []string{":1: store.prices: "}},
		{"set twice", "listen: \"1.2.3.4:5\"\nport: 6\nnet: x\nmax_subs: 1\nmax_subscriptions: 2\nstore_dir: a\njetstream { store_dir: b }",
			[]string{":2: port: sets again what listen on line 1 set", ":3: net: sets again what listen on line 1", ":5: max_subscriptions: sets again what max_subs on line 4", ":7: jetstream.store_dir: sets again what store_dir on line 6"}},
		{"values that do not fit together", "port: 4222\nmax_payload: 2MB\n\nmax_pending: 1MB\nserver_name: \"a b\"\nlame_duck_grace_period: \"10m\"\nclient_advertise: \"a:b\"\nstore: \"ftp://x\"",
			[]string{":2: max_payload: 2097152 cannot be higher than max_pending", ":5: server_name: a server name cannot contain spaces", ":6: lame_duck_grace_period: 10m0s must be shorter", ":7: client_advertise: \"b\" is no port", ":8: store.url: \"ftp\" is no kind of store"}},
		{"identity", "Authorization {\n user: u\n token: t\n}\naccounts {\n A {\n  users: [\n   {user: a}\n   {user: a}\n   {user: b, permission { publish: \"a..b\" } }\n   {nkey: x}\n   {user: c, clients: [FAX]}\n  ] }\n}\nno_auth_user: z\nsystem: Q",
			[]string{":1: authorization: a user and password cannot stand beside a token", ":1: authorization: a single user cannot", ":1: authorization: a token cannot", ":9: accounts.A.users[1]: user \"a\" is there twice", ":10: accounts.A.users[2].permissions.publish.allow: \"a..b\" is no subject",
				":11: accounts.A.users[3].nkey: not a public nkey", ":12: accounts.A.users[4].allowed_connection_types: \"FAX\"", ":15: no_auth_user: \"z\" is no user", ":16: system_account: there is no account \"Q\""}},
		{"syntax", "port: 1\njetstream {", []string{"Unexpected EOF"}},
		{"a missing variable", "port: $NO_SUCH_VARIABLE_HERE", []string{"variable reference for 'NO_SUCH_VARIABLE_HERE' on line 1 can not be found"}},
		{"default permissions of nobody", "authorization { user: a, password: b, permissions { publish: x } }", []string{":1: authorization.permissions: there are no users"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.text)
			_, err := Load(path)
			faults := Faults(err)
			if len(faults) != len(tc.want) {
				t.Errorf("%d faults, want %d:\n%v", len(faults), len(tc.want), err)
			}
			for i, f := range faults {
				if !errors.Is(f, ErrInvalid) {
					t.Errorf("%v is no ErrInvalid", f)
				}
				if i < len(tc.want) && !strings.Contains(f.Error(), tc.want[i]) {
					t.Errorf("fault %d is %q, want %q", i, f, tc.want[i])
				}
				if !strings.Contains(f.Error(), path) {
					t.Errorf("fault %q does not name the file", f)
				}
			}
		})
	}
}

func TestIncludes(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"main.conf":       "include \"sub/limits.conf\"\njetstream { include 'js.conf' }\n# include \"main.conf\"\nserver_name: \"include_main.conf\"",
		"sub/limits.conf": "max_payload: 7\n\nnonsense: 1\ninclude ./deep.conf\n",
		"sub/deep.conf":   "ping_max: 9",
		"js.conf":         "domain: D",
		"loop.conf":       "a { include loop2.conf }",
		"loop2.conf":      "b = 1; INCLUDE \t'loop.conf'",
		"gone.conf":       "include \"missing.conf\"",
		"dir.conf":        "include sub",
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(filepath.Join(dir, "main.conf"))
	if want := filepath.Join(dir, "sub/limits.conf") + ":3: nonsense: unknown setting"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/limits.conf"), []byte("max_payload: 7\ninclude ./deep.conf"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := Load(filepath.Join(dir, "main.conf"))
	if err != nil || o.MaxPayload != 7 || o.MaxPingsOut != 9 || o.JetStream.Domain != "D" || !o.JetStream.Enabled {
		t.Errorf("%+v %v", o, err)
	}
	for name, want := range map[string]string{"loop.conf": "include each other", "gone.conf": "missing.conf", "dir.conf": "sub: not a regular file"} {
		if _, err := Load(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWarnings(t *testing.T) {
	o, err := Load(write(t, "connect_error_reports: 5\nwrite_deadline: 3\nno_sublist_cache: true\nstore: \"mem://\"\njetstream { store_dir: x }\nauthorization { token: t, timeout: 90 }"))
	if err != nil {
		t.Fatal(err)
	}
	o.MaxPayload = 9 << 20
	o.SetDefaults()
	got := strings.Join(o.Caveats(), "\n")
	for _, want := range []string{":1: connect_error_reports: has no effect", ":2: write_deadline: read as 3 seconds", ":3: no_sublist_cache", ":5: jetstream.store_dir: has no effect",
		":6: authorization.timeout: 1m30s is long", "store is in memory", "max_payload", "plain text"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if n := len(o.Caveats()); n != 8 {
		t.Errorf("%d caveats:\n%s", n, got)
	}
}

func TestDefaults(t *testing.T) {
	var o Options
	o.SetDefaults()
	want := Options{ServerName: NodeName(4222), Host: "0.0.0.0", Port: 4222, HTTPHost: "0.0.0.0", MaxConnections: 65536, MaxPayload: 1048576, MaxPending: 67108864,
		MaxControlLine: 4096, MaxClosedClients: 10000, WriteDeadline: 10 * time.Second, PingInterval: 2 * time.Minute, MaxPingsOut: 2,
		Auth: account.Settings{SystemAccount: "$SYS", Timeout: 2 * time.Second}, LameDuckDuration: 2 * time.Minute, LameDuckGracePeriod: 10 * time.Second,
		Websocket: Websocket{Host: "0.0.0.0", HandshakeTimeout: 2 * time.Second},
		JetStream: JetStream{MaxMemory: -1, MaxStore: -1, Limits: JetStreamLimits{DefaultMaxConsumers: 1000}}, Store: Store{URL: "dir://./sluice-data"}}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("\ngot  %+v\nwant %+v", o, want)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	o.Port = 5000
	again := o.Clone()
	again.SetDefaults()
	if !reflect.DeepEqual(o, again) {
		t.Error("SetDefaults changed complete options")
	}
	withDir := Options{Host: "::1", JetStream: JetStream{StoreDir: "/a b/c%d"}}
	withDir.SetDefaults()
	if withDir.Store.URL != "dir:///a%20b/c%25d" || withDir.HTTPHost != "::1" {
		t.Errorf("%+v", withDir)
	}
}

func TestDirURL(t *testing.T) {
	for _, path := range []string{"/a", "/a b/%c?d#e", "/"} {
		u, err := url.Parse(DirURL(path))
		if err != nil || DirPath(u) != path {
			t.Errorf("%q became %q (%v)", path, DirPath(u), err)
		}
	}
	for text, want := range map[string]string{"dir://./a/b": "./a/b", "dir://a/b": "a/b", "dir://../x": "../x"} {
		if u, err := url.Parse(text); err != nil || DirPath(u) != want {
			t.Errorf("%q is %q, want %q (%v)", text, DirPath(u), want, err)
		}
	}
	if wd, _ := os.Getwd(); DirURL("x") != "dir://"+wd+"/x" {
		t.Errorf("relative: %s", DirURL("x"))
	}
}

func TestNodeName(t *testing.T) {
	for _, tc := range []struct {
		host string
		port int
		want string
	}{
		{"Web-1.Example.org", 4222, "web-1.example.org"}, {"web", 5000, "web-5000"}, {"web", -1, "web"}, {"", 4222, "sluice"},
		{"../..", 4222, "sluice"}, {"a/b c", 4222, "a-b-c"}, {strings.Repeat("x", 300), 65535, strings.Repeat("x", 194) + "-65535"},
	} {
		if got := nodeName(tc.host, tc.port); got != tc.want {
			t.Errorf("%q %d: got %q, want %q", tc.host, tc.port, got, tc.want)
		}
	}
}

func TestSplitAdvertise(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"h:5", "h 5"}, {"h", "h 4222"}, {"[::1]:5", "::1 5"}, {"[::1]", "::1 4222"}, {"::1", "::1 4222"}, {"h:-1", "h 4222"},
		{"h:", "error"}, {"h:x", "error"}, {"", "error"}, {"h:99999", "error"}, {"[a", "error"},
	} {
		host, port, err := SplitAdvertise(tc.in, 4222)
		got := fmt.Sprintf("%s %d", host, port)
		if err != nil {
			got = "error"
		}
		if got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

// FuzzLoad feeds any bytes as a file: errors are fine, panics and endless loops are not.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", "port: 1", "jetstream { limits { } }", "a = [1, {b: 2.5}]", "accounts { A { users: [{user: a, permissions: {publish: {allow: [\"x\"]}}}] } }",
		"listen: \"h:1\"\nhttp: 2\nstore { url: \"s3://b\", commit_rate: 1e3 }", "}", "x {", "a: 2020-01-01T00:00:00Z", "k: (\nblock\n)", "p: $p", "server_metadata { a: b }", "x: \"\\x41\"", "max_payload: -9E\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(strings.ToLower(string(data)), "include") {
			t.Skip("would read other files of this machine")
		}
		o, err := Load(write(t, string(data)))
		if err == nil {
			o.SetDefaults()
			if err := o.Validate(); err != nil {
				t.Errorf("loaded, but not valid: %v", err)
			}
		}
	})
}

// FuzzIncludes checks the walk over the text by itself.
func FuzzIncludes(f *testing.F) {
	for _, seed := range []string{"include a", "x { include 'b' }", "include \"c", "# include d\n", "\\\"", "include\t\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range includes(text) {
			if !strings.Contains(text, name) {
				t.Errorf("%q is not in the text", name)
			}
		}
	})
}
