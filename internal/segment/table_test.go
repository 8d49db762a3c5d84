package segment

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"testing/synctest"
)

// TestPageChecksums: the header of a page has the checksum that Parquet wants, where the page is not encrypted.
func TestPageChecksums(t *testing.T) {
	object, info := build(t, Options{GroupBytes: 8 << 10}, mixed(500, 13))
	ix, err := open(object, info, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range ix.Groups() {
		chunk := object[g.Offset : g.Offset+g.Size()]
		for c, length := range g.Lengths {
			h, n, err := decodePageHeader(chunk[:length])
			if err != nil {
				t.Fatal(err)
			}
			if want := crc32.ChecksumIEEE(chunk[n:length]); uint32(h.CRC) != want {
				t.Errorf("group %d, column %s: checksum %08x, want %08x", g.Number, columnNames[c], uint32(h.CRC), want)
			}
			chunk = chunk[length:]
		}
	}
}

// TestStatistics: what engines leave groups out by.
func TestStatistics(t *testing.T) {
	long := strings.Repeat("x", maxSubjectStatistics+1)
	messages := []Message{
		message(1, "m", "NATS/1.0\r\n\r\n", ""), message(2, "a", "", ""), message(3, "z", "", ""), message(4, "m", "", ""),
		{Seq: 5, Subject: []byte("n"), Data: make([]byte, 2000)}, // a group of its own
		message(6, "b", "", ""), message(7, long, "", ""),
	}
	object, _ := build(t, Options{GroupBytes: 1 << 10}, messages)
	f, err := readFooter(bytes.NewReader(object), int64(len(object)), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range f.meta.RowGroups {
		subject, headers := &g.Columns[subjectColumn].MetaData.Statistics, &g.Columns[headersColumn].MetaData.Statistics
		got = append(got, fmt.Sprintf("%s to %s, %d of %d without headers", subject.MinValue, subject.MaxValue, headers.NullCount, g.NumRows))
	}
	want := []string{"a to z, 3 of 4 without headers", "n to n, 1 of 1 without headers", "b to b, 1 of 1 without headers", " to , 1 of 1 without headers"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if f.meta.CreatedBy != createdBy || len(f.meta.ColumnOrders) != columns {
		t.Errorf("created by %q, %d column orders", f.meta.CreatedBy, len(f.meta.ColumnOrders))
	}
}

func TestLevels(t *testing.T) {
	messages := mixed(1000, 14)
	sizes := map[int]int64{}
	for _, level := range []int{1, 2, 5, 22} {
		object, info := build(t, Options{Level: level}, messages)
		checkReads(t, object, info, nil, messages)
		sizes[level] = info.Size
	}
	if sizes[22] >= sizes[1] {
		t.Errorf("sizes by level %v", sizes)
	}
}

// TestBubbles: a segment is written and read in one bubble of synctest and in another, which share nothing.
func TestBubbles(t *testing.T) {
	messages := mixed(1000, 15)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			for _, level := range []int{1, 5} {
				object, info := build(t, Options{Level: level}, messages)
				checkReads(t, object, info, nil, messages)
			}
		})
	}
}

// TestWriterAllocates: adding a message allocates nothing once the buffers have grown.
func TestWriterAllocates(t *testing.T) {
	w, err := NewWriter(&bytes.Buffer{}, Options{Stream: "S"})
	if err != nil {
		t.Fatal(err)
	}
	m := message(1, "orders.new", "NATS/1.0\r\nA: b\r\n\r\n", strings.Repeat("data", 30))
	add := func() {
		if err := w.Add(m); err != nil {
			t.Fatal(err)
		}
		m.Seq++
	}
	for range 20_000 {
		add()
	}
	if n := testing.AllocsPerRun(20_000, add); n >= 0.5 {
		t.Errorf("%.2f allocations a message", n)
	}
}
