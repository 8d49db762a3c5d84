package engine

import (
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func TestANewConsumerDeliversAfterItsAnswer(t *testing.T) {
	for _, storage := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			w.start()
			s := w.create(fileStream)
			for range 3 {
				w.client.publish("s.a", "x")
			}
			w.client.take()
			create := func(name string) func() {
				info, release, err := s.CreateHeldConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "S",
					Config: api.ConsumerConfig{Name: name, AckPolicy: api.AckNone, DeliverSubject: "_INBOX." + name, MemoryStorage: storage}})
				if err != nil || info.NumPending != 3 || info.Delivered.Consumer != 0 {
					t.Fatalf("%+v %v", info, err)
				}
				if got := w.client.take(); len(got) != 0 {
					t.Errorf("delivered before the answer: %v", got)
				}
				return release
			}
			release := create("one")
			release()
			release()
			if got := w.client.take(); len(got) != 3 {
				t.Errorf("%v", got)
			}
			// Whoever does not answer holds nobody up.
			create("two")
			time.Sleep(longestHold)
			if got := w.client.take(); len(got) != 3 {
				t.Errorf("%v", got)
			}
			// Requests are taken meanwhile.
			_, release, err := s.CreateHeldConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "S", Config: api.ConsumerConfig{Name: "pull", AckPolicy: api.AckExplicit, MemoryStorage: storage}})
			if err != nil {
				t.Fatal(err)
			}
			w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.pull", "_INBOX.pull", "", "2")
			if got := w.client.take(); len(got) != 0 {
				t.Errorf("%v", got)
			}
			release()
			if got := w.client.take(); len(got) != 2 {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestPullRequestsHearOfTheStop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.pull", "", `{"batch":3,"max_bytes":100,"expires":60000000000}`)
		w.client.take()
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 100\r\n\r\n"
		if got := w.client.take(); len(got) != 1 || got[0].header != want {
			t.Errorf("%v", got)
		}
	})
}
