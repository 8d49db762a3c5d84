package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func TestAResetIsCommittedBeforeItIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.start()
		go b.through(4)
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		for range 3 {
			w.client.publish("s.a", "x")
		}
		w.client.take()
		if got := w.client.pull(s, "C", 3); len(got) != 3 {
			t.Fatalf("%v", got)
		}
		time.Sleep(time.Second) // its progress is written
		w.client.take()
		answered := make(chan uint64, 1)
		go func() {
			info, at, err := s.ResetConsumer(t.Context(), "C", 2)
			if err != nil || info.Delivered.Consumer != 0 || info.Delivered.Stream != 1 || info.AckFloor.Stream != 1 || info.NumPending != 2 {
				t.Errorf("%+v %v", info, err)
			}
			answered <- at
		}()
		w.client.take()
		select {
		case <-answered:
			t.Error("answered before it was stored")
		default:
		}
		close(b.gate)
		if at := <-answered; at != 2 {
			t.Errorf("reset to %d", at)
		}
		w.crash()
		w.start()
		s = w.stream("S")
		got := w.client.pull(s, "C", 9)
		if len(got) != 2 || !strings.HasPrefix(got[0].reply, "$JS.ACK.S.C.1.2.1.") {
			t.Errorf("after the crash: %v", got)
		}
		for _, tc := range []struct {
			name, want string
			seq        uint64
		}{{"nobody", "consumer not found (10014)", 0}, {"N", "invalid reset: not allowed (10204)", 1}} {
			if tc.name == "N" {
				w.consumer(s, api.ConsumerConfig{Durable: "N", AckPolicy: api.AckExplicit, DeliverPolicy: api.DeliverNew})
			}
			if _, _, err := s.ResetConsumer(t.Context(), tc.name, tc.seq); err == nil || err.Error() != tc.want {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	})
}

// What a consumer of an interest stream skips by a reset, nobody needs any more.
func TestAResetLetsMessagesGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Retention = api.InterestPolicy
		s := w.create(cfg)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		for range 5 {
			w.client.publish("s.a", "x")
		}
		w.client.take()
		if _, _, err := s.ResetConsumer(t.Context(), "C", 4); err != nil {
			t.Fatal(err)
		}
		if c := content(t, s); len(c) != 2 {
			t.Errorf("%v", c)
		}
		w.crash()
		w.start()
		if c := content(t, w.stream("S")); len(c) != 2 {
			t.Errorf("after a crash: %v", c)
		}
	})
}

func TestPins(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, PriorityPolicy: api.PriorityPinnedClient, PriorityGroups: []string{"g"}})
		events := w.client.hear("$JS.EVENT.ADVISORY.CONSUMER.>")
		w.client.publish("s.a", "x")
		w.client.take()
		next := func(body string) letterGot {
			w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.pull", "", body)
			got := w.client.take()
			if len(got) == 0 {
				return letterGot{}
			}
			return got[0]
		}
		m := next(`{"batch":1,"group":"g"}`)
		pin, ok := strings.CutPrefix(m.header, "NATS/1.0\r\nNats-Pin-Id: ")
		if pin = strings.TrimSpace(pin); !ok || len(pin) != 22 {
			t.Fatalf("the header is %q", m.header)
		}
		info, err := s.ConsumerInfo("C")
		if err != nil || len(info.PriorityGroups) != 1 || info.PriorityGroups[0].PinnedClientID != pin || info.PriorityGroups[0].PinnedTS.IsZero() {
			t.Errorf("%+v %v", info.PriorityGroups, err)
		}
		if m := next(`{"batch":1,"group":"g","id":"other"}`); m.header != "NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n" {
			t.Errorf("%q", m.header)
		}
		if err := s.UnpinConsumer("C", "h"); err == nil || err.Error() != "Provided priority group does not exist for this consumer (10160)" {
			t.Errorf("%v", err)
		}
		if err := s.UnpinConsumer("D", "g"); err == nil || err.Error() != "consumer not found (10014)" {
			t.Errorf("%v", err)
		}
		if err := s.UnpinConsumer("C", "g"); err != nil {
			t.Error(err)
		}
		w.client.publish("s.a", "x")
		w.client.take()
		if m := next(`{"batch":1,"group":"g"}`); strings.Contains(m.header, pin) || !strings.Contains(m.header, "Nats-Pin-Id: ") {
			t.Errorf("%q", m.header)
		}
		time.Sleep(3 * time.Minute)
		want := []string{
			`"type":"io.nats.jetstream.advisory.v1.consumer_group_pinned"`, `"type":"io.nats.jetstream.advisory.v1.consumer_group_unpinned"`,
			`"type":"io.nats.jetstream.advisory.v1.consumer_group_pinned"`, `"reason":"timeout"`,
		}
		got := events()
		for i, m := range got {
			if i >= len(want) || !strings.Contains(m.data, want[i]) || !strings.Contains(m.data, `"account":"A"`) || !strings.Contains(m.data, `"group":"g"`) {
				t.Errorf("%s %s", m.subject, m.data)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d events", len(got))
		}
	})
}

func TestPullsAskForALevelOfTheAPI(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		for level, want := range map[string]string{"1": "404 No Messages", "99": "412 Required Api Level", "x": "412 Required Api Level"} {
			w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.pull", "NATS/1.0\r\nNats-Required-Api-Level: "+level+"\r\n\r\n", `{"no_wait":true}`)
			if got := w.client.take(); len(got) != 1 || got[0].header != "NATS/1.0 "+want+"\r\n\r\n" {
				t.Errorf("level %s: %v", level, got)
			}
		}
	})
}

func TestWhatNobodyWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "none", AckPolicy: api.AckNone})
		w.consumer(s, api.ConsumerConfig{Durable: "push", AckPolicy: api.AckExplicit, DeliverSubject: "d"})
		for _, tc := range []struct{ subject, want string }{
			{"$JS.API.CONSUMER.MSG.NEXT.S.push", "409 Consumer is push based"},
			{"$JS.ACK.S.none.1.1.1.1.1", "503\r\nNats-Subject: $JS.ACK.S.none.1.1.1.1.1"},
			{"$JS.ACK.S.gone.1.1.1.1.1", "503\r\nNats-Subject: $JS.ACK.S.gone.1.1.1.1.1"},
			{"$JS.ACK.S.push.odd", "503\r\nNats-Subject: $JS.ACK.S.push.odd"},
		} {
			w.client.send(tc.subject, "_INBOX.r", "", "")
			if got := w.client.take(); len(got) != 1 || got[0].header != "NATS/1.0 "+tc.want+"\r\n\r\n" {
				t.Errorf("%s: %v", tc.subject, got)
			}
		}
	})
}
