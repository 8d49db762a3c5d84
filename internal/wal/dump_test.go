package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

func TestDump(t *testing.T) {
	s := newMem(t)
	put := func(k string, data []byte) {
		if _, err := s.Put(t.Context(), k, data, store.Always()); err != nil {
			t.Fatal(err)
		}
	}
	id2 := LogID{Kind: Broadcast, Node: "n1", Epoch: 2}
	put("heads/n1", []byte("{\n \"node\": \"n1\"}\n"))
	putBatch(t, s, testID, 4, "abc")
	putBatch(t, s, testID, 5, "de")
	f := Fence{Node: "n2", Epoch: 7, Heirs: []string{"n2"}, PutID: PutID{0xfe}, Created: testTime}
	object, err := f.encode(testID, 6)
	if err != nil {
		t.Fatal(err)
	}
	put(testID.Key(6), object)
	putBatch(t, s, testID, 7, "stray")
	putBatch(t, s, id2, 0, "x")
	putBatch(t, s, id2, 2, "z")

	describe := func(body []byte, line func(string)) error {
		line("record " + string(body))
		return nil
	}
	dumped := func(opts DumpOptions) (string, error) {
		var out strings.Builder
		err := Dump(t.Context(), s, &out, opts)
		return out.String(), err
	}
	got, err := dumped(DumpOptions{Describe: describe})
	if err != nil {
		t.Error(err)
	}
	want := `heads/n1
  {"node":"n1"}
wal/n1/0000000000000001
  0000000000000004  first object; the heads tell where the log starts
  0000000000000004  batch  put 05000000000000000000000000000000  2026-07-01T12:00:00.123Z  1 records in 3 bytes, object of 79, checksums hold
    record abc
  0000000000000005  batch  put 06000000000000000000000000000000  2026-07-01T12:00:00.123Z  1 records in 2 bytes, object of 78, checksums hold
    record de
  0000000000000006  fence  put fe000000000000000000000000000000  2026-07-01T12:00:00.123Z  by "n2" in epoch 7, heirs ["n2"]
  0000000000000007  batch  put 08000000000000000000000000000000  2026-07-01T12:00:00.123Z  1 records in 5 bytes, object of 81, checksums hold  NOT PART OF THE LOG: beyond the fence at 6
    record stray
broadcast/n1/0000000000000002
  0000000000000000  batch  put 01000000000000000000000000000000  2026-07-01T12:00:00.123Z  1 records in 1 bytes, object of 77, checksums hold
    record x
  0000000000000002  batch  put 03000000000000000000000000000000  2026-07-01T12:00:00.123Z  1 records in 1 bytes, object of 77, checksums hold  NOT PART OF THE LOG: beyond the missing offset 1
    record z
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	if got, err := dumped(DumpOptions{Prefix: "broadcast/n1/"}); err != nil || strings.Count(got, "\n") != 3 {
		t.Errorf("one node's broadcast logs: %v\n%s", err, got)
	}
	if got, err := dumped(DumpOptions{Prefix: "streams/"}); err != nil || got != "" {
		t.Errorf("no log: %v\n%s", err, got)
	}

	// Nothing damaged is passed over in silence.
	put(testID.Key(5), []byte("garbage"))
	put("wal/other", []byte("garbage"))
	put(id2.Key(2), object)
	put("heads/n2", []byte("garbage"))
	got, err = dumped(DumpOptions{Describe: func([]byte, func(string)) error { return nil }})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "7 of 9") {
		t.Errorf("dump of damaged objects: %v", err)
	}
	for _, part := range []string{"heads/n2  CORRUPT", "UNREADABLE: wal: corrupt object: no header", "wal/other  NOT A KEY", "it says that it is " + testID.Key(6), "0 records, the header says 1"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
}
