package engine

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/stream"
)

// originAPI answers the requests of mirrors and sources as the API does, and relays what their consumers deliver, so that
// tests can lose some of it.
type originAPI struct {
	t       *testing.T
	account *Account

	mu      sync.Mutex // guards what follows
	deaf    bool       // requests are not answered
	lose    func(m *broker.Delivery) bool
	asked   int
	relayed int
}

// startWithAPI starts an engine whose streams can read each other.
func (w *world) startWithAPI() *originAPI {
	w.t.Helper()
	w.start()
	a := &originAPI{t: w.t, account: w.account}
	for _, subj := range []string{"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.*.*", "$JS.API.CONSUMER.RESET.*.*"} {
		if _, err := w.account.Space().Subscribe(subj, "", a); err != nil {
			w.t.Fatal(err)
		}
	}
	return a
}

func (a *originAPI) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// Deliver implements broker.Receiver.
func (a *originAPI) Deliver(batch []broker.Delivery) <-chan struct{} {
	for _, d := range batch {
		tokens := strings.Split(string(d.Subject), ".")
		reply, body, header := string(d.Reply), append([]byte(nil), d.Data...), append([]byte(nil), d.Header...)
		go a.answer(tokens, reply, body, header)
	}
	return nil
}

func (a *originAPI) answer(tokens []string, reply string, body, header []byte) {
	a.mu.Lock()
	a.asked++
	deaf := a.deaf
	a.mu.Unlock()
	s, err := a.account.Stream(tokens[4])
	if deaf {
		return
	}
	if tokens[3] == "DELETE" {
		if err == nil {
			_ = s.DeleteConsumer(a.t.Context(), tokens[5]) // it may be gone
		}
		return
	}
	var info api.ConsumerInfo
	var identity string
	if err == nil {
		identity = s.Identity()
		if want, ok := proto.Header(header).Get(identityHeader); ok && string(want) != identity {
			err = jserr.New(jserr.ConsumerStreamIdentityMismatch, "msg", identity)
		}
	}
	if err == nil && tokens[3] == "RESET" {
		info, _, err = s.ResetConsumer(a.t.Context(), tokens[5], 0)
	} else if err == nil {
		var ask api.JSApiConsumerCreateRequest
		if err := json.Unmarshal(body, &ask); err != nil {
			a.t.Error(err)
		}
		to := ask.Config.DeliverSubject
		ask.Config.DeliverSubject = "relay." + strconv.Itoa(rand.Int())
		a.relay(ask.Config.DeliverSubject, to)
		info, err = s.CreateConsumer(a.t.Context(), ask)
		info.Config.DeliverSubject = to
	}
	var answer []byte
	var fault *jserr.Error
	if errors.As(err, &fault) {
		answer, _ = json.Marshal(map[string]any{"error": fault.API()})
	} else {
		answer, _ = json.Marshal(info)
	}
	h := proto.AppendHeaderField([]byte(proto.HeaderLine), identityHeader, identity)
	a.account.Space().PublishOnce(broker.Msg{Subject: []byte(reply), Header: append(h, "\r\n"...), Data: answer})
}

// relay passes deliveries on while somebody listens.
type relay struct {
	api *originAPI
	to  string
}

func (a *originAPI) relay(from, to string) {
	space := a.account.Space()
	var sub *broker.Subscription
	space.WatchInterest(to, broker.PlainInterest(), func(interested bool) {
		switch {
		case interested:
			sub, _ = space.Subscribe(from, "", &relay{a, to})
		case sub != nil:
			space.Unsubscribe(sub)
			sub = nil
		}
	})
}

// Deliver implements broker.Receiver.
func (r *relay) Deliver(batch []broker.Delivery) <-chan struct{} {
	a := r.api
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		d := &batch[i]
		a.relayed++
		if a.lose != nil && a.lose(d) {
			continue
		}
		m := broker.Msg{Subject: d.Subject, Reply: d.Reply, Header: d.Header, Data: d.Data}
		p := a.account.Space().NewPublisher()
		p.PublishTo([]byte(r.to), m)
		p.Flush()
	}
	return nil
}

// wait lets virtual time pass, until mirrors and sources have caught up.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	w.client.take()
}

func mirrorOf(name string) api.StreamConfig {
	return api.StreamConfig{Name: "M", Mirror: &api.StreamSource{Name: name}, Storage: api.FileStorage, Retention: api.LimitsPolicy, Replicas: 1}
}

func sourcesOf(names ...string) api.StreamConfig {
	cfg := api.StreamConfig{Name: "A", Storage: api.FileStorage, Retention: api.LimitsPolicy, Replicas: 1}
	for _, n := range names {
		cfg.Sources = append(cfg.Sources, &api.StreamSource{Name: n})
	}
	return cfg
}

func named(name string) api.StreamConfig {
	cfg := fileStream
	cfg.Name, cfg.Subjects = name, []string{name + ".>"}
	return cfg
}

func sameContent(t *testing.T, a, b *Stream) {
	t.Helper()
	if x, y := content(t, a), content(t, b); !slices.Equal(x, y) {
		t.Fatalf("%s has\n%s\n%s has\n%s", a.Name(), strings.Join(x, "\n"), b.Name(), strings.Join(y, "\n"))
	}
}

// origins reads the fault and the lag of the only origin.
func originInfo(t *testing.T, s *Stream) *OriginInfo {
	t.Helper()
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Mirror != nil {
		return info.Mirror
	}
	return info.Sources[0]
}

// sourced lists what a stream has from its sources: "<stream> <sequence> <data>", sorted. Twice the same is a failure.
func sourced(t *testing.T, s *Stream) (all []string) {
	t.Helper()
	for _, line := range content(t, s) {
		seq, _ := strconv.ParseUint(strings.Fields(line)[0], 10, 64)
		m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		value, ok := proto.Header(m.Header).Get(stream.SourceHeader)
		if !ok {
			continue
		}
		f := strings.Fields(string(value))
		all = append(all, f[0]+" "+f[1]+" "+string(m.Data))
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Errorf("twice: %s", all[i])
		}
	}
	return all
}
