package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
	"github.com/sluicemq/sluice/internal/store/fault"
)

// The store is away for ten minutes: publishers are held back and then told, consumers go on with what is in memory,
// those that read history wait, memory stays in its bounds; when it is back, everything goes on by itself, and what was
// acknowledged is there.
func TestTenMinutesWithoutTheStore(t *testing.T) {
	for _, rule := range []string{"* * throttled", "* * timeout", "put * full", "write * timeout", "get * throttled"} {
		for _, moment := range []string{"idle", "compacting", "reading"} {
			t.Run(rule+", "+moment, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) { outlast(t, w, fault.MustParse(rule), moment) })
			})
		}
	}
}

func outlast(t *testing.T, w *world, rules []fault.Rule, moment string) {
	const old, recent, payload = 400, 10, 300
	w.historic()
	w.opts.CompactBytes, w.opts.TailBytes = 32<<10, 32<<10
	faulty, err := fault.New(w.store, fault.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer faulty.Close()
	w.store = faulty
	w.walOpt.ResolveTimeout = -1
	w.start()
	cfg := fileStream
	cfg.Duplicates = time.Second
	s := w.create(cfg)
	publish := func() { w.client.publish("s.a", strings.Repeat("x", payload)) }
	for range old {
		publish()
		w.client.take()
	}
	time.Sleep(2 * time.Second)
	w.compacted()
	for range recent {
		publish()
		w.client.take()
	}
	w.consumer(s, api.ConsumerConfig{Durable: "old", AckPolicy: api.AckNone})
	w.consumer(s, api.ConsumerConfig{Durable: "near", AckPolicy: api.AckExplicit, DeliverPolicy: api.DeliverByStartSequence, OptStartSeq: old + 1})
	w.consumer(s, api.ConsumerConfig{Durable: "brief", AckPolicy: api.AckNone})
	time.Sleep(time.Second)
	w.client.take()

	housekeeping := make(chan error, 1)
	switch moment {
	case "compacting":
		for range 120 {
			publish()
			w.client.take()
		}
		rules[0].Skip = 2
		_ = faulty.SetRules(rules)
		go func() {
			housekeeping <- w.engine.Tidy(t.Context())
		}()
		time.Sleep(time.Second)
		rules[0].Skip = 0
	default:
		housekeeping <- nil
	}
	info, err := s.Info(api.JSApiStreamInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	had := info.State.LastSeq
	if err := faulty.SetRules(rules); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.old", "_INBOX.old", "", `{"batch":10000,"expires":36000000000000}`)
	w.client.send("$JS.API.CONSUMER.MSG.NEXT.S.brief", "_INBOX.brief", "", `{"batch":10000,"expires":30000000000}`)
	answers := map[string]int{}
	acked := map[uint64]bool{}
	var fromOld []string
	hear := func() {
		synctest.Wait()
		for _, m := range w.client.take() {
			switch {
			case m.subject == "_INBOX.ack":
				var a pubAck
				if err := json.Unmarshal([]byte(m.data), &a); err != nil {
					t.Fatal(err)
				}
				if a.Error == nil {
					answers["stored"]++
					acked[a.Seq] = true
				} else if jserr.Code(a.Error.ErrCode) == jserr.StreamStoreFailed {
					answers["refused"]++
				} else {
					t.Errorf("a publisher is told %+v", a.Error)
				}
			case strings.Contains(m.reply, ".old."):
				fromOld = append(fromOld, m.reply)
			case strings.Contains(m.header, "408"):
				answers["expired"]++
			}
		}
	}
	sent := 0
	for time.Since(gone) < 10*time.Minute {
		publish()
		sent++
		time.Sleep(10 * time.Second)
		hear()
		if used := w.engine.tails.inUse(); used > w.opts.TailBytes {
			t.Errorf("%d bytes of the tail in memory, want at most %d", used, w.opts.TailBytes)
		}
		if time.Since(gone) == 5*time.Minute && moment != "compacting" {
			if got := w.client.pull(s, "near", 3); len(got) != 3 {
				t.Errorf("of what is in memory %d messages come, want 3", len(got))
			}
		}
	}
	if moment != "compacting" && answers["stored"]+answers["refused"] < sent-1 {
		t.Errorf("%d publishes are answered %v", sent, answers)
	}
	if answers["expired"] != 1 {
		t.Errorf("of pull requests, %d expired in time", answers["expired"])
	}
	_ = faulty.SetRules(nil)
	time.Sleep(time.Minute)
	publish()
	sent++
	hear()
	if answers["stored"]+answers["refused"] != sent {
		t.Errorf("%d publishes are answered %v", sent, answers)
	}
	<-housekeeping
	var last uint64
	if info, err = s.Info(api.JSApiStreamInfoRequest{}); err != nil || info.State.Msgs != had+uint64(answers["stored"]) {
		t.Errorf("the stream has %d messages, want %d and %d; %v", info.State.Msgs, had, answers["stored"], err)
	}
	if last = info.State.LastSeq; !acked[last] {
		t.Errorf("the last publish is not acknowledged")
	}
	if len(fromOld) != int(info.State.Msgs) {
		t.Errorf("%d messages were delivered out of history, want %d", len(fromOld), info.State.Msgs)
	}
	before := content(t, s)
	if len(before) != int(info.State.Msgs) {
		t.Errorf("%d messages can be read, want %d", len(before), info.State.Msgs)
	}
	for range 2 {
		if err := w.engine.Tidy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("keeping house: %v", err)
		}
	}
	w.compacted()
	w.crash()
	w.start()
	if got := content(t, w.stream("S")); !slices.Equal(got, before) {
		t.Errorf("after a start there are %d messages, want %d; %s", len(got), len(before), fmt.Sprint(answers))
	}
}
