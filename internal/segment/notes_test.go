package segment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// withNotes gives every seventh message a note.
func withNotes(messages []Message) []Message {
	for i := range messages {
		if i%7 == 0 {
			messages[i].Note = fmt.Appendf(nil, "note of %d", messages[i].Seq)
		}
	}
	return messages
}

// TestNotes: rows have the notes of their messages, from whatever sequence they are read, and blocks have none.
func TestNotes(t *testing.T) {
	longest := bytes.Repeat([]byte("n"), MaxNoteBytes)
	messages := withNotes(mixed(2000, 11))
	messages[500].Note, messages[len(messages)-1].Note = longest, longest
	for _, key := range [][]byte{nil, testKey} {
		object, info := build(t, Options{Key: key, GroupBytes: 8 << 10}, messages)
		checkReads(t, object, info, key, messages)
		ix, err := open(object, info, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []uint64{0, messages[0].Seq + 1, messages[700].Seq, messages[701].Seq, info.Last} {
			at := slices.IndexFunc(messages, func(m Message) bool { return m.Seq >= from })
			for row := range ix.Rows(from) {
				if row.Seq != messages[at].Seq || !bytes.Equal(row.Note, messages[at].Note) {
					t.Fatalf("from %d: row %d has a note of %d bytes, want %d", from, row.Seq, len(row.Note), len(messages[at].Note))
				}
				at++
			}
		}
	}
}

// TestNotesOfNoMessage: notes whose sequences the segment lacks are refused, wherever the gap is.
func TestNotesOfNoMessage(t *testing.T) {
	var messages []Message
	for _, seq := range []uint64{10, 11, 12, 20, 21, 30, 31, 40} { // 20 and 30 begin groups
		m := message(seq, "a", "", "")
		if seq == 20 || seq == 30 {
			m.Data = make([]byte, 1000)
		}
		messages = append(messages, m)
	}
	object, info := build(t, Options{GroupBytes: 1 << 10}, messages)
	ix, err := open(object, info, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(ix.groups) < 3 {
		t.Fatalf("%d groups", len(ix.groups))
	}
	for seq := uint64(9); seq <= 41; seq++ {
		has := slices.ContainsFunc(messages, func(m Message) bool { return m.Seq == seq })
		ix.notes = []note{{seq, []byte("n")}}
		if seq > 10 {
			ix.notes = append([]note{{10, []byte("n")}}, ix.notes...)
		}
		if err := ix.checkNotes(); (err == nil) != has {
			t.Errorf("a note of %d: %v", seq, err)
		}
	}
}

func TestNoteBounds(t *testing.T) {
	var object bytes.Buffer
	w, err := NewWriter(&object, Options{Stream: "S"})
	if err != nil {
		t.Fatal(err)
	}
	m := message(1, "a", "", "")
	m.Note = make([]byte, MaxNoteBytes+1)
	if err := w.Add(m); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a note of %d bytes: %v", len(m.Note), err)
	}
	m.Note = m.Note[1:]
	if err := w.Add(m); err != nil {
		t.Error(err)
	}
	raw := []byte{0, 0x81, 0x80, 4} // 64 KiB and a byte
	if _, err := parseNotes(append(raw, make([]byte, MaxNoteBytes+1)...), &Info{First: 1, Last: 1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reading one: %v", err)
	}
}

// TestIndexFull: an index that might outgrow its bound takes no more, and what was taken is a sound segment.
func TestIndexFull(t *testing.T) {
	for name, grow := range map[string]func(m *Message){
		"notes":    func(m *Message) { m.Note = make([]byte, 1000) },
		"subjects": func(m *Message) { m.Subject = fmt.Appendf(nil, "%01000d", m.Seq) },
		"rows":     func(m *Message) { m.Time = int64(m.Seq%2) << 63; m.Seq *= 1 << 40 },
	} {
		var object bytes.Buffer
		w, err := NewWriter(&object, Options{Stream: "S", GroupBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if w.maxIndex+groupsIndexBytes != MaxIndexBytes || groupsIndexBytes < 120*MaxGroups {
			t.Fatalf("%d bytes, and %d for groups", w.maxIndex, groupsIndexBytes)
		}
		w.maxIndex = 100_000
		for seq := uint64(1); err == nil; seq++ {
			m := message(seq, "a", "", "x")
			grow(&m)
			err = w.Add(m)
		}
		if !errors.Is(err, ErrFull) || w.info.Messages < 90 {
			t.Fatalf("%s: after %d messages: %v", name, w.info.Messages, err)
		}
		info, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		ix, err := ParseIndex(object.Bytes()[info.IndexAt:info.IndexAt+info.IndexSize], nil)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, e := range ix.header.entries[1:] {
			size += int(e.rawBytes)
		}
		if size > w.maxIndex {
			t.Errorf("%s: sections of %d bytes, want %d at most", name, size, w.maxIndex)
		}
		if _, err := Verify(bytes.NewReader(object.Bytes()), info.Size, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirectory: the first bytes of an index are enough to read messages, and nothing less or more is taken for them.
func TestDirectory(t *testing.T) {
	messages := withNotes(mixed(2000, 12))
	for _, key := range [][]byte{nil, testKey} {
		object, info := build(t, Options{Key: key, GroupBytes: 8 << 10}, messages)
		raw := bytes.Clone(object[info.IndexAt : info.IndexAt+info.DirectorySize])
		d, err := ParseDirectory(raw, key)
		if err != nil {
			t.Fatal(err)
		}
		want := info
		want.Checksum, want.IndexChecksum = 0, 0
		if d.Info() != want {
			t.Errorf("info %+v, want %+v", d.Info(), want)
		}
		for i := 0; i < len(messages); i += 37 {
			g := d.Groups()[d.Find(messages[i].Seq)]
			b, err := d.Decode(g.Number, object[g.Offset:g.Offset+g.Size()])
			if err != nil {
				t.Fatal(err)
			}
			if at, found := b.Find(messages[i].Seq); !found || !same(b.At(at), messages[i]) {
				t.Fatalf("message %d is not in group %d", messages[i].Seq, g.Number)
			}
		}
		if n := d.MemorySize(); n < 80*len(d.Groups()) || n > 200*len(d.Groups())+4096 {
			t.Errorf("%d groups take %d bytes", len(d.Groups()), n)
		}
		for n := range raw {
			if _, err := ParseDirectory(raw[:n], key); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
			}
			raw[n] ^= 0x10
			if _, err := ParseDirectory(raw, key); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", n, err)
			}
			raw[n] ^= 0x10
		}
		if _, err := ParseDirectory(append(raw, 0), key); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a byte more: %v", err)
		}
		if key != nil {
			if _, err := ParseDirectory(raw, testKey[:16]); !errors.Is(err, ErrKey) {
				t.Errorf("another key: %v", err)
			}
		}
	}
}
