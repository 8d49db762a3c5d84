package engine

import (
	"encoding/json"
	"errors"
	"fmt"
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

func TestAMirrorKeepsSequencesAndTimesAlsoOverGaps(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		publish := func(n int) {
			for i := range n {
				w.client.publish("S.a", fmt.Sprint(i))
				time.Sleep(time.Millisecond)
			}
			w.client.take()
		}
		remove := func(from, to uint64) {
			for seq := from; seq <= to; seq++ {
				if err := s.DeleteMessage(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
		}
		publish(300)
		remove(1, 10)    // before the first
		remove(20, 22)   // a few, within a chunk
		remove(30, 130)  // more than a chunk leaves out
		remove(290, 300) // at the end
		m := w.create(mirrorOf("S"))
		w.wait(time.Second)
		sameContent(t, s, m)
		publish(5)
		w.wait(time.Second)
		sameContent(t, s, m)
		w.crash()
		w.startWithAPI()
		s, m = w.stream("S"), w.stream("M")
		sameContent(t, s, m)
		publish(5)
		w.wait(2 * time.Second)
		sameContent(t, s, m)
		info := originInfo(t, m)
		if info.Lag != 0 || info.Error != nil || info.Active < 0 || info.Active > 2*originHeartbeat {
			t.Errorf("%+v", info)
		}
	})
}

func TestAnEmptyMirrorTakesItsOriginsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		for range 10 {
			w.client.publish("S.a", "x")
		}
		w.client.take()
		if _, err := s.Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		m := w.create(mirrorOf("S"))
		w.wait(time.Second)
		for range 2 {
			info, err := m.Info(api.JSApiStreamInfoRequest{})
			if err != nil || info.State.FirstSeq != 11 || info.State.LastSeq != 10 {
				t.Errorf("first %d, last %d, %v", info.State.FirstSeq, info.State.LastSeq, err)
			}
			w.crash()
			w.startWithAPI()
			m = w.stream("M")
		}
		w.client.publish("S.a", "y")
		w.wait(2 * time.Second)
		sameContent(t, w.stream("S"), m)
	})
}

func TestFiltersTransformsAndStarts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		var third time.Time
		for i := range 6 {
			if i == 3 {
				time.Sleep(time.Second)
				third = time.Now()
			}
			w.client.publish([]string{"S.a.1", "S.b.2", "S.c.3"}[i%3], fmt.Sprint(i))
			w.client.take()
		}
		transforms := []api.SubjectTransformConfig{{Source: "S.a.*", Destination: "A.{{wildcard(1)}}"}, {Source: "S.b.*", Destination: ""}}
		for _, c := range []struct {
			src  api.StreamSource
			want []string // sequence in the origin, subject
		}{
			{api.StreamSource{FilterSubject: "S.b.>"}, []string{"2 S.b.2", "5 S.b.2"}},
			{api.StreamSource{SubjectTransforms: transforms}, []string{"1 A.1", "2 S.b.2", "4 A.1", "5 S.b.2"}},
			{api.StreamSource{SubjectTransforms: transforms[:1]}, []string{"1 A.1", "4 A.1"}},
			{api.StreamSource{OptStartSeq: 5}, []string{"5 S.b.2", "6 S.c.3"}},
			{api.StreamSource{OptStartTime: &third}, []string{"4 S.a.1", "5 S.b.2", "6 S.c.3"}},
		} {
			for _, mirror := range []bool{true, false} {
				c.src.Name = "S"
				cfg := sourcesOf()
				if mirror {
					cfg.Mirror = &c.src
				} else {
					cfg.Sources = []*api.StreamSource{&c.src}
				}
				s := w.create(cfg)
				w.wait(time.Second)
				var got []string
				for _, line := range content(t, s) {
					parts := strings.Fields(line)
					seq, _ := strconv.ParseUint(parts[0], 10, 64)
					if !mirror {
						m, err := s.GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: seq})
						if err != nil {
							t.Fatal(err)
						}
						value, _ := proto.Header(m.Header).Get(stream.SourceHeader)
						parts[0] = strings.Fields(string(value))[1]
					}
					got = append(got, parts[0]+" "+parts[1])
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%+v, mirror %v: got %v", c.src, mirror, got)
				}
				if err := w.account.DeleteStream(t.Context(), cfg.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
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

func TestACrashNeitherLosesNorDoublesWhatIsMirroredAndSourced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		loseSome := func(api *originAPI, random *rand.Rand) {
			if random.IntN(2) == 0 {
				own := rand.New(rand.NewPCG(random.Uint64(), 0)) // guarded by the API's mu
				api.set(func() { api.lose = func(*broker.Delivery) bool { return own.IntN(20) == 0 } })
			}
		}
		random := rand.New(rand.NewPCG(5, 6))
		loseSome(w.startWithAPI(), random)
		for _, cfg := range []api.StreamConfig{named("S"), named("T"), mirrorOf("S"), sourcesOf("S", "T")} {
			cfg.Duplicates = 0
			w.create(cfg)
		}
		chain := mirrorOf("M")
		chain.Name = "N"
		w.create(chain)
		for round := range 25 {
			for i := range random.IntN(60) {
				w.client.publish([]string{"S.a", "T.a"}[random.IntN(2)], fmt.Sprintf("%d/%d", round, i))
				if i%7 == 0 {
					w.client.take()
				}
			}
			switch random.IntN(4) {
			case 0:
				w.client.take()
				if err := w.engine.Trim(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 1:
				w.wait(time.Duration(random.IntN(2000)) * time.Millisecond)
			}
			w.crash()
			loseSome(w.startWithAPI(), random)
		}
		w.wait(2 * time.Minute)
		sameContent(t, w.stream("S"), w.stream("M"))
		sameContent(t, w.stream("S"), w.stream("N"))
		var want []string
		for _, name := range []string{"S", "T"} {
			for _, line := range content(t, w.stream(name)) {
				f := strings.Fields(line)
				want = append(want, name+" "+f[0]+" "+f[2])
			}
		}
		slices.Sort(want)
		if got := sourced(t, w.stream("A")); len(want) < 100 || !slices.Equal(got, want) {
			t.Errorf("sourced %d of %d messages", len(got), len(want))
		}
	})
}

