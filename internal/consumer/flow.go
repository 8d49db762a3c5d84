package consumer

import "time"

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
	if !c.flow.on || !c.flow.sent(d.flowSize) {
		return
	}
	c.flow.id, c.flow.asked = c.flowReply(), c.flow.outstanding
	fx.Statuses = append(fx.Statuses, Status{To: d.To, Reply: c.flow.id, Header: []byte(statusFlowControl)})
}

// FlowControl takes the answer to a flow control message: a message to a subject $JS.FC.<stream>.<consumer>.<id>. It
// ignores all but the newest.
func (c *Consumer) FlowControl(subject []byte) {
	if c.flow.id != "" && string(subject) == c.flow.id {
		c.flow.confirm()
	}
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
