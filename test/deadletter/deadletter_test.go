// Package deadletter_test has nats.go meet dead-letter policies on a real server, over a restart that nobody announced.
package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

func dial(t *testing.T, s *process.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("nats://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// streams makes a work queue and a stream for its dead.
func streams(t *testing.T, ctx context.Context, js jetstream.JetStream) (work, dead jetstream.Stream) {
	t.Helper()
	work, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy,
		Metadata: map[string]string{"sluice.dead_letter": "dead.{{stream}}.{{consumer}}"}})
	if err != nil {
		t.Fatal(err)
	}
	dead, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return work, dead
}

func publish(t *testing.T, ctx context.Context, js jetstream.JetStream, n int) {
	t.Helper()
	for i := range n {
		m := &nats.Msg{Subject: fmt.Sprintf("work.%d", i), Data: fmt.Appendf(nil, "job %d", i), Header: nats.Header{"Colour": {"red"}}}
		if _, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// letters waits until a stream has n messages, and reads them.
func letters(t *testing.T, ctx context.Context, dead jetstream.Stream, n int) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	cons, err := dead.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	for len(all) < n {
		m, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
		if err != nil {
			t.Fatalf("%d of %d letters: %v", len(all), n, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := dead.GetMsg(ctx, meta.Sequence.Stream)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	if info, err := dead.Info(ctx); err != nil || info.State.Msgs != uint64(n) {
		t.Fatalf("there are %d letters, want %d: %v", info.State.Msgs, n, err)
	}
	return all
}

// empty waits until a work queue is.
func empty(t *testing.T, ctx context.Context, work jetstream.Stream) {
	t.Helper()
	for {
		info, err := work.Info(ctx)
		if err != nil {
			t.Fatalf("the queue is not empty: %v", err)
		}
		if info.State.Msgs == 0 {
			return
		}
	}
}

func TestPullConsumer(t *testing.T) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server := rig.StartSluice(t, store)
			_, js := dial(t, server)
			work, dead := streams(t, ctx, js)
			cons, err := work.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3})
			if err != nil {
				t.Fatal(err)
			}
			publish(t, ctx, js, 4)
			deliveries := map[string]int{}
			for range 1 + 1 + 3 + 3 { // one is done, one terminated, two fail three times
				m, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
				if err != nil {
					t.Fatal(err)
				}
				deliveries[m.Subject()]++
				switch m.Subject() {
				case "work.0":
					err = m.DoubleAck(ctx)
				case "work.1":
					err = m.TermWithReason("not a job")
				default:
					err = m.Nak()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for i, l := range letters(t, ctx, dead, 3) {
				sequence := l.Header.Get("Nats-Dead-Letter-Sequence")
				want := map[string]string{"2": "work.1", "3": "work.2", "4": "work.3"}[sequence]
				reason, delivered := "max_deliver", "3"
				if want == "work.1" {
					reason, delivered = "term", "1"
				}
				if l.Subject != "dead.WORK.worker" || l.Header.Get("Nats-Dead-Letter-Subject") != want || l.Header.Get("Colour") != "red" ||
					l.Header.Get("Nats-Dead-Letter-Reason") != reason || l.Header.Get("Nats-Dead-Letter-Delivered") != delivered ||
					l.Header.Get("Nats-Msg-Id") != "" || !strings.HasPrefix(string(l.Data), "job ") {
					t.Errorf("letter %d is %v %q", i, l.Header, l.Data)
				}
				if want == "work.1" && l.Header.Get("Nats-Dead-Letter-Term-Reason") != "not a job" {
					t.Errorf("letter %d is %v", i, l.Header)
				}
			}
			empty(t, ctx, work)
			if info, err := cons.Info(ctx); err != nil || info.NumAckPending != 0 {
				t.Errorf("%d are pending: %v", info.NumAckPending, err)
			}

			server.Kill()
			_, js = dial(t, rig.StartSluice(t, store))
			if work, err = js.Stream(ctx, "WORK"); err != nil {
				t.Fatal(err)
			}
			if dead, err = js.Stream(ctx, "DEAD"); err != nil {
				t.Fatal(err)
			}
			letters(t, ctx, dead, 3)
			empty(t, ctx, work)
		})
	}
}

func TestPushConsumer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc, js := dial(t, rig.StartSluice(t, rig.DirStore(t)))
	work, dead := streams(t, ctx, js)
	old, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody answers: ack_wait alone uses the deliveries up.
	sub, err := old.Subscribe("work.>", func(*nats.Msg) {}, nats.Durable("pushed"), nats.ManualAck(), nats.AckWait(200*time.Millisecond), nats.MaxDeliver(2))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	advisories, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK.pushed")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, ctx, js, 5)
	for _, l := range letters(t, ctx, dead, 5) {
		if l.Subject != "dead.WORK.pushed" || l.Header.Get("Nats-Dead-Letter-Delivered") != "2" {
			t.Errorf("a letter is %v", l)
		}
	}
	empty(t, ctx, work)
	for range 5 {
		if _, err := advisories.NextMsg(5 * time.Second); err != nil {
			t.Errorf("an advisory is missing: %v", err)
		}
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, js := dial(t, rig.StartSluice(t, rig.DirStore(t)))
	work, _ := streams(t, ctx, js)
	var known *jetstream.APIError
	bad := map[string]string{"sluice.dead_letter": "dead.>"}
	_, err := work.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, Metadata: bad})
	if !errors.As(err, &known) || !strings.Contains(known.Description, "sluice.dead_letter") {
		t.Errorf("a consumer: %v", err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "BAD", Subjects: []string{"bad"}, Metadata: bad})
	if !errors.As(err, &known) || !strings.Contains(known.Description, "sluice.dead_letter") {
		t.Errorf("a stream: %v", err)
	}
}
