package broadcast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/store/fault"
	"github.com/sluicemq/sluice/internal/wal"
)

func TestReachesEveryNodeOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.start("a", nil), w.start("b", nil), w.start("c", nil)
		a.publish("A", "news.x", "", "Colour: red", "1")
		a.publish("B", "news.x", "", "", "2")
		b.publish("A", "other", "", "", "not broadcast")
		settle(5 * time.Second)
		for _, n := range []*node{a, b, c} {
			n.expect("A", "news.x [Colour: red] 1")
			n.expect("B", "news.x 2")
		}
		a.metric("batches", 1) // both in one window
		b.metric("batches", 0)
		b.metric("fetched_batches", 1)
		// One who comes later hears nothing of it, but of what comes then.
		d := w.start("d", nil)
		c.publish("A", "news.y", "", "", "3")
		settle(5 * time.Second)
		d.publish("A", "news.z", "", "", "4")
		settle(5 * time.Second)
		d.expect("A", "news.y 3", "news.z 4")
		a.expect("A", "news.x [Colour: red] 1", "news.y 3", "news.z 4")
	})
}

func TestOrderOfAPublisher(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		// The reader's requests fail and are slow, the writer's answers are lost: the order stays.
		a := w.start("a", nil)
		b := w.start("b", func(o *Options) { o.Window = 10 * time.Millisecond })
		if err := b.store.SetRules([]fault.Rule{{Key: "**", Operation: fault.Create, Kind: fault.Lost, Probability: 0.3}, {Key: "**", Operation: fault.Create, Kind: fault.Conflict, Probability: 0.2}}); err != nil {
			t.Fatal(err)
		}
		if err := a.store.SetRules([]fault.Rule{{Key: "**", Operation: fault.Get, Kind: fault.Broken, Probability: 0.2}, {Key: "**", Operation: fault.List, Kind: fault.Timeout, Probability: 0.2}}); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			b.publish("A", "news.n", "", "", fmt.Sprint(i))
			time.Sleep(7 * time.Millisecond)
		}
		settle(2 * time.Minute)
		a.expect("A", numbered(200, "news.n %d")...)
		if b.store.Count(fault.Lost) == 0 || a.store.Count(fault.Broken) == 0 {
			t.Error("no faults happened")
		}
		a.metric("gaps", 0)
	})
}

func TestAcknowledgement(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.start("a", func(o *Options) {
			o.Answers = func(account, subject string) bool { return subject == "news.stream" }
			o.MaxBatch = MinBatch
		})
		a.publish("A", "news.x", "inbox", "", "1")
		a.publish("A", "news.stream", "inbox", "", "2")
		a.publish("A", "news.big", "inbox", "", strings.Repeat("x", MinBatch))
		settle(time.Second)
		got := a.heard["A"].all()
		if len(got) != 5 {
			t.Fatalf("got %d messages: %.200q", len(got), got)
		}
		if !strings.HasPrefix(got[2], `inbox {"broadcast":true,"error":{"code":413`) && !strings.HasPrefix(got[3], `inbox {"broadcast":true,"error":{"code":413`) {
			t.Errorf("no refusal among %.100q", got)
		}
		if r := receiptOf(t, got[4]); r != (Receipt{Broadcast: true, Node: "a", Epoch: 1, Offset: 0}) {
			t.Errorf("receipt %+v", r)
		}
		if h := a.head.Head(); h.Broadcast == nil || h.Broadcast.Offset != 0 {
			t.Errorf("acknowledged, and the head tells of %+v", h.Broadcast)
		}
	})
}

func TestCall(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.start("a", nil), w.start("b", nil)
		r, err := a.service.Broadcast(t.Context(), "A", "news.call", nil, []byte("1"))
		if err != nil || r.Offset != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		b.service.Poke()
		settle(10 * time.Millisecond)
		b.service.Poke()
		settle(30 * time.Millisecond) // well below the interval of polls
		a.expect("A", "news.call 1")
		b.expect("A", "news.call 1")
		for _, tc := range []struct {
			account, subject string
			want             error
		}{{"A", "a..b", ErrSubject}, {"A", "a.*", ErrSubject}, {"Z", "a", ErrAccount}} {
			if _, err := a.service.Broadcast(t.Context(), tc.account, tc.subject, nil, nil); !errors.Is(err, tc.want) {
				t.Errorf("%s in %s: %v, want %v", tc.subject, tc.account, err, tc.want)
			}
		}
	})
}

