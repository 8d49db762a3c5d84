package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// hear gives what was published to a subject since the last call.
func (c *client) hear(subject string) func() []letterGot {
	own := &client{t: c.t, space: c.space}
	if _, err := c.space.Subscribe(subject, "", own); err != nil {
		c.t.Fatal(err)
	}
	return own.take
}

func TestActionsAreAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		events := w.client.hear("$JS.EVENT.ADVISORY.>")
		expect := func(doing string, want ...string) {
			t.Helper()
			var got []string
			for _, m := range events() {
				got = append(got, strings.TrimPrefix(m.subject, "$JS.EVENT.ADVISORY."))
				for _, part := range []string{`"id":"`, `"timestamp":"`, `"stream":"S"`, `_action","`} {
					if !strings.Contains(m.data, part) && !strings.Contains(m.subject, ".PAUSE.") {
						t.Errorf("%s: %s has no %s", doing, m.data, part)
					}
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %v, want %v", doing, got, want)
			}
		}
		s := w.create(fileStream)
		expect("create", "STREAM.CREATED.S")
		w.create(fileStream)
		expect("create again")
		if _, err := w.account.UpdateStream(t.Context(), fileStream, false); err != nil {
			t.Fatal(err)
		}
		expect("update", "STREAM.UPDATED.S")
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		expect("consumer", "CONSUMER.CREATED.S.C")
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit, MaxDeliver: 3})
		expect("consumer update")
		w.consumer(s, api.ConsumerConfig{Durable: "P", AckPolicy: api.AckExplicit, PauseUntil: time.Now().Add(time.Hour)})
		expect("paused consumer", "CONSUMER.CREATED.S.P", "CONSUMER.PAUSE.S.P")
		w.consumer(s, api.ConsumerConfig{Name: "E", AckPolicy: api.AckExplicit, InactiveThreshold: time.Second})
		expect("ephemeral", "CONSUMER.CREATED.S.E")
		time.Sleep(3 * time.Second)
		expect("inactive", "CONSUMER.DELETED.S.E")
		if err := s.DeleteConsumer(t.Context(), "P"); err != nil {
			t.Fatal(err)
		}
		expect("delete consumer", "CONSUMER.DELETED.S.P")
		if err := w.account.DeleteStream(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		expect("delete", "CONSUMER.DELETED.S.C", "STREAM.DELETED.S")
	})
}
