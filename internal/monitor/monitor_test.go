package monitor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBadRequests(t *testing.T) {
	tests := []struct{ url, want string }{
		{"/connz?sort=x", "invalid sorting option: x"},
		{"/connz?sort=stop", "sort by stop only valid on closed connections"},
		{"/connz?sort=reason&state=all", "sort by reason only valid on closed connections"},
		{"/connz?auth=maybe", `Error decoding boolean for 'auth': strconv.ParseBool: parsing "maybe": invalid syntax`},
		{"/connz?state=zz", "Error decoding state for zz"},
		{"/connz?cid=-1", `Error decoding uint64 for 'cid': strconv.ParseUint: parsing "-1": invalid syntax`},
		{"/connz?limit=x&offset=y", `Error decoding int for 'offset': strconv.Atoi: parsing "y": invalid syntax`},
		{"/subsz?test=a.*", "invalid test subject, must be valid publish subject: a.*"},
		{"/subsz?subs=2", `Error decoding boolean for 'subs': strconv.ParseBool: parsing "2": invalid syntax`},
		{"/jsz?limit=x", `Error decoding int for 'limit': strconv.Atoi: parsing "x": invalid syntax`},
		{"/accountz?acc=Q", "Account Q does not exist"},
		{"/accstatz?unused=x", `Error decoding boolean for 'unused': strconv.ParseBool: parsing "x": invalid syntax`},
		{"/healthz?details=x", `Error decoding boolean for 'details': strconv.ParseBool: parsing "x": invalid syntax`},
	}
	for _, tc := range tests {
		w := get(newTestHandler(t, newFake(), nil), tc.url)
		if w.Code != http.StatusBadRequest || w.Body.String() != tc.want {
			t.Errorf("%s: %d %q", tc.url, w.Code, w.Body)
		}
	}
}

