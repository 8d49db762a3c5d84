package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// LevelTrace is the level of the trace of the protocol, below slog.LevelDebug.
const LevelTrace = slog.Level(-8)

// tracing reports whether the protocol is traced. It is asked once per chunk.
func (s *Server) tracing() bool {
	o := s.options()
	return o.Trace && o.Log.Enabled(context.Background(), LevelTrace)
}

func (c *Conn) trace(direction, text string) {
	c.srv.options().Log.Log(context.Background(), LevelTrace, c.label()+" - "+direction+" "+text)
}

// traceIn shows an operation of the client.
func (c *Conn) traceIn(op proto.Op) {
	arg := c.parser.Arg
	switch op {
	case proto.OpPub:
		m := &c.parser.Pub
		verb := "PUB"
		if m.HeaderLen > 0 {
			verb = "HPUB"
		}
		c.trace("<<-", fmt.Sprintf("[%s %s %s]", verb, m.Subject, bytes.TrimRight(m.Wire[:m.DataOff], "\r\n")))
		c.tracePayload("<<-", m)
	case proto.OpSub:
		c.trace("<<-", fmt.Sprintf("[SUB %s]", arg))
	case proto.OpUnsub:
		c.trace("<<-", fmt.Sprintf("[UNSUB %s]", arg))
	case proto.OpConnect:
		c.trace("<<-", fmt.Sprintf("[CONNECT %s]", withoutSecrets(arg)))
	case proto.OpPing:
		c.trace("<<-", "[PING]")
	case proto.OpPong:
		c.trace("<<-", "[PONG]")
	}
}

// traceOut shows a message that goes to the client.
func (c *Conn) traceOut(verb string, sub *broker.Subscription, m *proto.Pub) {
	c.trace("->>", fmt.Sprintf("[%s%s%s%s]", verb, m.Subject, sub.Tag(), bytes.TrimRight(m.Wire[:m.DataOff], "\r\n")))
	c.tracePayload("->>", m)
}

// tracePayload shows what a message holds, if anything, as nats-server does.
func (c *Conn) tracePayload(direction string, m *proto.Pub) {
	data, more := m.Wire[m.DataOff:len(m.Wire)-2], ""
	if most := c.srv.options().MaxTraced; most > 0 && len(data) > most {
		data, more = data[:most], "..."
	}
	if len(data) > 0 {
		quoted := strconv.AppendQuote(nil, string(data))
		c.trace(direction, fmt.Sprintf("MSG_PAYLOAD: [%s%s\"]", quoted[:len(quoted)-1], more))
	}
}

// withoutSecrets gives a CONNECT as it may be logged.
func withoutSecrets(arg []byte) []byte {
	var fields map[string]any
	if json.Unmarshal(arg, &fields) != nil {
		return []byte("[REDACTED]")
	}
	for _, secret := range []string{"pass", "auth_token", "jwt", "sig", "nkey"} {
		if _, ok := fields[secret]; ok {
			fields[secret] = "[REDACTED]"
		}
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return []byte("[REDACTED]")
	}
	return b
}
