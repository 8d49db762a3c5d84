package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

var testTime = time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.UTC)

func testBatch(compress bool) []byte {
	data := strings.Repeat("0123456789", 30)
	b := &batch{entries: []*Entry{{Data: []byte(data[:100]), Records: 2}, {Data: []byte(data[100:]), Records: 3}},
		bytes: 300, records: 5, offset: 0x0102, putID: PutID{0xaa, 15: 0xbb}}
	return encodeBatch(nil, b, LogID{Kind: Broadcast, Node: "node-a", Epoch: 0x0304}, testTime, compress)
}

// The bytes of docs/format/wal.md: a change here is a new version of the format.
func TestBatchBytes(t *testing.T) {
	got := testBatch(false)
	want := strings.Join([]string{
		"534c4f47", "01", "01", "0000", "0050", "02", "00", // magic, version, type, flags, header length, kind, reserved
		"2c1a8b0d", "aa0000000000000000000000000000bb", // body checksum, put id
		"0000000000000304", "0000000000000102", "18bdfb2a8bee8d15", // epoch, offset, created
		"00000005", "0000012c", "0000012c", // records, stored and uncompressed length
		"0006", hex.EncodeToString([]byte("node-a")), // name
	}, "")
	// Both checksums and the time are computed here by other means than the encoder's.
	body := strings.Repeat("0123456789", 30)
	sum := func(b []byte) string {
		return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
	}
	want = strings.Replace(want, "2c1a8b0d", sum([]byte(body)), 1)
	want = strings.Replace(want, "18bdfb2a8bee8d15", hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(testTime.UnixNano()))), 1)
	header, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	want += sum(header) + hex.EncodeToString([]byte(body))
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

func TestBatchRoundTrip(t *testing.T) {
	id := LogID{Kind: Broadcast, Node: "node-a", Epoch: 0x0304}
	for _, compress := range []bool{false, true} {
		object := testBatch(compress)
		if compress && len(object) > 200 {
			t.Errorf("compressed to %d bytes", len(object))
		}
		b, err := decodeBatch(object, id, 0x0102)
		if err != nil {
			t.Fatal(err)
		}
		if !b.Created.Equal(testTime) {
			t.Errorf("created %v", b.Created)
		}
		b.Created = time.Time{}
		want := &Batch{ID: id, Offset: 0x0102, PutID: PutID{0xaa, 15: 0xbb}, Records: 5, Body: []byte(strings.Repeat("0123456789", 30)), Stored: len(object)}
		if !reflect.DeepEqual(b, want) {
			t.Errorf("got %+v", b)
		}
	}
}

// Every single damaged bit, every truncation and every extension is found.
func TestBatchDamage(t *testing.T) {
	id := LogID{Kind: Broadcast, Node: "node-a", Epoch: 0x0304}
	fence := Fence{Node: "n2", Epoch: 7, Heirs: []string{"n2", "n3"}, PutID: PutID{1}, Created: testTime}
	fenceObject, err := fence.encode(id, 0x0102)
	if err != nil {
		t.Fatal(err)
	}
	for _, sound := range [][]byte{testBatch(false), testBatch(true), fenceObject} {
		check := func(what string, object []byte) {
			b, err := decodeBatch(object, id, 0x0102)
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
				t.Errorf("%s: %+v, %v", what, b, err)
			}
		}
		for i := range len(sound) * 8 {
			object := bytes.Clone(sound)
			object[i/8] ^= 1 << (i % 8)
			check("flipped a bit", object)
		}
		for i := range sound {
			check("truncated", sound[:i])
		}
		check("extended", append(bytes.Clone(sound), 0))
	}
}

// sealed recomputes the header's checksum.
func sealed(object []byte, change func([]byte)) []byte {
	object = bytes.Clone(object)
	change(object)
	n := int(binary.BigEndian.Uint16(object[8:])) - headerCRC
	binary.BigEndian.PutUint32(object[n:], crc32.Checksum(object[:n], castagnoli))
	return object
}

