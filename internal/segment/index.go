package segment

import (
	"fmt"
	"iter"
	"sort"
)

// Index is the index of a segment in memory: about 80 bytes a group, the subjects' names front-coded, and a few bytes a
// message. It is immutable and safe for concurrent use.
type Index struct {
	info     Info // without Size's parts that only the whole object tells: see ParseIndex
	header   *header
	seal     *seal // nil of a plain segment
	groups   []Group
	rows     []byte
	subjects *dictionary
	postings []byte
	notes    []note
}

// ParseIndex reads an index, which is the bytes [Info.IndexAt, IndexAt+IndexSize) of the object. It checks everything,
// so that what the index is asked later cannot fail; b is not kept where it is compressed or encrypted, and must not be
// changed otherwise. key is the one of [Options], nil of a plain segment. Errors: ErrCorrupt, ErrNewerFormat, ErrKey.
func ParseIndex(b, key []byte) (*Index, error) { return parseIndex(b, key, MaxIndexBytes) }

// parseIndex allocates at most limit bytes for each section.
func parseIndex(b, key []byte, limit uint32) (*Index, error) {
	if len(b) > MaxIndexBytes {
		return nil, fmt.Errorf("%w: index of %d bytes", ErrCorrupt, len(b))
	}
	h, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	ix := &Index{header: h}
	if err := ix.open(key); err != nil {
		return nil, err
	}
	var raw [sections + 1][]byte
	for _, e := range h.entries {
		if raw[e.id], err = ix.section(b, e, limit); err != nil {
			return nil, fmt.Errorf("section of %s: %w", sectionNames[e.id], err)
		}
	}
	if err := ix.load(raw); err != nil {
		return nil, err
	}
	ix.info.IndexChecksum = checksum(b)
	return ix, nil
}

// open makes what decrypts.
func (ix *Index) open(key []byte) (err error) {
	switch {
	case ix.header.encrypted && key == nil:
		return fmt.Errorf("%w: the segment is encrypted and there is no key", ErrKey)
	case ix.header.encrypted:
		ix.seal, err = newSeal(key, ix.header.unique[:])
		return err
	case key != nil:
		return fmt.Errorf("%w: there is a key and the segment is not encrypted", ErrKey)
	}
	return nil
}

// section checks and gives the unpacked bytes of a section.
func (ix *Index) section(b []byte, e sectionEntry, limit uint32) ([]byte, error) {
	stored := b[e.at : e.at+e.size]
	if got := checksum(stored); got != e.crc {
		return nil, fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, e.crc)
	}
	if ix.seal != nil {
		var err error
		if stored, err = ix.seal.decrypt(stored, ix.seal.sectionAAD(e, ix.header.indexAt)); err != nil {
			return nil, err
		}
	}
	switch {
	case e.rawBytes > limit:
		return nil, fmt.Errorf("%w: %d bytes unpacked", ErrCorrupt, e.rawBytes)
	case e.packing == packedZstd:
		return unpack(stored, int(e.rawBytes))
	case len(stored) != int(e.rawBytes):
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(stored), e.rawBytes)
	}
	return stored, nil
}

// load parses the sections and checks them and what they say of each other.
func (ix *Index) load(raw [sections + 1][]byte) (err error) {
	ix.rows, ix.postings = raw[rowsSection], raw[postingsSection]
	if ix.info, ix.groups, err = parseGroups(raw[groupsSection], ix.header.indexAt, len(ix.rows)); err != nil {
		return err
	}
	ix.noteHeader()
	if ix.notes, err = parseNotes(raw[notesSection], &ix.info); err != nil {
		return err
	}
	if ix.subjects, err = parseDictionary(raw[subjectsSection], &ix.info, len(ix.postings)); err != nil {
		return err
	}
	if err := ix.subjects.check(&ix.info, ix.postings); err != nil {
		return err
	}
	for i := range ix.groups {
		if err := checkRows(ix.rowsOf(i), &ix.groups[i], ix.subjects.n); err != nil {
			return err
		}
	}
	return ix.checkNotes()
}

// noteHeader takes over what the header says of the object.
func (ix *Index) noteHeader() {
	h := ix.header
	ix.info.Size, ix.info.IndexAt, ix.info.IndexSize = h.objectSize(), h.indexAt, h.indexSize
	ix.info.DirectorySize = h.directorySize()
}

func (ix *Index) rowsOf(group int) []byte {
	g := &ix.groups[group]
	return ix.rows[g.rowsAt : g.rowsAt+g.rowsSize]
}

// Info is what the index says of its segment: everything but Checksum, which is 0.
func (ix *Index) Info() Info { return ix.info }

// Encrypted reports whether the segment is.
func (ix *Index) Encrypted() bool { return ix.seal != nil }

// Groups gives the row groups, at least one, in order. They must not be changed.
func (ix *Index) Groups() []Group { return ix.groups }

// Find gives the number of the group where seq is, if the segment has it, or else of the one with the next message;
// len(Groups()) where there is none.
func (ix *Index) Find(seq uint64) int {
	return sort.Search(len(ix.groups), func(i int) bool { return ix.groups[i].Last >= seq })
}

// Rows gives what is known of each message from sequence from on, in order.
func (ix *Index) Rows(from uint64) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		notes := notesFrom(ix.notes, from)
		var r rowsReader
		for i := ix.Find(from); i < len(ix.groups); i++ {
			r.start(ix.rowsOf(i), &ix.groups[i])
			for r.read() {
				if r.row.Seq < from {
					continue
				}
				r.row.Note = nil
				if len(notes) > 0 && notes[0].seq == r.row.Seq {
					r.row.Note, notes = notes[0].text, notes[1:]
				}
				if !yield(r.row) {
					return
				}
			}
		}
	}
}

// SubjectCount is how many subjects there are, at least one; their ordinals are below.
func (ix *Index) SubjectCount() uint32 { return ix.subjects.n }

// AppendSubject appends the name of a subject, which Row gives by its ordinal. Ordinals that are none append nothing.
func (ix *Index) AppendSubject(dst []byte, ordinal uint32) []byte {
	if ordinal >= ix.subjects.n {
		return dst
	}
	r := ix.subjects.block(int(ordinal / subjectsPerBlock))
	for r.read() && r.s.Ordinal < ordinal {
	}
	return append(dst, r.s.Name...)
}

// Subjects gives the subjects that begin with prefix, sorted by their bytes; all for an empty one. The name is only
// valid until the next.
func (ix *Index) Subjects(prefix []byte) iter.Seq[Subject] { return ix.subjects.withPrefix(prefix) }

// Subject looks one up.
func (ix *Index) Subject(name []byte) (Subject, bool) { return ix.subjects.lookup(name) }

// Postings gives the sequences of the messages of a subject, in order. s is of this index.
func (ix *Index) Postings(s Subject) iter.Seq[uint64] { return s.sequences(ix.postings) }

// Next gives the first sequence of a subject that is from or above. It reads at most a run of 256 sequences and the
// directory of runs, whatever number the subject has.
func (ix *Index) Next(name []byte, from uint64) (seq uint64, ok bool) {
	s, ok := ix.subjects.lookup(name)
	if !ok {
		return 0, false
	}
	return s.next(ix.postings, from)
}