// A store that takes nothing makes the queue fill up to its bound, and nothing is acknowledged until it is back.
func TestStoreAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.start("a", func(o *Options) { o.MaxBatch, o.MaxPending = MinBatch, 2*MinBatch })
		b := w.start("b", nil)
		if err := a.store.SetRules([]fault.Rule{{Key: "**", Operation: fault.Create | fault.Replace, Kind: fault.Throttled}}); err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", 16<<10)
		for range 12 {
			a.publish("A", "news.x", "", "", body)
		}
		a.publish("A", "news.asked", "inbox", "", body)
		settle(time.Second)
		if n := a.service.queue.cost; n > 2*MinBatch {
			t.Errorf("%d bytes wait, more than the bound", n)
		}
		if got := a.heard["A"].all(); !strings.Contains(got[len(got)-1], ErrFull.Error()) {
			t.Errorf("the last answer is %.200q", got[len(got)-1])
		}
		if a.service.queue.wait() == nil {
			t.Error("publishers are not asked to wait")
		}
		if err := a.store.SetRules(nil); err != nil {
			t.Fatal(err)
		}
		settle(20 * time.Second)
		if got := len(b.heard["A"].all()); got < 6 || got > 8 {
			t.Errorf("%d messages arrived when the store was back, want those that were taken in", got)
		}
		if a.service.queue.cost != 0 {
			t.Errorf("%d bytes still count as waiting", a.service.queue.cost)
		}
	})
}

// A process that dies leaves a log that its next start fences: what the head did not tell is delivered then, in order,
// before anything of the new epoch, and a create of the old process that lands late changes nothing.
func TestNewEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := w.start("b", nil)
		a := w.start("a", nil)
		a.publish("A", "news.n", "", "", "0")
		settle(time.Second)
		// The batch gets to the store, and the head is not moved any more.
		if err := a.store.SetRules([]fault.Rule{{Key: "**", Operation: fault.Replace, Kind: fault.Throttled}}); err != nil {
			t.Fatal(err)
		}
		a.publish("A", "news.n", "inbox", "", "1")
		settle(time.Second)
		a.kill()
		settle(10 * time.Second)
		b.expect("A", "news.n 0")
		a2 := w.start("a", nil)
		if a2.head.Epoch() != 2 {
			t.Fatalf("epoch %d", a2.head.Epoch())
		}
		old := wal.LogID{Kind: wal.Broadcast, Node: "a", Epoch: 1}
		if _, err := wal.ReadBatch(t.Context(), w.mem, old, 2); !errors.Is(err, wal.ErrFenced) {
			t.Errorf("behind the old log lies %v, want a fence", err)
		}
		a2.publish("A", "news.n", "", "", "2")
		settle(5 * time.Second)
		b.expect("A", "news.n 0", "news.n 1", "news.n 2")
		b.metric("gaps", 0)
		for _, text := range a.heard["A"].all() {
			if strings.HasPrefix(text, `inbox {"broadcast":true,"node"`) {
				t.Errorf("acknowledged by the process that died: %s", text)
			}
		}
	})
}

// A writer that lost its node can acknowledge nothing, even if its creates get through.
func TestLostNode(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.start("a", nil)
		b := w.start("b", nil)
		a.beating() // it stops showing that it lives, and goes on
		a.beats.Wait()
		settle(10 * time.Second)
		w.start("a", nil)
		a.publish("A", "news.n", "inbox", "", "0")
		settle(10 * time.Second)
		got := a.heard["A"].all()
		if len(got) != 2 || !strings.Contains(got[1], `"error"`) {
			t.Errorf("the old process answered %q", got)
		}
		b.expect("A")
	})
}

