package sysapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/monitor"
)

// world is a server's state and what was done to it. What a test does not need is not there.
type world struct {
	monitor.Source
	hold chan struct{} // not nil: a report waits until it is closed

	mu       sync.Mutex
	kicked   []uint64
	reloaded int
}

func (w *world) ServerID() string { return "N1" }
func (w *world) Varz() *monitor.Varz {
	if w.hold != nil {
		<-w.hold
	}
	o := config.Options{ServerName: "one"}
	o.SetDefaults()
	return monitor.ConfigVarz(&o)
}
func (w *world) Conns(monitor.ConnState) []monitor.Conn {
	return []monitor.Conn{{CID: 1, Account: "APP"}, {CID: 2, Account: "OTHER"}}
}
func (w *world) SystemAccount() string { return "SYS" }
func (w *world) Accounts() []monitor.Account {
	return []monitor.Account{{Name: "APP", Connections: 1, TotalConnections: 9}, {Name: "OTHER", Connections: 1}, {Name: "IDLE"}}
}
func (w *world) SublistStats(string) (s monitor.SublistStats) { return s }
func (w *world) JetStreamAccount(string, monitor.JetStreamDetail) (d monitor.AccountDetail, ok bool) {
	return d, false
}
func (w *world) Kick(cid uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kicked = append(w.kicked, cid)
	return cid == 1
}
func (w *world) TellLameDuck(cid uint64) bool { return cid == 1 }
func (w *world) ReadConfig() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reloaded++
	return nil
}

// inbox keeps what is delivered.
type inbox chan message

type message struct{ subject, header, data string }

func (in inbox) Deliver(batch []broker.Delivery) <-chan struct{} {
	for _, d := range batch {
		in <- message{string(d.Subject), string(d.Header), string(d.Data)}
	}
	return nil
}

