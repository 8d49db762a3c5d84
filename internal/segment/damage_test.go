package segment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestEveryFlippedByte: whatever byte of an object is damaged, Verify names it, and reading by the index gives an error
// or what was written.
func TestEveryFlippedByte(t *testing.T) {
	small := []Message{
		message(3, "orders.new", "", `{"id":1}`),
		message(4, "orders.paid", "NATS/1.0\r\nA: b\r\n\r\n", `{"id":2}`),
		message(9, "orders.new", "", ""),
		message(10, "orders.new", "", "x"),
	}
	for _, c := range []struct {
		name     string
		messages []Message
		step     int
	}{
		{"small", small, 1},
		{"larger", mixed(1000, 6), 397},
	} {
		for _, key := range [][]byte{nil, testKey} {
			t.Run(fmt.Sprintf("%s, key %d", c.name, len(key)), func(t *testing.T) {
				object, info := build(t, Options{Key: key, GroupBytes: 16 << 10}, c.messages)
				for i := 0; i < len(object); i += c.step {
					for _, mask := range []byte{0x01, 0x80, 0xff} {
						object[i] ^= mask
						checkDamaged(t, object, info, key, c.messages, i)
						object[i] ^= mask
					}
				}
				checkReads(t, object, info, key, c.messages)
			})
		}
	}
}

func checkDamaged(t *testing.T, object []byte, info Info, key []byte, want []Message, at int) {
	t.Helper()
	_, err := Verify(bytes.NewReader(object), int64(len(object)), key)
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrKey) && !errors.Is(err, ErrNewerFormat) {
		t.Fatalf("byte %d of %d: verify says %v", at, len(object), err)
	}
	got, err := readAll(object, info, key)
	groups := at >= firstGroupAt && at < int(info.IndexAt)
	index := at >= int(info.IndexAt) && at < int(info.IndexAt+info.IndexSize)
	switch {
	case (groups || index) && !errors.Is(err, ErrCorrupt):
		t.Fatalf("byte %d of %d: read says %v", at, len(object), err)
	case !groups && !index && (err != nil || !slices.EqualFunc(got, want, same)):
		t.Fatalf("byte %d of %d is neither group nor index: read says %v", at, len(object), err)
	}
}

func TestCutShort(t *testing.T) {
	object, _ := build(t, Options{}, mixed(50, 7))
	for n := range object {
		if _, err := Verify(bytes.NewReader(object[:n]), int64(n), nil); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(object), err)
		}
	}
	if _, err := Verify(bytes.NewReader(append(object, 0)), int64(len(object)+1), nil); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a byte more: %v", err)
	}
}

// TestGroupOfAnother: a group's bytes in the place of another's are refused, also where all checksums are made to agree.
func TestGroupOfAnother(t *testing.T) {
	var messages []Message
	for i := range 40 {
		messages = append(messages, message(uint64(i+1), "a", "", string(bytes.Repeat([]byte{byte(i)}, 100))))
	}
	for _, key := range [][]byte{nil, testKey} {
		object, info := build(t, Options{Key: key, GroupBytes: 1 << 10}, messages)
		ix, err := open(object, info, key)
		if err != nil {
			t.Fatal(err)
		}
		g := ix.Groups()[0]
		other := ix.Groups()[1]
		body := object[other.Offset : other.Offset+other.Size()]
		if _, err := ix.Decode(0, body); !errors.Is(err, ErrCorrupt) {
			t.Errorf("key %d: %v", len(key), err)
		}
		g.Lengths, g.CRC = other.Lengths, other.CRC
		want := ErrCorrupt // its sequences are others
		if key != nil {
			want = ErrKey // its place is bound
		}
		if _, err := ix.decode(&g, body); !errors.Is(err, want) {
			t.Errorf("key %d: %v, want %v", len(key), err, want)
		}
	}
}

// TestSectionsDisagree: sections that are sound each and say different things are refused.
func TestSectionsDisagree(t *testing.T) {
	a, ai := build(t, Options{}, withNotes(mixed(200, 8)))
	b, bi := build(t, Options{}, withNotes(mixed(200, 9)))
	ia, _ := open(a, ai, nil)
	ib, _ := open(b, bi, nil)
	sectionsOf := func(object []byte, info Info, ix *Index) (raw [sections + 1][]byte) {
		for _, e := range ix.header.entries {
			raw[e.id], _ = ix.section(object[info.IndexAt:], e, MaxIndexBytes)
		}
		return raw
	}
	for id := groupsSection; id <= notesSection; id++ {
		raw := sectionsOf(a, ai, ia)
		raw[id] = sectionsOf(b, bi, ib)[id]
		ix := &Index{header: ia.header}
		if err := ix.load(raw); !errors.Is(err, ErrCorrupt) {
			t.Errorf("section of %s of another: %v", sectionNames[id], err)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	object, info := build(t, Options{}, mixed(5, 10))
	index := object[info.IndexAt : info.IndexAt+info.IndexSize]
	for _, at := range []int{4, 5, 44, headerFixed + 2} {
		later := bytes.Clone(index)
		later[at] = 0x40
		reseal(later)
		if _, err := ParseIndex(later, nil); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}
