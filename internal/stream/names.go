package stream

import "hash/maphash"

// subjectID is a subject's position in the table of names. 0 is none. An id is used again after its subject vanished.
type subjectID = uint32

// name is what a stream knows of a subject.
type name struct {
	first, last uint64 // sequences of visible messages; 0 when there is none
	count       uint32 // visible messages
	posting     uint32 // where all their sequences are, or 0 when first and last say everything
	flight      uint32 // 1 + the position of the newest message in flight, or 0
}

// nameRow is a name as the table keeps it: all there is to know of a subject with one visible message and none in flight,
// as most are where subjects are many.
type nameRow struct {
	first uint64
	more  uint32 // position of what else is known, or 0
	leaf  uint32 // where the tree has it. Of an id that is not used: the next such id
}

// nameMore is the rest of a name.
type nameMore struct {
	last    uint64
	count   uint32
	posting uint32
	flight  uint32 // of what is not used: the next such
}

// names is the table of subjects: by id, by text (a hash index) and in order of text (a tree, which alone keeps the
// texts). A subject is there as long as it has a message, visible or in flight.
type names struct {
	rows     paged[nameRow]
	mores    paged[nameMore]
	freeRow  uint32
	freeMore uint32
	freed    uint64 // how often an id was freed, for what remembers ids
	index    hashIndex
	tree     tree
	cache    textCache
	shown    entry // the subject that a walk is at
	count    int
}

// seed differs from process to process, so that nobody can choose subjects that collide.
var seed = maphash.MakeSeed()

func hashOf(text []byte) uint32 { return uint32(maphash.Bytes(seed, text)) }

func (t *names) init() {
	t.rows.add(nameRow{})
	t.mores.add(nameMore{})
	t.tree.names = t
}

// row tells what is known of a subject: nothing of one that a Filter remembers and that is gone with the whole table.
func (t *names) row(id subjectID) name {
	if id >= t.rows.n {
		return name{}
	}
	r := t.rows.at(id)
	if r.more != 0 {
		m := t.mores.at(r.more)
		return name{first: r.first, last: m.last, count: m.count, posting: m.posting, flight: m.flight}
	}
	n := name{first: r.first, last: r.first}
	if r.first != 0 {
		n.count = 1
	}
	return n
}

// more gives room for all there is to know of a subject. It holds until the next subject gets some.
func (t *names) more(r *nameRow) *nameMore {
	if r.more != 0 {
		return t.mores.at(r.more)
	}
	m := nameMore{last: r.first}
	if r.first != 0 {
		m.count = 1
	}
	if r.more = t.freeMore; r.more != 0 {
		room := t.mores.at(r.more)
		t.freeMore = room.flight
		*room = m
		return room
	}
	r.more = t.mores.add(m)
	return t.mores.at(r.more)
}

// trim gives back room that a subject does not need.
func (t *names) trim(id subjectID) {
	if id >= t.rows.n { // dropped as the last
		return
	}
	r := t.rows.at(id)
	if r.more == 0 {
		return
	}
	if m := t.mores.at(r.more); m.count <= 1 && m.posting == 0 && m.flight == 0 {
		*m = nameMore{flight: t.freeMore}
		t.freeMore, r.more = r.more, 0
	}
}

// setFlight notes the newest message in flight. Who clears it trims later.
func (t *names) setFlight(id subjectID, ref uint32) {
	r := t.rows.at(id)
	if ref != 0 || r.more != 0 {
		t.more(r).flight = ref
	}
}

// text gives a subject's text. It may be held, but for that of the subject that a walk is at.
func (t *names) text(id subjectID) []byte {
	if t.shown.id == id && id != 0 {
		return t.shown.text
	}
	if text, ok := t.cache.get(id); ok {
		return text
	}
	l := *t.tree.leaves.at(t.rows.at(id).leaf)
	return t.load(id, l, l.position(id))
}

// load enters a text into the cache.
func (t *names) load(id subjectID, l leaf, i int) []byte {
	text := l.appendText(t.cache.room(l.textLen(i)), i)
	t.cache.put(id, text, t.count)
	return text
}

func (t *names) find(text []byte) subjectID { return t.findHash(hashOf(text), text) }

func (t *names) findHash(h uint32, text []byte) subjectID {
	return t.index.find(h, func(id subjectID) bool {
		if known, ok := t.cache.get(id); ok {
			return string(known) == string(text)
		}
		l := *t.tree.leaves.at(t.rows.at(id).leaf)
		i := l.position(id)
		if !l.is(i, text) {
			return false
		}
		t.load(id, l, i) // what is asked for is used
		return true
	})
}

// intern finds or adds a subject, and tells whether it is new.
func (t *names) intern(text []byte) (id subjectID, added bool) {
	h := hashOf(text)
	if id := t.findHash(h, text); id != 0 {
		return id, false
	}
	if id = t.freeRow; id != 0 {
		r := t.rows.at(id)
		t.freeRow = r.leaf
		*r = nameRow{}
	} else {
		id = t.rows.add(nameRow{})
	}
	t.index.add(h, id)
	t.tree.add(id, text)
	t.count++
	return id, true
}

// used reports whether an id stands for a subject.
func (t *names) used(id subjectID) bool {
	ref := t.rows.at(id).leaf
	if ref >= t.tree.leaves.n {
		return false
	}
	l := *t.tree.leaves.at(ref)
	return len(l) > 0 && l.position(id) >= 0
}

// drop forgets a subject. Its text may still be used.
func (t *names) drop(id subjectID) {
	text := t.text(id)
	t.index.remove(hashOf(text), id)
	t.tree.remove(id, text)
	t.cache.drop(id)
	r := t.rows.at(id)
	if r.more != 0 {
		t.mores.at(r.more).flight = t.freeMore
		t.freeMore = r.more
	}
	*r = nameRow{leaf: t.freeRow}
	t.freeRow = id
	t.freed++
	t.count--
	if t.count == 0 && t.rows.n > pageSize {
		*t = names{freed: t.freed}
		t.init()
	}
}