func start(t *testing.T, w *world) (*Service, *broker.Broker) {
	t.Helper()
	b := broker.New(broker.Options{ServerName: "one"})
	s, err := New(Options{Broker: b, Report: monitor.NewReporter(w), Server: w, SystemAccount: "SYS",
		Identity: Identity{Name: "one", Host: "127.0.0.1", ID: "N1", Domain: "hub", Tags: []string{"a", "AZ:1"}, JetStream: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Attach([]string{"SYS", "APP", "OTHER"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, b
}

// ask gives the answer, "" for none, and "nobody" where nobody takes the request.
func ask(t *testing.T, b *broker.Broker, account, subject, header, body string) message {
	t.Helper()
	in := make(inbox, 4)
	sub, err := b.Space(account).Subscribe("reply", "", in)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Space(account).Unsubscribe(sub)
	if b.Space(account).PublishOnce(broker.Msg{Subject: []byte(subject), Reply: []byte("reply"), Header: []byte(header), Data: []byte(body)}) == 0 {
		return message{data: "nobody"}
	}
	synctest.Wait()
	select {
	case m := <-in:
		return m
	default:
		return message{}
	}
}

func TestRequests(t *testing.T) {
	tests := []struct{ account, subject, body, want string }{
		{"SYS", "$SYS.REQ.SERVER.PING", "", `"statsz":{`},
		{"SYS", "$SYS.REQ.SERVER.PING.IDZ", "{", `{"name":"one","host":"127.0.0.1","id":"N1"}`},
		{"SYS", "$SYS.REQ.SERVER.N1.VARZ", "", `"server_name":"one"`},
		{"SYS", "$SYS.REQ.SERVER.N2.VARZ", "", "nobody"},
		{"SYS", "$SYS.REQ.SERVER.PING.CONNZ", "", `"num_connections":2`},
		{"SYS", "$SYS.REQ.SERVER.PING.CONNZ", `{"sort":"x"}`, `"data":null,"error":{"code":500,"description":"invalid sorting option: x"}`},
		{"SYS", "$SYS.REQ.SERVER.PING.CONNZ", `{"state":"closed"}`, `"error":{"code":400`},
		{"SYS", "$SYS.REQ.SERVER.PING.CONNZ", `{`, `"error":{"code":400,"description":"unexpected end of JSON input"}`},
		{"SYS", "$SYS.REQ.SERVER.PING.PROFILEZ", `{"name":"heap"}`, `"data":{"profile":null,"error":"profiles are not served"}`},
		{"SYS", "$SYS.REQ.ACCOUNT.APP.CONNZ", `{"acc":"OTHER"}`, `"num_connections":1,"total":1,"offset":0,"limit":1024,"connections":[{"cid":1,`},
		{"SYS", "$SYS.REQ.ACCOUNT.NOPE.INFO", "", `"description":"Account NOPE does not exist"`},
		{"SYS", "$SYS.REQ.ACCOUNT.NOPE.JSZ", "", `"description":"account \"NOPE\" not found"`},
		{"SYS", "$SYS.REQ.ACCOUNT.IDLE.JSZ", "", `"description":"account \"IDLE\" not jetstream enabled"`},
		{"SYS", "$SYS.REQ.ACCOUNT.APP.CONNS", "", `"acc":"APP","name":"APP","conns":1,"leafnodes":0,"total_conns":1,`},
		{"SYS", "$SYS.REQ.ACCOUNT.IDLE.CONNS", "", ""},
		{"SYS", "$SYS.REQ.ACCOUNT.IDLE.STATZ", "", ""},
		{"SYS", "$SYS.REQ.ACCOUNT.PING.STATZ", `{"accounts":["IDLE"],"include_unused":true}`, `"account_statz":[{"acc":"IDLE"`},
		{"SYS", "$SYS.REQ.SERVER.N1.KICK", `{"cid":5}`, `"error":{"code":500,"description":"no such client or leafnode id"}`},
		{"SYS", "$SYS.REQ.SERVER.N1.LDM", `{"cid":1}`, `Z"}}`},
		{"SYS", "$SYS.REQ.SERVER.PING.KICK", `{"cid":5}`, "nobody"},
		// Others hear of their own account only.
		{"APP", "$SYS.REQ.SERVER.PING", "", "nobody"},
		{"APP", "$SYS.REQ.SERVER.PING.VARZ", "", "nobody"},
		{"APP", "$SYS.REQ.SERVER.N1.KICK", `{"cid":1}`, "nobody"},
		{"APP", "$SYS.REQ.ACCOUNT.OTHER.CONNZ", "", "nobody"},
		{"APP", "$SYS.REQ.ACCOUNT.PING.CONNZ", `{"acc":"OTHER"}`, `"connections":[{"cid":1,`},
		{"OTHER", "$SYS.REQ.SERVER.PING.CONNZ", `{"acc":"APP"}`, `"connections":[{"cid":2,`},
		{"APP", "$SYS.REQ.ACCOUNT.PING.STATZ", `{"accounts":["OTHER"]}`, `"account_statz":[{"acc":"APP"`},
	}
	synctest.Test(t, func(t *testing.T) {
		s, b := start(t, &world{})
		defer s.Close()
		for _, tc := range tests {
			got := ask(t, b, tc.account, tc.subject, "", tc.body).data
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s %s %s: %s, want %s", tc.account, tc.subject, tc.body, got, tc.want)
			}
		}
	})
}

func TestFilters(t *testing.T) {
	tests := []struct {
		body string
		want bool
	}{
		{`{}`, true}, {`null`, true}, {`{"server_name":"on"}`, true}, {`{"server_name":"two"}`, false},
		{`{"server_name":"on","exact_match":true}`, false}, {`{"server_name":"one","exact_match":true}`, true},
		{`{"host":"127"}`, true}, {`{"host":"10."}`, false}, {`{"cluster":"c"}`, false}, {`{"domain":"hub"}`, true}, {`{"domain":"hu"}`, false},
		{`{"tags":["az:1","a"]}`, true}, {`{"tags":["a","b"]}`, false},
	}
	synctest.Test(t, func(t *testing.T) {
		s, b := start(t, &world{})
		defer s.Close()
		for _, tc := range tests {
			if got := ask(t, b, "SYS", "$SYS.REQ.SERVER.PING.VARZ", "", tc.body).data != ""; got != tc.want {
				t.Errorf("%s: answered %v", tc.body, got)
			}
		}
	})
}

func TestEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s, b := start(t, w)
		defer s.Close()
		// Without a reply they are worked off too; those meant for another server are not.
		for subject, body := range map[string]string{"$SYS.REQ.SERVER.N1.KICK": `{"cid":1}`, "$SYS.REQ.SERVER.N1.RELOAD": ""} {
			b.Space("SYS").PublishOnce(broker.Msg{Subject: []byte(subject), Data: []byte(body)})
		}
		synctest.Wait()
		ask(t, b, "SYS", "$SYS.REQ.SERVER.N1.RELOAD", "", `{"server_name":"two"}`)
		w.mu.Lock()
		defer w.mu.Unlock()
		if fmt.Sprint(w.kicked, w.reloaded) != "[1] 1" {
			t.Error(w.kicked, w.reloaded)
		}
	})
}

func TestCompression(t *testing.T) {
	unzip := func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	unsnap := func(r io.Reader) (io.Reader, error) { return s2.NewReader(r), nil }
	plain := func(r io.Reader) (io.Reader, error) { return r, nil }
	tests := []struct {
		accept, encoding string
		read             func(io.Reader) (io.Reader, error)
	}{
		{"gzip", "gzip", unzip}, {"GZIP;q=1", "gzip", unzip}, {"gzip, s2", "snappy", unsnap}, {"snappy", "snappy", unsnap}, {"zstd", "identity", plain},
	}
	synctest.Test(t, func(t *testing.T) {
		s, b := start(t, &world{})
		defer s.Close()
		for _, tc := range tests {
			m := ask(t, b, "SYS", "$SYS.REQ.SERVER.PING.VARZ", "NATS/1.0\r\nAccept-Encoding: "+tc.accept+"\r\n\r\n", "")
			r, err := tc.read(bytes.NewReader([]byte(m.data)))
			if err != nil {
				t.Fatal(tc.accept, err)
			}
			body, err := io.ReadAll(r)
			if err != nil || !json.Valid(body) || m.header != "NATS/1.0\r\nContent-Encoding: "+tc.encoding+"\r\n\r\n" {
				t.Errorf("%s: %q %v", tc.accept, m.header, err)
			}
		}
	})
}

func TestRequestsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{hold: make(chan struct{})}
		s, b := start(t, w)
		in := make(inbox, workers+maxWaiting+1)
		if _, err := b.Space("SYS").Subscribe("reply", "", in); err != nil {
			t.Fatal(err)
		}
		request := func() {
			b.Space("SYS").PublishOnce(broker.Msg{Subject: []byte("$SYS.REQ.SERVER.PING.VARZ"), Reply: []byte("reply")})
		}
		for range workers {
			request()
			synctest.Wait() // a worker has it
		}
		for range maxWaiting + 1 {
			request()
		}
		if len(in) != 1 {
			t.Fatalf("%d answers", len(in))
		}
		if m := <-in; !strings.Contains(m.data, `"code":503`) {
			t.Error(m.data)
		}
		close(w.hold)
		synctest.Wait()
		if len(in) != workers+maxWaiting {
			t.Errorf("%d answers", len(in))
		}
		s.Close()
	})
}

