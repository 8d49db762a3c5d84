package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/sluicemq/sluice/internal/segment"
)

type msg = segment.Message

// orders gives n messages, a second apart from the start of 2026: JSON, every tenth with a header.
func orders(n int) []msg {
	const midnight = 1_767_225_600_000_000_000
	out := make([]msg, n)
	for i := range out {
		seq := uint64(i + 1)
		out[i] = msg{
			Seq: seq, Time: midnight + int64(seq)*1e9,
			Subject: fmt.Appendf(nil, "orders.%d.%s", seq%100, [...]string{"new", "paid", "sent"}[seq%3]),
			Data:    fmt.Appendf(nil, `{"id":%d,"amount":%d,"city":"%s"}`, seq, seq*10, [...]string{"Köln", "Oslo"}[seq%2]),
		}
		if seq%10 == 0 {
			out[i].Header = fmt.Appendf(nil, "NATS/1.0\r\nTrace-Id: t%d\r\n\r\n", seq)
		}
	}
	return out
}

func dataBytes(messages []msg) (n int) {
	for _, m := range messages {
		n += len(m.Data)
	}
	return n
}

func withSubject(messages []msg, subject string) int {
	return countIf(messages, func(m msg) bool { return string(m.Subject) == subject })
}

func countIf(messages []msg, is func(msg) bool) (n int) {
	for _, m := range messages {
		if is(m) {
			n++
		}
	}
	return n
}

// write makes a file of a segment.
func write(t *testing.T, path, stream string, key []byte, messages []msg) segment.Info {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	w, err := segment.NewWriter(file, segment.Options{Account: "ACME", Stream: stream, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := w.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// read gives what our own reader reads of a file.
func read(t *testing.T, path string, info segment.Info, key []byte) (out []msg) {
	t.Helper()
	object, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := segment.Verify(bytes.NewReader(object), info.Size, key); err != nil || got != info {
		t.Fatalf("verify: %+v, %v", got, err)
	}
	ix, err := segment.ParseIndex(object[info.IndexAt:info.IndexAt+info.IndexSize], key)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range ix.Groups() {
		b, err := ix.Decode(g.Number, object[g.Offset:g.Offset+g.Size()])
		if err != nil {
			t.Fatal(err)
		}
		for m := range b.Messages(0) {
			out = append(out, m)
		}
	}
	return out
}

// all are messages of every kind that both libraries and DuckDB must read as we do.
func all() []msg {
	out := orders(30_000)
	out[0].Data, out[1].Header, out[2].Data = nil, []byte{}, bytes.Repeat([]byte{0xff, 0}, 1<<20)
	out[3].Subject = []byte("straße.日本")
	for i := range out {
		out[i].Seq += uint64(i / 1000 * 7) // gaps
	}
	return out
}
