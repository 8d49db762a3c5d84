package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

func TestDirectConsumersAreHidden(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.MaxConsumers = 1
		s := w.create(cfg)
		direct := api.ConsumerConfig{Name: "D", DeliverSubject: "_INBOX.d", AckPolicy: api.AckNone, Direct: true}
		w.consumer(s, direct)
		direct.Sourcing = true
		w.consumer(s, direct)
		w.consumer(s, api.ConsumerConfig{Durable: "C", AckPolicy: api.AckExplicit})
		if _, err := s.CreateConsumer(t.Context(), api.JSApiConsumerCreateRequest{Stream: "S", Config: api.ConsumerConfig{Durable: "E", AckPolicy: api.AckExplicit}}); err == nil {
			t.Error("direct consumers make room for others")
		}
		w.client.publish("s.a", "x")
		if got := w.client.take(); len(got) != 3 { // the acknowledgement and a delivery to each
			t.Errorf("%v", got)
		}
		names, err := s.ConsumerNames()
		info, err2 := s.Info(api.JSApiStreamInfoRequest{})
		if err != nil || err2 != nil || !slices.Equal(names, []string{"C"}) || info.State.Consumers != 1 {
			t.Errorf("%v, %d consumers", names, info.State.Consumers)
		}
		if i, err := s.ConsumerInfo("D"); err != nil || !i.Config.Direct {
			t.Errorf("%+v %v", i, err)
		}
		// They have no state.
		w.crash()
		w.start()
		if _, err := w.stream("S").ConsumerInfo("D"); err == nil {
			t.Error("a direct consumer survived a crash")
		}
	})
}

func TestASourceOfAWorkQueueAcknowledges(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Retention = api.WorkQueuePolicy
		s := w.create(cfg)
		asked := api.ConsumerConfig{Name: "src", DeliverSubject: "_INBOX.src", AckPolicy: api.AckNone, Direct: true, Sourcing: true, DeliverPolicy: api.DeliverAll}
		w.consumer(s, asked)
		info, err := s.ConsumerInfo("src")
		if err != nil || info.Config.Direct || info.Config.Durable != "src" || info.Config.AckPolicy != api.AckFlowControl || !info.Config.FlowControl {
			t.Fatalf("%+v %v", info.Config, err)
		}
		publish := func(n int) {
			for range n {
				w.client.publish("s.a", "x")
			}
		}
		var flow string
		deliveries := func() (seqs []string) {
			for _, m := range w.client.take() {
				switch {
				case strings.HasPrefix(m.reply, "$JS.FC."):
					flow = m.reply
				case strings.HasPrefix(m.reply, "$JS.ACK."):
					seqs = append(seqs, strings.Join(strings.Split(m.reply, ".")[5:7], "/"))
				}
			}
			return seqs
		}
		publish(3)
		if got := deliveries(); !slices.Equal(got, []string{"1/1", "2/2", "3/3"}) {
			t.Errorf("%v", got)
		}
		// Its reader begins anew: so does the consumer, at its acknowledgement floor.
		asked.DeliverPolicy, asked.OptStartSeq = api.DeliverByStartSequence, 3
		w.consumer(s, asked)
		if got := deliveries(); !slices.Equal(got, []string{"1/1", "2/2", "3/3"}) {
			t.Errorf("after it was asked for again: %v", got)
		}
		publish(1000)
		deliveries()
		w.client.send(flow, "", "NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n", "")
		w.client.take()
		if info, _ := s.Info(api.JSApiStreamInfoRequest{}); info.State.FirstSeq > 3 {
			t.Errorf("the first message is %d", info.State.FirstSeq)
		}
		w.crash()
		w.start()
		s = w.stream("S")
		w.client.take()
		w.consumer(s, asked)
		got := deliveries()
		first := fmt.Sprint(got[:min(len(got), 1)])
		if info, err := s.ConsumerInfo("src"); err != nil || len(got) == 0 || first == "[1/1]" && info.AckFloor.Stream > 0 {
			t.Errorf("after a crash: %s, %+v %v", first, info.AckFloor, err)
		}
	})
}

func TestUnnamedConsumersGetNamesOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		for range 20 {
			w.consumer(s, api.ConsumerConfig{AckPolicy: api.AckExplicit})
		}
		if names, err := s.ConsumerNames(); err != nil || len(names) != 20 {
			t.Errorf("%v %v", names, err)
		}
	})
}

func TestIdentity(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		before := w.create(fileStream).Identity()
		w.crash()
		w.start()
		if now := w.stream("S").Identity(); now != before || len(now) != 8 {
			t.Errorf("%q became %q", before, now)
		}
	})
}
