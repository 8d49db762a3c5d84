package conn

import (
	"errors"
	"time"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

// tally counts a chunk's messages, so that shared counters are touched once per chunk.
type tally struct{ msgs, bytes, subs int64 }

// process works off the chunk that the parser was fed. False means that the connection is closed.
func (c *Conn) process() bool {
	var t tally
	c.parser.MaxPayload = int(c.maxPayload.Load())
	if c.pub != nil {
		c.pub.Refresh()
	}
	open := c.operations(&t)
	c.flush()
	if t.msgs > 0 {
		c.inMsgs.Add(t.msgs)
		c.inBytes.Add(t.bytes)
		c.srv.stats.received(t.msgs, t.bytes)
	}
	if t.msgs > 0 || t.subs > 0 {
		c.touch(time.Now(), true)
	}
	return open
}

// operations runs the operations of a chunk.
func (c *Conn) operations(t *tally) bool {
	traced := c.srv.tracing()
	for {
		if c.awaiting && !c.firstOperation() {
			return false
		}
		op, err := c.parser.Next()
		if c.pedantic && op == proto.OpNone && c.parser.Begun() != nil {
			c.complain(c.parser.Begun())
		}
		if err != nil {
			c.flush()
			c.parseFailed(err)
			return false
		}
		if traced {
			c.traceIn(op)
		}
		switch op {
		case proto.OpPub:
			t.msgs++
			t.bytes += int64(c.parser.Pub.Size())
			c.publish(&c.parser.Pub)
			continue
		case proto.OpNone:
			return true
		}
		// The answer to whatever it is stands behind the messages that came before it.
		c.flush()
		if !c.control(op, t) {
			return false
		}
		if c.pub != nil {
			c.pub.Refresh()
		}
	}
}

// control runs an operation that is no publish.
func (c *Conn) control(op proto.Op, t *tally) bool {
	switch op {
	case proto.OpPing:
		return c.ping()
	case proto.OpPong:
		c.pong()
	case proto.OpSub:
		t.subs++
		return c.subscribe(c.parser.Arg)
	case proto.OpUnsub:
		t.subs++
		return c.unsubscribe(c.parser.Arg)
	case proto.OpConnect:
		return c.connect(c.parser.Arg)
	case proto.OpIgnore:
		if c.verbose {
			c.sendOK()
		}
	case proto.OpInfo:
		return c.peerInfo(c.parser.Arg)
	case proto.OpErr:
		c.srv.options().Log.Error(c.label() + " - Client Error " + string(c.parser.Arg))
		c.close(ParseError)
		return false
	}
	return true
}

// flush hands over what is staged.
func (c *Conn) flush() {
	if c.pub != nil && c.pub.Pending() {
		c.pub.HandOff()
	}
}

// publish routes a message.
func (c *Conn) publish(pub *proto.Pub) {
	p := c.pub
	if p == nil {
		p = c.newPublisher()
	}
	if c.pedantic {
		c.complain(pub.Subject)
		c.complained = false
	}
	route := p.Route(pub.Subject)
	if route.Verdict == broker.VerdictMapped {
		route = p.Follow(route, pub)
	}
	if route.Verdict != verdictAllow && !c.mayAnyhow(route.Verdict, pub) {
		c.publishViolation(pub.Subject)
		return
	}
	if pub.ReplyLen > 0 && reservedReply(pub.Reply()) {
		c.replyViolation(pub.Reply())
		return
	}
	if c.verbose {
		c.flush()
		c.sendOK()
	}
	granted := route.Verdict != verdictAllow
	if granted {
		c.flush()
		p.Grant(true)
	}
	if p.Stage(route, pub) == 0 && pub.ReplyLen > 0 && !c.no503 {
		c.noResponders(pub.Subject, pub.Reply())
	}
	if granted {
		c.flush()
		p.Grant(false)
	}
}

// complain tells a pedantic client of a subject that nobody should publish to, once, and as soon as its control line
// was read. The message is published all the same.
func (c *Conn) complain(subj []byte) {
	if c.complained || subject.ValidLiteral(subj) {
		return
	}
	c.complained = true
	c.report(proto.TextInvalidPubSubject)
}

// Limits of waiting for receivers that are behind, per chunk: nats-server waits up to 5 ms for one receiver and 10 ms
// in all.
const (
	maxStall      = 5 * time.Millisecond
	maxStallTotal = 10 * time.Millisecond
)

// stall waits for the receivers that are behind, a bounded time.
func (c *Conn) stall() {
	if c.pub == nil {
		return
	}
	gates := c.pub.Gates()
	if len(gates) == 0 {
		return
	}
	if !c.srv.options().NoFastProducerStall {
		c.stalls.Add(1)
		c.srv.stats.stalls.Add(1)
		left := maxStallTotal
		timer := time.NewTimer(left)
		for _, gate := range gates {
			if left <= 0 {
				break
			}
			start := time.Now()
			timer.Reset(min(left, maxStall))
			select {
			case <-gate:
			case <-timer.C:
			}
			left -= time.Since(start)
		}
		timer.Stop()
	}
	c.pub.ForgetGates()
}

// parseFailed ends the connection after input that is wrong.
func (c *Conn) parseFailed(err error) {
	log := c.srv.options().Log
	switch {
	case errors.Is(err, proto.ErrMaxPayload):
		log.Error(c.label() + " - " + err.Error())
		c.sendErr(proto.TextMaxPayload)
		c.close(MaxPayloadExceeded)
	case errors.Is(err, proto.ErrMaxControlLine):
		log.Error(c.label() + " - " + err.Error())
		c.sendErr(proto.TextMaxControlLine)
		c.close(MaxControlLineExceeded)
	case errors.Is(err, proto.ErrUnknownOperation):
		log.Error(c.label() + " - " + err.Error())
		c.sendErr(proto.TextUnknownOperation)
		c.close(ProtocolViolation)
	default:
		// As nats-server does, without a word to the client.
		log.Error(c.label() + " - " + err.Error())
		c.close(ProtocolViolation)
	}
}

// report tells the client of something wrong, behind the messages that came before.
func (c *Conn) report(text string) {
	c.flush()
	c.sendErr(text)
}

func (c *Conn) sendOK() { c.answer([]byte(proto.OKLine)) }
