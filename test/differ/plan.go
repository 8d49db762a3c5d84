// Package differ finds differences between two NATS servers: it sends the same random bytes of clients, valid and
// invalid, to both and compares what comes back, up to ids, the order of equal deliveries and the choice within a
// queue group. A round is made from a seed, so that whatever it finds can be played again.
package differ

import (
	"bytes"
	"fmt"
	"math/rand/v2"
)

// connections of a round.
const connections = 3

// plan is what the clients of one round do.
type plan struct {
	connects [connections][]byte // each client's first bytes
	steps    []step
}

// step is bytes that one client sends, after which every client waits for what the servers have to say.
type step struct {
	client    int
	fragments [][]byte // one write each
	pings     int      // PONGs that the fragments ask for
	broken    bool     // the bytes were damaged: how much will be answered is unknown, and the round ends
}

func (s step) bytes() []byte { return bytes.Join(s.fragments, nil) }

// generator makes a plan. All subjects begin with a token of the round's own, so that rounds on one server do not meet.
type generator struct {
	rand     *rand.Rand
	prefix   string
	messages int                 // so far: every payload is unique
	headers  [connections]bool   // what CONNECT said
	queues   [connections][]bool // by sid: has a queue subscription used it
}

const maxSID = 8

func newPlan(seed uint64) plan {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0)), prefix: fmt.Sprintf("r%x", seed&0xffffff)}
	var p plan
	for i := range connections {
		g.queues[i] = make([]bool, maxSID+1)
		p.connects[i] = g.connect(i)
	}
	for range 2 + g.rand.IntN(10) {
		p.steps = append(p.steps, g.step())
	}
	if g.rand.IntN(3) > 0 {
		p.steps = append(p.steps, g.brokenStep())
	}
	return p
}

func (g *generator) chance(percent int) bool { return g.rand.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.rand.IntN(len(from))] }

func (g *generator) connect(client int) []byte {
	g.headers[client] = g.chance(80)
	return fmt.Appendf(nil, `CONNECT {"verbose":%t,"pedantic":%t,"echo":%t,"headers":%t,"no_responders":%t,"protocol":1}`+"\r\n",
		g.chance(30), g.chance(30), g.chance(70), g.headers[client], g.headers[client] && g.chance(70))
}

func (g *generator) step() step {
	s := step{client: g.rand.IntN(connections)}
	var b []byte
	for range 1 + g.rand.IntN(12) {
		op, ping := g.operation(s.client)
		b = append(b, op...)
		if ping {
			s.pings++
		}
	}
	s.fragments = g.cut(b)
	return s
}

// brokenStep is a step with damage at one to three places.
func (g *generator) brokenStep() step {
	s := g.step()
	for {
		b := s.bytes()
		for range 1 + g.rand.IntN(3) {
			b = g.damage(b)
		}
		if !loneReturn(b) {
			return step{client: s.client, fragments: g.cut(b), broken: true}
		}
	}
}

// loneReturn tells whether there is a CR without its LF. nats-server keeps it in an argument that came in one piece and
// drops it from one that did not, so that its answer depends on how TCP cut the bytes.
func loneReturn(b []byte) bool {
	for i, c := range b {
		if c == '\r' && (i+1 == len(b) || b[i+1] != '\n') {
			return true
		}
	}
	return false
}

// cut splits bytes at up to five random places.
func (g *generator) cut(b []byte) [][]byte {
	var out [][]byte
	for range g.rand.IntN(6) {
		if len(b) < 2 {
			break
		}
		at := 1 + g.rand.IntN(len(b)-1)
		out = append(out, b[:at])
		b = b[at:]
	}
	return append(out, b)
}

func (g *generator) damage(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := g.rand.IntN(len(b))
	switch g.rand.IntN(6) {
	case 0: // another byte
		b = bytes.Clone(b)
		b[at] = byte(g.rand.IntN(256))
		return b
	case 1: // a byte less
		return append(bytes.Clone(b[:at]), b[at+1:]...)
	case 2: // a byte more, often one that means something
		more := pick(g, byte(' '), '\r', '\n', '\t', '.', '*', '>', '-', '+', '0', '9', '{', '"', 0, byte(g.rand.IntN(256)))
		return append(append(bytes.Clone(b[:at]), more), b[at:]...)
	case 3: // an end too early
		return b[:at]
	case 4: // a piece twice
		to := at + g.rand.IntN(min(20, len(b)-at)) + 1
		return append(append(bytes.Clone(b[:to]), b[at:to]...), b[to:]...)
	default: // a word of the protocol where none belongs
		word := pick(g, "PUB", "HPUB", "SUB", "UNSUB", "MSG", "PING\r\n", "CONNECT {}\r\n", "99999999999", "-1", "\r\n\r\n", "INFO {}\r\n", "+OK\r\n")
		return append(append(bytes.Clone(b[:at]), word...), b[at:]...)
	}
}

