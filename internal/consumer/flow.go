package consumer

import (
	"time"

	"github.com/sluicemq/sluice/internal/proto"
)

// Flow control of push consumers, as nats-server does it: the consumer may be at most window bytes ahead of what the
// subscriber has confirmed. When it is half a window ahead, it sends a flow control message; the answer to its reply
// subject confirms all that went before. The window doubles with every answer.
const (
	flowWindowMax   = 32 << 20
	flowWindowStart = flowWindowMax / 16
)

type flowControl struct {
	on          bool
	window      int
	outstanding int    // bytes sent and not confirmed
	asked       int    // of those, what the answer to the flow control message on its way will confirm
	id          string // reply subject of that message; empty: none
}

func (f *flowControl) init() { *f = flowControl{on: true, window: flowWindowStart} }

func (f *flowControl) stalled() bool { return f.on && f.outstanding > f.window }

// sent counts a message and reports whether a flow control message is due.
func (f *flowControl) sent(size int) bool {
	f.outstanding += size
	if f.id == "" {
		return f.outstanding > f.window/2
	}
	if f.outstanding-f.asked >= f.window {
		f.asked += size
	}
	return false
}

func (f *flowControl) refund(size int) { f.outstanding = max(f.outstanding-size, 0) }

// confirm takes the answer to a flow control message.
func (f *flowControl) confirm() {
	f.window = min(2*f.window, flowWindowMax)
	f.refund(f.asked)
	f.id, f.asked = "", 0
}

const flowIDDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// flowReply makes the reply subject of a flow control message: $JS.FC.<stream>.<consumer>.<id>.
func (c *Consumer) flowReply() string {
	b := make([]byte, 0, 16+len(c.stream)+len(c.name))
	b = append(b, "$JS.FC."...)
	b = append(b, c.stream...)
	b = append(b, '.')
	b = append(b, c.name...)
	b = append(b, '.')
	for n, i := c.random(), 0; i < 4; i++ {
		b = append(b, flowIDDigits[n%uint64(len(flowIDDigits))])
		n /= uint64(len(flowIDDigits))
	}
	return string(b)
}

// sent accounts for a message that goes to the deliver subject.
func (c *Consumer) sent(d *Dispatch, now int64, fx *Effects) {
	c.rate.take(d.size)
	if c.cfg.Heartbeat > 0 {
		c.beatAt = later(now, int64(c.cfg.Heartbeat))
	}
	if !c.flow.on {
		return
	}
	due := c.flow.sent(d.flowSize)
	if due || c.ackByFlow && c.flow.id == "" && c.maxPending > 0 && c.pending.live >= c.maxPending {
		c.askFlow(fx)
	}
}

// askFlow sends a flow control message.
func (c *Consumer) askFlow(fx *Effects) {
	c.flow.id, c.flow.asked = c.flowReply(), c.flow.outstanding
	fx.Statuses = append(fx.Statuses, Status{To: c.cfg.DeliverSubject, Reply: c.flow.id, Header: []byte(statusFlowControl)})
}

// FlowControl takes the answer to a flow control message: a message to a subject $JS.FC.<stream>.<consumer>.<id>, with
// its header block. It ignores all but the newest. With the ack policy flow_control, its headers Nats-Last-Consumer and
// Nats-Last-Stream acknowledge all messages up to there.
func (c *Consumer) FlowControl(subject, header []byte, now time.Time, fx *Effects) {
	if c.flow.id == "" || string(subject) != c.flow.id {
		return
	}
	c.flow.confirm()
	if !c.ackByFlow {
		return
	}
	consumerSeq, stream := headerNumber(header, "Nats-Last-Consumer"), headerNumber(header, "Nats-Last-Stream")
	if stream == 0 || consumerSeq == 0 {
		return // nothing arrived yet
	}
	// It may be ahead of the deliveries that survived a crash.
	if c.running && stream > c.floor.stream && consumerSeq > c.floor.consumer {
		c.ackAt = now.UnixNano()
		c.ackAllUpTo(min(stream, c.delivered.stream), min(consumerSeq, c.delivered.consumer), fx)
	}
}

// headerNumber reads a number from a header block; 0 where there is none.
func headerNumber(header []byte, name string) uint64 {
	value, ok := proto.Header(header).Get(name)
	if !ok {
		return 0
	}
	n, rest, ok := number(value)
	if !ok || len(rest) > 0 {
		return 0
	}
	return n
}

// Interest tells whether somebody listens on the deliver subject of a push consumer. New consumers start without.
func (c *Consumer) Interest(active bool, now time.Time) {
	if !c.push {
		return
	}
	if !active {
		c.lost(now.UnixNano())
		return
	}
	c.active = true
	c.inactiveAt = 0
}

// lost notes that nobody listens on the deliver subject.
func (c *Consumer) lost(now int64) {
	c.active = false
	c.peek = peeked{}
	if c.threshold > 0 && c.inactiveAt == 0 {
		c.inactiveAt = later(now, c.threshold)
	}
}
