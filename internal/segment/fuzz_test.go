package segment

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// reseal makes the checksums of an index agree with what it holds, where the header lets find its sections.
func reseal(b []byte) {
	if len(b) < headerBytes {
		return
	}
	for i := range sections {
		e := b[headerFixed+i*entryBytes:]
		at, size := binary.BigEndian.Uint64(e[8:]), binary.BigEndian.Uint64(e[16:])
		if at <= uint64(len(b)) && size <= uint64(len(b))-at {
			binary.BigEndian.PutUint32(e[4:], checksum(b[at:at+size]))
		}
	}
	binary.BigEndian.PutUint32(b[headerBytes-4:], checksum(b[:headerBytes-4]))
}

// unpacked gives an index with plain sections, which a fuzzer can change to some effect.
func unpacked(ix *Index, raw [sections + 1][]byte) []byte {
	h := *ix.header
	out := make([]byte, headerBytes)
	for i := range h.entries {
		e := &h.entries[i]
		b := raw[e.id]
		*e = sectionEntry{id: e.id, at: int64(len(out)), size: int64(len(b)), rawBytes: uint32(len(b)), crc: checksum(b)}
		out = append(out, b...)
	}
	h.indexSize = int64(len(out))
	h.append(out[:0])
	return out
}

func FuzzParseIndex(f *testing.F) {
	for _, messages := range [][]Message{{message(1, "a", "", "x")}, withNotes(mixed(30, 1)), mixed(700, 2)} {
		object, info := build(f, Options{GroupBytes: 4 << 10}, messages)
		f.Add(object[info.IndexAt : info.IndexAt+info.IndexSize])
		ix, err := open(object, info, nil)
		if err != nil {
			f.Fatal(err)
		}
		var raw [sections + 1][]byte
		for _, e := range ix.header.entries {
			raw[e.id], _ = ix.section(object[info.IndexAt:], e, MaxIndexBytes)
		}
		plain := unpacked(ix, raw)
		if _, err := ParseIndex(plain, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		reseal(b)
		ix, err := parseIndex(b, nil, 1<<20)
		if err != nil {
			return
		}
		// What was let in must read without a fault, and say one thing.
		rows := uint64(0)
		notes := 0
		last := uint64(0)
		for row := range ix.Rows(0) {
			if row.Subject >= ix.SubjectCount() || row.Size > MaxMessageBytes || rows > 0 && row.Seq <= last {
				t.Fatalf("row %d: %+v", rows, row)
			}
			if len(row.Note) > 0 {
				notes++
			}
			last = row.Seq
			rows++
		}
		if rows != ix.Info().Messages || last != ix.Info().Last || notes != len(ix.notes) {
			t.Fatalf("%d rows to %d with %d notes, want %d to %d with %d", rows, last, notes, ix.Info().Messages, ix.Info().Last, len(ix.notes))
		}
		for s := range ix.Subjects(nil) {
			n := uint64(0)
			for range ix.Postings(s) {
				n++
			}
			if n != s.Count {
				t.Fatalf("subject %d has %d sequences, want %d", s.Ordinal, n, s.Count)
			}
			if seq, ok := ix.Next(s.Name, s.Last); !ok || seq != s.Last {
				t.Fatalf("subject %d: its last is not found", s.Ordinal)
			}
		}
		for _, g := range ix.Groups() {
			if n := ix.Find(g.First); n != g.Number {
				t.Fatalf("group %d is found as %d", g.Number, n)
			}
		}
	})
}

// FuzzDecodeGroup feeds chunks whose checksum is taken as good.
func FuzzDecodeGroup(f *testing.F) {
	for _, messages := range [][]Message{
		{message(1, "a", "", "x")},
		{message(1, "a", "NATS/1.0\r\n\r\n", "x"), message(2, "b", "", "")},
		mixed(300, 1),
	} {
		object, info := build(f, Options{GroupBytes: 1 << 20}, messages)
		ix, err := open(object, info, nil)
		if err != nil {
			f.Fatal(err)
		}
		g := ix.Groups()[0]
		body := object[g.Offset : g.Offset+g.Size()]
		l := g.Lengths
		f.Add(body, g.Rows, uint32(g.Bytes), g.First, g.Last, l[0], l[1], l[2], l[3])
	}
	f.Fuzz(func(t *testing.T, body []byte, rows, bytes uint32, first, last uint64, l0, l1, l2, l3 uint32) {
		sum := uint64(l0) + uint64(l1) + uint64(l2) + uint64(l3)
		if rows == 0 || rows > 1<<12 || bytes > 1<<16 || sum > uint64(len(body)) {
			return
		}
		g := &Group{Rows: rows, Bytes: uint64(bytes), First: first, Last: last, Lengths: [columns]uint32{l0, l1, l2, l3, uint32(uint64(len(body)) - sum)}}
		b, err := (&Index{}).decode(g, body)
		if err != nil {
			return
		}
		size := uint64(0)
		for m := range b.Messages(0) {
			size += m.Size()
		}
		if b.Len() != int(rows) || size != uint64(bytes) {
			t.Fatalf("%d messages of %d bytes, want %d of %d", b.Len(), size, rows, bytes)
		}
	})
}