func TestVarz(t *testing.T) {
	f := newFake()
	h := newTestHandler(t, f, nil)
	get(h, "/healthz")
	get(h, "/varz")
	var v Varz
	if err := json.Unmarshal(get(h, "/varz").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != "2.15.3" || v.Sluice == "" || v.Uptime != "1d3h0m0s" || v.Mem <= 0 || v.Cores < 1 || v.MaxPayload != 1<<20 || v.PingInterval != 2*time.Minute {
		t.Errorf("%+v", v)
	}
	if !reflect.DeepEqual(v.HTTPRequests, map[string]uint64{"/varz": 2, "/healthz": 1}) {
		t.Errorf("requests %v", v.HTTPRequests)
	}
	f.options.JetStream.Enabled = false
	if body := get(h, "/varz").Body.String(); !strings.Contains(body, `"jetstream": {}`) {
		t.Errorf("JetStream is off: %s", body)
	}
}

func TestUptime(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 3601 * time.Second: "1h0m1s",
		25 * time.Hour: "1d1h0m0s", (366*24 + 1) * time.Hour: "1y1d1h0m0s"} {
		if got := uptime(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestConnz(t *testing.T) {
	f := newFake()
	f.conns = nil
	for i := range uint64(5) {
		f.conns = append(f.conns, Conn{CID: 5 - i, Start: epoch.Add(time.Duration(5-i) * time.Minute), LastActivity: epoch.Add(time.Duration(i) * time.Minute), InMsgs: int64(i % 2), OutMsgs: int64(i), InBytes: int64(10 - i),
			OutBytes: int64(i % 3), Pending: int(i), RTT: time.Duration(i), NumSubs: uint32(i / 2), User: fmt.Sprint("u", i%2), Account: []string{"A", "$G"}[i%2]})
	}
	f.closed = []Conn{{CID: 20, Stop: epoch.Add(time.Minute), Reason: "Read Error", Account: "A"}, {CID: 21, Stop: epoch.Add(2 * time.Minute), Reason: "Client Closed"}, {CID: 22, Stop: epoch, Reason: "Client Closed"}}
	f.subs = []SubDetail{{CID: 3, Subject: "b", SID: "1"}, {CID: 3, Subject: "c", SID: "2"}}
	tests := []struct {
		query string
		cids  string
		total int
	}{
		{"", "1 2 3 4 5", 5},
		{"sort=start", "1 2 3 4 5", 5},
		{"sort=msgs_to", "1 2 3 4 5", 5},
		{"sort=msgs_from", "4 2 5 3 1", 5}, // equal ones with the highest cid first, as in nats-server
		{"sort=bytes_from", "5 4 3 2 1", 5},
		{"sort=bytes_to", "3 4 1 5 2", 5},
		{"sort=pending", "1 2 3 4 5", 5},
		{"sort=subs", "1 3 2 5 4", 5},
		{"sort=rtt", "1 2 3 4 5", 5},
		{"sort=last", "1 2 3 4 5", 5},
		{"sort=idle", "5 4 3 2 1", 5},
		{"sort=uptime", "5 4 3 2 1", 5},
		{"limit=2", "1 2", 5},
		{"limit=2&offset=4", "5", 5},
		{"offset=9", "", 5},
		{"offset=-3&limit=-1", "1 2 3 4 5", 5},
		{"cid=3", "3", 1},
		{"cid=20", "", 0},
		{"cid=20&state=any", "20", 1},
		{"user=u1", "2 4", 2},
		{"acc=A", "1 3 5", 3},
		{"acc=A&state=all", "1 3 5 20", 4},
		{"acc=Q", "", 0},
		{"mqtt_client=x", "", 0},
		{"state=closed", "20 21 22", 3},
		{"state=closed&sort=stop", "21 20 22", 3},
		{"state=closed&sort=reason", "21 22 20", 3},
	}
	h := newTestHandler(t, f, nil)
	for _, tc := range tests {
		var z Connz
		body := get(h, "/connz?"+tc.query).Body
		if err := json.Unmarshal(body.Bytes(), &z); err != nil {
			t.Fatalf("%s: %v", tc.query, err)
		}
		var cids []string
		for _, c := range z.Conns {
			cids = append(cids, fmt.Sprint(c.CID))
		}
		if got := strings.Join(cids, " "); got != tc.cids || z.Total != tc.total || z.NumConns != len(cids) {
			t.Errorf("%s: got %q of %d (num %d), want %q of %d", tc.query, got, z.Total, z.NumConns, tc.cids, tc.total)
		}
		if z.Conns == nil {
			t.Errorf("%s: connections is null", tc.query)
		}
	}
	var z Connz
	if err := json.Unmarshal(get(h, "/connz?cid=3&subs=1").Body.Bytes(), &z); err != nil || !slices.Equal(z.Conns[0].Subs, []string{"b", "c"}) || z.Conns[0].AuthorizedUser != "" {
		t.Errorf("subs=1: %+v %v", z.Conns[0], err)
	}
	if err := json.Unmarshal(get(h, "/connz?cid=4&auth=true&subs=DETAIL").Body.Bytes(), &z); err != nil || z.Conns[0].AuthorizedUser != "u1" || z.Conns[0].Account != "" {
		t.Errorf("the default account is not named: %+v %v", z.Conns[0], err)
	}
}

// TestPageOfSubs compares the bounded selection with sorting everything.
func TestPageOfSubs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []SubDetail
	for range 500 {
		all = append(all, SubDetail{CID: rnd.Uint64N(40), SID: fmt.Sprint(rnd.IntN(30)), Subject: []string{"a", "a.*", "a.b", ">"}[rnd.IntN(4)], Account: "A"})
	}
	for range 300 {
		subject, offset, limit := []string{"", "a.b", "zz"}[rnd.IntN(3)], rnd.IntN(600), 1+rnd.IntN(600)
		got, total := pageOfSubs(slices.Values(all), subject, offset, limit)
		var want []SubDetail
		for _, s := range all {
			if subject == "" || s.Subject == ">" || subject == "a.b" && s.Subject != "a" {
				s.AccountTag = "A"
				want = append(want, s)
			}
		}
		slices.SortFunc(want, func(a, b SubDetail) int { return compareSubs(&a, &b) })
		n := len(want)
		if want = page(want, offset, limit); total != n || !slices.Equal(got, want) {
			t.Fatalf("%q %d %d: %d of %d, want %d of %d", subject, offset, limit, len(got), total, len(want), n)
		}
	}
	if got, total := pageOfSubs(slices.Values(all), "", 1, int(^uint(0)>>1)); len(got) != 499 || total != 500 {
		t.Errorf("the largest limit: %d of %d", len(got), total)
	}
}

func TestJsz(t *testing.T) {
	f := newFake()
	for i := range 5 {
		name := fmt.Sprint("B", i)
		f.js[name] = AccountDetail{Name: name, ID: name}
	}
	h := newTestHandler(t, f, nil)
	tests := []struct {
		query    string
		accounts string
		want     JetStreamDetail
	}{
		{"", "", JetStreamDetail{}},
		{"accounts=1", "A B0 B1 B2 B3 B4", JetStreamDetail{}},
		{"accounts=1&offset=1&limit=2", "B0 B1", JetStreamDetail{}},
		{"accounts=1&limit=-1", "A B0 B1 B2 B3 B4", JetStreamDetail{}},
		{"streams=1", "A B0 B1 B2 B3 B4", JetStreamDetail{Streams: true}},
		{"consumers=1&config=true", "A B0 B1 B2 B3 B4", JetStreamDetail{Streams: true, Consumers: true, Config: true}},
		{"acc=B1&streams=1", "B1", JetStreamDetail{Streams: true}},
		{"acc=Q&streams=1", "", JetStreamDetail{}},
		{"acc=B2&accounts=1&direct-consumers=1&raft=1&stream-leader-only=1&leader-only=1", "B2", JetStreamDetail{DirectConsumers: true}},
	}
	for _, tc := range tests {
		f.detail = JetStreamDetail{}
		var z Jsz
		if err := json.Unmarshal(get(h, "/jsz?"+tc.query).Body.Bytes(), &z); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, a := range z.AccountDetails {
			names = append(names, a.Name)
		}
		if got := strings.Join(names, " "); got != tc.accounts || f.detail != tc.want || z.Total != 6 || z.Messages != 2 {
			t.Errorf("%s: got %q, %+v, total %d", tc.query, got, f.detail, z.Total)
		}
	}
	f.jsOff = true
	if body := get(h, "/jsz").Body.String(); !strings.Contains(body, `"disabled": true`) {
		t.Errorf("off: %s", body)
	}
	if w := get(h, "/jsz?leader-only=1"); w.Code != http.StatusBadRequest {
		t.Errorf("off, leader only: %d", w.Code)
	}
}

func TestAccstatz(t *testing.T) {
	h := newTestHandler(t, newFake(), nil)
	for query, want := range map[string]string{"": "A", "?unused=1": "$G $SYS A"} {
		var z AccountStatz
		if err := json.Unmarshal(get(h, "/accstatz"+query).Body.Bytes(), &z); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, a := range z.Accounts {
			names = append(names, a.Account)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %q", query, got)
		}
	}
}

func TestHealthz(t *testing.T) {
	tests := []struct {
		name, query string
		change      func(*fakeSource)
		code        int
		body        string
	}{
		{"well", "", nil, 200, `{"status":"ok"}`},
		{"well with details", "details=1", nil, 200, `{"status":"ok"}`},
		{"not listening", "js-server-only=1", func(f *fakeSource) { f.ready = errTest }, 500, `{"status":"error","error":"broken"}`},
		{"not listening, details", "details=1", func(f *fakeSource) { f.ready = errTest }, 500, `{"status":"error","errors":[{"type":"CONNECTION","error":"broken"}]}`},
		{"ending", "js-server-only=1", func(f *fakeSource) { f.ready = fmt.Errorf("%w", ErrEnding) }, 503, `{"status":"unavailable","error":"the server is shutting down"}`},
		{"jetstream broken", "", func(f *fakeSource) { f.jsErr = errTest }, 503, `{"status":"unavailable","error":"broken"}`},
		{"jetstream broken, enabled only", "js-enabled-only=1", func(f *fakeSource) { f.jsErr = errTest }, 503, `{"status":"unavailable","error":"broken"}`},
		{"jetstream broken, old name", "js-enabled=1", func(f *fakeSource) { f.jsErr = errTest }, 503, `{"status":"unavailable","error":"broken"}`},
		{"jetstream broken, server only", "js-server-only=1", func(f *fakeSource) { f.jsErr = errTest }, 200, `{"status":"ok"}`},
		{"jetstream off", "account=A", func(f *fakeSource) { f.jsOff = true }, 200, `{"status":"ok"}`},
		{"a stream broken", "", func(f *fakeSource) {
			f.wrong = []HealthzError{{Type: "STREAM", Account: "A", Stream: "S", Error: "e1"}, {Error: "e2"}}
		}, 503, `{"status":"unavailable","error":"e1"}`},
		{"a stream broken, enabled only", "js-enabled-only=1", func(f *fakeSource) { f.wrong = []HealthzError{{Error: "e"}} }, 200, `{"status":"ok"}`},
		{"a stream broken, details", "details=1", func(f *fakeSource) {
			f.wrong = []HealthzError{{Type: "STREAM", Account: "A", Stream: "S", Error: "e1"}}
		}, 503,
			`{"status":"error","errors":[{"type":"STREAM","account":"A","stream":"S","error":"e1"}]}`},
		{"consumer there", "account=A&stream=S&consumer=C", nil, 200, `{"status":"ok"}`},
		{"no consumer", "account=A&stream=S&consumer=D", nil, 404, `{"status":"unavailable","error":"JetStream consumer \"D\" not found for stream \"S\" on account \"A\""}`},
		{"no stream", "account=A&stream=T", nil, 404, `{"status":"unavailable","error":"JetStream stream \"T\" not found on account \"A\""}`},
		{"no account", "account=Q&details=1", nil, 404, `{"status":"error","errors":[{"type":"ACCOUNT","account":"Q","error":"JetStream account \"Q\" not found"}]}`},
		{"stream without account", "stream=S", nil, 400, `{"status":"error","error":"\"account\" must not be empty when checking stream health"}`},
		{"consumer without stream", "account=A&consumer=C", nil, 400, `{"status":"error","error":"\"stream\" must not be empty when checking consumer health"}`},
	}
	for _, tc := range tests {
		f := newFake()
		if tc.change != nil {
			tc.change(f)
		}
		w := get(newTestHandler(t, f, nil), "/healthz?"+tc.query)
		if w.Code != tc.code || w.Body.String() != tc.body {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
	}
}

func TestPathsAndMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_test_total"})
	reg.MustRegister(counter)
	counter.Inc()
	h := newTestHandler(t, newFake(), func(o *Options) { o.Gatherer, o.BasePath = reg, "/base" })
	for path, code := range map[string]int{"/base": 200, "/base/varz": 200, "/base/subscriptionsz": 200, "/base/metrics": 200, "/varz": 404, "/": 404, "/base/x": 404, "/base/varz/x": 404} {
		if w := get(h, path); w.Code != code {
			t.Errorf("%s: %d, want %d", path, w.Code, code)
		}
	}
	if body := get(h, "/base/metrics").Body.String(); !strings.Contains(body, "sluice_test_total 1") {
		t.Errorf("metrics: %s", body)
	}
	if body := get(h, "/base").Body.String(); !strings.Contains(body, `href="./base/varz"`) || !strings.Contains(body, "metrics") {
		t.Errorf("root: %s", body)
	}
	plain := newTestHandler(t, newFake(), func(o *Options) { o.Gatherer = nil })
	if body := get(plain, "/").Body.String(); !strings.Contains(body, `href="./varz"`) || strings.Contains(body, "metrics") {
		t.Errorf("root without metrics: %s", body)
	}
	if w := get(plain, "/metrics"); w.Code != 404 {
		t.Errorf("metrics without a gatherer: %d", w.Code)
	}
	if _, err := NewHandler(Options{MaxRequests: -1}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults, but: %v", err)
	}
}

// blockingSource holds every request to /varz.
type blockingSource struct {
	*fakeSource
	entered, leave chan struct{}
}

func (b blockingSource) Varz() *Varz {
	b.entered <- struct{}{}
	<-b.leave
	return b.fakeSource.Varz()
}

func TestRequestsAreBounded(t *testing.T) {
	b := blockingSource{newFake(), make(chan struct{}, 10), make(chan struct{})}
	h, err := NewHandler(Options{Source: b, MaxRequests: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 4)
	for range 2 {
		go func() { done <- get(h, "/varz").Code }()
		<-b.entered
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/varz", nil).WithContext(ctx))
	if w.Body.Len() > 0 || len(b.entered) > 0 {
		t.Error("a third request was worked on")
	}
	close(b.leave)
	for range 2 {
		if code := <-done; code != 200 {
			t.Errorf("code %d", code)
		}
	}
}

func TestListen(t *testing.T) {
	h := newTestHandler(t, newFake(), nil)
	s, err := Listen(context.Background(), "127.0.0.1", -1, nil, h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(context.Background(), "127.0.0.1", s.Port(), nil, h, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("the port was given twice")
	}
	resp, err := http.Get(s.URL() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != `{"status":"ok"}` {
		t.Errorf("%s", body)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://")); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &boundedListener{Listener: inner, slots: make(chan struct{}, 1), closed: make(chan struct{})}
	srv := &http.Server{Handler: newTestHandler(t, newFake(), nil)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	first, second := dial(t, inner), dial(t, inner)
	ask(t, first)
	fmt.Fprint(second, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	ask(t, first) // the second is not accepted while the first is open
	if got := len(l.slots); got != 1 {
		t.Errorf("%d slots taken", got)
	}
	first.Close()
	if line, err := bufio.NewReader(second).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("the second connection: %q %v", line, err)
	}
	second.Close()
	srv.Close()
	<-served
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request on a connection that stays open.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
}
