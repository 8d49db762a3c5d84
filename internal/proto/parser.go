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
	before   []byte // of the publish in Pub, if tightPub parsed it from this chunk
	size     int    // of its header and payload
	skipping Op     // its verb was read, the rest of its line is being thrown away
	scratch  []byte
}

// Feed gives the parser its next chunk: what Rest left over, and what came after it. The parser may rewrite it.
func (p *Parser) Feed(chunk []byte) {
	p.buf, p.pos, p.need, p.begun, p.before = chunk, 0, 0, nil, nil
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
	if len(b) > len("PUB a 0\r\n") {
		if b[0] == 'P' && b[1] == 'U' && b[2] == 'B' && b[3] == ' ' {
			if p.tightPub(b, len("PUB "), false) {
				return OpPub, nil
			}
		} else if b[0] == 'H' && b[1] == 'P' && b[2] == 'U' && b[3] == 'B' && b[4] == ' ' && p.tightPub(b, len("HPUB "), true) {
			return OpPub, nil
		}
	}
	return p.other(b)
}

// tightPub parses a PUB or HPUB that is written as clients write it, with single blanks, and that is all there. Its
// arguments begin at start. It reports false for whatever is not so, and for what is wrong: pub then has a closer look.
func (p *Parser) tightPub(b []byte, start int, hpub bool) bool {
	nl := bytes.IndexByte(b[start:], '\n') + start
	if nl < start+len("a 0\r") || b[nl-1] != '\r' {
		return false
	}
	if m := &p.Pub; p.before != nil && nl+1 == len(p.before) && bytes.Equal(p.before, b[:nl+1]) {
		// The same line as before, as from a publisher with one subject and one size: nothing to find out.
		whole := nl + 1 + p.size + 2
		if len(b) < whole || b[whole-2] != '\r' || b[whole-1] != '\n' {
			return false
		}
		wire := nl + 1 - int(m.DataOff)
		m.Subject, m.Wire = b[start:start+len(m.Subject)], b[wire:whole]
		p.before = b[:nl+1]
		p.pos += whole
		return true
	}
	size, wire := trailingSize(b[:nl-1])
	whole := nl + 1 + size + 2
	if wire <= start+1 || b[wire-1] != ' ' || len(b) < whole || b[whole-2] != '\r' || b[whole-1] != '\n' {
		return false
	}
	if nl > p.MaxControlLine || uint(size) > uint(p.MaxPayload) {
		return false
	}
	header := 0
	if hpub {
		header, wire = trailingSize(b[:wire-1])
		// Without a header it is sent on as a MSG, which has no header length.
		if wire <= start+1 || b[wire-1] != ' ' || header == 0 || header > size || !p.Headers {
			return false
		}
	}
	m := &p.Pub
	rest := b[start : wire-1]
	if sp := blank(rest); sp < 0 {
		m.Subject, m.ReplyLen = rest, 0
	} else {
		reply := rest[sp+1:]
		if sp == 0 || rest[sp] != ' ' || len(reply) == 0 || blank(reply) >= 0 {
			return false
		}
		wire = start + sp + 1
		m.Subject, m.ReplyLen = rest[:sp], int32(len(reply))
	}
	m.Wire = b[wire:whole]
	m.DataOff = int32(nl + 1 - wire)
	m.HeaderLen = int32(header)
	p.before, p.size = b[:nl+1], size
	p.pos += whole
	return true
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

// verbs in the order of likelihood; all upper case.
var verbs = [...]struct {
	text string
	op   Op
}{
	{"PUB", OpPub}, {"HPUB", OpPub}, {"PING", OpPing}, {"PONG", OpPong}, {"SUB", OpSub}, {"UNSUB", OpUnsub},
	{"CONNECT", OpConnect}, {"INFO", OpInfo}, {"+OK", OpOK}, {"-ERR", OpErr}, {"HMSG", OpIgnore},
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

// pub parses any PUB or HPUB; its arguments begin at start of b.
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
	if !ok || a.size < 0 || a.header < 0 || a.header > a.size {
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
	wire := p.tighten(b, &a, end)
	p.before = nil
	p.Pub = Pub{
		Subject:   a.subject,
		Wire:      b[wire:whole],
		ReplyLen:  int32(len(a.reply)),
		HeaderLen: int32(a.header),
		DataOff:   int32(end - wire),
	}
	p.pos += whole
	p.begun = nil
	return OpPub, nil
}

// tighten rewrites a control line, which may have more blanks than needed or a bare line feed, so that reply and lengths
// stand right before the payload as they will be sent on. There is always room: the verb goes.
func (p *Parser) tighten(b []byte, a *pubArgs, end int) (wire int) {
	s := p.scratch[:0]
	if len(a.reply) > 0 {
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
