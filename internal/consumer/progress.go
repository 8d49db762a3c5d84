package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// The form of a consumer's progress. Numbers are unsigned varints as in encoding/binary, "signed" ones zigzag varints.
//
//	version      1 byte: 1
//	kind         1 byte: 0 the whole state, 1 what changed since the part before
//	delivered    consumer sequence, stream sequence
//	floor        signed: how far its consumer and stream sequences lie below those of delivered
//	skip         the last sequence of the list that a consumer of the last message per subject starts with; 0: none
//	from         no sequence below is delivered for the first time; 0: those above delivered are
//	given up     sequences below this one are dropped from the given-up messages (kind 0: 0)
//	             spans: added to the given-up messages
//	             spans: taken out of them (kind 0: none)
//	settled      spans: taken out of the pending messages (kind 0: none)
//	pending      count, then entries by ascending stream sequence: added or changed
//	list         only in kind 0, and only where skip is not 0: 0, or 1 and spans: the list, as far as it is above
//	             delivered. 0: it was too long to be kept
//
//	spans        count, then for each: distance of its first sequence from the last of the span before (from 0 for the
//	             first span), number of further sequences in it
//	entry        shape, 1 byte, then in this order what its bits announce:
//	             1 distance of the stream sequence from the entry before; else 1
//	             2 signed distance of the consumer sequence from the entry before; else 1
//	             4 number of deliveries; else 1
//	             8 signed distance of the deadline from the entry before, in milliseconds; else 0
//	             16 to be redelivered at once: no deadline
//	             32 a dead letter, so no deadline either: its cause (1 max_deliver, 2 +TERM), and the length and the
//	                text of the reason of a +TERM
//	             The entry before the first has 0 in all fields.
//
// All numbers are those at the end of the part, so applying a part twice, or on top of a snapshot that already has it,
// does no harm as long as the order is kept.
const (
	progressVersion = 1

	kindWhole  = 0
	kindChange = 1

	shapeStream     = 1
	shapeConsumer   = 2
	shapeDeliveries = 4
	shapeDeadline   = 8
	shapeDue        = 16
	shapeDead       = 32
	shapeAll        = 63
)

var (
	// ErrCorrupt: bytes that Progress or Snapshot cannot have made.
	ErrCorrupt = errors.New("consumer: progress is corrupt")
	// ErrVersion: progress of a newer version.
	ErrVersion = errors.New("consumer: progress has an unknown version")
)

// changes notes what happened since the last Progress. Its size is bounded by the pending messages then.
type changes struct {
	whole          bool // all of it is new
	position       bool
	removed        []uint64 // pending messages that were saved and are settled
	exhausted      []uint64
	unexhausted    []uint64
	exhaustedBelow uint64
}

// Dirty reports whether Progress has something to hand out.
func (c *Consumer) Dirty() bool {
	d := &c.dirty
	return d.whole || d.position || len(d.removed)+len(d.exhausted)+len(d.unexhausted) > 0 || d.exhaustedBelow != 0 ||
		c.pending.dirtyFrom < len(c.pending.entries)
}

// Progress appends what changed since the last call to buf and returns it; nothing is appended when nothing changed.
// The caller sees to it that all parts are replayed in this order.
func (c *Consumer) Progress(buf []byte) []byte {
	if !c.Dirty() {
		return buf
	}
	if c.dirty.whole {
		buf = c.Snapshot(buf)
	} else {
		buf = c.appendChange(buf)
	}
	for i := max(c.pending.dirtyFrom, c.pending.head); i < len(c.pending.entries); i++ {
		if e := &c.pending.entries[i]; e.flags&gone == 0 {
			e.flags = e.flags&^dirty | saved
		}
	}
	c.pending.dirtyFrom = len(c.pending.entries)
	d := &c.dirty
	*d = changes{
		removed:     emptied(d.removed, len(d.removed)),
		exhausted:   emptied(d.exhausted, len(d.exhausted)),
		unexhausted: emptied(d.unexhausted, len(d.unexhausted)),
	}
	return buf
}

// Snapshot appends the whole state to buf: the parts that Progress gave out before are not needed any more.
func (c *Consumer) Snapshot(buf []byte) []byte {
	buf = append(buf, progressVersion, kindWhole)
	buf = c.appendPosition(buf)
	buf = append(buf, 0)
	buf = appendSpans(buf, c.exhausted.spans)
	buf = append(buf, 0, 0)
	buf = binary.AppendUvarint(buf, uint64(c.pending.live))
	var before entry
	for _, e := range c.pending.all {
		buf = c.appendEntry(buf, &before, e)
	}
	if c.skip.active() {
		spans, ok := c.skip.spans()
		if !ok {
			return append(buf, 0)
		}
		buf = appendSpans(append(buf, 1), spans)
	}
	return buf
}

