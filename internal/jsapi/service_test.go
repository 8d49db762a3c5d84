package jsapi

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/store/mem"
	"github.com/sluicemq/sluice/internal/wal"
)

// world is a service with an account A and the system account, in virtual time.
type world struct {
	t       *testing.T
	broker  *broker.Broker
	service *Service
	requests
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) { bubbleBehind(t, nil, f) }

// bubbleBehind is bubble with a log of an earlier epoch, of the records that past gives.
func bubbleBehind(t *testing.T, past []byte, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		st, err := mem.New(mem.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var ranges []engine.LogRange
		if past != nil {
			ranges = []engine.LogRange{{Log: earlier(t, st, past), To: 1}}
		}
		log, err := wal.Open(wal.Options{Store: st, ID: wal.LogID{Kind: wal.WriteAhead, Node: "n", Epoch: 2}})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, broker: broker.New(broker.Options{})}
		e, err := engine.New(engine.Options{Broker: w.broker, Store: st, Log: log, ServerName: "here"})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Recover(t.Context(), ranges); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		if w.service, err = New(Options{Engine: e}); err != nil {
			t.Fatal(err)
		}
		if err := w.service.Attach(e.Enable("A", account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1})); err != nil {
			t.Fatal(err)
		}
		if err := w.service.AttachSystem(w.broker.Space("SYS")); err != nil {
			t.Fatal(err)
		}
		w.from("A")
		f(t, w)
		w.service.Close()
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		log.Close(context.Background())
		<-log.Done()
	})
}

// requests makes requests on behalf of one account.
type requests struct {
	space *broker.Space
	pub   *broker.Publisher
	count int

	mu    *sync.Mutex // guards what follows
	got   map[string][]broker.Msg
	order *[]string // subjects, as the messages came
}

// from lets the following requests come from an account.
func (w *world) from(account string) {
	w.space = w.broker.Space(account)
	w.pub = w.space.NewPublisherFor(broker.PublisherOptions{Origin: &broker.Origin{ID: 7, Account: account, User: "u", Host: "h", Kind: "Client", Name: "N"}})
	w.mu, w.got, w.order = &sync.Mutex{}, map[string][]broker.Msg{}, &[]string{}
	w.hear("_INBOX.>")
}

func (w *world) hear(subject string) {
	if _, err := w.space.Subscribe(subject, "", &requests{mu: w.mu, got: w.got, order: w.order}); err != nil {
		w.t.Fatal(err)
	}
}

// Deliver implements broker.Receiver.
func (r *requests) Deliver(batch []broker.Delivery) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range batch {
		m := broker.Msg{Header: append([]byte(nil), d.Header...), Data: append([]byte(nil), d.Data...)}
		r.got[string(d.Subject)] = append(r.got[string(d.Subject)], m)
		*r.order = append(*r.order, string(d.Subject))
	}
	return nil
}

// took gives what came to a subject, once nothing moves any more.
func (w *world) took(subject string) []broker.Msg {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	msgs := w.got[subject]
	delete(w.got, subject)
	return msgs
}

// request gives the answer to a request, or a zero Msg.
func (w *world) request(subject, header, body string) broker.Msg {
	w.t.Helper()
	w.count++
	reply := "_INBOX." + strconv.Itoa(w.count)
	w.pub.Publish(broker.Msg{Subject: []byte("$JS.API." + subject), Reply: []byte(reply), Header: []byte(header), Data: []byte(body)})
	w.pub.Flush()
	msgs := w.took(reply)
	if len(msgs) > 1 {
		w.t.Fatalf("%s has %d answers", subject, len(msgs))
	}
	if len(msgs) == 0 {
		return broker.Msg{}
	}
	return msgs[0]
}

// ok is a request that must succeed.
func (w *world) ok(subject, body string) map[string]any {
	w.t.Helper()
	var answer map[string]any
	m := w.request(subject, "", body)
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer["error"] != nil {
		w.t.Fatalf("%s %s: %s", subject, body, m.Data)
	}
	return answer
}

const tooNew = "NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"

