package proto

import (
	"bytes"
	"errors"
	"fmt"
)

// Op is a client's protocol operation.
type Op uint8

// The operations. OpNone asks for more input.
const (
	OpNone  Op = iota
	OpPub      // PUB and HPUB: Parser.Pub
	OpSub      // Parser.Arg
	OpUnsub    // Parser.Arg
	OpPing
	OpPong
	OpConnect // Parser.Arg
	OpInfo    // Parser.Arg
	OpOK
	OpErr    // Parser.Arg
	OpIgnore // an HMSG, which means nothing here but is no error either
)

var (
	// ErrUnknownOperation: the input is no operation of a client, or a payload does not end where its length says.
	ErrUnknownOperation = errors.New("unknown protocol operation")
	// ErrMaxControlLine: a control line is longer than the parser allows.
	ErrMaxControlLine = errors.New(TextMaxControlLine)
	// ErrMaxPayload: a publish announces more than the parser allows.
	ErrMaxPayload = errors.New("maximum payload exceeded")
	// ErrHeaders: an HPUB although headers were not agreed on.
	ErrHeaders = errors.New("message headers not supported")
	// ErrArguments: a control line has too few, too many, or malformed arguments.
	ErrArguments = errors.New("malformed arguments")
)

// Parser takes a client's input apart. It keeps no input of its own: what it could not use yet stays with the caller,
// who feeds it again with more behind it.
type Parser struct {
	MaxControlLine int  // bytes of a control line's arguments
	MaxPayload     int  // bytes of header and payload; negative: no limit
	Headers        bool // whether HPUB is allowed

	Pub Pub
	Arg []byte

	buf      []byte
	pos      int
	need     int
	begun    []byte
	skipping Op // its verb was read, the rest of its line is being thrown away
	scratch  []byte
}

// Feed gives the parser its next chunk: what Rest left over, and what came after it. The parser may rewrite it.
func (p *Parser) Feed(chunk []byte) {
	p.buf, p.pos, p.need, p.begun = chunk, 0, 0, nil
}

// Rest is the input that waits for more.
func (p *Parser) Rest() []byte { return p.buf[p.pos:] }

// Need is how long Rest must at least become for Next to get on, as far as is known; 0 is not known.
func (p *Parser) Need() int { return p.need }

// Begun is the subject of a publish whose control line is sound, but whose payload is not all there or, after an error,
// does not end where it should; otherwise nil.
func (p *Parser) Begun() []byte { return p.begun }

// Next finds the next operation. OpNone without an error means that the chunk holds no further whole operation.
// After an error the parser is of no more use.
func (p *Parser) Next() (Op, error) {
	b := p.buf[p.pos:]
	if len(b) > len("PUB a 0\r\n") && b[0] == 'P' && b[1] == 'U' && b[2] == 'B' && b[3] == ' ' && p.tightPub(b) {
		return OpPub, nil
	}
	return p.other(b)
}

// tightPub parses a PUB that is written as clients write it, with single blanks, and that is all there. It reports
// false for whatever is not, and for what is wrong: pub then has a closer look.
func (p *Parser) tightPub(b []byte) bool {
	const start = len("PUB ")
	nl := bytes.IndexByte(b[start:], '\n') + start
	if nl < start+len("a 0\r") || b[nl-1] != '\r' {
		return false
	}
	size, i := trailingSize(b[:nl-1])
	whole := nl + 1 + size + 2
	if i <= start+1 || b[i-1] != ' ' || len(b) < whole || b[whole-2] != '\r' || b[whole-1] != '\n' {
		return false
	}
	if nl > p.MaxControlLine || uint(size) > uint(p.MaxPayload) {
		return false
	}
	m := &p.Pub
	rest := b[start : i-1]
	if sp := blank(rest); sp < 0 {
		m.Subject, m.Wire, m.ReplyLen = rest, b[i:whole], 0
		m.DataOff = int32(nl + 1 - i)
	} else {
		reply := rest[sp+1:]
		if sp == 0 || rest[sp] != ' ' || len(reply) == 0 || blank(reply) >= 0 {
			return false
		}
		m.Subject, m.Wire, m.ReplyLen = rest[:sp], b[start+sp+1:whole], int32(len(reply))
		m.DataOff = int32(nl + 1 - (start + sp + 1))
	}
	m.HeaderLen = 0
	p.pos += whole
	return true
}

