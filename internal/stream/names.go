package stream

import (
	"bytes"
	"hash/maphash"
)

// subjectID is a subject's position in the table of names. 0 is none. An id is used again after its subject vanished.
type subjectID = uint32

// name is what a stream knows of a subject: 40 bytes.
type name struct {
	first, last uint64 // sequences of visible messages; 0 when there is none
	text        uint32 // in the arena
	hash        uint32
	count       uint32 // visible messages
	posting     uint32 // where all their sequences are, or 0 when first and last say everything
	flight      uint32 // 1 + the position of the newest message in flight, or 0
	_           uint32
}

// names is the table of subjects: by id, by text (a hash index) and in order of text (a tree). A subject is there as
// long as it has a message, visible or in flight.
type names struct {
	rows  paged[name]
	free  []subjectID
	freed uint64 // how often an id was freed, for what remembers ids
	arena arena
	index hashIndex
	tree  tree
	count int
}

// seed differs from process to process, so that nobody can choose subjects that collide.
var seed = maphash.MakeSeed()

func (t *names) init() {
	t.rows.add(name{})
	t.tree.names, t.index.names = t, t
}

func (t *names) row(id subjectID) *name     { return t.rows.at(id) }
func (t *names) text(id subjectID) []byte   { return t.arena.get(t.rows.at(id).text) }
func (t *names) find(text []byte) subjectID { return t.index.find(hashOf(text), text) }
func hashOf(text []byte) uint32             { return uint32(maphash.Bytes(seed, text)) }
func (t *names) is(id subjectID, h uint32, text []byte) bool {
	row := t.rows.at(id)
	return row.hash == h && bytes.Equal(t.arena.get(row.text), text)
}

// intern finds or adds a subject, and tells whether it is new.
func (t *names) intern(text []byte) (id subjectID, added bool) {
	h := hashOf(text)
	if id := t.index.find(h, text); id != 0 {
		return id, false
	}
	row := name{text: t.arena.put(text), hash: h}
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
		*t.rows.at(id) = row
	} else {
		id = t.rows.add(row)
	}
	t.index.add(id)
	t.tree.add(id)
	t.count++
	return id, true
}

// drop forgets a subject.
func (t *names) drop(id subjectID) {
	t.index.remove(id)
	t.tree.remove(id)
	t.arena.drop(t.rows.at(id).text)
	*t.rows.at(id) = name{}
	t.free = append(t.free, id)
	t.freed++
	t.count--
}
