package consumer

import (
	"math"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func takeNext(t *testing.T, c *Consumer, d *Dispatch, fx *Effects) {
	t.Helper()
	seq, ok := c.Peek(epoch, fx)
	if !ok || !c.Take(d, Message{Seq: seq}, epoch, fx) {
		t.Fatalf("nothing goes out: %d %v", seq, ok)
	}
}

// TestUndeliveredLate takes a delivery back after others followed it.
func TestUndeliveredLate(t *testing.T) {
	c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit","max_deliver":2}`), Messages: &endless{5}}, epoch)
	var fx Effects
	var first, second Dispatch
	c.Pull([]byte("r"), []byte("2"), epoch, &fx)
	takeNext(t, c, &first, &fx)
	takeNext(t, c, &second, &fx)
	c.Undelivered(&first, epoch)
	c.Undelivered(&first, epoch) // a second time does nothing
	if i := c.Info(epoch, &fx); i.Delivered.Consumer != 2 || i.NumAckPending != 2 || i.NumRedelivered != 0 || i.NumPending != 3 {
		t.Fatalf("%+v", i)
	}
	again := Restore(c.opts)
	if err := again.ApplyProgress(c.Progress(nil)); err != nil || durable(again) != durable(c) {
		t.Fatalf("%v\n%s%s", err, durable(c), durable(again))
	}
	c.Pull([]byte("q"), []byte("2"), epoch, &fx)
	takeNext(t, c, &first, &fx)
	if first.Seq != 1 || first.Deliveries != 1 || first.ConsumerSeq != 3 {
		t.Fatalf("%+v", first)
	}
}

// TestTakeAfterChange: what Peek named is not delivered when it went away meanwhile.
func TestTakeAfterChange(t *testing.T) {
	for name, change := range map[string]func(c *Consumer, fx *Effects){
		"acknowledged": func(c *Consumer, fx *Effects) { c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, nil, nil, epoch, fx) },
		"removed":      func(c *Consumer, fx *Effects) { c.Removed(1, fx) },
		"paused":       func(c *Consumer, fx *Effects) { c.Pause(epoch.Add(time.Hour), epoch, fx) },
		"reconfigured": func(c *Consumer, fx *Effects) { c.UpdateConfig(c.Config(), nil, epoch, fx) },
		"expired": func(c *Consumer, fx *Effects) {
			for c.waiting.head != nil {
				c.waiting.remove(c.waiting.head)
			}
		},
	} {
		c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit"}`), Messages: &endless{5}}, epoch)
		var fx Effects
		var d Dispatch
		c.Pull([]byte("r"), []byte("3"), epoch, &fx)
		takeNext(t, c, &d, &fx)
		c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, ackNak, nil, epoch, &fx)
		if seq, ok := c.Peek(epoch, &fx); !ok || seq != 1 {
			t.Fatalf("%s: %d %v", name, seq, ok)
		}
		change(c, &fx)
		if c.Take(&d, Message{Seq: 1}, epoch, &fx) {
			t.Errorf("%s: the message is delivered all the same", name)
		}
	}
}

// TestSkip passes over messages that turn out to be gone.
func TestSkip(t *testing.T) {
	c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit"}`), Messages: &endless{3}}, epoch)
	var fx Effects
	var d Dispatch
	c.Pull([]byte("r"), []byte("5"), epoch, &fx)
	if seq, ok := c.Peek(epoch, &fx); !ok || seq != 1 {
		t.Fatal(seq, ok)
	}
	c.Skip(2, &fx) // not what Peek named
	c.Skip(1, &fx)
	takeNext(t, c, &d, &fx)
	if d.Seq != 2 || d.Pending != 1 || d.ConsumerSeq != 1 {
		t.Fatalf("%+v", d)
	}
	c.Ack(&AckSubject{StreamSeq: 2, ConsumerSeq: 1}, ackNak, nil, epoch, &fx)
	fx.Reset()
	if seq, ok := c.Peek(epoch, &fx); !ok || seq != 2 {
		t.Fatal(seq, ok)
	}
	c.Skip(2, &fx)
	if c.NumAckPending() != 0 || c.NumPending() != 1 || len(fx.Advisories) != 1 || fx.Advisories[0].Kind != Terminated || fx.Advisories[0].Consumer != "C" {
		t.Fatalf("%d pending, %+v", c.NumAckPending(), fx.Advisories)
	}
}

