package conn

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

// Verdicts of judge.
const (
	verdictAllow    = iota
	verdictDeny     // by permissions; an answer may be allowed all the same
	verdictReserved // nobody may
)

// newPublisher makes the publisher at the first publish: most connections only subscribe.
func (c *Conn) newPublisher() *broker.Publisher {
	if c.origin == nil { // there was no CONNECT
		c.origin = &broker.Origin{ID: c.id, Account: account.DefaultName, Host: c.host, Kind: "Client"}
	}
	c.pub = c.space.NewPublisherFor(broker.PublisherOptions{
		Origin: c.origin,
		Self:   c,
		NoEcho: c.quiet,
		Mapped: true,
		Check:  c.judge,
		Lost:   c.lost,
	})
	return c.pub
}

// Subjects that clients may not publish to.
var (
	gatewayReply    = []byte("_GR_.")
	oldGatewayReply = []byte("$GR.")
	raftGroup       = []byte("$NRG.")
	jetStreamPrefix = []byte("$JS.")
	serviceReply    = []byte("_R_.")
)

// judge tells whether the client may publish to a subject. Routes remember it.
func (c *Conn) judge(subj []byte) uint8 {
	if bytes.HasPrefix(subj, gatewayReply) || bytes.HasPrefix(subj, oldGatewayReply) {
		return verdictReserved
	}
	id := c.identity.Load()
	if id != nil && id.Rights.LimitsPublish() && !id.Rights.MayPublish(subj) {
		return verdictDeny
	}
	if bytes.HasPrefix(subj, raftGroup) && !(id != nil && id.Account.System) {
		return verdictReserved
	}
	return verdictAllow
}

// mayAnyhow reports whether a publish that the lists deny is an allowed answer.
func (c *Conn) mayAnyhow(verdict uint8, pub *proto.Pub) bool {
	if verdict != verdictDeny {
		return false
	}
	c.flush() // a request of its own may be what it answers
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.responses != nil && c.responses.allow(pub.Subject)
}

// reservedReply reports whether a client may not ask for an answer there: it would make others do what it may not.
func reservedReply(reply []byte) bool {
	switch reply[0] {
	case '$':
		return len(reply) > len(jetStreamPrefix) && bytes.HasPrefix(reply, jetStreamPrefix) ||
			bytes.HasPrefix(reply, oldGatewayReply)
	case '_':
		return bytes.HasPrefix(reply, serviceReply) || bytes.HasPrefix(reply, gatewayReply)
	}
	return false
}

func (c *Conn) publishViolation(subj []byte) {
	c.report(fmt.Sprintf("Permissions Violation for Publish to %q", subj))
	c.logViolation("Publish Violation - Subject %q", subj)
}

func (c *Conn) replyViolation(reply []byte) {
	c.report(fmt.Sprintf("Permissions Violation for Publish with Reply of %q", reply))
	c.logViolation("Publish Violation - Reply %q", reply)
}

// violationsEvery is how often a connection's violations are logged: a client may commit one with every message.
const violationsEvery = time.Second

func (c *Conn) logViolation(format string, args ...any) {
	now := time.Now()
	if now.Sub(c.violation) < violationsEvery {
		return
	}
	c.violation = now
	c.srv.options().Log.Error(c.label() + " - " + fmt.Sprintf(format, args...))
}

// lost is told of a message whose receivers all went before it was handed over.
func (c *Conn) lost(m *proto.Pub, _ int) {
	if m.ReplyLen > 0 && !c.no503 {
		c.answerNoResponders(m.Subject, m.Reply())
	}
}

// noResponders answers a request that nobody hears.
func (c *Conn) noResponders(subj, reply []byte) {
	c.flush()
	c.answerNoResponders(subj, reply)
}

func (c *Conn) answerNoResponders(subj, reply []byte) {
	sub := c.space.Find(reply, c)
	if sub == nil {
		return
	}
	const fixed = len("NATS/1.0 503\r\nNats-Subject: \r\n\r\n")
	size := strconv.Itoa(fixed + len(subj))
	var line strings.Builder
	line.WriteString("HMSG ")
	line.Write(reply)
	line.WriteString(sub.Tag())
	line.WriteString(size + " " + size + "\r\nNATS/1.0 503\r\nNats-Subject: ")
	line.Write(subj)
	line.WriteString("\r\n\r\n\r\n")
	c.answer([]byte(line.String()))
}

// jetStreamRequest reports whether a subject is one of JetStream's API, with or without a domain.
func jetStreamRequest(subj []byte) bool {
	return bytes.HasPrefix(subj, jetStreamPrefix) &&
		(string(subject.Token(subj, 1)) == "API" || string(subject.Token(subj, 2)) == "API")
}
