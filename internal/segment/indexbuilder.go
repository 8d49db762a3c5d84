package segment

import (
	"bytes"
	"fmt"
	"slices"
)

// indexBuilder gathers the index while the groups are written: about 12 bytes a message, and 30 bytes a subject beside
// its name.
type indexBuilder struct {
	groups []Group
	names  subjectTable
	seenIn []uint16 // of each subject, the newest group that has it, counted from 1

	rows    rowsBuilder // of the group that is being filled
	heads   []byte      // the rows' blocks of the groups before, without their subjects
	headEnd []int       // in heads, of each group
	ids     []uint32    // of each message, its subject in order of appearance
	notes   notesBuilder

	bytes int // what the index may take at most, the groups aside
}

// What the parts of an index are counted as, at least what they take unpacked.
const (
	messageIndexBytes = 46 // a row of 35, a posting of 10, and its part in a run's entry
	subjectIndexBytes = 48 // and the name
	noteIndexBytes    = 16 // and the note
	groupsIndexBytes  = 4 << 20
)

func newIndexBuilder() *indexBuilder { return &indexBuilder{names: newSubjectTable()} }

// room is what the index may grow by at most for a message.
func (m *Message) indexRoom() int {
	return messageIndexBytes + subjectIndexBytes + len(m.Subject) + noteIndexBytes + len(m.Note)
}

// add takes a message, and tells whether its subject is the first of its kind in the segment, and in the group.
func (b *indexBuilder) add(m *Message) (newToFile, newToGroup bool) {
	id, newToFile := b.names.number(m.Subject)
	b.bytes += messageIndexBytes
	if newToFile {
		b.seenIn = append(b.seenIn, 0)
		b.bytes += subjectIndexBytes + len(m.Subject)
	}
	if len(m.Note) > 0 {
		b.bytes += noteIndexBytes + len(m.Note)
	}
	group := uint16(len(b.groups) + 1)
	newToGroup = b.seenIn[id] != group
	b.seenIn[id] = group
	b.ids = append(b.ids, id)
	b.notes.add(m)
	b.rows.add(m)
	return newToFile, newToGroup
}

func (b *indexBuilder) endGroup(g Group) {
	b.groups = append(b.groups, g)
	b.heads = b.rows.appendHead(b.heads)
	b.headEnd = append(b.headEnd, len(b.heads))
	b.rows.reset()
}

// sections gives the sections, unpacked.
func (b *indexBuilder) sections(info *Info) (raw [sections + 1][]byte) {
	order := make([]uint32, b.names.len()) // ordinal to id
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int { return bytes.Compare(b.names.name(i), b.names.name(j)) })
	ordinals := make([]uint32, len(order)) // id to ordinal
	for ordinal, id := range order {
		ordinals[id] = uint32(ordinal)
	}
	raw[rowsSection] = b.rowsSection(ordinals)
	raw[groupsSection] = appendGroups(nil, info, b.groups)
	raw[subjectsSection], raw[postingsSection] = b.subjects(raw[rowsSection], order, ordinals, info)
	raw[notesSection] = b.notes.section()
	return raw
}

// rowsSection joins the blocks' heads with their subjects, and notes where each block is.
func (b *indexBuilder) rowsSection(ordinals []uint32) []byte {
	out := make([]byte, 0, len(b.heads)+2*len(b.ids))
	head, message := 0, 0
	for i := range b.groups {
		g := &b.groups[i]
		at := len(out)
		out = append(out, b.heads[head:b.headEnd[i]]...)
		head = b.headEnd[i]
		for range g.Rows {
			out = appendUvarint32(out, ordinals[b.ids[message]])
			message++
		}
		g.rowsAt, g.rowsSize = uint32(at), uint32(len(out)-at)
	}
	return out
}

func appendUvarint32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// subjects sorts the sequences by subject, by counting, and writes the dictionary and the postings.
func (b *indexBuilder) subjects(rows []byte, order, ordinals []uint32, info *Info) (dictionary, postings []byte) {
	end := make([]int, len(order)+1)
	for _, id := range b.ids {
		end[ordinals[id]+1]++
	}
	for i := range order {
		end[i+1] += end[i]
	}
	next := append([]int(nil), end...)
	seqs := make([]uint64, len(b.ids))
	var r rowsReader
	for i := range b.groups {
		g := &b.groups[i]
		r.start(rows[g.rowsAt:g.rowsAt+g.rowsSize], g)
		for r.read() {
			seqs[next[r.row.Subject]] = r.row.Seq
			next[r.row.Subject]++
		}
	}
	d := subjectsBuilder{first: info.First}
	for ordinal, id := range order {
		mine := seqs[end[ordinal]:end[ordinal+1]]
		s := Subject{Name: b.names.name(id), Count: uint64(len(mine)), First: mine[0], Last: mine[len(mine)-1]}
		if s.Count > 2 {
			at := len(postings)
			postings = appendPostings(postings, mine)
			s.postingsSize = len(postings) - at
		}
		d.add(&s)
	}
	return d.section(), postings
}

// packSections packs and seals the sections behind room for the header, and fills in the header's table.
func packSections(h *header, seal *seal, raw [sections + 1][]byte) ([]byte, error) {
	out := make([]byte, headerBytes, headerBytes+len(raw[rowsSection])+len(raw[postingsSection]))
	for i := range h.entries {
		e := &h.entries[i]
		*e = sectionEntry{id: sectionID(i + 1), at: int64(len(out))}
		stored := raw[e.id]
		if len(stored) > MaxIndexBytes {
			return nil, fmt.Errorf("%w: section of %s of %d bytes", ErrFull, sectionNames[e.id], len(stored))
		}
		e.rawBytes = uint32(len(stored))
		if packed := packer.EncodeAll(stored, make([]byte, 0, len(stored))); len(packed) < len(stored) {
			stored, e.packing = packed, packedZstd
		}
		if seal != nil {
			stored = seal.encrypt(stored, seal.sectionAAD(*e, h.indexAt))
		}
		e.size, e.crc = int64(len(stored)), checksum(stored)
		out = append(out, stored...)
	}
	h.indexSize = int64(len(out))
	if h.indexSize > MaxIndexBytes {
		return nil, fmt.Errorf("%w: index of %d bytes", ErrFull, h.indexSize)
	}
	return out, nil
}
