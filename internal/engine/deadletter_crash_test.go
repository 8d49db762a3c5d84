package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/wal"
)

// TestACrashLeavesTheMessageOrTheLetter stops the store after each object that letters make it take, and looks at what
// replay finds there, and at what becomes of it.
func TestACrashLeavesTheMessageOrTheLetter(t *testing.T) {
	for _, retention := range []api.RetentionPolicy{api.WorkQueuePolicy, api.LimitsPolicy} {
		for _, home := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, in the same stream: %v", retention, home), func(t *testing.T) {
				if faults := crashes(t, retention, home, nil); len(faults) > 0 {
					t.Errorf("%s", strings.Join(faults, "\n"))
				}
				if faults := crashes(t, retention, home, func(l *wal.Log) Log { return splitting{l} }); len(faults) == 0 {
					t.Error("a group in two objects goes unnoticed")
				}
			})
		}
	}
}

// splitting is a log that breaks groups up.
type splitting struct{ *wal.Log }

func (s splitting) AppendGroup(entries ...*wal.Entry) error {
	for _, e := range entries {
		if err := s.Append(e); err != nil {
			return err
		}
	}
	return nil
}

// crashes runs one history again and again, with a crash after each of its objects, and lists what is wrong.
func crashes(t *testing.T, retention api.RetentionPolicy, home bool, wrap func(*wal.Log) Log) (faults []string) {
	for n, stopped := 0, true; stopped; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer func() { w.end() }()
			w.wrapLog = wrap
			// Each entry is an object, but for groups.
			w.walOpt.MaxBatchBytes, w.walOpt.MaxInFlight = 1, 1
			d := deadLetters(w)
			d.source.Retention = retention
			if home {
				d.source.Subjects = []string{"s.>", "dlq.>"}
				d.target.Subjects = []string{"unused"}
				d.consumer.FilterSubject = "s.>"
			}
			inner := w.store
			b := &blocking{Store: inner, gate: make(chan struct{})}
			w.store = b
			open := make(chan struct{})
			go func() {
				for {
					select {
					case b.gate <- struct{}{}:
					case <-open:
						return
					}
				}
			}()
			w.start()
			s, _ := d.setUp()
			for i := range 4 {
				w.client.publish("s."+strconv.Itoa(i), strconv.Itoa(i))
			}
			time.Sleep(step)
			close(open)
			left := make(chan int)
			go func() { // n more objects
				sent := 0
				for ; sent < n; sent++ {
					select {
					case b.gate <- struct{}{}:
					case <-time.After(time.Minute):
						left <- n - sent
						return
					}
				}
				left <- 0
			}()
			got := w.client.pull(s, "c", 2)
			d.answer(got[:1], "+TERM")
			d.answer(got[1:], "-NAK")
			time.Sleep(step)
			d.exhaust(s)
			stopped = <-left == 0
			if !stopped && n < 5 {
				t.Errorf("the history has only %d objects", n)
			}

			w.store = inner
			w.crash()
			faults = append(faults, replayFaults(t, d, home, fmt.Sprintf("after %d objects", n))...)
			w.start()
			s = w.stream("S")
			for range 4 {
				d.exhaust(s)
				time.Sleep(2 * time.Minute)
			}
			counts := map[string]int{}
			where := w.stream("DLQ")
			if home {
				where = s
			}
			for _, m := range letters(t, where) {
				if strings.HasPrefix(m.Subject, "dlq.") {
					counts[string(m.Data)]++
				}
			}
			for i := range 4 {
				if k := strconv.Itoa(i); counts[k] != 1 {
					faults = append(faults, fmt.Sprintf("after %d objects: %d letters of %s in the end", n, counts[k], k))
				}
			}
			if p := d.ackPending(s); p != 0 {
				faults = append(faults, fmt.Sprintf("after %d objects: %d are pending in the end", n, p))
			}
		})
		if n > 100 {
			t.Fatal("it does not end")
		}
	}
	return faults
}

// replayFaults replays the log without going on, and compares what the consumer needs with the letters there are.
func replayFaults(t *testing.T, d *deadWorld, home bool, when string) (faults []string) {
	t.Helper()
	l, err := wal.Open(wal.Options{Store: d.store, ID: wal.LogID{Kind: wal.WriteAhead, Node: "looks", Epoch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	e, err := New(Options{Broker: d.broker, Store: d.store, Log: l})
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	if err := e.Recover(t.Context(), d.ranges); err != nil {
		t.Fatal(err)
	}
	streams := e.account("A").streams
	s, dlq := streams["S"], streams["DLQ"]
	letters := map[string]int{}
	if home {
		dlq = s
	}
	for seq := dlq.state.FirstSeq(); seq <= dlq.state.LastSeq(); seq++ {
		if m, ok, err := dlq.load(seq, nil); err == nil && ok && strings.HasPrefix(string(m.Subject), "dlq.") {
			letters[string(m.Data)]++
		}
	}
	for i := range 4 {
		seq, key := uint64(i+1), strconv.Itoa(i)
		needed := s.state.Has(seq) && s.consumers["c"].machine.NeedsAck(seq)
		if needed == (letters[key] > 0) || letters[key] > 1 || s.Config().Retention == api.WorkQueuePolicy && needed != s.state.Has(seq) {
			faults = append(faults, fmt.Sprintf("%s: message %s is there %v and needed %v, and has %d letters", when, key, s.state.Has(seq), needed, letters[key]))
		}
	}
	return faults
}
