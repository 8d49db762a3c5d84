package manifest

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Manifest {
	return &Manifest{
		Account: "$G", Stream: "ORDERS", ID: 7, Swap: 9, Node: "n1", Epoch: 3, Written: time.Unix(5, 6).UTC(),
		Segments: []Segment{
			{First: 1, Last: 10, Unique: 1<<63 + 5, Messages: 10, Bytes: 100, FirstTime: 1, LastTime: 2, Size: 1000, IndexAt: 800, IndexSize: 100, DirectorySize: 40, IndexSum: 77},
			{First: 12, Last: 12, Unique: 2, Messages: 1, Size: 10, IndexAt: 1, IndexSize: 9, DirectorySize: 9},
		},
		Dropped: []Dropped{{First: 1, Unique: 3, At: time.Unix(9, 0).UTC()}},
	}
}

func TestEncodeDecode(t *testing.T) {
	for _, m := range []*Manifest{sample(), {Account: "", Stream: "x", ID: 1}} {
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode("k", data)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("read %+v, %v, want %+v", got, err, m)
		}
	}
}

// A flipped bit anywhere is an error that names the key.
func TestDecodeCorrupt(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := Decode("the/key", data); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "the/key") {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
			data[i] ^= 1 << bit
		}
	}
	for n := range data {
		if _, err := Decode("k", data[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"overlap":           func(m *Manifest) { m.Segments[1].First = 10 },
		"backwards":         func(m *Manifest) { m.Segments[0].Last = 0 },
		"no messages":       func(m *Manifest) { m.Segments[0].Messages = 0 },
		"too many messages": func(m *Manifest) { m.Segments[0].Messages = 11 },
		"index outside":     func(m *Manifest) { m.Segments[0].IndexSize = 201 },
		"huge index":        func(m *Manifest) { m.Segments[0].IndexSize = 1<<63 - 1 },
		"no id":             func(m *Manifest) { m.ID = 0 },
	} {
		m := sample()
		change(m)
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	data, _ := sample().Encode()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode("k", data)
		if err != nil {
			return
		}
		if _, err := m.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}