func (c *Consumer) appendChange(buf []byte) []byte {
	buf = append(buf, progressVersion, kindChange)
	buf = c.appendPosition(buf)
	buf = binary.AppendUvarint(buf, c.dirty.exhaustedBelow)
	buf = appendSequences(buf, c.dirty.exhausted)
	buf = appendSequences(buf, c.dirty.unexhausted)
	buf = appendSequences(buf, c.dirty.removed)
	from := max(c.pending.dirtyFrom, c.pending.head)
	n := 0
	for i := from; i < len(c.pending.entries); i++ {
		if c.pending.entries[i].flags&dirty != 0 {
			n++
		}
	}
	buf = binary.AppendUvarint(buf, uint64(n))
	var before entry
	for i := from; i < len(c.pending.entries); i++ {
		if e := &c.pending.entries[i]; e.flags&dirty != 0 {
			buf = c.appendEntry(buf, &before, e)
		}
	}
	return buf
}

func (c *Consumer) appendPosition(buf []byte) []byte {
	buf = binary.AppendUvarint(buf, c.delivered.consumer)
	buf = binary.AppendUvarint(buf, c.delivered.stream)
	buf = binary.AppendVarint(buf, int64(c.delivered.consumer-c.floor.consumer))
	buf = binary.AppendVarint(buf, int64(c.delivered.stream-c.floor.stream))
	buf = binary.AppendUvarint(buf, c.skip.upTo)
	return binary.AppendUvarint(buf, c.from)
}

// appendSequences writes a list of sequences as spans. It sorts the list.
func appendSequences(buf []byte, seqs []uint64) []byte {
	slices.Sort(seqs)
	spans := 0
	for i, seq := range seqs {
		if i == 0 || seq > seqs[i-1]+1 {
			spans++
		}
	}
	buf = binary.AppendUvarint(buf, uint64(spans))
	last := uint64(0)
	for i := 0; i < len(seqs); {
		lo, hi := seqs[i], seqs[i]
		for i++; i < len(seqs) && seqs[i] <= hi+1; i++ {
			hi = seqs[i]
		}
		buf = binary.AppendUvarint(buf, lo-last)
		buf = binary.AppendUvarint(buf, hi-lo)
		last = hi
	}
	return buf
}

func appendSpans(buf []byte, spans []span) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(spans)))
	last := uint64(0)
	for _, s := range spans {
		buf = binary.AppendUvarint(buf, s.lo-last)
		buf = binary.AppendUvarint(buf, s.hi-s.lo)
		last = s.hi
	}
	return buf
}

// appendEntry writes an entry, given the one before, which it replaces. Deadlines are rounded up to milliseconds.
func (c *Consumer) appendEntry(buf []byte, before *entry, e *entry) []byte {
	at := len(buf)
	buf = append(buf, 0)
	shape := byte(0)
	if e.stream != before.stream+1 {
		shape |= shapeStream
		buf = binary.AppendUvarint(buf, e.stream-before.stream)
	}
	if e.consumer != before.consumer+1 {
		shape |= shapeConsumer
		buf = binary.AppendVarint(buf, int64(e.consumer-before.consumer))
	}
	if e.deliveries != 1 {
		shape |= shapeDeliveries
		buf = binary.AppendUvarint(buf, uint64(e.deliveries))
	}
	deadline := before.deadline
	if e.flags&dead != 0 {
		shape |= shapeDead
		buf = c.dead.appendDeath(buf, e.stream)
	} else if e.flags&queued != 0 {
		shape |= shapeDue
	} else if deadline = milliseconds(e.deadline); deadline != before.deadline {
		shape |= shapeDeadline
		buf = binary.AppendVarint(buf, deadline-before.deadline)
	}
	buf[at] = shape
	before.stream, before.consumer, before.deadline = e.stream, e.consumer, deadline
	return buf
}

const maxMilliseconds = math.MaxInt64 / int64(time.Millisecond)

// milliseconds rounds up, as far as that can be read back.
func milliseconds(t int64) int64 {
	ms := t / int64(time.Millisecond)
	if t%int64(time.Millisecond) > 0 {
		ms++
	}
	return min(ms, maxMilliseconds)
}

// ApplyProgress replays a part that Progress or Snapshot made. On an error (ErrCorrupt, ErrVersion) the state is as
// before.
func (c *Consumer) ApplyProgress(part []byte) error {
	p, err := decodeProgress(part)
	if err != nil {
		return err
	}
	if p.whole {
		c.pending.clear()
		c.dead.clear()
		c.exhausted = seqSet{}
	} else if !c.placed {
		return fmt.Errorf("%w: a change comes before the whole", ErrCorrupt)
	}
	c.placed = true
	c.delivered, c.floor = p.delivered, p.floor
	switch {
	case p.whole:
		c.skip = skipList{upTo: p.skip, kept: p.list, unknown: p.skip != 0 && p.list == nil}
	case p.skip == 0:
		c.skip = skipList{}
	case p.skip != c.skip.upTo: // only where the whole is missing
		c.skip = skipList{upTo: p.skip, unknown: true}
	}
	c.from = p.from
	if p.exhaustedBelow > 0 {
		c.exhausted.removeBelow(p.exhaustedBelow)
	}
	for _, s := range p.exhausted {
		c.exhausted.addSpan(s)
	}
	for _, s := range p.unexhausted {
		c.exhausted.removeSpan(s)
	}
	for _, s := range p.removed {
		c.pending.removeSpan(s)
	}
	for _, e := range p.entries {
		e.flags = saved | e.flags&dead
		c.pending.put(e)
	}
	for seq, d := range p.deaths {
		c.dead.add(&c.dead.fresh, seq, d)
	}
	c.pending.dirtyFrom = len(c.pending.entries)
	return nil
}