// A reader that was away for longer than batches are kept says so, and goes on behind the gap.
func TestBehindRetention(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.start("a", func(o *Options) { o.Retention = 10 * time.Second })
		b := w.start("b", nil)
		a.publish("A", "news.n", "", "", "0")
		settle(5 * time.Second)
		if err := b.store.SetRules([]fault.Rule{{Key: "**", Operation: fault.List | fault.Get, Kind: fault.Timeout}}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < 40; i++ {
			a.publish("A", "news.n", "", "", fmt.Sprint(i))
			settle(time.Second)
		}
		kept := len(w.keys("a"))
		if kept < 9 || kept > 14 {
			t.Errorf("%d batches are kept, of 1 a second and 10 s", kept)
		}
		if err := b.store.SetRules(nil); err != nil {
			t.Fatal(err)
		}
		settle(5 * time.Second)
		got := b.heard["A"].all()
		if got[0] != "news.n 0" || got[len(got)-1] != "news.n 39" || len(got) < 6 || len(got) > 15 {
			t.Errorf("got %q", got)
		}
		b.metric("gaps", 1)
		b.metric("missed_batches", float64(40-len(got)))
		if sys := b.heard["SYS"].all(); len(sys) != 1 || !strings.HasPrefix(sys[0], "$SYS.SERVER.b.BROADCAST.GAP {") {
			t.Errorf("advisories: %q", sys)
		}
		settle(20 * time.Second)
		if left := w.keys("a"); len(left) != 0 {
			t.Errorf("left after all are too old: %v", left)
		}
	})
}

// Retention removes the batches of earlier epochs and leaves their fences.
func TestRetentionOfEarlierEpochs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		short := func(o *Options) { o.Retention = 10 * time.Second }
		b := w.start("b", nil)
		var want []string
		for i := range 3 {
			a := w.start("a", short)
			a.publish("A", "news.n", "", "", fmt.Sprint(i))
			want = append(want, fmt.Sprintf("news.n %d", i))
			settle(4 * time.Second)
			a.stop()
		}
		w.start("a", short)
		settle(30 * time.Second)
		if left := w.keys("a"); len(left) != 3 || !strings.HasSuffix(left[0], "0001/0000000000000001") {
			t.Errorf("left: %v, want the three fences", left)
		}
		b.expect("A", want...)
		b.metric("gaps", 0)
	})
}

func TestPollingSlowsDown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.start("a", nil), w.start("b", nil)
		settle(time.Minute)
		if b.service.poller.interval != 2*time.Second {
			t.Errorf("after a quiet minute the interval is %v", b.service.poller.interval)
		}
		a.publish("A", "news.n", "", "", "0")
		settle(2200 * time.Millisecond)
		if b.service.poller.interval > time.Second {
			t.Errorf("after news the interval is %v", b.service.poller.interval)
		}
		b.expect("A", "news.n 0")
	})
}

// What a broadcast costs does not depend on who else is there: two writes, and a read of the head and of the batch by
// each other node.
func TestCostOfABroadcast(t *testing.T) {
	for _, size := range []int{3, 10} {
		bubble(t, func(t *testing.T, w *world) {
			for i := range size {
				w.start(fmt.Sprint("n", i), nil)
			}
			settle(10 * time.Second)
			for range 5 {
				w.nodes[0].publish("A", "news.n", "", "", "x")
			}
			settle(5 * time.Second)
			w.nodes[0].metric("batches", 1)
			for _, n := range w.nodes[1:] {
				n.metric("fetched_batches", 1)
				n.expect("A", "news.n x", "news.n x", "news.n x", "news.n x", "news.n x")
			}
		})
	}
}

func TestStopWritesOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.start("a", nil), w.start("b", nil)
		a.publish("A", "news.n", "", "", "last")
		a.stop()
		settle(5 * time.Second)
		b.expect("A", "news.n last")
		if _, err := a.service.Broadcast(context.Background(), "A", "news.n", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add(appendMessage(nil, &Message{Account: "A", Msg: broker.Msg{Subject: []byte("a.b"), Header: []byte("h"), Data: []byte("d")}}))
	f.Add([]byte{3, 9, 1, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, known, rest, err := nextMessage(b)
		if err != nil || !known {
			return
		}
		again, known, tail, err := nextMessage(append(appendMessage(nil, &m), rest...))
		if err != nil || !known || len(tail) != len(rest) || again.Account != m.Account || string(again.Subject) != string(m.Subject) ||
			string(again.Header) != string(m.Header) || string(again.Data) != string(m.Data) {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
