package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/jserr"
)

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
		w.create(cfg)
		m, a := w.create(mirrorOf("S")), w.create(sourcesOf("S"))
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

func TestARestoredStreamGoesOnWithItsOrigins(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startWithAPI()
		w.create(named("S"))
		for _, cfg := range []api.StreamConfig{mirrorOf("S"), sourcesOf("S")} {
			w.create(cfg)
		}
		publish := func() {
			for i := range 5 {
				w.client.publish("S.a", fmt.Sprint(i))
			}
			w.wait(2 * time.Second)
		}
		publish()
		for _, name := range []string{"M", "A"} {
			old := w.stream(name)
			made, cfg := backup(t, old), old.Config()
			if err := w.account.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if _, err := w.restore(cfg, bytes.NewReader(made)); err != nil {
				t.Fatal(err)
			}
			publish()
		}
		w.crash()
		w.startWithAPI()
		publish()
		sameContent(t, w.stream("S"), w.stream("M"))
		if got := sourced(t, w.stream("A")); len(got) != 20 || len(content(t, w.stream("S"))) != 20 {
			t.Errorf("%d messages: %v", len(got), got)
		}
	})
}
