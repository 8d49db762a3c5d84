package node

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/store"
)

func noPorts(o *config.Options) { o.NoListen, o.HTTPPort = true, 0 }

// health asks for /healthz as an orchestrator does, and without the text that tells a time.
func health(t *testing.T, n *Node) string {
	t.Helper()
	h := handler(t, n)
	var all []string
	for _, query := range []string{"", "?js-enabled-only=true", "?js-server-only=true"} {
		code, body := ask(h, "/healthz"+query)
		switch {
		case code == 200 && body == `{"status":"ok"}`:
			all = append(all, "ok")
		case strings.Contains(body, "for ") || strings.Contains(body, "life"):
			all = append(all, "503 "+strings.SplitN(value(t, body, "error").(string), ":", 2)[0])
		default:
			all = append(all, body)
		}
	}
	return strings.Join(all, " | ")
}

func TestHealthFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fickle{}
		n, err := New(options(noPorts), slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		n.decorate = func(s store.Store) store.Store { f.Store = s; return f }
		if got := health(t, n); strings.Count(got, `"the server is starting"`) != 3 {
			t.Errorf("before the start: %s", got)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		const well = "ok | ok | ok"
		expect := func(when, want string) {
			t.Helper()
			if got := health(t, n); got != want {
				t.Errorf("%s: %s", when, got)
			}
		}
		expect("after the start", well)
		c := dial(t, n, "")
		c.must("$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"]}`)
		f.down.Store(true)
		c.send("PUB s 1\r\nx\r\n")
		time.Sleep(troubleAfter - 2*time.Second)
		expect("in short trouble", well)
		time.Sleep(3 * time.Second)
		expect("in long trouble", "503 the store does not answer | ok | ok")
		h := handler(t, n)
		_, varz := ask(h, "/varz")
		if s, _ := value(t, varz, "sluice_storage.log_stalled").(float64); time.Duration(s) < troubleAfter {
			t.Errorf("stalled for %v", s)
		}
		if p, _ := value(t, varz, "sluice_storage.log_pending_bytes").(float64); p <= 0 {
			t.Errorf("%v bytes are pending", p)
		}
		f.down.Store(false)
		time.Sleep(3 * time.Second)
		expect("after it", well)

		// Without anything to write it is the node's head that tells.
		f.down.Store(true)
		time.Sleep(troubleAfter + 2*time.Second)
		expect("with an idle log", "503 the store does not answer | ok | ok")
		f.down.Store(false)
		time.Sleep(3 * time.Second)
		expect("after that", well)
		c.Close()
		if err := n.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		const ending = `{"status":"unavailable","error":"the server is shutting down"}`
		expect("after the end", strings.Join([]string{ending, ending, ending}, " | "))
		if code, _ := ask(h, "/healthz"); code != 503 {
			t.Errorf("after the end: %d", code)
		}
	})
}

func TestHealthOfAssets(t *testing.T) {
	n, _ := start(t, options(noPorts))
	c := dial(t, n, "")
	defer c.Close()
	c.must("$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"]}`)
	c.must("$JS.API.CONSUMER.CREATE.S.C", `{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}`)
	h := handler(t, n)
	for query, want := range map[string]int{
		"": 200, "account=$G": 200, "account=$G&stream=S": 200, "account=$G&stream=S&consumer=C": 200,
		"account=X": 404, "account=$SYS": 404, "account=$G&stream=T": 404, "account=$G&stream=S&consumer=D": 404, "stream=S": 400,
	} {
		if code, body := ask(h, "/healthz?"+query); code != want {
			t.Errorf("%q: %d %s", query, code, body)
		}
	}
}

func TestHealthWithoutJetStream(t *testing.T) {
	n, _ := start(t, options(func(o *config.Options) { noPorts(o); o.JetStream.Enabled = false }))
	if got := health(t, n); got != "ok | ok | ok" {
		t.Error(got)
	}
	_, jsz := ask(handler(t, n), "/jsz")
	if value(t, jsz, "disabled") != true {
		t.Error(jsz)
	}
	if n.StoreURL() != "" || n.MonitorURL() != "" {
		t.Errorf("store %q, monitoring %q", n.StoreURL(), n.MonitorURL())
	}
}
