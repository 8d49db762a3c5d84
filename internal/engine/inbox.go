package engine

import (
	"bytes"
	"sync"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// letterKind says what a letter asks of the stream.
type letterKind uint8

const (
	letterPublish letterKind = iota // a message for the stream
	letterAck                       // an answer to a delivered message
	letterNext                      // a pull request
	letterFlow                      // an answer to a flow control message
	letterDirect                    // a direct get
	letterSourced                   // what a mirror's or source's origin delivered
)

// letter is a message that waits in an inbox. Its bytes lie in the mailbag's arena.
type letter struct {
	kind                               letterKind
	reading                            uint32    // of letterSourced: which reading of an origin it belongs to
	consumer                           *Consumer // of letterNext
	from                               *broker.Origin
	begin, subject, reply, header, end uint32 // where each part ends in the arena, from begin
}

// mailbag is a run of letters in order of arrival.
type mailbag struct {
	letters []letter
	arena   []byte
}

// requestInfo is what an account's import adds to a request: it is not part of the message, so it is not stored.
var requestInfo = []byte("\n" + broker.RequestInfo + ":")

// add takes a message in. l says whose letter it is.
func (m *mailbag) add(l letter, d *broker.Delivery) {
	l.from, l.begin = d.From, uint32(len(m.arena))
	m.arena = append(m.arena, d.Subject...)
	l.subject = uint32(len(m.arena))
	m.arena = append(m.arena, d.Reply...)
	l.reply = uint32(len(m.arena))
	if l.kind == letterPublish && bytes.Contains(d.Header, requestInfo) {
		m.arena = proto.Header(d.Header).Remove(m.arena, broker.RequestInfo)
	} else {
		m.arena = append(m.arena, d.Header...)
	}
	l.header = uint32(len(m.arena))
	m.arena = append(m.arena, d.Data...)
	l.end = uint32(len(m.arena))
	m.letters = append(m.letters, l)
}

// msg views a letter as a message; valid until the bag is reset.
func (m *mailbag) msg(l *letter) broker.Msg {
	return broker.Msg{
		Subject: m.arena[l.begin:l.subject:l.subject],
		Reply:   m.arena[l.subject:l.reply:l.reply],
		Header:  m.arena[l.reply:l.header:l.header],
		Data:    m.arena[l.header:l.end:l.end],
	}
}

// mailbagKeep is the largest arena that an emptied bag keeps for its next use.
const mailbagKeep = 1 << 20

func (m *mailbag) reset() {
	clear(m.letters)
	m.letters = m.letters[:0]
	if cap(m.arena) > mailbagKeep {
		m.arena = nil
	}
	if cap(m.letters) > mailbagKeep/64 {
		m.letters = nil
	}
	m.arena = m.arena[:0]
}

// Bounds of an inbox.
const (
	// inboxHigh is when senders are asked to wait: bytes of letters not yet taken.
	inboxHigh = 8 << 20
	// inboxMax is when letters are refused.
	inboxMax = 64 << 20
	// inboxRefusals is how many refused publishers are remembered to be answered; the others time out.
	inboxRefusals = 1024
	// letterOverhead is what a letter costs beside its bytes.
	letterOverhead = 64
)

// inbox is what waits for the goroutine that owns a stream: publishes, requests of consumers, commands of the API, and
// committed entries of the log. Publishes wait apart from the rest, since they alone are held back while the log is
// behind. Anyone may put; only the owner takes.
type inbox struct {
	wake chan struct{} // capacity 1: something is there

	mu        sync.Mutex // guards what follows
	publishes mailbag    // and what origins delivered
	requests  mailbag
	commands  []func()
	committed int      // entries that the log handed back
	refused   [][]byte // replies of publishes that found no room
	bytes     int      // of publishes and requests
	held      int      // bytes that the owner took and still holds back
	gate      chan struct{}
	closed    bool
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// deliver takes letters of one kind in; see broker.Receiver for the gate.
func (b *inbox) deliver(kind letterKind, c *Consumer, batch []broker.Delivery) <-chan struct{} {
	return b.put(letter{kind: kind, consumer: c}, batch)
}

// put takes letters in; what they have in common is in l.
func (b *inbox) put(l letter, batch []broker.Delivery) <-chan struct{} {
	kind := l.kind
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	bag := &b.requests
	if kind == letterPublish || kind == letterSourced {
		bag = &b.publishes
	}
	for i := range batch {
		d := &batch[i]
		n := len(d.Subject) + len(d.Reply) + len(d.Header) + len(d.Data) + letterOverhead
		if b.bytes+b.held+n > inboxMax {
			if kind == letterPublish && len(d.Reply) > 0 && len(b.refused) < inboxRefusals {
				b.refused = append(b.refused, append([]byte(nil), d.Reply...))
			}
			continue
		}
		b.bytes += n
		bag.add(l, d)
	}
	var gate chan struct{}
	if b.bytes+b.held > inboxHigh {
		if b.gate == nil {
			b.gate = make(chan struct{})
		}
		gate = b.gate
	}
	b.mu.Unlock()
	b.signal()
	if gate == nil {
		return nil
	}
	return gate
}

// command queues f to run on the owner's goroutine and reports whether it will.
func (b *inbox) command(f func()) bool {
	b.mu.Lock()
	ok := !b.closed
	if ok {
		b.commands = append(b.commands, f)
	}
	b.mu.Unlock()
	if ok {
		b.signal()
	}
	return ok
}

// commit notes that the log has handed the next n entries back.
func (b *inbox) commit(n int) {
	b.mu.Lock()
	b.committed += n
	b.mu.Unlock()
	b.signal()
}

// delivery is what the owner takes at one turn.
type delivery struct {
	publishes, requests mailbag
	commands            []func()
	committed           int
	refused             [][]byte
}

// take swaps what waits into d, whose buffers were used up and are handed to the inbox in exchange. Publishes stay
// where they are unless wanted. held is how many bytes of earlier publishes the owner still holds back.
func (b *inbox) take(d *delivery, publishes bool, held int) {
	d.requests.reset()
	clear(d.commands)
	clear(d.refused)
	b.mu.Lock()
	if publishes {
		d.publishes.reset()
		d.publishes, b.publishes = b.publishes, d.publishes
	}
	d.requests, b.requests = b.requests, d.requests
	d.commands, b.commands = b.commands, d.commands[:0]
	d.committed, b.committed = b.committed, 0
	d.refused, b.refused = b.refused, d.refused[:0]
	b.bytes = len(b.publishes.arena) + letterOverhead*len(b.publishes.letters)
	b.held = held
	gate := b.gate
	if gate != nil && b.bytes+b.held <= inboxHigh/2 {
		b.gate = nil
	} else {
		gate = nil
	}
	b.mu.Unlock()
	if gate != nil {
		close(gate)
	}
}

// close refuses everything from now on and frees whoever waits at the gate.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	gate := b.gate
	b.gate = nil
	b.mu.Unlock()
	if gate != nil {
		close(gate)
	}
	b.signal()
}
