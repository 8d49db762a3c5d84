package proto

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestHeaderValidate(t *testing.T) {
	for _, c := range []struct{ block, fault string }{
		{"NATS/1.0\r\n\r\n", ""},
		{"NATS/1.0\r\nA: b\r\n\r\n", ""},
		{"NATS/1.0\r\nA:b\r\nA:\r\nNats-Msg-Id: x y : z \r\n\r\n", ""},
		{"NATS/1.0 503\r\n\r\n", ""},
		{"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\n\r\n", ""},
		{"", "does not begin"},
		{"NATS/1.0", "does not begin"},
		{"nats/1.0\r\n\r\n", "does not begin"},
		{"NATS/1.0 5\r\n\r\n", "status"},
		{"NATS/1.0 abc\r\n\r\n", "status"},
		{"NATS/1.01\r\n\r\n", "status"},
		{"NATS/1.0\r\n", "empty line"},
		{"NATS/1.0\r\nA: b\r\n", "empty line"},
		{"NATS/1.0\r\nA: b", "empty line"},
		{"NATS/1.0\r\nno colon\r\n\r\n", "no colon"},
		{"NATS/1.0\r\n: b\r\n\r\n", "key"},
		{"NATS/1.0\r\nA : b\r\n\r\n", "key"},
		{"NATS/1.0\r\nA: b\nC: d\r\n\r\n", "bare"},
		{"NATS/1.0\r\nA: b\r\n\r\nrest", "4 bytes after"},
	} {
		err := Header(c.block).Validate()
		if c.fault == "" && err != nil || c.fault != "" && (!errors.Is(err, ErrBadHeader) || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%q: %v, want %q", c.block, err, c.fault)
		}
	}
}

func TestHeaderGet(t *testing.T) {
	const block = "NATS/1.0\r\nFoo: 1\r\nfoo:2\r\nBar:   a b \r\nFoo: 3\r\nX-Foo: 4\r\nFooBar: 5\r\nEmpty:\r\nNATS: x\r\nN: y\r\nTab:\tt\r\n\r\n"
	for _, c := range []struct {
		block, key string
		values     []string
	}{
		{block, "Foo", []string{"1", "3"}},
		{block, "foo", []string{"2"}},
		{block, "FOO", nil},
		{block, "Bar", []string{"a b "}},
		{block, "ar", nil},
		{block, "Empty", []string{""}},
		{block, "NATS", []string{"x"}},
		{block, "N", []string{"y"}},
		{block, "NATS/1.0", nil},
		{block, "Tab", []string{"\tt"}},
		{block, "", nil},
		{"", "Foo", nil},
		{"Foo: 1\r\n", "Foo", nil},
		{"NATS/1.0\nFoo: 1\r\n", "Foo", nil},
		{"NATS/1.0\r\nFoo:", "Foo", []string{""}},
		{"NATS/1.0\r\nFoo", "Foo", nil},
		{"NATS/1.0\r\nFoo: 1\nBar: 2\r\n", "Foo", []string{"1\nBar: 2"}},
		{"NATS/1.0\r\nFoo: 1\nBar: 2\r\n", "Bar", nil},
	} {
		var got []string
		for v := range Header(c.block).Values(c.key) {
			got = append(got, string(v))
		}
		if !slices.Equal(got, c.values) {
			t.Errorf("%q of %q: %q, want %q", c.key, c.block, got, c.values)
		}
		first, ok := Header(c.block).Get(c.key)
		if ok != (len(c.values) > 0) || ok && string(first) != c.values[0] || ok != Header(c.block).Has(c.key) {
			t.Errorf("first %q of %q: %q, %v", c.key, c.block, first, ok)
		}
	}
	var got []string
	for k, v := range Header(block).All() {
		got = append(got, string(k)+"="+string(v))
	}
	if want := "Foo=1|foo=2|Bar=a b |Foo=3|X-Foo=4|FooBar=5|Empty=|NATS=x|N=y|Tab=\tt"; strings.Join(got, "|") != want {
		t.Errorf("all fields: %q", got)
	}
	for k, v := range Header(block).All() {
		if string(k) != "Foo" || string(v) != "1" {
			t.Errorf("%s: %s after a break", k, v)
		}
		break
	}
}