// TestPositionsOutliveTheMessages: a queue that was worked off holds nothing that tells how far its source was read.
func TestPositionsOutliveTheMessages(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.truncating()
		w.startWithAPI()
		w.create(named("S"))
		cfg := sourcesOf("S")
		cfg.Retention = api.WorkQueuePolicy
		w.consumer(w.create(cfg), api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit})
		work := func(want int) {
			t.Helper()
			w.wait(2 * time.Second)
			msgs := w.client.pull(w.stream("A"), "c", 100)
			if len(msgs) != want {
				t.Fatalf("%d messages instead of %d: %v", len(msgs), want, msgs)
			}
			for _, m := range msgs {
				w.client.send(m.reply, "_INBOX.acked", "", "+ACK")
			}
			w.wait(step)
		}
		for range 3 {
			for range 10 {
				w.client.publish("S.a", "x")
			}
			work(10)
			if err := w.engine.Trim(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.crash()
			w.startWithAPI()
			work(0)
		}
	})
}

func TestAnOriginThatLeavesIsMissedAndReadAgainWhenItReturns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		m, a := w.create(mirrorOf("S")), w.create(sourcesOf("S"))
		w.wait(time.Second)
		for _, s := range []*Stream{m, a} {
			if i := originInfo(t, s); i.Error == nil || i.Error.ErrCode != uint16(jserr.StreamNotFound) || i.Active != -1 {
				t.Errorf("%s: an origin that never was: %+v", s.Name(), i)
			}
		}
		for round := range 3 {
			s := w.create(named("S"))
			for i := range 5 - round {
				w.client.publish("S.a", fmt.Sprintf("%d/%d", round, i))
			}
			w.wait(askAgainMost + time.Second)
			if got := sourced(t, a); len(got) != []int{5, 9, 12}[round] {
				t.Errorf("round %d: sourced %v", round, got)
			}
			if i := originInfo(t, a); i.Error != nil || i.Seq != uint64(5-round) {
				t.Errorf("round %d: %+v", round, i)
			}
			i := originInfo(t, m)
			if round == 0 {
				sameContent(t, s, m)
				if i.Error != nil {
					t.Errorf("%+v", i)
				}
			} else if i.Error == nil || i.Error.ErrCode != uint16(jserr.MirrorConsumerSetupFailed) {
				t.Errorf("round %d: the mirror of a stream that was created anew says nothing: %+v", round, i)
			}
			if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
				t.Fatal(err)
			}
			w.wait(originSilence + 2*time.Second)
			for _, s := range []*Stream{m, a} {
				if i := originInfo(t, s); i.Error == nil {
					t.Errorf("%s: an origin that left: %+v", s.Name(), i)
				}
			}
		}
	})
}

func TestSilenceAndLossAreNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		api := w.startWithAPI()
		s, m := w.create(named("S")), w.create(mirrorOf("S"))
		w.client.publish("S.a", "1")
		w.wait(time.Second)
		api.set(func() { api.lose = func(*broker.Delivery) bool { return true } })
		w.client.publish("S.a", "2")
		w.wait(originSilence + time.Second)
		if i := originInfo(t, m); len(content(t, m)) != 1 || i.Error == nil {
			t.Errorf("silence is not noticed: %+v", i)
		}
		api.set(func() { api.lose, api.deaf = nil, true })
		w.wait(2 * originSilence)
		if i := originInfo(t, m); i.Error == nil {
			t.Errorf("nobody answers, and nothing is said: %+v", i)
		}
		var before, after int
		api.set(func() { before = api.asked })
		w.wait(time.Minute)
		if api.set(func() { after = api.asked }); after-before > 10 {
			t.Errorf("%d requests in a minute to somebody who does not answer", after-before)
		}
		api.set(func() { api.deaf = false })
		w.wait(askAgainMost + askPatience + time.Second)
		sameContent(t, s, m)
		// A single delivery is lost; the heartbeat tells.
		lost := false
		api.set(func() {
			api.lose = func(d *broker.Delivery) bool {
				first := !lost && len(d.Data) > 0
				lost = lost || first
				return first
			}
		})
		w.client.publish("S.a", "3")
		w.wait(3 * originHeartbeat)
		sameContent(t, s, m)
		if i := originInfo(t, m); !lost || i.Error != nil || i.Lag != 0 {
			t.Errorf("%+v", i)
		}
	})
}

func TestWhatExpiresBeforeItIsReadLeavesAGap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		api := w.startWithAPI()
		cfg := named("S")
		cfg.MaxAge = 5 * time.Second
		cfg.Duplicates = time.Second
		s, m, a := w.create(cfg), w.create(mirrorOf("S")), w.create(sourcesOf("S"))
		w.client.publish("S.a", "1")
		w.wait(time.Second)
		api.set(func() { api.lose = func(*broker.Delivery) bool { return true } })
		for range 3 {
			w.client.publish("S.a", "unread")
		}
		w.wait(6 * time.Second)
		w.client.publish("S.a", "last")
		api.set(func() { api.lose = nil })
		w.wait(4 * time.Second)
		if c := content(t, m); len(c) != 2 || !strings.HasPrefix(c[1], "5 S.a last") {
			t.Errorf("mirror: %v", c)
		}
		if c := sourced(t, a); len(c) != 2 || c[1] != "S 5 last" {
			t.Errorf("sourced: %v", c)
		}
		_ = s
	})
}

func TestAPromotedMirrorIsAStreamLikeAnyOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		m := w.create(mirrorOf("S"))
		for range 3 {
			w.client.publish("S.a", "x")
		}
		w.wait(time.Second)
		cfg := m.Config()
		cfg.Mirror = &api.StreamSource{Name: "S", FilterSubject: "S.b"}
		if _, err := w.account.UpdateStream(t.Context(), cfg, false); !errors.Is(err, jserr.New(jserr.StreamMirrorNotUpdatable)) {
			t.Errorf("a mirror's origin was changed: %v", err)
		}
		cfg.Mirror, cfg.MirrorDirect, cfg.Subjects = nil, false, []string{"new.>"}
		if _, err := w.account.UpdateStream(t.Context(), cfg, false); err != nil {
			t.Fatal(err)
		}
		w.client.publish("S.a", "not mirrored")
		w.client.publish("new.a", "published")
		w.wait(time.Second)
		w.crash()
		w.startWithAPI()
		w.wait(time.Second)
		if c := content(t, w.stream("M")); len(c) != 4 || !strings.HasPrefix(c[3], "4 new.a published") {
			t.Errorf("%v", c)
		}
		if info, err := w.stream("M").Info(api.JSApiStreamInfoRequest{}); err != nil || info.Mirror != nil {
			t.Errorf("%+v, %v", info.Mirror, err)
		}
	})
}

// TestAWorkQueueLetsGoOfWhatItsSourceHasCommitted: not before, and then of everything.
func TestAWorkQueueLetsGoOfWhatItsSourceHasCommitted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		queue := named("S")
		queue.Retention = api.WorkQueuePolicy
		w.create(queue)
		w.create(sourcesOf("S"))
		random := rand.New(rand.NewPCG(7, 8))
		published := 0
		for range 10 {
			for range random.IntN(30) {
				w.client.publish("S.a", fmt.Sprint(published))
				published++
			}
			w.client.take()
			w.wait(time.Duration(random.IntN(1500)) * time.Millisecond)
			w.crash()
			w.startWithAPI()
		}
		w.wait(time.Minute)
		if got := sourced(t, w.stream("A")); len(got) != published {
			t.Errorf("%d of %d messages came", len(got), published)
		}
		if left := content(t, w.stream("S")); len(left) != 0 {
			t.Errorf("%d messages stay in the queue", len(left))
		}
		// Who sources it no more holds nothing back.
		if err := w.account.DeleteStream(t.Context(), "A"); err != nil {
			t.Fatal(err)
		}
		w.wait(time.Second)
		if names, err := w.stream("S").ConsumerNames(); err != nil || len(names) != 0 {
			t.Errorf("consumers %v, %v", names, err)
		}
	})
}

