package node

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/version"
)

// twoAccounts are A, whose JetStream is limited, and B, which has none.
func twoAccounts(o *config.Options) {
	o.Auth.Accounts = []account.AccountSettings{
		{Name: "A", Users: []account.UserSettings{{Name: "a", Password: "p"}}, JetStream: &account.JetStreamLimits{
			MaxMemory: 1000, MaxStore: 2000, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}},
		{Name: "B", Users: []account.UserSettings{{Name: "b", Password: "p"}}},
	}
}

const (
	asA = `,"user":"a","pass":"p","name":"first","lang":"go","version":"1"`
	asB = `,"user":"b","pass":"p"`
)

// TestMonitoringShowsWhatIsThere builds up a known state and looks at it through every endpoint.
func TestMonitoringShowsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n, _ := start(t, options(func(o *config.Options) {
		twoAccounts(o)
		o.Store.URL = "dir://" + filepath.ToSlash(dir)
		o.HTTPBasePath = "/base"
		o.Tags, o.Metadata = []string{"x"}, map[string]string{"k": "v"}
		o.Store.Prices = &config.Prices{Put: 5000, StorageGBMonth: 1e6}
		o.JetStream.MaxStore = 3000
		o.JetStream.Limits.MaxAckPending = 7
		o.ClientAdvertise = "example.org"
	}))
	a, b := dial(t, n, asA), dial(t, n, asB)
	defer a.Close()
	defer b.Close()
	a.must("$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s.*"],"max_bytes":500}`)
	a.must("$JS.API.STREAM.CREATE.M", `{"name":"M","subjects":["m"],"storage":"memory"}`)
	a.must("$JS.API.CONSUMER.CREATE.S.C", `{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit","max_ack_pending":3}}`)
	for _, subject := range []string{"s.1", "s.2", "m"} {
		a.must(subject, "0123456789")
	}
	if e := a.request("$JS.API.STREAM.INFO.X", ""); !strings.Contains(e, "10059") {
		t.Fatal(e)
	}
	b.send("SUB b.> q 9\r\nPUB b.1 2\r\nok\r\n")
	b.line()
	b.line()

	url := n.MonitorURL()
	if !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/base") {
		t.Fatalf("the monitoring URL is %q", url)
	}
	for _, tc := range []struct {
		path   string
		values map[string]any
	}{
		{"/varz", map[string]any{
			"server_name": "test", "server_id": n.id, "version": version.NATS, "sluice_version": version.String(), "auth_required": true,
			"connections": 2.0, "total_connections": 2.0, "slow_consumers": 0.0, "connect_urls.0": "example.org:" + portOf(t, n.ClientURL()),
			"jetstream.config.store_dir": "dir://" + filepath.ToSlash(dir), "jetstream.config.max_storage": 3000.0, "jetstream.config.sync_always": true,
			"jetstream.stats.memory": float64(1 + 10 + 16), "jetstream.stats.storage": float64(2 * (3 + 10 + 30)), "jetstream.stats.reserved_storage": 500.0,
			"jetstream.stats.accounts": 1.0, "jetstream.stats.api.level": 5.0, "jetstream.stats.api.errors": 1.0, "jetstream.limits.max_ack_pending": 7.0,
			"sluice_storage.url": "dir://" + filepath.ToSlash(dir), "sluice_storage.node": "test", "sluice_storage.epoch": 1.0,
			"sluice_storage.log_pending_bytes": 0.0, "sluice_storage.log_stalled": 0.0, "tags.0": "x", "metadata.k": "v",
		}},
		{"/connz?auth=1&subs=detail&acc=B", map[string]any{
			"num_connections": 1.0, "connections.0.cid": 2.0, "connections.0.kind": "Client", "connections.0.authorized_user": "b", "connections.0.account": "B",
			"connections.0.in_msgs": 1.0, "connections.0.out_msgs": 1.0, "connections.0.subscriptions_list_detail.0.subject": "b.>",
			"connections.0.subscriptions_list_detail.0.qgroup": "q", "connections.0.subscriptions_list_detail.0.sid": "9",
			"connections.0.subscriptions_list_detail.0.msgs": 1.0,
		}},
		{"/connz", map[string]any{"num_connections": 2.0, "connections.0.name": "first", "connections.0.lang": "go", "connections.0.version": "1"}},
		{"/subsz?subs=1&acc=B", map[string]any{
			"total": 1.0, "subscriptions_list.0.account": "B", "subscriptions_list.0.subject": "b.>", "subscriptions_list.0.cid": 2.0,
		}},
		{"/accountz", map[string]any{"system_account": "$SYS", "accounts.0": "$G", "accounts.3": "B"}},
		{"/accountz?acc=A", map[string]any{"account_detail.jetstream_enabled": true, "account_detail.client_connections": 1.0}},
		{"/accountz?acc=B", map[string]any{"account_detail.jetstream_enabled": false, "account_detail.is_system": nil}},
		{"/accountz?acc=$G", map[string]any{"account_detail.jetstream_enabled": false}},
		{"/accstatz", map[string]any{
			"account_statz.0.acc": "A", "account_statz.1.acc": "B", "account_statz.1.conns": 1.0, "account_statz.1.total_conns": 1.0,
			"account_statz.1.sent.msgs": 1.0, "account_statz.1.sent.bytes": 2.0, "account_statz.1.received.msgs": 1.0, "account_statz.2": nil,
		}},
		{"/jsz?acc=A&consumers=1&config=1", map[string]any{
			"accounts": 1.0, "streams": 2.0, "consumers": 1.0, "messages": 3.0, "bytes": 113.0, "total": 1.0, "account_details.1": nil,
			"account_details.0.name": "A", "account_details.0.reserved_storage": 2000.0, "account_details.0.storage": 86.0, "account_details.0.api.errors": 1.0,
			"account_details.0.stream_detail.0.name": "M", "account_details.0.stream_detail.1.name": "S", "account_details.0.stream_detail.1.config.max_bytes": 500.0,
			"account_details.0.stream_detail.1.state.messages": 2.0, "account_details.0.stream_detail.1.state.consumer_count": 1.0,
			"account_details.0.stream_detail.1.cluster.leader":         "test",
			"account_details.0.stream_detail.1.consumer_detail.0.name": "C", "account_details.0.stream_detail.1.consumer_detail.0.num_pending": 2.0,
			"account_details.0.stream_detail.1.consumer_detail.0.config.max_ack_pending": 3.0,
		}},
		{"/jsz?acc=A&consumers=1", map[string]any{
			"account_details.0.stream_detail.1.config": nil, "account_details.0.stream_detail.1.consumer_detail.0.name": "C",
			"account_details.0.stream_detail.1.consumer_detail.0.config": nil,
		}},
		{"/jsz?acc=A", map[string]any{"account_details.0.stream_detail": nil}},
		{"/healthz", map[string]any{"status": "ok"}},
	} {
		code, body := fetch(t, url+tc.path)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", tc.path, code, body)
			continue
		}
		for path, want := range tc.values {
			if got := value(t, body, path); got != want {
				t.Errorf("%s: %s is %v, want %v", tc.path, path, got, want)
			}
		}
	}
	_, metrics := fetch(t, url+"/metrics")
	for _, want := range []string{
		"\nsluice_client_connections 2\n", "\nsluice_jetstream_bytes{storage=\"file\"} 86\n", "\nsluice_jetstream_streams 2\n",
		"\nsluice_jetstream_api_errors_total 1\n", `sluice_store_requests_total{operation="create",result="ok"}`,
		"\nsluice_store_month_dollars 0.086\n", "\nsluice_store_cost_dollars_total{operation=\"get\"} 0\n", "\nsluice_log_pending_bytes{",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}

	b.Close()
	for {
		_, body := fetch(t, url+"/connz?state=closed&auth=1")
		if value(t, body, "num_connections") == 1.0 {
			if got := value(t, body, "connections.0.reason"); got != "Client Closed" {
				t.Errorf("closed because of %v", got)
			}
			break
		}
	}
	_, body := fetch(t, url+"/accstatz?unused=1")
	for path, want := range map[string]any{"account_statz.3.acc": "B", "account_statz.3.conns": 0.0, "account_statz.3.total_conns": 1.0, "account_statz.3.received.bytes": 2.0} {
		if got := value(t, body, path); got != want {
			t.Errorf("after a connection was closed %s is %v, want %v", path, got, want)
		}
	}
	stop(t, n)
	if r, err := http.Get(url + "/healthz"); err == nil {
		r.Body.Close()
		t.Error("monitoring listens after the end")
	}
}

