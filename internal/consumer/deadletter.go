package consumer

import (
	"encoding/binary"
	"slices"
)

// A message that became a dead letter stays pending: it counts against max_ack_pending, keeps the acknowledgement floor
// down and is not delivered again, until its letter is stored and Buried takes it off. That it is dead is part of the
// progress, so that a +TERM that was answered is not forgotten and no message has a second life after a restart. A
// -NAK or +WPI does not bring it back; an acknowledgement that comes before its letter is written settles it without
// one, and so does the removal of the message.
//
// What the dead cost is bounded by the pending messages: about 100 bytes each and the reason of a +TERM.

// maxTermReason is how much of the reason of a +TERM is kept, in bytes.
const maxTermReason = 256

// DeadLetter is a message that waits for its letter to be stored.
type DeadLetter struct {
	Seq        uint64
	Cause      DeathCause
	Reason     string // what a +TERM said; empty otherwise
	Deliveries uint64
}

// death is what is known of a dead message beside its pending entry.
type death struct {
	cause  DeathCause
	reason string
	ticket uint64 // of its item in a queue
}

// graveQueue lists the dead in the order in which their letters are due. An item holds only while its ticket is that of
// the death.
type graveQueue []grave

type grave struct{ seq, ticket uint64 }

// morgue holds the dead of a consumer.
type morgue struct {
	causes  DeathCause // that are to be letters
	known   map[uint64]death
	tickets uint64
	fresh   graveQueue
	refused graveQueue // whose letters found no place
}

// add puts a message at the end of a queue, and so takes it off the place where it was.
func (m *morgue) add(queue *graveQueue, seq uint64, d death) {
	if m.known == nil {
		m.known = map[uint64]death{}
	}
	m.tickets++
	d.ticket = m.tickets
	m.known[seq] = d
	*queue = append(*queue, grave{seq, d.ticket})
	if len(*queue) > 2*len(m.known)+slack {
		*queue = slices.DeleteFunc(*queue, func(g grave) bool { return !m.holds(g) })
	}
}

func (m *morgue) holds(g grave) bool { return m.known[g.seq].ticket == g.ticket }

// trim takes items that do not hold any more off the front.
func (m *morgue) trim(queue *graveQueue) {
	for len(*queue) > 0 && !m.holds((*queue)[0]) {
		*queue = (*queue)[1:]
	}
}

// forget drops a message that is dead no more, if it was.
func (m *morgue) forget(seq uint64) {
	delete(m.known, seq)
	if len(m.known) == 0 {
		m.fresh, m.refused = nil, nil
	}
}

// clear forgets all.
func (m *morgue) clear() { *m = morgue{causes: m.causes} }

// dies makes the pending message at index i a dead letter, if the policy has it so.
func (c *Consumer) dies(i int, cause DeathCause, reason string) bool {
	if c.dead.causes&cause == 0 {
		return false
	}
	e := &c.pending.entries[i]
	if c.peek.seq == e.stream {
		c.peek = peeked{}
	}
	if c.undo.seq == e.stream {
		c.undo = undo{}
	}
	c.dequeue(i)
	e.flags |= dead
	e.deadline = 0
	c.pending.touch(i)
	c.dead.add(&c.dead.fresh, e.stream, death{cause: cause, reason: reason[:min(len(reason), maxTermReason)]})
	return true
}

// termDead is term for a message that is to be a dead letter, or is one already; false: it is neither.
func (c *Consumer) termDead(a *AckSubject, reason string, now int64, fx *Effects) bool {
	i := c.pending.find(a.StreamSeq)
	if i < 0 || a.StreamSeq > c.delivered.stream || c.dead.causes&DeadTerm == 0 && !c.isDead(i) {
		return false
	}
	c.ackAt = now
	if c.isDead(i) {
		return true
	}
	if c.ackUpTo {
		// What comes before it is acknowledged by it, as always.
		for c.pending.live > 0 && c.pending.first().stream < a.StreamSeq {
			seq := c.pending.first().stream
			c.settled(seq, fx)
			c.removePending(c.pending.head)
		}
		i = c.pending.find(a.StreamSeq)
	}
	c.dies(i, DeadTerm, reason)
	c.advise(fx, Advisory{Kind: Terminated, StreamSeq: a.StreamSeq, ConsumerSeq: a.ConsumerSeq, Deliveries: a.Deliveries, Reason: reason})
	return true
}

func (c *Consumer) isDead(i int) bool { return c.pending.entries[i].flags&dead != 0 }