func TestAFullStreamGoesOnWithItsSourcesWhenThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		cfg := sourcesOf("S")
		cfg.MaxMsgs, cfg.Discard = 3, api.DiscardNew
		a := w.create(cfg)
		for i := range 5 {
			w.client.publish("S.a", fmt.Sprint(i))
		}
		w.wait(time.Minute)
		if i := originInfo(t, a); len(content(t, a)) != 3 || i.Error == nil || i.Error.ErrCode != uint16(jserr.StreamStoreFailed) {
			t.Errorf("%+v", i)
		}
		if _, err := a.Purge(t.Context(), PurgeRequest{}); err != nil {
			t.Fatal(err)
		}
		w.wait(askAgainMost + time.Second)
		if got := sourced(t, a); len(got) != 2 || got[0] != "S 4 3" {
			t.Errorf("%v", got)
		}
		if i := originInfo(t, a); i.Error != nil {
			t.Errorf("%+v", i)
		}
	})
}

func TestAMirrorAnswersDirectGetsInItsOriginsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		cfg := named("S")
		cfg.AllowDirect = true
		w.create(cfg)
		w.client.publish("S.a", "x")
		w.create(mirrorOf("S"))
		w.wait(time.Second)
		answers := map[string]int{}
		for range 64 {
			w.client.send("$JS.API.DIRECT.GET.S.S.a", "_INBOX.get", "", "")
			got := w.client.take()
			if len(got) != 1 || got[0].data != "x" {
				t.Fatalf("%v", got)
			}
			from, _ := proto.Header(got[0].header).Get("Nats-Stream")
			answers[string(from)]++
		}
		if answers["S"] == 0 || answers["M"] == 0 {
			t.Errorf("answers %v", answers)
		}
		// The origin is gone, its mirror is not.
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		w.client.send("$JS.API.DIRECT.GET.S.S.a", "_INBOX.get", "", "")
		if got := w.client.take(); len(got) != 1 || got[0].data != "x" {
			t.Errorf("%v", got)
		}
	})
}

// TestAnAcknowledgementToAQueueWaitsForTheCommit: what is not committed where it went stays in the queue.
func TestAnAcknowledgementToAQueueWaitsForTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.startWithAPI()
		go b.through(1) // the stream with the source
		queue := named("S")
		queue.Retention, queue.Storage = api.WorkQueuePolicy, api.MemoryStorage
		s := w.create(queue)
		w.create(sourcesOf("S"))
		w.wait(time.Second)
		w.client.publish("S.a", "x")
		w.wait(5 * time.Second)
		if left := content(t, s); len(left) != 1 {
			t.Errorf("let go before it was committed: %v", left)
		}
		close(b.gate)
		w.wait(5 * time.Second)
		if left := content(t, s); len(left) != 0 {
			t.Errorf("not let go: %v", left)
		}
	})
}

func TestASourceWithAConsumerOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		s := w.create(named("S"))
		cfg := sourcesOf("S")
		cfg.Sources[0].Consumer = &api.StreamConsumerSource{Name: "c", DeliverSubject: "to.here"}
		a := w.create(cfg)
		w.wait(time.Second)
		if i := originInfo(t, a); i.Error == nil || i.Error.ErrCode != uint16(jserr.ConsumerNotFound) {
			t.Errorf("without the consumer: %+v", i)
		}
		w.consumer(s, api.ConsumerConfig{Durable: "c", DeliverSubject: "to.here", AckPolicy: api.AckFlowControl, Heartbeat: time.Second, FlowControl: true, MaxAckPending: 10, FilterSubject: "S.a"})
		for i := range 30 {
			w.client.publish([]string{"S.a", "S.b"}[i%2], fmt.Sprint(i))
		}
		w.wait(askAgainMost + time.Minute)
		if got := sourced(t, a); len(got) != 15 {
			t.Errorf("%v", got)
		}
		if info, err := s.ConsumerInfo("c"); err != nil || info.NumAckPending != 0 || info.AckFloor.Stream < 29 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