var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// TestAnswers holds the answers of testdata/answers.txt, which are nats-server's, word by word, against ours: the lines
// of a request are its subject and body, of an answer its header, if any, and its body. "as SYS" changes the account, "newer" stands
// for a header that asks for a newer API.
func TestAnswers(t *testing.T) {
	raw, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["a.*"],"storage":"memory"}`)
		w.ok("CONSUMER.CREATE.S.P", `{"stream_name":"S","config":{"name":"P","ack_policy":"explicit"}}`)
		w.ok("CONSUMER.CREATE.S.Q", `{"stream_name":"S","config":{"name":"Q","ack_policy":"explicit","priority_policy":"pinned_client","priority_groups":["A"]}}`)
		w.ok("CONSUMER.CREATE.S.N", `{"stream_name":"S","config":{"name":"N","ack_policy":"explicit","deliver_policy":"new"}}`)
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		for i := 0; i < len(lines); i++ {
			ask := lines[i]
			if ask == "" || strings.HasPrefix(ask, "#") {
				continue
			}
			if name, ok := strings.CutPrefix(ask, "as "); ok {
				w.from(name)
				continue
			}
			header := ""
			if rest, ok := strings.CutPrefix(ask, "newer "); ok {
				ask, header = rest, tooNew
			}
			subject, body, _ := strings.Cut(ask, " ")
			m := w.request(subject, header, body)
			i++
			got := instants.ReplaceAllString(string(m.Header)+string(m.Data), "TIME")
			if got != lines[i] {
				t.Errorf("%s\n got  %s\n want %s", lines[i-1], got, lines[i])
			}
		}
	})
}

func TestAudit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		w.ok("CONSUMER.CREATE.S.C", `{"stream_name":"S","config":{"name":"C","ack_policy":"explicit"}}`)
		w.hear(auditSubject)
		for _, tc := range []struct {
			subject, body string
			told          bool
		}{
			{"STREAM.INFO.S", "", true},
			{"STREAM.INFO.T", "", true},
			{"CONSUMER.DELETE.S.D", "", true},
			{"STREAM.LEADER.STEPDOWN.S", "", true},
			{"STREAM.MSG.GET.S", `{"seq":1}`, true}, // only failures
			{"CONSUMER.RESET.S.C", "", false},
			{"CONSUMER.RESET.S.C", "{", false},
		} {
			answer := w.request(tc.subject, "", tc.body)
			events := w.took(auditSubject)
			if len(events) != map[bool]int{true: 1}[tc.told] {
				t.Errorf("%s is told of %d times", tc.subject, len(events))
				continue
			}
			if !tc.told {
				continue
			}
			var ev auditEvent
			if err := json.Unmarshal(events[0].Data, &ev); err != nil {
				t.Fatal(err)
			}
			if ev.Type != "io.nats.jetstream.advisory.v1.api_audit" || ev.ID == "" || ev.Server != "here" || ev.Subject != "$JS.API."+tc.subject ||
				ev.Request != tc.body || ev.Response != string(answer.Data) {
				t.Errorf("%s", events[0].Data)
			}
			if c := ev.Client; c == nil || c.ID != 7 || c.Account != "A" || c.Host != "h" || c.Kind != "Client" || c.ClientType != "nats" || c.Server != "here" {
				t.Errorf("%s", events[0].Data)
			}
		}
	})
}

func TestARequestNeedsNoReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		w.pub.Publish(broker.Msg{Subject: []byte("$JS.API.STREAM.DELETE.S")})
		w.pub.Flush()
		synctest.Wait()
		if m := w.request("STREAM.INFO.S", "", ""); !strings.Contains(string(m.Data), `"err_code":10059`) {
			t.Errorf("%s", m.Data)
		}
	})
}

func TestStreamIdentity(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		ask := `{"stream_name":"S","config":{"name":"C","ack_policy":"none","direct":true,"deliver_subject":"d"}}`
		header := string(w.request("CONSUMER.CREATE.S.C", "", ask).Header)
		if !strings.HasPrefix(header, "NATS/1.0\r\nNats-Stream-Identity: ") || len(header) != len("NATS/1.0\r\nNats-Stream-Identity: 12345678\r\n\r\n") {
			t.Errorf("%q", header)
		}
		if m := w.request("CONSUMER.CREATE.S.C", header, ask); string(m.Header) != header || strings.Contains(string(m.Data), "error") {
			t.Errorf("%q %s", m.Header, m.Data)
		}
		if m := w.request("CONSUMER.CREATE.S.C", "NATS/1.0\r\nNats-Stream-Identity: other\r\n\r\n", ask); !strings.Contains(string(m.Data), `"err_code":10225`) {
			t.Errorf("%s", m.Data)
		}
		if m := w.request("CONSUMER.RESET.S.C", "NATS/1.0\r\nNats-Stream-Identity: other\r\n\r\n", ""); string(m.Header) != header {
			t.Errorf("%q %s", m.Header, m.Data)
		}
	})
}

func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		w.ok("CONSUMER.CREATE.S.C", `{"stream_name":"S","config":{"name":"C","ack_policy":"explicit"}}`)
		answer := w.ok("CONSUMER.RESET.S.C", `{"seq":7}`)
		delivered, _ := answer["delivered"].(map[string]any)
		if answer["reset_seq"] != 7.0 || answer["name"] != "C" || delivered["stream_seq"] != 6.0 || answer["type"] != schema+"consumer_reset_response" {
			t.Errorf("%v", answer)
		}
	})
}

func TestACreationIsAnsweredBeforeTheMessages(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		for range 20 {
			w.pub.Publish(broker.Msg{Subject: []byte("s"), Data: []byte("x")})
		}
		w.pub.Flush()
		synctest.Wait()
		*w.order = nil
		w.pub.Publish(broker.Msg{Subject: []byte("$JS.API.CONSUMER.CREATE.S.C"), Reply: []byte("_INBOX.same"),
			Data: []byte(`{"stream_name":"S","config":{"name":"C","ack_policy":"none","deliver_subject":"_INBOX.same"}}`)})
		w.pub.Flush()
		if got := w.took("_INBOX.same"); len(got) != 1 || !strings.Contains(string(got[0].Data), `"num_pending":20`) {
			t.Errorf("%d messages, first %s", len(got), got[0].Data)
		}
		if got := w.took("s"); len(got) != 20 { // deliveries keep their subject
			t.Errorf("%d messages", len(got))
		}
		if first := (*w.order)[0]; first != "_INBOX.same" {
			t.Errorf("first came %s", first)
		}
	})
}

func TestAccountPurge(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ok("STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"memory"}`)
		w.ok("STREAM.CREATE.T", `{"name":"T","subjects":["t"]}`)
		if m := w.request("ACCOUNT.PURGE.A", "", ""); len(m.Data) > 0 {
			t.Errorf("an account may purge: %s", m.Data)
		}
		w.from("SYS")
		for _, name := range []string{"A", "nobody"} {
			if answer := w.ok("ACCOUNT.PURGE."+name, ""); answer["initiated"] != true {
				t.Errorf("%v", answer)
			}
		}
		w.from("A")
		if answer := w.ok("STREAM.NAMES", ""); answer["total"] != 0.0 {
			t.Errorf("%v", answer)
		}
	})
}
