package monitor

import (
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
)

// fakeSource is a server as a test wants it.
type fakeSource struct {
	options  config.Options
	conns    []Conn
	closed   []Conn
	subs     []SubDetail
	accounts []Account
	jsOff    bool
	js       map[string]AccountDetail
	ready    error
	jsErr    error
	wrong    []HealthzError
	detail   JetStreamDetail // what was wanted last
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newFake is a server with a client, a stream and a consumer.
func newFake() *fakeSource {
	f := &fakeSource{options: config.Options{ServerName: "ref", JetStream: config.JetStream{Enabled: true}, Tags: []string{"x", "y"}, Metadata: map[string]string{"k": "v"}}}
	f.options.JetStream.Limits.MaxAckPending = 10
	f.options.JetStream.SyncInterval = time.Minute
	f.options.SetDefaults()
	f.conns = []Conn{{CID: 7, Kind: "Client", Type: "nats", IP: "127.0.0.1", Port: 5, Start: epoch, LastActivity: epoch, RTT: 1565766, NumSubs: 1,
		Name: "CLI", Lang: "go", Version: "1.53.1", User: "a", Account: "A"}}
	c := f.conns[0]
	c.CID, c.Stop, c.Reason, c.Pending = 17, epoch.Add(time.Minute), "Client Closed", 6
	f.closed = []Conn{c}
	f.subs = []SubDetail{{Account: "A", Subject: "x.>", Queue: "q", SID: "1", CID: 7}}
	f.accounts = []Account{{Name: "A", Updated: epoch, JetStream: true, Connections: 1}, {Name: "$SYS"}, {Name: "$G"}}
	consumer := map[string]any{"stream_name": "S", "name": "C", "created": epoch, "config": map[string]any{}, "delivered": struct{}{}, "ack_floor": struct{}{},
		"num_ack_pending": 0, "num_redelivered": 0, "num_waiting": 0, "num_pending": 0, "ts": epoch}
	f.js = map[string]AccountDetail{"A": {Name: "A", ID: "A", Streams: []StreamDetail{{Name: "S", Created: epoch, Cluster: struct{}{}, Config: struct{}{}, State: struct{}{}, Consumers: []any{consumer}}}}}
	return f
}

func (f *fakeSource) ServerID() string { return "N" }
func (f *fakeSource) Varz() *Varz {
	v := ConfigVarz(&f.options)
	v.Start, v.ConfigLoadTime, v.AuthNeeded = epoch.Add(-26*time.Hour), epoch, true
	if v.JetStream.Config != nil {
		v.JetStream.Config.StoreDir, v.JetStream.Stats = "dir:///data", &JetStreamStats{}
	}
	return v
}
func (f *fakeSource) Conns(s ConnState) []Conn {
	var all []Conn
	if s != ConnClosed {
		all = append(all, f.conns...)
	}
	if s != ConnOpen {
		all = append(all, f.closed...)
	}
	return all
}
func (f *fakeSource) ConnSubs(cid uint64) []SubDetail {
	var own []SubDetail
	for _, s := range f.subs {
		if s.CID == cid {
			s.Account = ""
			own = append(own, s)
		}
	}
	return own
}
func (f *fakeSource) SublistStats(string) SublistStats {
	return SublistStats{NumSubs: uint32(len(f.subs))}
}
func (f *fakeSource) Subs(account string) iter.Seq[SubDetail] {
	return func(yield func(SubDetail) bool) {
		for _, s := range f.subs {
			if (account == "" || s.Account == account) && !yield(s) {
				return
			}
		}
	}
}
func (f *fakeSource) SystemAccount() string { return "$SYS" }
func (f *fakeSource) Accounts() []Account   { return slices.Clone(f.accounts) }
func (f *fakeSource) JetStream() (JetStream, bool) {
	c := ConfigJetStream(&f.options)
	c.StoreDir = "dir:///data"
	return JetStream{Config: c, Limits: ConfigJetStreamLimits(&f.options), Streams: 1, Messages: 2}, !f.jsOff
}
func (f *fakeSource) JetStreamAccounts() []string {
	var names []string
	for n := range f.js {
		names = append(names, n)
	}
	return names
}
func (f *fakeSource) JetStreamAccount(name string, want JetStreamDetail) (AccountDetail, bool) {
	f.detail = want
	a, ok := f.js[name]
	if !want.Streams {
		a.Streams = nil
	}
	return a, ok
}
func (f *fakeSource) Ready() error                  { return f.ready }
func (f *fakeSource) JetStreamReady() (bool, error) { return !f.jsOff, f.jsErr }
func (f *fakeSource) CheckAssets(account, stream, consumer string) (Found, []HealthzError) {
	found := FoundNothing
	a, ok := f.js[account]
	if ok {
		found = FoundAccount
	}
	if i := slices.IndexFunc(a.Streams, func(s StreamDetail) bool { return s.Name == stream }); i >= 0 {
		found = FoundStream
		if consumer == "C" {
			found = FoundConsumer
		}
	}
	return found, f.wrong
}

func newTestHandler(t *testing.T, f *fakeSource, change func(*Options)) *Handler {
	t.Helper()
	o := Options{Source: f, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	h, err := NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	h.now = func() time.Time { return epoch.Add(time.Hour) }
	return h
}

func get(h http.Handler, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return w
}

var errTest = errors.New("broken")
