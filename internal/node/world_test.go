package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/monitor"
	"github.com/sluicemq/sluice/internal/store"
)

// options are a server's on free ports, with a store in memory.
func options(change func(*config.Options)) config.Options {
	o := config.Options{
		ServerName: "test", Host: "127.0.0.1", Port: config.RandomPort, HTTPPort: config.RandomPort,
		JetStream: config.JetStream{Enabled: true}, Store: config.Store{URL: "mem://"},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// logged keeps what was logged as a warning or an error.
type logged struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, text)
	return nil
}
func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logged) WithGroup(string) slog.Handler      { return l }

func (l *logged) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// start runs a server until the test ends.
func start(t *testing.T, o config.Options) (*Node, *logged) {
	t.Helper()
	log := &logged{}
	n, err := New(o, slog.New(log), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n, log
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// handler serves the monitoring endpoints of a node without a port.
func handler(t *testing.T, n *Node) *monitor.Handler {
	t.Helper()
	h, err := monitor.NewHandler(monitor.Options{Source: status{n}, Gatherer: n.registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask gives the status and the body of one endpoint.
func ask(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// fetch reads an endpoint over the network.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// value finds a value in a JSON document by its path: names and positions between dots.
func value(t *testing.T, document, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	for _, name := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// wire is a client that speaks the protocol in plain text.
type wire struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// dial connects in-process and says who it is.
func dial(t *testing.T, n *Node, connect string) *wire {
	t.Helper()
	nc, err := n.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	c := &wire{Conn: nc, t: t, r: bufio.NewReader(nc)}
	c.send(`CONNECT {"verbose":false,"headers":true,"no_responders":true` + connect + "}\r\nPING\r\n")
	for c.line() != "PONG" {
	}
	return c
}

func (c *wire) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *wire) line() string {
	c.t.Helper()
	s, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(s, "-ERR") {
		c.t.Fatal(s)
	}
	return strings.TrimSuffix(s, "\r\n")
}

// request sends a request and gives the answer's body.
func (c *wire) request(subject, body string) string {
	c.t.Helper()
	inbox := "_INBOX." + fmt.Sprint(requests.Add(1))
	c.send(fmt.Sprintf("SUB %s 1\r\nUNSUB 1 1\r\nPUB %s %s %d\r\n%s\r\n", inbox, subject, inbox, len(body), body))
	for {
		if strings.HasPrefix(c.line(), "MSG "+inbox) {
			return c.line()
		}
	}
}

var requests atomic.Int64

// must sends a request of the API that is to succeed.
func (c *wire) must(subject, body string) string {
	c.t.Helper()
	a := c.request(subject, body)
	if strings.Contains(a, `"error":`) {
		c.t.Fatalf("%s: %s", subject, a)
	}
	return a
}

// fickle is a store that can be switched off.
type fickle struct {
	store.Store
	down atomic.Bool
}

var errDown = errors.New("switched off")

// Put implements store.Store.
func (f *fickle) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if f.down.Load() {
		return "", fmt.Errorf("%w: %w", store.ErrThrottled, errDown)
	}
	return f.Store.Put(ctx, key, data, cond)
}