// operation is one valid operation; ping says that it asks for a PONG.
func (g *generator) operation(client int) (op []byte, ping bool) {
	switch n := g.rand.IntN(100); {
	case n < 40:
		return g.publish(client), false
	case n < 70:
		return g.subscribe(client), false
	case n < 80:
		return g.unsubscribe(client), false
	case n < 88:
		return []byte(pick(g, "PING\r\n", "ping\r\n", "PiNg\r\n", "PING  \r\n", "PING\n")), true
	case n < 90:
		return []byte("PONG\r\n"), false
	case n < 92:
		return g.connect(client), false
	default:
		return g.headerPublish(client), false
	}
}

func (g *generator) space() string { return pick(g, " ", " ", " ", " ", "  ", "\t", " \t ") }

// subject to publish to; a few are not valid.
func (g *generator) subject() string {
	return g.prefix + pick(g, ".a", ".a", ".b", ".a.b", ".a.b.c", ".b.c", "", ".*", ".>", "..a", ".", ".a*.b", ".x>y")
}

func (g *generator) pattern() string {
	return g.prefix + pick(g, ".a", ".b", ".a.b", ".*", ".>", ".*.b", ".a.*", ".a.>", ".*.*", ".*.*.c", "", "..a", ".>.a", ".", ".a*.b", ".x>y")
}

// payload is unique within the round and holds bytes that look like the protocol.
func (g *generator) payload() []byte {
	g.messages++
	b := fmt.Appendf(nil, "%d:", g.messages)
	for range g.rand.IntN(3) {
		b = append(b, pick(g, "PING\r\n", "MSG a 1 2\r\n", "\r\n", "\x00\xff", "hello", "x")...)
	}
	if g.chance(3) {
		b = append(b, bytes.Repeat([]byte("z"), g.rand.IntN(20_000))...)
	}
	return b
}

func (g *generator) reply() string {
	if g.chance(60) {
		return ""
	}
	return g.space() + g.prefix + pick(g, ".inbox", ".a", ".inbox.1", ".*", "..x")
}

func (g *generator) publish(int) []byte {
	body := g.payload()
	if g.chance(10) {
		body = nil
	}
	line := pick(g, "PUB", "PUB", "PUB", "pub", "Pub") + g.space() + g.subject() + g.reply() + g.space() + fmt.Sprint(len(body)) + pick(g, "\r\n", "\r\n", "\n", " \r\n")
	return append(append([]byte(line), body...), "\r\n"...)
}

func (g *generator) headerPublish(client int) []byte {
	if !g.headers[client] {
		return g.publish(client)
	}
	header := pick(g, "NATS/1.0\r\n\r\n", "NATS/1.0\r\nA: b\r\n\r\n", "NATS/1.0\r\nA: b\r\nA: c\r\nD:\r\n\r\n", "NATS/1.0 503\r\n\r\n", "no header at all", "NATS/1.0\r\n")
	body := g.payload()
	line := pick(g, "HPUB", "hpub") + g.space() + g.subject() + g.reply() + g.space() + fmt.Sprint(len(header)) + g.space() + fmt.Sprint(len(header)+len(body)) + "\r\n"
	return append(append(append([]byte(line), header...), body...), "\r\n"...)
}

func (g *generator) subscribe(client int) []byte {
	sid := 1 + g.rand.IntN(maxSID)
	queue := ""
	if g.chance(25) {
		queue = g.space() + pick(g, "q1", "q2")
		g.queues[client][sid] = true
	}
	return []byte(pick(g, "SUB", "SUB", "sub") + g.space() + g.pattern() + queue + g.space() + fmt.Sprint(sid) + pick(g, "\r\n", "\n"))
}

func (g *generator) unsubscribe(client int) []byte {
	sid := 1 + g.rand.IntN(maxSID)
	most := ""
	// Which member of a queue group uses up its maximum is chance.
	if g.chance(50) && !g.queues[client][sid] {
		most = g.space() + fmt.Sprint(g.rand.IntN(5))
	}
	return []byte(pick(g, "UNSUB", "unsub") + g.space() + fmt.Sprint(sid) + most + "\r\n")
}