func TestDemand(t *testing.T) {
	var fx Effects
	var d Dispatch
	c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit","max_ack_pending":3}`), Messages: &endless{50}}, epoch)
	want := func(n int) {
		t.Helper()
		if got := c.Demand(); got != n {
			t.Errorf("demand is %d, should be %d", got, n)
		}
	}
	want(0)
	c.Pull([]byte("r"), []byte("2"), epoch, &fx)
	want(2)
	c.Pull([]byte("q"), []byte("20"), epoch, &fx)
	want(3)
	takeNext(t, c, &d, &fx)
	takeNext(t, c, &d, &fx)
	want(1)
	c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, ackNak, nil, epoch, &fx)
	want(2)
	c = New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"deliver_subject":"D"}`), Messages: &endless{50}}, epoch)
	want(0)
	c.Interest(true, epoch)
	want(1 << 20)
	if !c.Push() || c.Name() != "C" {
		t.Error("not a push consumer C")
	}
}

func TestHeadersOnlySize(t *testing.T) {
	for _, tc := range []struct {
		header, data int
		want         string
	}{
		{0, 0, "NATS/1.0\r\nNats-Msg-Size: 0\r\n\r\n"},
		{0, 9, "NATS/1.0\r\nNats-Msg-Size: 9\r\n\r\n"},
		{0, 10, "NATS/1.0\r\nNats-Msg-Size: 10\r\n\r\n"},
		{len("NATS/1.0\r\nA: b\r\n\r\n"), 12345, "NATS/1.0\r\nA: b\r\nNats-Msg-Size: 12345\r\n\r\n"},
	} {
		if got := headersOnlySize(tc.header, tc.data); got != len(tc.want) {
			t.Errorf("header %d, data %d: %d bytes, %q has %d", tc.header, tc.data, got, tc.want, len(tc.want))
		}
	}
}

// TestRedeliverQueueBound queues and unqueues messages while nobody asks for any.
func TestRedeliverQueueBound(t *testing.T) {
	c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit"}`), Messages: &endless{10}}, epoch)
	var fx Effects
	var d Dispatch
	c.Pull([]byte("r"), []byte("10"), epoch, &fx)
	for range 10 {
		takeNext(t, c, &d, &fx)
	}
	for i := range 10_000 {
		a := &AckSubject{StreamSeq: uint64(2 + i%9), ConsumerSeq: uint64(2 + i%9)}
		c.Ack(a, ackNak, nil, epoch, &fx)
		c.Ack(a, []byte("-NAK 1h"), nil, epoch, &fx)
		c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, ackNak, nil, epoch, &fx)
		fx.Reset()
		if n := len(c.redeliver.seqs); n > 4*(10+slack) {
			t.Fatalf("%d places for %d messages", n, c.redeliver.live)
		}
		if n := len(c.deadlines); n > 2*10+slack {
			t.Fatalf("%d deadlines for 10 messages", n)
		}
	}
	if c.redeliver.live != 1 {
		t.Fatalf("%d are queued", c.redeliver.live)
	}
}

// TestEndlessTimes: the largest durations mean never, not at once.
func TestEndlessTimes(t *testing.T) {
	cfg := checkedConfig(t, `{"ack_policy":"explicit","ack_wait":9223372036854775807,"inactive_threshold":9223372036854775807}`)
	c := New(Options{Stream: "S", Name: "C", Config: cfg, Messages: &endless{2}}, epoch)
	var fx Effects
	var d Dispatch
	c.Pull([]byte("r"), []byte(`{"batch":3,"expires":9223372036854775807,"idle_heartbeat":4611686018427387903}`), epoch, &fx)
	takeNext(t, c, &d, &fx)
	takeNext(t, c, &d, &fx)
	c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, []byte(`-NAK {"delay":9223372036854775807}`), nil, epoch, &fx)
	fx.Reset()
	c.Tick(epoch.Add(100*365*24*time.Hour), &fx)
	if len(fx.Statuses) > 0 || len(fx.Advisories) > 0 || fx.Inactive || c.redeliver.live > 0 {
		t.Fatalf("%+v", fx)
	}
	again := Restore(c.opts)
	if err := again.ApplyProgress(c.Progress(nil)); err != nil || durable(again) != durable(c) {
		t.Fatalf("%v\n%s%s", err, durable(c), durable(again))
	}
	c.Ack(&AckSubject{StreamSeq: 1, ConsumerSeq: 1}, []byte(`-NAK {"delay":-9223372036854775808}`), nil, epoch, &fx)
	if err := again.ApplyProgress(c.Progress(nil)); err != nil {
		t.Fatal(err)
	}
	if later(1, math.MaxInt64) != math.MaxInt64 || later(5, -3) != 2 {
		t.Error("later")
	}
}

// TestUpdateBeforeResume: replaying a change of configuration leaves the rest to the progress that follows.
func TestUpdateBeforeResume(t *testing.T) {
	w := newWorld(t)
	w.create(checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"D"}`))
	w.c.Interest(true, w.now)
	for range 3 {
		w.publish("a", 1)
	}
	before := len(w.log)
	moved := checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","deliver_subject":"E","ack_wait":5000000000}`)
	w.c.UpdateConfig(moved, nil, w.now, &w.fx)
	w.settle()
	c := Restore(w.opts)
	for i, part := range w.log {
		if i == before {
			c.UpdateConfig(moved, nil, w.now, &w.fx)
		}
		if err := c.ApplyProgress(part); err != nil {
			t.Fatal(err)
		}
	}
	c.Resume(w.now)
	if durable(c) != durable(w.c) || c.redeliver.live != 3 || c.Config().DeliverSubject != "E" || c.ackWait != int64(5*time.Second) || len(w.fx.Advisories) > 0 {
		t.Fatalf("%s%s%d queued", durable(c), durable(w.c), c.redeliver.live)
	}
}

// TestUndeliveredIsNotSettled: without acknowledgement a message is settled when its delivery is certain.
func TestUndeliveredIsNotSettled(t *testing.T) {
	c := New(Options{Stream: "S", Name: "C", Config: api.ConsumerConfig{AckPolicy: api.AckNone, MaxWaiting: 5}, Messages: &endless{3}, Retains: true}, epoch)
	var fx Effects
	var d Dispatch
	c.Pull([]byte("r"), []byte("1"), epoch, &fx)
	c.Pull([]byte("q"), []byte("1"), epoch, &fx)
	takeNext(t, c, &d, &fx)
	c.Undelivered(&d, epoch)
	takeNext(t, c, &d, &fx)
	if len(fx.Settled) != 0 {
		t.Fatalf("settled too early: %v", fx.Settled)
	}
	c.Peek(epoch, &fx)
	if len(fx.Settled) != 1 || fx.Settled[0] != 1 || d.Seq != 1 || d.ConsumerSeq != 1 {
		t.Fatalf("settled %v, delivered %+v", fx.Settled, d)
	}
}