func portOf(t *testing.T, url string) string {
	t.Helper()
	i := strings.LastIndexByte(url, ':')
	if i < 0 {
		t.Fatalf("no port in %q", url)
	}
	return url[i+1:]
}

// TestUnknownAccountsAreNotMade: asking for an account must not leave anything behind.
func TestUnknownAccountsAreNotMade(t *testing.T) {
	n, _ := start(t, options(noPorts))
	h := handler(t, n)
	for _, path := range []string{"/subsz?acc=X&subs=1", "/accountz?acc=X", "/jsz?acc=X&streams=1", "/healthz?account=X"} {
		ask(h, path)
	}
	if _, body := ask(h, "/accountz"); value(t, body, "accounts.2") != nil {
		t.Error(body)
	}
}

func TestShutdownLogsNoErrors(t *testing.T) {
	n, log := start(t, options(nil))
	c := dial(t, n, "")
	c.must("$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"]}`)
	c.must("s", "x")
	c.Close()
	stop(t, n)
	if lines := log.take(); len(lines) > 0 {
		t.Errorf("logged: %q", lines)
	}
}

func TestMonitoringPortThatIsTaken(t *testing.T) {
	first, _ := start(t, options(nil))
	o := options(func(o *config.Options) { o.HTTPPort = first.monitor.Port() })
	n, err := New(o, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "monitor port") {
		t.Errorf("Start: %v", err)
	}
	if _, err := n.InProcessConn(); err == nil {
		t.Error("the server runs")
	}
}

func TestStoreURLHidesSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	for url, want := range map[string]string{
		"dir:///var/x":      "dir:///var/x",
		"dir://./data":      config.DirURL("data"),
		"mem://":            "mem://",
		"s3://b/p?region=r": "s3://b/p?region=r",
		"s3://b?endpoint=http://key:hunter2@host:9000/%3Ftoken=hunter2&path_style=true": "s3://b?endpoint=http%3A%2F%2Fhost%3A9000%2F",
	} {
		n, err := New(options(func(o *config.Options) { o.Store.URL = url }), nil, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := n.StoreURL(); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
	if _, err := New(options(func(o *config.Options) { o.Store.URL = "s3://k:hunter2@b/p" }), nil, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a URL with credentials: %v", err)
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for advertise, want := range map[string]string{"": "", "h": "h:4222", "h:1": "h:1", "::1": "[::1]:4222", "[::1]:7": "[::1]:7", "h:-1": "h:4222"} {
		n, err := New(options(func(o *config.Options) { o.Port, o.ClientAdvertise = 4222, advertise }), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		opts := n.options()
		if got := strings.Join(n.connOptions(&opts, secured{}).ConnectURLs, " "); got != want {
			t.Errorf("%q is told as %q, want %q", advertise, got, want)
		}
	}
}

func TestAccountsArePromisedNoMoreThanThereIs(t *testing.T) {
	for _, tc := range []struct {
		maxMemory, maxStore int64
		fault               string
	}{
		{0, 0, ""}, {-1, -1, ""}, {1000, 2000, ""}, {999, 0, "max_memory_store"}, {0, 1999, "max_file_store"},
	} {
		_, err := New(options(func(o *config.Options) {
			twoAccounts(o)
			o.JetStream.MaxMemory, o.JetStream.MaxStore = tc.maxMemory, tc.maxStore
		}), nil, nil)
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("with %d and %d: %v", tc.maxMemory, tc.maxStore, err)
		}
	}
}

// TestReloadReachesEverything changes each kind of setting and looks where it must arrive.
func TestReloadReachesEverything(t *testing.T) {
	before := options(func(o *config.Options) { noPorts(o); o.JetStream.MaxStore = 1000 })
	n, log := start(t, before)
	c := dial(t, n, "")
	defer c.Close()
	const create, consumer = "$JS.API.STREAM.CREATE.", `{"stream_name":"S","config":{"durable_name":"%","ack_policy":"explicit","max_ack_pending":100}}`
	c.must(create+"S", `{"name":"S","subjects":["s"],"max_bytes":900}`)
	refused := func(subject, body, code string) {
		t.Helper()
		if a := c.request(subject, body); !strings.Contains(a, `"err_code":`+code) {
			t.Errorf("%s: %s", subject, a)
		}
	}
	refused(create+"T", `{"name":"T","subjects":["t"],"max_bytes":101}`, "10047")
	_, body := ask(handler(t, n), "/varz")
	loaded := value(t, body, "config_load_time")

	after := before.Clone()
	after.JetStream.MaxStore = 2000
	after.JetStream.Limits.MaxAckPending = 99
	after.JetStream.Limits.MaxRequestBatch = 10
	after.Tags = []string{"new"}
	after.MaxPayload = 2000
	if err := n.Reload(after); err != nil {
		t.Fatal(err)
	}
	c.must(create+"T", `{"name":"T","subjects":["t"],"max_bytes":101}`)
	refused("$JS.API.CONSUMER.CREATE.S.C", strings.Replace(consumer, "%", "C", 1), "10121")
	refused("$JS.API.CONSUMER.CREATE.S.D", strings.Replace(strings.Replace(consumer, "%", "D", 1), "100", `50,"max_batch":11`, 1), "10125")
	_, body = ask(handler(t, n), "/varz")
	for path, want := range map[string]any{"tags.0": "new", "max_payload": 2000.0, "jetstream.config.max_storage": 2000.0, "jetstream.limits.max_ack_pending": 99.0} {
		if got := value(t, body, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if value(t, body, "config_load_time") == loaded {
		t.Error("config_load_time has not changed")
	}

	lower := after.Clone()
	lower.JetStream.MaxStore = 500
	if err := n.Reload(lower); err == nil {
		t.Error("a bound was lowered")
	}
	greedy := after.Clone()
	twoAccounts(&greedy)
	greedy.Auth.Accounts[0].JetStream.MaxStore = 2001
	if err := n.Reload(greedy); err == nil || !strings.Contains(err.Error(), "max_file_store") {
		t.Errorf("an account that is promised too much: %v", err)
	}
	if lines := slices.DeleteFunc(log.take(), func(s string) bool { return !strings.HasPrefix(s, "ERROR") }); len(lines) > 0 {
		t.Errorf("logged: %q", lines)
	}
}

func TestServerLimitOnPublishes(t *testing.T) {
	n, log := start(t, options(func(o *config.Options) { noPorts(o); o.JetStream.MaxMemory = 100 }))
	c := dial(t, n, "")
	defer c.Close()
	c.must("$JS.API.STREAM.CREATE.M", `{"name":"M","subjects":["m"],"storage":"memory"}`)
	c.must("m", strings.Repeat("x", 100))
	const want = `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"},"stream":"M","seq":0}`
	for range 3 {
		if got := c.request("m", "x"); got != want {
			t.Errorf("got %s", got)
		}
	}
	if lines := log.take(); len(lines) != 1 || !strings.Contains(lines[0], "JetStream memory resource limits exceeded for server") {
		t.Errorf("logged: %q", lines)
	}
	if a := c.must("$JS.API.INFO", ""); value(t, a, "limits.max_memory") != -1.0 || value(t, a, "memory") != 117.0 {
		t.Errorf("the account is limited to what the server has: %s", a)
	}
}