func TestHeaderChange(t *testing.T) {
	const block = "NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\nAB: 4\r\n\r\n"
	add := func(f func(Header, []byte, string, string) ([]byte, error), key, value string) func(Header) []byte {
		return func(h Header) []byte {
			out, err := f(h, []byte("dst:"), key, value)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	for _, c := range []struct {
		name, block string
		change      func(Header) []byte
		want        string
	}{
		{"append", block, add(Header.Append, "A", "5"), "NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\nAB: 4\r\nA: 5\r\n\r\n"},
		{"append to none", "", add(Header.Append, "A", "5"), "NATS/1.0\r\nA: 5\r\n\r\n"},
		{"append to garbage", "HTTP/1.1\r\n", add(Header.Append, "A", "5"), "NATS/1.0\r\nA: 5\r\n\r\n"},
		{"append to half a block", "NATS/1.0 503\r\nB: 2", add(Header.Append, "A", "5"), "NATS/1.0 503\r\nB: 2\r\nA: 5\r\n\r\n"},
		{"append line ends", "", add(Header.Append, "A", "x\r\nB: y"), "NATS/1.0\r\nA: x  B: y\r\n\r\n"},
		{"set", block, add(Header.Set, "A", "5"), "NATS/1.0\r\nB: 2\r\nAB: 4\r\nA: 5\r\n\r\n"},
		{"set new", block, add(Header.Set, "C", ""), "NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\nAB: 4\r\nC: \r\n\r\n"},
		{"remove", block, func(h Header) []byte { return h.Remove([]byte("dst:"), "A") }, "NATS/1.0\r\nB: 2\r\nAB: 4\r\n\r\n"},
		{"remove what is not there", block, func(h Header) []byte { return h.Remove([]byte("dst:"), "a") }, block},
		{"remove the last", "NATS/1.0\r\nA: 1\r\n\r\n", func(h Header) []byte { return h.Remove([]byte("dst:"), "A") }, ""},
		{"remove, status", "NATS/1.0 404\r\nA: 1\r\n\r\n", func(h Header) []byte { return h.Remove([]byte("dst:"), "A") }, "NATS/1.0 404\r\n\r\n"},
		{"remove from garbage", "garbage", func(h Header) []byte { return h.Remove([]byte("dst:"), "A") }, "garbage"},
		{"remove prefix", block, func(h Header) []byte { return h.RemovePrefix([]byte("dst:"), "A") }, "NATS/1.0\r\nB: 2\r\n\r\n"},
		{"remove status", "NATS/1.0 404 No\r\nA: 1\r\n\r\n", func(h Header) []byte { return h.RemoveStatus([]byte("dst:")) }, "NATS/1.0\r\nA: 1\r\n\r\n"},
		{"remove only status", "NATS/1.0 404 No\r\n\r\n", func(h Header) []byte { return h.RemoveStatus([]byte("dst:")) }, ""},
	} {
		h := Header(c.block)
		if got := string(c.change(h)); got != "dst:"+c.want {
			t.Errorf("%s: %q", c.name, got)
		}
		if string(h) != c.block {
			t.Errorf("%s: the block is %q now", c.name, h)
		}
	}
	for _, key := range []string{"", "a b", "a:", "a\r\n", "ä", "\x00"} {
		if out, err := Header(block).Set([]byte("x"), key, "v"); !errors.Is(err, ErrBadHeaderKey) || string(out) != "x" {
			t.Errorf("Set(%q): %q, %v", key, out, err)
		}
		if out, err := Header(block).Append([]byte("x"), key, "v"); !errors.Is(err, ErrBadHeaderKey) || string(out) != "x" {
			t.Errorf("Append(%q): %q, %v", key, out, err)
		}
	}
}

func TestHeaderStatus(t *testing.T) {
	for _, c := range []struct {
		code        int
		description string
		want        string
	}{
		{503, "", "NATS/1.0 503\r\n\r\n"},
		{100, "Idle Heartbeat", "NATS/1.0 100 Idle Heartbeat\r\n\r\n"},
		{7, "a\r\nb", "NATS/1.0 100 a  b\r\n\r\n"},
		{1000, "", "NATS/1.0 999\r\n\r\n"},
	} {
		if got := string(StatusHeader(c.code, c.description)); got != c.want {
			t.Errorf("StatusHeader(%d, %q) = %q", c.code, c.description, got)
		}
	}
	for _, c := range []struct {
		block       string
		code        int
		description string
		ok          bool
	}{
		{"NATS/1.0 503\r\n\r\n", 503, "", true},
		{"NATS/1.0 100 Idle Heartbeat\r\nA: 1\r\n\r\n", 100, "Idle Heartbeat", true},
		{"NATS/1.0   404 \t No Messages  \r\n\r\n", 404, "No Messages", true},
		{"NATS/1.0404\r\n\r\n", 404, "", true}, // clients take it too
		{"NATS/1.0\r\n\r\n", 0, "", false},
		{"NATS/1.0 \r\n\r\n", 0, "", false},
		{"NATS/1.0 40\r\n\r\n", 0, "", false},
		{"NATS/1.0 4o4\r\n\r\n", 0, "", false},
		{"NATS/1.0 4040\r\n\r\n", 0, "", false},
		{"HTTP/1.0 404\r\n\r\n", 0, "", false},
		{"NATS/1.0 404", 0, "", false},
		{"", 0, "", false},
	} {
		code, description, ok := Header(c.block).Status()
		if code != c.code && ok || string(description) != c.description || ok != c.ok {
			t.Errorf("Status(%q) = %d, %q, %v", c.block, code, description, ok)
		}
	}
}

func TestHeaderDoesNotAllocate(t *testing.T) {
	h := Header("NATS/1.0 100 Idle Heartbeat\r\nNats-Expected-Stream: ORDERS\r\nNats-Msg-Id: 12345\r\n\r\n")
	dst := make([]byte, 0, 256)
	if got := testing.AllocsPerRun(100, func() {
		v, _ := h.Get("Nats-Msg-Id")
		code, _, _ := h.Status()
		if string(v) != "12345" || code != 100 || h.Has("Nats-TTL-that-has-a-rather-long-name-of-its-own") {
			t.Fatal("wrong answer")
		}
		for range h.All() {
			code++
		}
		for range h.Values("Nats-Msg-Id") {
			code++
		}
		dst, _ = h.Set(dst[:0], "Nats-Msg-Id", "2")
		dst = h.Remove(dst[:0], "Nats-Msg-Id")
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// naiveValues splits a block at its CRLFs.
func naiveValues(block, key string) (values []string) {
	lines := strings.Split(block, "\r\n")
	for _, line := range lines[1:] {
		if rest, ok := strings.CutPrefix(line, key+":"); ok && key != "" {
			values = append(values, strings.TrimLeft(rest, " "))
		}
	}
	return values
}

func FuzzHeader(f *testing.F) {
	f.Add("NATS/1.0\r\nFoo: 1\r\nFoo: 2\r\n\r\n", "Foo", "v")
	f.Add("NATS/1.0 100 Idle Heartbeat\r\n\r\n", "Nats-Msg-Id", "a\r\nb")
	f.Add("NATS/1.0\r\n:\r\r\n\n\r\nA\r\n", "A", "")
	f.Fuzz(func(t *testing.T, block, key, value string) {
		h := Header(block)
		valid := h.Validate() == nil
		want := naiveValues(block, key)
		var got []string
		for v := range h.Values(key) {
			got = append(got, string(v))
		}
		if !slices.Equal(got, want) && !strings.Contains(key, "\n") {
			t.Fatalf("%q of %q: %q, want %q", key, block, got, want)
		}
		h.Status()
		n := 0
		for range h.All() {
			n++
		}
		if valid && n != strings.Count(block, "\r\n")-2 {
			t.Fatalf("%d fields in %q", n, block)
		}
		removed := Header(h.Remove(nil, key))
		if valid && removed.Has(key) || len(removed) > 0 && valid && removed.Validate() != nil {
			t.Fatalf("%q without %q is %q", block, key, removed)
		}
		h.RemovePrefix(nil, key)
		h.RemoveStatus(nil)
		set, err := h.Set(nil, key, value)
		if (err == nil) != ValidHeaderKey(key) {
			t.Fatalf("Set(%q): %v", key, err)
		}
		if err == nil {
			checkSet(t, h, set, key, value)
		}
		if string(h) != block {
			t.Fatalf("the block %q became %q", block, h)
		}
	})
}

func checkSet(t *testing.T, h, set Header, key, value string) {
	t.Helper()
	if h.Validate() == nil && set.Validate() != nil {
		t.Fatalf("%q became %q: %v", h, set, set.Validate())
	}
	wanted := strings.TrimLeft(strings.NewReplacer("\r", " ", "\n", " ").Replace(value), " ")
	if v, ok := set.Get(key); !ok || string(v) != wanted {
		t.Fatalf("%q in %q is %q, want %q", key, set, v, wanted)
	}
	if !bytes.HasSuffix(set, []byte("\r\n\r\n")) {
		t.Fatalf("%q does not end", set)
	}
}

func BenchmarkHeaderGet(b *testing.B) {
	h := Header("NATS/1.0\r\nNats-Expected-Stream: ORDERS\r\nNats-Expected-Last-Sequence: 12\r\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nNats-Msg-Id: 12345\r\n\r\n")
	for b.Loop() {
		if _, ok := h.Get("Nats-Msg-Id"); !ok {
			b.Fatal("not found")
		}
	}
}