// SetDeadLetters says what makes messages dead letters from now on; 0: nothing does. What is dead and would not be so
// any more goes the way it would have gone: given up after max_deliver, settled after a +TERM. Before Resume it only
// takes the setting.
func (c *Consumer) SetDeadLetters(causes DeathCause, fx *Effects) {
	c.dead.causes = causes
	if !c.running || len(c.dead.known) == 0 {
		return
	}
	for _, seq := range c.dead.all() {
		if c.dead.known[seq].cause&causes == 0 {
			c.revive(seq, fx)
		}
	}
}

// all lists the dead, ascending.
func (m *morgue) all() []uint64 {
	seqs := make([]uint64, 0, len(m.known))
	for seq := range m.known {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// revive has a dead message go the way of those that are no letters.
func (c *Consumer) revive(seq uint64, fx *Effects) {
	if c.dead.known[seq].cause == DeadMaxDeliver {
		c.GiveUp(seq)
		return
	}
	c.Buried(seq, fx)
}

// GiveUp has a dead message stay in the stream without a letter: as if it had reached max_deliver without a policy.
func (c *Consumer) GiveUp(seq uint64) {
	i := c.pending.find(seq)
	if i < 0 || !c.isDead(i) {
		return
	}
	c.removePending(i)
	c.exhausted.add(seq)
	c.dirty.exhausted = append(c.dirty.exhausted, seq)
}

// Buried tells that the letter of a dead message goes to the log with the next Progress: the message is settled. It
// returns false for one that is not dead any more.
func (c *Consumer) Buried(seq uint64, fx *Effects) bool {
	i := c.pending.find(seq)
	if i < 0 || !c.isDead(i) {
		return false
	}
	c.removePending(i)
	c.settled(seq, fx)
	return true
}

// Vanished tells that a dead message is not in the stream any more.
func (c *Consumer) Vanished(seq uint64, fx *Effects) { c.dropPending(seq, fx) }

// Refused tells that the letter of a dead message found no place: it waits behind all others that did not.
func (c *Consumer) Refused(seq uint64) {
	if d, ok := c.dead.known[seq]; ok {
		c.dead.add(&c.dead.refused, seq, d)
	}
}

// Dead tells whether messages wait for their letters: such whose letter was not refused yet, and others.
func (c *Consumer) Dead() (fresh, refused bool) {
	m := &c.dead
	m.trim(&m.fresh)
	m.trim(&m.refused)
	return len(m.fresh) > 0, len(m.refused) > 0
}

// DeadLetters appends up to n of the dead to list, in the order in which their letters are due: those that were refused
// or the others. They stay where they are until Buried, Refused or GiveUp.
func (c *Consumer) DeadLetters(list []DeadLetter, n int, refused bool) []DeadLetter {
	queue := c.dead.fresh
	if refused {
		queue = c.dead.refused
	}
	for _, g := range queue {
		if n == 0 {
			break
		}
		i := c.pending.find(g.seq)
		if !c.dead.holds(g) || i < 0 {
			continue
		}
		d := c.dead.known[g.seq]
		list = append(list, DeadLetter{Seq: g.seq, Cause: d.cause, Reason: d.reason, Deliveries: uint64(c.pending.entries[i].deliveries)})
		n--
	}
	return list
}

// resumeDead finds the dead among what is pending after a start.
func (c *Consumer) resumeDead() {
	known := c.dead.known
	c.dead.clear()
	for _, e := range c.pending.all {
		if e.flags&dead != 0 {
			c.dead.add(&c.dead.fresh, e.stream, known[e.stream])
		}
	}
	for _, seq := range c.dead.all() {
		if c.dead.known[seq].cause&c.dead.causes == 0 {
			c.revive(seq, nil)
		}
	}
}

// appendDeath writes what is known of a dead message, behind its entry.
func (m *morgue) appendDeath(buf []byte, seq uint64) []byte {
	d := m.known[seq]
	buf = append(buf, byte(d.cause))
	buf = binary.AppendUvarint(buf, uint64(len(d.reason)))
	return append(buf, d.reason...)
}

// death reads what appendDeath wrote.
func (r *reader) death() (d death) {
	d.cause = DeathCause(r.uvarint())
	n := r.count(1)
	if d.cause != DeadMaxDeliver && d.cause != DeadTerm || n > maxTermReason {
		r.bad = true
		return death{}
	}
	d.reason = string(r.rest[:n])
	r.rest = r.rest[n:]
	return d
}