func TestEvents(t *testing.T) {
	app := func() monitor.Conn {
		return monitor.Conn{CID: 7, Account: "APP", User: "u", IP: "10.0.0.1", Kind: "Client", Type: "nats", InMsgs: 3, OutMsgs: 2, RTT: 5, Reason: "Client Closed"}
	}
	tests := []struct {
		name string
		do   func(*Service)
		want []string // subject and a part of the body
	}{
		{"connect", func(s *Service) { s.Connected("APP", app) }, []string{
			`$SYS.SERVER.ACCOUNT.APP.CONNS "type":"io.nats.server.advisory.v1.account_connections"`, `$SYS.ACCOUNT.APP.SERVER.CONNS "conns":1`,
			`$SYS.ACCOUNT.APP.CONNECT "acc":"APP","user":"u","name_tag":"APP"`}},
		{"disconnect", func(s *Service) { c := app(); s.Disconnected(&c) }, []string{`$SYS.SERVER.ACCOUNT.APP.CONNS "acc":"APP"`,
			`$SYS.ACCOUNT.APP.SERVER.CONNS "acc":"APP"`, `$SYS.ACCOUNT.APP.DISCONNECT "sent":{"msgs":2,"bytes":0},"received":{"msgs":3,"bytes":0},"reason":"Client Closed"`}},
		{"nobody in particular", func(s *Service) { s.Disconnected(&monitor.Conn{CID: 8, Reason: "Read Error"}) }, []string{`$SYS.ACCOUNT.$G.DISCONNECT "acc":"$G"`}},
		{"refused", func(s *Service) { s.Refused(func() monitor.Conn { return monitor.Conn{CID: 9} }) },
			[]string{`$SYS.SERVER.N1.CLIENT.AUTH.ERR "reason":"Authentication Failure"`}},
		{"end", func(s *Service) { s.LameDuck(); s.Shutdown() }, []string{`$SYS.SERVER.N1.LAMEDUCK "id":"N1"`, `$SYS.SERVER.N1.SHUTDOWN "id":"N1"`}},
		{"time", func(*Service) { time.Sleep(3*statszInterval + 1); synctest.Wait() }, []string{`$SYS.SERVER.N1.STATSZ "active_accounts":2`,
			`$SYS.SERVER.N1.STATSZ "active_servers":1`, `$SYS.SERVER.N1.STATSZ "statsz"`, `$SYS.SERVER.ACCOUNT.APP.CONNS "conns":1`,
			`$SYS.ACCOUNT.APP.SERVER.CONNS "conns":1`, `$SYS.SERVER.ACCOUNT.OTHER.CONNS "conns":1`, `$SYS.ACCOUNT.OTHER.SERVER.CONNS "conns":1`}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := start(t, &world{})
				in := make(inbox, 64)
				if _, err := b.Space("SYS").Subscribe("$SYS.>", "", in); err != nil {
					t.Fatal(err)
				}
				tc.do(s)
				s.Close()
				close(in)
				var got []message
				for m := range in {
					got = append(got, m)
				}
				if len(got) != len(tc.want) {
					t.Fatalf("%d events: %v", len(got), got)
				}
				for i, want := range tc.want {
					subject, part, _ := strings.Cut(want, " ")
					if got[i].subject != subject || !strings.Contains(got[i].data, part) {
						t.Errorf("%v, want %s", got[i], want)
					}
				}
			})
		})
	}
}

// Nothing is made where nobody listens.
func TestEventsCostNothing(t *testing.T) {
	s, _ := start(t, &world{})
	unwanted := func() monitor.Conn { t.Error("described for nobody"); return monitor.Conn{} }
	s.Connected("APP", unwanted)
	s.Refused(unwanted)
	before := s.seq.Load()
	s.Disconnected(&monitor.Conn{Account: "APP"})
	if s.seq.Load() != before {
		t.Error("an event was made for nobody")
	}
}