// removeSpan drops the entries of a run.
func (p *pendingList) removeSpan(s span) {
	for i := p.search(s.lo); i < len(p.entries) && p.entries[i].stream <= s.hi; {
		if p.entries[i].flags&gone != 0 {
			i++
			continue
		}
		p.remove(i)
		i = p.search(s.lo)
	}
}

// progress is a decoded part.
type progress struct {
	whole                           bool
	delivered, floor                sequences
	skip, from, exhaustedBelow      uint64
	exhausted, unexhausted, removed []span
	entries                         []entry
	deaths                          map[uint64]death // of the entries that are dead
	list                            []span           // nil: none is there
}

func decodeProgress(part []byte) (p progress, err error) {
	if len(part) < 2 {
		return p, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(part))
	}
	if part[0] != progressVersion {
		return p, fmt.Errorf("%w: %d", ErrVersion, part[0])
	}
	r := reader{rest: part[2:]}
	switch part[1] {
	case kindWhole:
		p.whole = true
	case kindChange:
	default:
		r.bad = true
	}
	p.delivered.consumer, p.delivered.stream = r.uvarint(), r.uvarint()
	p.floor.consumer = p.delivered.consumer - uint64(r.varint())
	p.floor.stream = p.delivered.stream - uint64(r.varint())
	p.skip, p.from, p.exhaustedBelow = r.uvarint(), r.uvarint(), r.uvarint()
	p.exhausted, p.unexhausted, p.removed = r.spans(), r.spans(), r.spans()
	p.entries, p.deaths = r.entries()
	if p.whole && p.skip != 0 {
		p.list = r.list()
	}
	if r.bad || len(r.rest) > 0 {
		return progress{}, fmt.Errorf("%w at byte %d of %d", ErrCorrupt, len(part)-len(r.rest), len(part))
	}
	return p, nil
}

// reader decodes numbers. After a fault it gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads a number of items that take at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) spans() []span {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	spans := make([]span, 0, n)
	last := uint64(0)
	for range n {
		gap, more := r.uvarint(), r.uvarint()
		s := span{lo: last + gap}
		s.hi = s.lo + more
		if gap == 0 || s.lo < last || s.hi < s.lo {
			r.bad = true
			return nil
		}
		spans = append(spans, s)
		last = s.hi
	}
	return spans
}

// list reads a list that may be missing.
func (r *reader) list() []span {
	switch r.uvarint() {
	case 0:
	case 1:
		if spans := r.spans(); spans != nil {
			return spans
		}
		return []span{}
	default:
		r.bad = true
	}
	return nil
}

func (r *reader) entries() (entries []entry, deaths map[uint64]death) {
	n := r.count(1)
	if n == 0 {
		return nil, nil
	}
	entries = make([]entry, 0, n)
	var stream, consumer uint64
	var deadline int64
	for range n {
		if len(r.rest) == 0 {
			r.bad = true
			return nil, nil
		}
		shape := r.rest[0]
		r.rest = r.rest[1:]
		gap, step, deliveries := uint64(1), int64(1), uint64(1)
		if shape&shapeStream != 0 {
			gap = r.uvarint()
		}
		if shape&shapeConsumer != 0 {
			step = r.varint()
		}
		if shape&shapeDeliveries != 0 {
			deliveries = r.uvarint()
		}
		if shape&shapeDeadline != 0 {
			deadline += r.varint()
		}
		var died death
		if shape&shapeDead != 0 {
			died = r.death()
		}
		if shape&^shapeAll != 0 || bits.OnesCount8(shape&(shapeDeadline|shapeDue|shapeDead)) > 1 || gap == 0 || stream+gap < stream ||
			deliveries > 1<<32-1 || deadline < 0 || deadline > maxMilliseconds {
			r.bad = true
			return nil, nil
		}
		stream, consumer = stream+gap, consumer+uint64(step)
		e := entry{stream: stream, consumer: consumer, deliveries: uint32(deliveries)}
		switch {
		case shape&shapeDead != 0:
			e.flags = dead
			if deaths == nil {
				deaths = map[uint64]death{}
			}
			deaths[stream] = died
		case shape&shapeDue == 0:
			e.deadline = deadline * int64(time.Millisecond)
		}
		entries = append(entries, e)
	}
	return entries, deaths
}