// verbs in the order of likelihood; all upper case.
var verbs = [...]struct {
	text string
	op   Op
}{
	{"PUB", OpPub}, {"HPUB", OpPub}, {"PING", OpPing}, {"PONG", OpPong}, {"SUB", OpSub}, {"UNSUB", OpUnsub},
	{"CONNECT", OpConnect}, {"INFO", OpInfo}, {"+OK", OpOK}, {"-ERR", OpErr}, {"HMSG", OpIgnore},
}

// other handles whatever the fast path does not: other verbs, other cases, blanks, lines that are not all there.
func (p *Parser) other(b []byte) (Op, error) {
	if p.skipping != OpNone {
		return p.skipLine(b)
	}
	if len(b) == 0 {
		return OpNone, nil
	}
	for i := range verbs {
		v := &verbs[i]
		n := matchVerb(b, v.text)
		if n == 0 {
			continue
		}
		if n < len(v.text) {
			if n == len(b) {
				return OpNone, nil
			}
			continue
		}
		return p.verb(b, v.op, n)
	}
	return OpNone, ErrUnknownOperation
}

// matchVerb gives how many bytes of the verb b begins with, whatever their case.
func matchVerb(b []byte, verb string) int {
	n := min(len(b), len(verb))
	for i := range n {
		c := b[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != verb[i] {
			return i
		}
	}
	return n
}

// verb goes on behind a whole verb of n bytes.
func (p *Parser) verb(b []byte, op Op, n int) (Op, error) {
	switch op {
	case OpPing, OpPong, OpOK:
		p.skipping = op
		p.pos += n
		return p.skipLine(b[n:])
	case OpConnect, OpInfo:
		// These two need no blank before their argument.
	default:
		if n == len(b) {
			return OpNone, nil
		}
		if !isBlank(b[n]) {
			return OpNone, ErrUnknownOperation
		}
	}
	start := n
	for start < len(b) && isBlank(b[start]) {
		start++
	}
	if op == OpPub {
		return p.pub(b, start, n == len("HPUB"))
	}
	line, end := p.line(b, start)
	if end < 0 {
		return OpNone, p.checkLine(len(b)-n, nil)
	}
	if err := p.checkLine(end-n, line); err != nil {
		return OpNone, err
	}
	if op == OpIgnore {
		// nats-server takes an HMSG of a client for one without payload.
		if done, err := p.lineEnd(b[end:]); !done || err != nil {
			return OpNone, err
		}
		end += 2
	}
	p.Arg = line
	p.pos += end
	return op, nil
}

// line finds the control line whose arguments begin at start, without its end, and where the next byte after it is;
// end is negative when the line is not all there. As in nats-server the first byte is never the line's end.
func (p *Parser) line(b []byte, start int) (line []byte, end int) {
	if start >= len(b) {
		return nil, -1
	}
	nl := bytes.IndexByte(b[start+1:], '\n')
	if nl < 0 {
		return nil, -1
	}
	nl += start + 1
	line = b[start:nl]
	// One byte goes if there is a carriage return anywhere behind the first byte, which in sane input is that return.
	if len(line) > 1 && (line[len(line)-1] == '\r' || bytes.IndexByte(line[1:], '\r') >= 0) {
		line = line[:len(line)-1]
	}
	return line, nl + 1
}

// maxBlanks is how much longer than its arguments a control line may be, for blanks and its end.
const maxBlanks = 64

// checkLine bounds a line of which n bytes behind its verb are there, so that it cannot grow for ever.
func (p *Parser) checkLine(n int, line []byte) error {
	if n > p.MaxControlLine+maxBlanks || len(line) > p.MaxControlLine {
		return ErrMaxControlLine
	}
	return nil
}

// skipLine throws away the rest of a PING, PONG or +OK, however long it is.
func (p *Parser) skipLine(b []byte) (Op, error) {
	nl := bytes.IndexByte(b, '\n')
	if nl < 0 {
		p.pos += len(b)
		return OpNone, nil
	}
	p.pos += nl + 1
	op := p.skipping
	p.skipping = OpNone
	return op, nil
}

// lineEnd checks for "\r\n" at the front.
func (p *Parser) lineEnd(b []byte) (done bool, err error) {
	if len(b) > 0 && b[0] != '\r' || len(b) > 1 && b[1] != '\n' {
		return false, ErrUnknownOperation
	}
	return len(b) > 1, nil
}

// pub parses a PUB or HPUB whose arguments begin at start of b.
func (p *Parser) pub(b []byte, start int, hpub bool) (Op, error) {
	line, end := p.line(b, start)
	verb := len("PUB")
	if hpub {
		verb = len("HPUB")
	}
	if end < 0 {
		return OpNone, p.checkLine(len(b)-verb, nil)
	}
	if end-verb > p.MaxControlLine { // mostly not
		if err := p.checkLine(end-verb, line); err != nil {
			return OpNone, err
		}
	}
	if hpub && !p.Headers {
		return OpNone, ErrHeaders
	}
	a, ok := splitPub(line, hpub)
	if !ok {
		if a, ok = splitBlanks(line, hpub); !ok {
			return OpNone, fmt.Errorf("publish: %w: %q", ErrArguments, clip(line))
		}
	}
	if a.size < 0 || a.header < 0 || a.header > a.size {
		return OpNone, fmt.Errorf("publish: %w: %q", ErrArguments, clip(line))
	}
	if p.MaxPayload >= 0 && a.size > p.MaxPayload {
		return OpNone, fmt.Errorf("%w: %d vs %d", ErrMaxPayload, a.size, p.MaxPayload)
	}
	p.begun = a.subject
	whole := end + a.size + 2
	if len(b) < whole {
		if len(b) > end+a.size && b[end+a.size] != '\r' {
			return OpNone, ErrUnknownOperation
		}
		p.need = whole
		return OpNone, nil
	}
	if b[whole-2] != '\r' || b[whole-1] != '\n' {
		return OpNone, ErrUnknownOperation
	}
	wire := start + a.wire
	if !a.tight || b[end-2] != '\r' {
		if a.tight {
			a, _ = splitBlanks(line, hpub) // the same again, but with the pieces' text
		}
		wire = p.tighten(b, &a, end)
	}
	p.Pub = Pub{
		Subject:   a.subject,
		Wire:      b[wire:whole],
		ReplyLen:  int32(a.replyLen),
		HeaderLen: int32(a.header),
		DataOff:   int32(end - wire),
	}
	p.pos += whole
	p.begun = nil
	return OpPub, nil
}

// tighten rewrites a control line with more blanks than needed, or a bare line feed, so that reply and lengths stand
// right before the payload as they will be sent on. There is always room: the verb goes.
func (p *Parser) tighten(b []byte, a *pubArgs, end int) (wire int) {
	s := p.scratch[:0]
	if a.replyLen > 0 {
		s = append(s, a.reply...)
		s = append(s, ' ')
	}
	if a.header > 0 {
		s = append(s, a.headerText...)
		s = append(s, ' ')
	}
	s = append(s, a.sizeText...)
	s = append(s, '\r', '\n')
	n := copy(b, a.subject)
	a.subject = b[:n]
	wire = end - len(s)
	copy(b[wire:end], s)
	p.scratch = s[:0]
	return wire
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// clip shortens what goes into an error.
func clip(b []byte) []byte { return b[:min(len(b), 128)] }