// FuzzPages feeds the decoders of pages, which otherwise only see what zstd unpacks.
func FuzzPages(f *testing.F) {
	f.Add([]byte{}, uint16(1))
	f.Add([]byte("\x80\x01\x04\x02\x02\x02\x00\x00\x00\x00"), uint16(2))
	f.Add([]byte("\x02\x00\x00\x00\x03\x02\x0c\x00\x00\x00NATS/1.0\r\n\r\n"), uint16(2))
	f.Fuzz(func(t *testing.T, page []byte, rows uint16) {
		n := int(rows)%5000 + 1
		if seqs, err := decodeDeltas(page, n); err == nil && len(seqs) != n {
			t.Fatalf("%d deltas, want %d", len(seqs), n)
		}
		if _, _, err := decodeValues(page, 0, n, nil); err == nil && len(page) < 4*n {
			t.Fatal("values out of nothing")
		}
		if present, at, err := decodeLevels(page, n); err == nil {
			v, _, err := decodeValues(page, at, n, present)
			for i := 0; err == nil && i < n; i++ {
				_ = v.get(i)
			}
		}
	})
}

func FuzzFooter(f *testing.F) {
	for _, key := range [][]byte{nil, testKey} {
		object, info := build(f, Options{Key: key}, mixed(5, 1))
		f.Add(object[info.IndexAt+info.IndexSize:], key != nil)
	}
	f.Fuzz(func(t *testing.T, b []byte, encrypted bool) {
		magic, key := plainMagic, []byte(nil)
		if encrypted {
			magic, key = encryptedMagic, testKey
		}
		object := append([]byte(magic), b...)
		footer, err := readFooter(bytes.NewReader(object), int64(len(object)), key)
		if err == nil {
			_, _, _ = footer.index(int64(len(object)))
			_ = footer.agree(&Index{groups: []Group{{Rows: 1}}})
		}
	})
}

// FuzzColumn reads any bytes as a column of varints: what is let in reads to its end.
func FuzzColumn(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{1, 0x80, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		values := make([]uint64, n)
		rest := takeColumn(values, b)
		if isColumn(b, int(n)) != (strictColumn(b) == int(n)) {
			t.Fatalf("%d numbers in %x: %v", n, b, isColumn(b, int(n)))
		}
		if isColumn(b, int(n)) && len(rest) > 0 {
			t.Fatalf("%d numbers leave %x of %x", n, rest, b)
		}
	})
}

// strictColumn counts the varints of a column byte by byte; -1 where the last has no end.
func strictColumn(b []byte) (n int) {
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	if len(b) > 0 && b[len(b)-1] >= 0x80 {
		return -1
	}
	return n
}

// FuzzDeltas packs numbers and has parquet-go unpack them.
func FuzzDeltas(f *testing.F) {
	for _, n := range []int{1, 2, 32, 33, 128, 129, 130, 300} {
		b := make([]byte, 8*n)
		for i := range n {
			binary.LittleEndian.PutUint64(b[8*i:], uint64(i*i*i)<<(i%50))
		}
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 70))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want []int64
		for ; len(b) >= 8 && len(want) < 5000; b = b[8:] {
			want = append(want, int64(binary.LittleEndian.Uint64(b)))
		}
		if len(want) == 0 {
			return
		}
		page := appendPacked([]byte{}, want)
		got, err := decodeDeltas(page, len(want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d numbers: %v", len(want), err)
		}
		if bound := pageBound(&Group{Rows: uint32(len(want))}, seqColumn); uint64(len(page)) > bound {
			t.Fatalf("a page of %d bytes, and readers take %d", len(page), bound)
		}
	})
}
