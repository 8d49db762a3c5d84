package segment

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// notesBuilder gathers the section of notes: for each message that has one, the distance of its sequence from that of
// the note before (of the segment's first message), the note's length, and the note.
type notesBuilder struct {
	out   []byte
	begun bool
	seq   uint64
}

func (b *notesBuilder) add(m *Message) {
	if !b.begun {
		b.begun, b.seq = true, m.Seq
	}
	if len(m.Note) == 0 {
		return
	}
	b.out = binary.AppendUvarint(b.out, m.Seq-b.seq)
	b.out = binary.AppendUvarint(b.out, uint64(len(m.Note)))
	b.out = append(b.out, m.Note...)
	b.seq = m.Seq
}

func (b *notesBuilder) section() []byte { return b.out }

// note is what was noted of a message.
type note struct {
	seq  uint64
	text []byte
}

// parseNotes reads the section of notes, which the notes alias.
func parseNotes(b []byte, info *Info) (notes []note, err error) {
	c := &cursor{b: b}
	seq := info.First
	for !c.atEnd() {
		step := c.uvarint()
		text := c.bytes(c.below(MaxNoteBytes + 1))
		if c.bad || step > info.Last-seq || len(text) == 0 || step == 0 && len(notes) > 0 {
			return nil, fmt.Errorf("%w: section of notes: note %d", ErrCorrupt, len(notes))
		}
		seq += step
		notes = append(notes, note{seq, text})
	}
	return notes, nil
}

// notesFrom gives the notes of sequences from from on.
func notesFrom(notes []note, from uint64) []note {
	return notes[sort.Search(len(notes), func(i int) bool { return notes[i].seq >= from }):]
}

// checkNotes reports whether each note is of a message that there is. Notes of others would hide those behind them.
func (ix *Index) checkNotes() error {
	notes := ix.notes
	for i := 0; i < len(ix.groups) && len(notes) > 0; i++ {
		if g := &ix.groups[i]; notes[0].seq <= g.Last {
			rows, _ := cutRows(ix.rowsOf(i))
			notes = rows.skipNotes(g, notes)
		}
	}
	if len(notes) > 0 {
		return fmt.Errorf("%w: section of notes: no message %d", ErrCorrupt, notes[0].seq)
	}
	return nil
}

// skipNotes leaves out the notes of a group's messages, up to one that is of none. The rows are checked.
func (r *rowsColumns) skipNotes(g *Group, notes []note) []note {
	first, row := g.First, uint64(0)
	for {
		run := uint64(g.Rows) - row // rows without a gap between
		if r.gapCount > 0 {
			run = r.gaps.uvarint()
		}
		row += run
		last := first + run - 1
		for len(notes) > 0 && notes[0].seq >= first && notes[0].seq <= last {
			notes = notes[1:]
		}
		if r.gapCount == 0 || len(notes) == 0 || notes[0].seq <= last {
			return notes
		}
		r.gapCount--
		first = last + 1 + r.gaps.uvarint()
	}
}
