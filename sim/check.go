package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Check proves from a history that nothing acknowledged was lost, nothing was invented or stored twice, and nothing
// settled came back. Each fault is one line. What it relies on: one client publishes, so what it sent earlier in one
// life of the node has the smaller sequence.
func Check(h *History) (faults []string) {
	for _, spec := range h.Specs {
		c := newCheck(h, &spec)
		c.run()
		faults = append(faults, c.faults...)
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// check is the state of the proof for one stream.
type check struct {
	spec   *Spec
	h      *History
	faults []string

	messages  map[int]*message
	holders   map[place]int  // which message has a sequence
	content   map[uint64]int // at the end
	first     uint64         // at the end, as the stream says
	last      uint64
	ended     time.Duration
	drained   bool
	deletes   map[int]uint64 // by op
	deleted   map[uint64]bool
	purges    []*purge
	consumers map[string]*settled
	settledOp map[int]ackOf
	confirmed []ackOf // double acknowledgements that were answered, in order
	gone      map[uint64]Event
	made      map[string]bool // consumers whose creation or, false, deletion was answered
	exist     map[string]bool
	changes   map[int]*change
}

// place is a sequence of a stream; of one that is not Stored, in one life.
type place struct {
	seq  uint64
	life int
}

// message is what is known of one published message.
type message struct {
	number     int
	subject    string
	rollup     bool
	sent       []Event
	seq        uint64 // as acknowledged; 0: never was
	ackedAt    time.Duration
	ackedIndex int // of the event
	refused    bool
	seen       bool // in the content at the end
	seenAt     time.Duration
}

// purge of a stream.
type purge struct {
	op      int
	subject string
	begun   int // index of the event
	done    time.Duration
	proved  bool
}

// settled is what was acknowledged at a consumer.
type settled struct {
	spec  ConsumerSpec
	sent  map[uint64]bool // an acknowledgement or termination was sent
	upTo  uint64          // ack all: the highest
	final map[uint64]bool // sent when all was well
	got   map[uint64]bool // delivered
}

type ackOf struct {
	consumer string
	seq      uint64
	life     int
	index    int
}

func newCheck(h *History, spec *Spec) *check {
	c := &check{
		spec: spec, h: h, messages: map[int]*message{}, holders: map[place]int{}, content: map[uint64]int{},
		deletes: map[int]uint64{}, deleted: map[uint64]bool{}, consumers: map[string]*settled{}, settledOp: map[int]ackOf{},
		gone: map[uint64]Event{}, made: map[string]bool{}, exist: map[string]bool{}, changes: map[int]*change{},
	}
	for _, s := range spec.Consumers {
		c.consumers[s.Name] = &settled{spec: s, sent: map[uint64]bool{}, final: map[uint64]bool{}, got: map[uint64]bool{}}
	}
	return c
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, c.spec.Name+": "+fmt.Sprintf(format, args...))
}

func (c *check) run() {
	for i, e := range c.h.Events {
		c.ended = e.At
		switch e.Kind {
		case Drained:
			c.drained = true
		case LifeBegun:
			for _, p := range c.purges {
				if p.done == math.MaxInt64 {
					p.done = e.At // it is in the log by now or never will be
				}
			}
		}
		if e.Stream == c.spec.Name {
			c.event(i, e)
		}
	}
	c.order()
	if c.spec.Unknown {
		return
	}
	c.atEnd()
}

// event takes in one line of the history.
func (c *check) event(i int, e Event) {
	switch e.Kind {
	case Sent:
		c.sent(e)
	case Acked:
		c.acked(i, e)
	case Refused:
		if m := c.known(e); m != nil {
			m.refused = true
		}
	case Delivered:
		c.delivered(i, e)
	case Read:
		c.holds(e, "was read")
	case Gone:
		if _, known := c.gone[e.Seq]; !known && c.spec.Durability == Stored {
			c.gone[e.Seq] = e
		}
	case Made, Unmade:
		c.made[e.Consumer] = e.Kind == Made
	case Unsure:
		delete(c.made, e.Consumer)
	case Exists:
		c.exist[e.Consumer] = true
	case ChangeSent:
		c.changes[e.Op] = &change{sent: i, life: e.Life}
	case ChangeDone:
		c.changes[e.Op].done = i
	case Changed:
		c.changed(e)
	case AckSent:
		c.ackSent(e)
	case AckDone:
		if a, ok := c.settledOp[e.Op]; ok {
			a.life, a.index = e.Life, i
			c.confirmed = append(c.confirmed, a)
		}
	case DeleteSent:
		c.deletes[e.Op] = e.Seq
		if _, asked := c.deleted[e.Seq]; !asked {
			c.deleted[e.Seq] = false
		}
	case DeleteDone:
		c.deleted[c.deletes[e.Op]] = true
	case PurgeSent:
		c.purges = append(c.purges, &purge{op: e.Op, subject: e.Subject, begun: i, done: math.MaxInt64})
	case PurgeDone:
		for _, p := range c.purges {
			if p.op == e.Op {
				p.done, p.proved = e.At, true
			}
		}
	case ConfigSent:
		if n := c.spec.MaxMsgs; n == 0 || e.Seq < n {
			c.spec.MaxMsgs = e.Seq
		}
	case Content:
		c.contains(e)
	case State:
		c.first, c.last = e.Seq, e.Last
	case ConsumerInfo:
		c.consumerInfo(e)
	}
}

func (c *check) sent(e Event) {
	m := c.messages[e.Message]
	if m == nil {
		m = &message{number: e.Message, subject: e.Subject, rollup: e.Rollup}
		c.messages[e.Message] = m
	}
	m.sent = append(m.sent, e)
}

// known gives the message of an event, which must have been sent.
func (c *check) known(e Event) *message {
	m := c.messages[e.Message]
	if m == nil {
		c.fault("invented: %v", e)
	}
	return m
}

func (c *check) acked(i int, e Event) {
	m := c.known(e)
	if m == nil {
		return
	}
	if c.spec.Durability == Stored && m.seq != 0 && m.seq != e.Seq {
		c.fault("message %d was acknowledged with sequence %d and with %d", e.Message, m.seq, e.Seq)
	}
	if m.seq == 0 {
		m.seq, m.ackedAt, m.ackedIndex = e.Seq, e.At, i
	}
	c.holds(e, "was acknowledged")
	if len(m.sent) > 1 || e.Duplicate {
		return
	}
	if want := m.sent[0].ExpectLast; want != 0 && e.Seq != want {
		c.fault("message %d expected the last sequence to be %d and got %d", e.Message, want-1, e.Seq)
	}
}

// holds notes which message has a sequence.
func (c *check) holds(e Event, how string) {
	if e.Message == 0 {
		c.fault("invented: %v", e)
		return
	}
	at := place{seq: e.Seq}
	if c.spec.Durability != Stored {
		at.life = e.Life // what it promises ends with it
	}
	if old, ok := c.holders[at]; ok && old != e.Message {
		c.fault("sequence %d is message %d, and later message %d %s with it", e.Seq, old, e.Message, how)
	}
	c.holders[at] = e.Message
	if g, ok := c.gone[e.Seq]; ok && e.Kind != Acked && e.Life >= g.Life {
		c.fault("sequence %d was gone at %v, and %s later", e.Seq, g.At, how)
	}
}

func (c *check) delivered(i int, e Event) {
	m := c.known(e)
	if m == nil {
		return
	}
	if e.Subject != m.subject {
		c.fault("message %d was sent to %s and delivered as %s", e.Message, m.subject, e.Subject)
	}
	c.holds(e, "was delivered")
	s := c.consumers[e.Consumer]
	if s == nil {
		return
	}
	s.got[e.Seq] = true
	if c.spec.Durability == Volatile {
		return
	}
	for _, a := range c.confirmed {
		covers := a.seq == e.Seq || s.spec.Acks == AckAll && e.Seq <= a.seq
		if a.consumer == e.Consumer && covers && e.Life >= a.life && a.index < i {
			c.fault("sequence %d was redelivered to %s at event %d, though the answer to its acknowledgement came at event %d", e.Seq, e.Consumer, i, a.index)
		}
	}
}

func (c *check) ackSent(e Event) {
	s := c.consumers[e.Consumer]
	if s == nil || e.Text != "+ACK" && e.Text != "+TERM" && e.Text != "" {
		return
	}
	s.sent[e.Seq] = true
	s.upTo = max(s.upTo, e.Seq)
	if c.drained {
		s.final[e.Seq] = true
	}
	if e.Op != 0 {
		c.settledOp[e.Op] = ackOf{consumer: e.Consumer, seq: e.Seq}
	}
}

func (c *check) contains(e Event) {
	m := c.known(e)
	if m == nil {
		return
	}
	if e.Subject != m.subject {
		c.fault("message %d was sent to %s and is stored as %s", e.Message, m.subject, e.Subject)
	}
	if m.seen {
		c.fault("message %d is stored twice", e.Message)
	}
	m.seen, m.seenAt = true, e.At
	c.holds(e, "is stored")
	c.content[e.Seq] = e.Message
}

// consumerInfo looks at how a consumer stands at the end.
func (c *check) consumerInfo(e Event) {
	s := c.consumers[e.Consumer]
	if s == nil || s.spec.Ends || s.spec.MaxDeliver || c.spec.Durability != Stored {
		return
	}
	for seq, n := range c.content {
		m := c.messages[n]
		if m == nil || !strings.HasPrefix(m.subject, s.spec.Filter) {
			continue
		}
		switch {
		case seq <= e.Seq && s.spec.Acks == AckExplicit && !s.sent[seq]:
			c.fault("the ack floor of %s is %d, and %d was never acknowledged", e.Consumer, e.Seq, seq)
		case seq <= e.Seq && s.spec.Acks == AckAll && s.upTo < seq:
			c.fault("the ack floor of %s is %d, and nothing from %d on was acknowledged", e.Consumer, e.Seq, seq)
		case c.drained && !s.got[seq]:
			c.fault("sequence %d was never delivered to %s", seq, e.Consumer)
		}
	}
	if c.drained && e.Last != 0 {
		c.fault("%s has %d messages pending after all were fetched", e.Consumer, e.Last)
	}
}

// order proves that what was sent earlier in one life has the smaller sequence.
func (c *check) order() {
	type sent struct {
		message, life int
		seq           uint64
	}
	var all []sent
	for _, e := range c.h.Events {
		if m := c.messages[e.Message]; e.Kind == Sent && e.Stream == c.spec.Name && len(m.sent) == 1 && m.seq != 0 {
			all = append(all, sent{e.Message, e.Life, m.seq})
		}
	}
	newest := map[int]sent{}
	for _, s := range all {
		if before, ok := newest[s.life]; ok && before.seq >= s.seq {
			c.fault("message %d was sent before message %d, and has sequence %d, not before %d", before.message, s.message, before.seq, s.seq)
		}
		newest[s.life] = s
	}
}

// atEnd compares what the stream holds with what was acknowledged.
func (c *check) atEnd() {
	for _, m := range c.messages {
		if m.refused && m.seen && len(m.sent) == 1 {
			c.fault("message %d was refused and is stored", m.number)
		}
		if c.spec.Durability != Stored || m.seq == 0 {
			continue
		}
		if m.seq > c.last {
			c.fault("message %d was acknowledged with sequence %d, and the stream ends at %d", m.number, m.seq, c.last)
			continue
		}
		_, there := c.content[m.seq]
		switch {
		case there && c.content[m.seq] == m.number:
			c.mayBeThere(m)
		case there: // holds has said so
		case !c.explained(m):
			c.fault("message %d, acknowledged with sequence %d, is lost (the stream holds %d to %d)", m.number, m.seq, c.first, c.last)
		}
	}
	for name, made := range c.made {
		if c.spec.Durability == Stored && made != c.exist[name] {
			c.fault("consumer %s: that it exists is %v, and ought to be %v", name, c.exist[name], made)
		}
	}
	if c.spec.Durability == Stored {
		c.gaps()
		c.expectations()
	}
}

// mayBeThere proves that nothing that is there ought to have gone.
func (c *check) mayBeThere(m *message) {
	if c.deleted[m.seq] {
		c.fault("sequence %d was deleted and is there", m.seq)
	}
	for _, p := range c.purges {
		if p.proved && m.ackedIndex < p.begun && p.covers(m) {
			c.fault("sequence %d was purged and is there", m.seq)
		}
	}
	if c.spec.MaxAge > 0 && m.seenAt-m.ackedAt > c.spec.MaxAge+2*time.Second {
		c.fault("sequence %d is older than max_age and is there", m.seq)
	}
	if c.spec.Retention == Limits {
		return
	}
	if c.goneBy(m, func(s *settled, seq uint64) bool { return s.final[seq] || c.confirmedBy(s.spec.Name, seq) }) {
		c.fault("sequence %d is settled and is there", m.seq)
	}
}

func (c *check) confirmedBy(consumer string, seq uint64) bool {
	return slices.ContainsFunc(c.confirmed, func(a ackOf) bool { return a.consumer == consumer && a.seq == seq })
}

func (p *purge) covers(m *message) bool { return p.subject == "" || p.subject == m.subject }

// goneBy reports whether retention lets a message go, given what counts as an acknowledgement.
func (c *check) goneBy(m *message, acked func(*settled, uint64) bool) bool {
	for _, s := range c.consumers {
		if !strings.HasPrefix(m.subject, s.spec.Filter) {
			continue
		}
		if done := acked(s, m.seq); done && c.spec.Retention == WorkQueue {
			return true
		} else if !done && c.spec.Retention == Interest {
			return false
		}
	}
	return c.spec.Retention == Interest
}

// change of a configuration, by the indices of its events.
type change struct {
	sent, done int // done 0: it was not answered
	life       int
}

// changed proves that the configuration at the end is one that no later one, which was answered, ought to have replaced.
func (c *check) changed(e Event) {
	last := c.changes[e.Op]
	if last == nil {
		last = &change{sent: -1, done: -1} // the first one
	}
	for op, later := range c.changes {
		replaced := last.done != 0 && later.sent > last.done || last.done == 0 && later.life > last.life
		if later.done > 0 && replaced {
			c.fault("change %d was answered, and at the end change %d, which came before it, is in force", op, e.Op)
		}
	}
}

// explained reports whether there is a reason for an acknowledged message not to be there.
func (c *check) explained(m *message) bool {
	if _, asked := c.deleted[m.seq]; asked {
		return true
	}
	for _, p := range c.purges {
		if p.covers(m) && m.sent[0].At <= p.done {
			return true
		}
	}
	if c.spec.Retention != Limits && c.goneBy(m, func(s *settled, seq uint64) bool { return s.sent[seq] }) {
		return true
	}
	if c.spec.DiscardNew {
		return false
	}
	newer := c.last - m.seq
	if n := c.spec.MaxMsgs; n > 0 && newer >= n {
		return true
	}
	if n := c.spec.KeepsAtLeast; n > 0 && newer >= n {
		return true
	}
	if c.spec.MaxAge > 0 && c.ended-m.sent[0].At >= c.spec.MaxAge {
		return true
	}
	return c.overtaken(m)
}

// overtaken reports whether newer messages of the same subject may have pushed a message out.
func (c *check) overtaken(m *message) bool {
	newer := uint64(0)
	for _, o := range c.messages {
		if o == m || o.subject != m.subject || o.seq != 0 && o.seq < m.seq || o.refused && len(o.sent) == 1 && o.seq == 0 {
			continue
		}
		if o.rollup {
			return true
		}
		newer++
	}
	return c.spec.PerSubject > 0 && newer >= c.spec.PerSubject
}

// gaps proves of a stream whose messages go at the front alone that nothing else is missing, acknowledged or not, and
// that the limits hold.
func (c *check) gaps() {
	if n := c.spec.MaxMsgs; n > 0 && uint64(len(c.content)) > n && !c.hasKind(ConfigSent) {
		c.fault("there are %d messages, beyond the limit of %d", len(c.content), n)
	}
	subjects := map[string]uint64{}
	for _, n := range c.content {
		if m := c.messages[n]; m != nil {
			subjects[m.subject]++
		}
	}
	for subject, n := range subjects {
		if limit := c.spec.PerSubject; limit > 0 && n > limit {
			c.fault("there are %d messages of %s, beyond the limit of %d", n, subject, limit)
		}
	}
	if c.spec.Retention != Limits || c.spec.PerSubject > 0 {
		return
	}
	for _, p := range c.purges {
		if p.subject != "" {
			return
		}
	}
	for seq := c.first; seq <= c.last && seq > 0; seq++ {
		if _, there := c.content[seq]; there {
			continue
		}
		if _, asked := c.deleted[seq]; !asked {
			c.fault("sequence %d is missing between %d and %d, and nothing explains it", seq, c.first, c.last)
		}
	}
}

func (c *check) hasKind(k EventKind) bool {
	return slices.ContainsFunc(c.h.Events, func(e Event) bool { return e.Kind == k && e.Stream == c.spec.Name })
}

// expectations proves of messages that named the last sequence of their subject that it was so.
func (c *check) expectations() {
	for _, m := range c.messages {
		if m.seq == 0 || len(m.sent) != 1 || m.sent[0].ExpectOfSubject == 0 {
			continue
		}
		want := m.sent[0].ExpectOfSubject - 1
		for _, o := range c.messages {
			if o.subject == m.subject && o.seq > want && o.seq < m.seq {
				c.fault("message %d with sequence %d expected %d to be the last of its subject, and %d lies between", m.number, m.seq, want, o.seq)
			}
		}
	}
}
