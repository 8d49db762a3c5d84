package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/broker"
)

func TestTheTailStaysWithinItsBudgetAndEverythingCanBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const budget, n = 64 << 10, 500
		w.opts.TailBytes, w.opts.FetchBytes = budget, 32<<10
		w.start()
		s := w.create(fileStream)
		w.consumer(s, api.ConsumerConfig{Durable: "c", AckPolicy: api.AckNone})
		body := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)) }
		for i := range n {
			w.client.publish("s.a", body(i))
			w.client.take()
		}
		check := func(when string) {
			t.Helper()
			if used := w.engine.tails.inUse(); used > budget {
				t.Errorf("%s: %d bytes in the tail, the budget is %d", when, used, budget)
			}
		}
		check("after the publishes")
		for i, m := range w.client.pull(s, "c", n+1) {
			if m.data != body(i) {
				t.Fatalf("message %d is %.20q", i, m.data)
			}
			if i == n-1 {
				check("after all was read")
				w.crash()
				w.start()
				check("after a start")
				for _, i := range []int{n - 1, 0, n / 2} {
					m, err := w.stream("S").GetMessage(t.Context(), api.JSApiMsgGetRequest{Seq: uint64(i + 1)})
					if err != nil || string(m.Data) != body(i) {
						t.Errorf("message %d: %v", i, err)
					}
				}
				return
			}
		}
		t.Error("not everything was delivered")
	})
}

func TestAStoreThatTakesNothingHoldsPublishersBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := &blocking{Store: w.store, gate: make(chan struct{})}
		w.store = b
		w.walOpt.MaxPendingBytes = 1 << 20
		w.start()
		go b.through(1)
		s := w.create(fileStream)
		data := strings.Repeat("x", 64<<10)
		var gate <-chan struct{}
		sent := 0
		for ; gate == nil; sent++ {
			if sent > 10_000 {
				t.Fatal("no gate after 640 MB")
			}
			gate = w.client.send("s.a", "_INBOX.ack", "", data)
			synctest.Wait()
		}
		if held := s.inbox.bytes + s.inbox.held; held > inboxHigh+len(data)+letterOverhead {
			t.Errorf("the inbox holds %d bytes", held)
		}
		select {
		case <-gate:
			t.Error("the gate is open although nothing moved")
		default:
		}
		close(b.gate)
		<-gate
		time.Sleep(step)
		if acks := w.client.acks(); len(acks) != sent {
			t.Errorf("%d of %d publishes were acknowledged once the store went on", len(acks), sent)
		}
	})
}

func TestAnInboxRefusesBeyondItsBound(t *testing.T) {
	b := newInbox()
	d := []broker.Delivery{{Msg: broker.Msg{Subject: []byte("s"), Reply: []byte("r"), Data: make([]byte, 1<<20)}}}
	for range 100 {
		b.deliver(letterPublish, nil, d)
	}
	if b.bytes > inboxMax {
		t.Errorf("the inbox holds %d bytes, the bound is %d", b.bytes, inboxMax)
	}
	if n := len(b.publishes.letters) + len(b.refused); n != 100 {
		t.Errorf("%d letters are kept or refused, want 100", n)
	}
	gate := b.deliver(letterPublish, nil, d)
	if gate == nil {
		t.Fatal("a full inbox gives no gate")
	}
	var m delivery
	b.take(&m, true, 0)
	select {
	case <-gate:
	default:
		t.Error("the gate stays shut after the owner took everything")
	}
}

func TestAThousandConsumersEachGetTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		cfg := fileStream
		cfg.Storage = api.MemoryStorage
		s := w.create(cfg)
		const n = 1000
		for i := range n {
			w.consumer(s, api.ConsumerConfig{Durable: fmt.Sprint("c", i), AckPolicy: api.AckNone, FilterSubject: fmt.Sprintf("s.%d", i)})
		}
		for i := range n {
			w.client.publish(fmt.Sprintf("s.%d", i), fmt.Sprint(i))
		}
		w.client.take()
		for i := range n {
			got := w.client.pull(s, fmt.Sprint("c", i), 2)
			if len(got) != 1 || got[0].data != fmt.Sprint(i) {
				t.Fatalf("consumer %d got %v", i, got)
			}
		}
	})
}

func TestUnnamedConsumersAreConsumersOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		s := w.create(fileStream)
		for range 20 {
			w.consumer(s, api.ConsumerConfig{AckPolicy: api.AckExplicit})
		}
		if names, err := s.ConsumerNames(); err != nil || len(names) != 20 {
			t.Errorf("got %q, %v", names, err)
		}
	})
}