func TestHeaderRefusals(t *testing.T) {
	id := LogID{Kind: Broadcast, Node: "node-a", Epoch: 0x0304}
	for name, c := range map[string]struct {
		change func([]byte)
		want   error
	}{
		"newer version":            {func(b []byte) { b[4] = 2 }, ErrNewerFormat},
		"unknown type":             {func(b []byte) { b[5] = 3 }, ErrNewerFormat},
		"unknown flag":             {func(b []byte) { b[6] = 0x80 }, ErrNewerFormat},
		"unknown kind":             {func(b []byte) { b[10] = 3 }, ErrNewerFormat},
		"reserved":                 {func(b []byte) { b[11] = 1 }, ErrNewerFormat},
		"other kind":               {func(b []byte) { b[10] = 1 }, ErrCorrupt},
		"other epoch":              {func(b []byte) { b[39]++ }, ErrCorrupt},
		"epoch 0":                  {func(b []byte) { clear(b[32:40]) }, ErrCorrupt},
		"other offset":             {func(b []byte) { b[47]++ }, ErrCorrupt},
		"other node":               {func(b []byte) { b[70]++ }, ErrCorrupt},
		"other body length":        {func(b []byte) { b[63]++; b[67]++ }, ErrCorrupt},
		"uncompressed but smaller": {func(b []byte) { b[67]++ }, ErrCorrupt},
		"gigantic":                 {func(b []byte) { b[60], b[64] = 0xff, 0xff }, ErrCorrupt},
		"zstd that is none":        {func(b []byte) { b[7] = 1 }, ErrCorrupt},
	} {
		if b, err := decodeBatch(sealed(testBatch(false), c.change), id, 0x0102); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	// A frame that says it is larger than the header does is refused before it is unpacked.
	object := sealed(testBatch(true), func(b []byte) { b[67]-- })
	if _, err := decodeBatch(object, id, 0x0102); !errors.Is(err, ErrCorrupt) {
		t.Errorf("zstd frame of another size: %v", err)
	}
}

func TestReadErrorsNameTheKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMem(t)
		putBatch(t, s, testID, 0, "a")
		putBatch(t, s, testID, 1, "b")
		object, err := s.Get(t.Context(), testID.Key(0))
		if err != nil {
			t.Fatal(err)
		}
		// The right bytes under another key are as corrupt as wrong ones.
		if _, err := s.Put(t.Context(), testID.Key(3), object.Data, store.Always()); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBatch(t.Context(), s, testID, 3); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), testID.Key(3)) {
			t.Errorf("misplaced batch: %v", err)
		}
		if _, err := ReadBatch(t.Context(), s, testID, 2); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no batch: %v", err)
		}
		err = Replay(t.Context(), s, testID, 0, 3, func(*Batch) error { return nil })
		if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), testID.Key(2)) {
			t.Errorf("replay over a gap: %v", err)
		}
		fenceIt(t, s, 0)
		err = Replay(t.Context(), s, testID, 0, 3, func(*Batch) error { return nil })
		var fenced *FenceError
		if !errors.As(err, &fenced) || fenced.Key != testID.Key(2) || fenced.Fence.Epoch != 7 {
			t.Errorf("replay over a fence: %v", err)
		}
		if _, err := ReadBatch(t.Context(), s, LogID{}, 0); err == nil {
			t.Error("read a log without a name")
		}
	})
}

// A read that arrives damaged is repeated before the object is called corrupt.
func TestTornReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMem(t)
		putBatch(t, s, testID, 0, "a")
		torn := &tearing{Store: s, times: tornReads - 1}
		if b, err := ReadBatch(t.Context(), torn, testID, 0); err != nil || string(b.Body) != "a" {
			t.Errorf("got %+v, %v", b, err)
		}
		torn.times = tornReads
		if _, err := ReadBatch(t.Context(), torn, testID, 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	id := LogID{Kind: Broadcast, Node: "node-a", Epoch: 0x0304}
	fence := Fence{Node: "n2", Epoch: 7, Heirs: []string{"n2", "n3"}, PutID: PutID{1}, Created: testTime}
	fenceObject, err := fence.encode(id, 0x0102)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, testBatch(false), testBatch(true), fenceObject} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, object []byte, seal bool) {
		if seal && len(object) >= headerFixed+headerCRC { // get past the checksums
			n := headerFixed + int(binary.BigEndian.Uint16(object[68:]))
			if n+headerCRC > len(object) {
				return
			}
			object = bytes.Clone(object)
			binary.BigEndian.PutUint16(object[8:], uint16(n+headerCRC))
			body := object[n+headerCRC:]
			binary.BigEndian.PutUint32(object[60:], uint32(len(body)))
			binary.BigEndian.PutUint32(object[12:], crc32.Checksum(body, castagnoli))
			binary.BigEndian.PutUint32(object[n:], crc32.Checksum(object[:n], castagnoli))
		}
		b, err := decodeBatch(object, id, 0x0102)
		var fenced *FenceError
		switch {
		case errors.As(err, &fenced):
			again, err := fenced.Fence.encode(id, 0x0102)
			if err != nil {
				return // too many heirs for a fence of ours
			}
			if _, err := decodeBatch(again, id, 0x0102); !reflect.DeepEqual(err, fenced) {
				t.Errorf("fence %+v became %v", fenced, err)
			}
		case err == nil:
			if len(b.Body) > maxBodyBytes || b.Records < 0 {
				t.Errorf("%d records in %d bytes", b.Records, len(b.Body))
			}
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat):
			t.Errorf("unnamed error %v", err)
		}
	})
}
