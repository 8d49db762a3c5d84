package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// build writes a segment of the messages.
func build(t testing.TB, o Options, messages []Message) ([]byte, Info) {
	t.Helper()
	if o.Stream == "" {
		o.Account, o.Stream = "ACME", "ORDERS"
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, o)
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
	return b.Bytes(), info
}

// open reads the index of an object.
func open(object []byte, info Info, key []byte) (*Index, error) {
	return ParseIndex(object[info.IndexAt:info.IndexAt+info.IndexSize], key)
}

// readAll reads every message of an object through its index.
func readAll(object []byte, info Info, key []byte) ([]Message, error) {
	ix, err := open(object, info, key)
	if err != nil {
		return nil, err
	}
	var out []Message
	for _, g := range ix.Groups() {
		b, err := ix.Decode(g.Number, object[g.Offset:g.Offset+g.Size()])
		if err != nil {
			return nil, err
		}
		out = slices.AppendSeq(out, b.Messages(0))
	}
	return out, nil
}

// same compares two messages; a header that is absent differs from an empty one.
func same(a, b Message) bool {
	return a.Seq == b.Seq && a.Time == b.Time && bytes.Equal(a.Subject, b.Subject) && bytes.Equal(a.Header, b.Header) &&
		(a.Header == nil) == (b.Header == nil) && bytes.Equal(a.Data, b.Data)
}

func message(seq uint64, subject, header, data string) Message {
	m := Message{Seq: seq, Time: 1_700_000_000_000_000_000 + int64(seq)*1_234_567, Subject: []byte(subject), Data: []byte(data)}
	if header != "" {
		m.Header = []byte(header)
	}
	return m
}

// mixed gives n messages of many sizes and subjects, with gaps, times that go back, and some headers.
func mixed(n int, seed uint64) []Message {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]Message, n)
	seq := uint64(r.IntN(1000))
	for i := range out {
		seq += 1 + uint64(r.IntN(3)/2*r.IntN(1000))
		m := message(seq, fmt.Sprintf("orders.%d.%s", r.IntN(1+n/10), []string{"new", "paid", "sent"}[r.IntN(3)]), "", "")
		m.Time += int64(r.IntN(1_000_000)) - 500_000
		if r.IntN(4) == 0 {
			m.Header = fmt.Appendf(nil, "NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n", seq)
		}
		m.Data = fmt.Appendf(nil, `{"id":%d,"amount":%d}`, seq, r.IntN(1e6))
		if r.IntN(20) == 0 {
			m.Data = make([]byte, r.IntN(2000))
			for i := range m.Data {
				m.Data[i] = byte(r.Uint32())
			}
		}
		out[i] = m
	}
	return out
}

var cases = []struct {
	name     string
	messages []Message
}{
	{"one", []Message{message(1, "a", "", "hello")}},
	{"one without data", []Message{message(1, "a", "", "")}},
	{"header absent, empty, whole", []Message{
		message(7, "a", "", "x"),
		{Seq: 8, Subject: []byte("a"), Header: []byte{}},
		message(9, "a", "NATS/1.0\r\n\r\n", "x"),
		message(10, "a", "NATS/1.0 503\r\nA: b\r\n\r\n", ""),
	}},
	{"all with headers", []Message{message(1, "a", "NATS/1.0\r\nA: b\r\n\r\n", "1"), message(2, "b", "NATS/1.0\r\nA: c\r\n\r\n", "2")}},
	{"unicode subject", []Message{message(1, "straße.größe.日本", "", "ü"), message(2, "a", "", "b")}},
	{"binary subject", []Message{message(1, "a.\xff\xfe", "", "\x00\x01"), message(2, "a.\x00", "", "")}},
	{"largest sequences", []Message{message(1, "a", "", ""), message(1<<63-1, "a", "", ""), message(1<<63, "b", "", ""), message(1<<64-1, "a", "", "")}},
	{"times of all kinds", []Message{{Seq: 1, Time: 0, Subject: []byte("a")}, {Seq: 2, Time: -1 << 63, Subject: []byte("a")}, {Seq: 5, Time: 1<<63 - 1, Subject: []byte("a")}, {Seq: 6, Time: -5, Subject: []byte("a")}}},
	{"a large message between small ones", []Message{message(1, "a", "", "x"), {Seq: 2, Subject: []byte("big"), Data: incompressible(8 << 20)}, message(3, "a", "", "y")}},
	{"long subject", []Message{message(1, string(bytes.Repeat([]byte("s"), MaxSubjectBytes)), "", "")}},
	{"mixed", mixed(5000, 1)},
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, key := range [][]byte{nil, testKey[:16], testKey[:24], testKey} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("key %d/%s", len(key), c.name), func(t *testing.T) {
				object, info := build(t, Options{Key: key}, c.messages)
				checkReads(t, object, info, key, c.messages)
			})
		}
	}
}

// checkReads reads an object in every way and compares with what was written.
func checkReads(t *testing.T, object []byte, info Info, key []byte, want []Message) {
	t.Helper()
	got, err := readAll(object, info, key)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Fatalf("read %d messages, and not the %d that were written", len(got), len(want))
	}
	verified, err := Verify(bytes.NewReader(object), int64(len(object)), key)
	if err != nil {
		t.Fatal(err)
	}
	if verified != info {
		t.Errorf("verify gives %+v, the writer %+v", verified, info)
	}
	var size uint64
	for i := range want {
		size += want[i].Size()
	}
	last := len(want) - 1
	if info.First != want[0].Seq || info.Last != want[last].Seq || info.FirstTime != want[0].Time || info.LastTime != want[last].Time ||
		info.Messages != uint64(len(want)) || info.Bytes != size || info.Size != int64(len(object)) || info.Checksum != checksum(object) {
		t.Errorf("info %+v", info)
	}
	ix, err := open(object, info, key)
	if err != nil {
		t.Fatal(err)
	}
	checkIndex(t, ix, want)
}

func checkIndex(t *testing.T, ix *Index, want []Message) {
	t.Helper()
	bySubject := map[string][]uint64{}
	i := 0
	for row := range ix.Rows(0) {
		m := want[i]
		if row.Seq != m.Seq || row.Time != m.Time || row.Size != m.Size() {
			t.Fatalf("row %d: %+v", i, row)
		}
		if i%97 == 0 && string(ix.AppendSubject(nil, row.Subject)) != string(m.Subject) {
			t.Fatalf("row %d: subject %q, want %q", i, ix.AppendSubject(nil, row.Subject), m.Subject)
		}
		bySubject[string(m.Subject)] = append(bySubject[string(m.Subject)], m.Seq)
		i++
	}
	if i != len(want) || int(ix.SubjectCount()) != len(bySubject) {
		t.Fatalf("%d rows of %d subjects, want %d of %d", i, ix.SubjectCount(), len(want), len(bySubject))
	}
	var last []byte
	n := 0
	for s := range ix.Subjects(nil) {
		if n > 0 && bytes.Compare(last, s.Name) >= 0 || int(s.Ordinal) != n {
			t.Fatalf("subject %d: %q after %q", s.Ordinal, s.Name, last)
		}
		last = append(last[:0], s.Name...)
		seqs := bySubject[string(s.Name)]
		if got := slices.Collect(ix.Postings(s)); !slices.Equal(got, seqs) || s.Count != uint64(len(seqs)) || s.First != seqs[0] || s.Last != seqs[len(seqs)-1] {
			t.Fatalf("subject %q: %d sequences, want %d", s.Name, len(got), len(seqs))
		}
		n++
	}
	if n != len(bySubject) {
		t.Fatalf("%d subjects, want %d", n, len(bySubject))
	}
	checkNext(t, ix, bySubject)
}

func checkNext(t *testing.T, ix *Index, bySubject map[string][]uint64) {
	t.Helper()
	tried := 0
	for name, seqs := range bySubject {
		for i := 0; i < len(seqs); i += 1 + len(seqs)/50 {
			for _, from := range []uint64{seqs[i], seqs[i] - 1, seqs[i] + 1} {
				at, _ := slices.BinarySearch(seqs, from)
				seq, ok := ix.Next([]byte(name), from)
				if ok != (at < len(seqs)) || ok && seq != seqs[at] {
					t.Fatalf("next of %q from %d: %d %v", name, from, seq, ok)
				}
			}
		}
		if _, ok := ix.Next([]byte(name+"\x00"), 0); ok && bySubject[name+"\x00"] == nil {
			t.Fatalf("a subject that is not there has a next")
		}
		if tried++; tried == 1000 {
			return
		}
	}
}

func TestSubjectsByPrefix(t *testing.T) {
	var messages []Message
	for i := range 1000 {
		messages = append(messages, message(uint64(i+1), fmt.Sprintf("p%d.x", i), "", ""))
	}
	object, info := build(t, Options{}, messages)
	ix, err := open(object, info, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "a", "p", "p1", "p11", "p999", "p999.x", "p999.xx", "p5.", "q"} {
		want := map[string]bool{}
		for _, m := range messages {
			if bytes.HasPrefix(m.Subject, []byte(prefix)) {
				want[string(m.Subject)] = true
			}
		}
		got := 0
		for s := range ix.Subjects([]byte(prefix)) {
			if !want[string(s.Name)] {
				t.Errorf("prefix %q gives %q", prefix, s.Name)
			}
			got++
		}
		if got != len(want) {
			t.Errorf("prefix %q gives %d subjects, want %d", prefix, got, len(want))
		}
	}
	for range ix.Subjects(nil) {
		break // may be left at any time
	}
}

func TestPostingsInRuns(t *testing.T) {
	for _, n := range []int{1, 2, 3, 255, 256, 257, 511, 512, 513, 100_000} {
		messages := make([]Message, n)
		for i := range messages {
			messages[i] = message(uint64(10+i*100+i%5*20), "hot", "", "")
		}
		object, info := build(t, Options{}, messages)
		ix, err := open(object, info, nil)
		if err != nil {
			t.Fatal(n, err)
		}
		checkIndex(t, ix, messages)
	}
}

func TestFindGroupAndMessage(t *testing.T) {
	messages := mixed(3000, 2)
	object, info := build(t, Options{GroupBytes: 8 << 10}, messages)
	ix, err := open(object, info, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(ix.Groups()) < 20 {
		t.Fatalf("%d groups", len(ix.Groups()))
	}
	if n := ix.Find(info.Last + 1); n != len(ix.Groups()) {
		t.Errorf("beyond the end: group %d", n)
	}
	for i, m := range messages {
		g := ix.Groups()[ix.Find(m.Seq)]
		b, err := ix.Decode(g.Number, object[g.Offset:g.Offset+g.Size()])
		if err != nil {
			t.Fatal(err)
		}
		at, found := b.Find(m.Seq)
		if !found || !same(b.At(at), m) {
			t.Fatalf("message %d: %+v", i, b.At(at))
		}
		if i > 0 && messages[i-1].Seq+1 < m.Seq { // between two messages: the next one
			g := ix.Groups()[ix.Find(m.Seq-1)]
			b, _ := ix.Decode(g.Number, object[g.Offset:g.Offset+g.Size()])
			if at, found := b.Find(m.Seq - 1); found || b.At(at).Seq != m.Seq {
				t.Fatalf("from %d: %v %d", m.Seq-1, found, b.At(at).Seq)
			}
		}
		if i%100 == 0 {
			rows := 0
			for row := range ix.Rows(m.Seq) {
				if rows == 0 && row.Seq != m.Seq {
					t.Fatalf("rows from %d begin at %d", m.Seq, row.Seq)
				}
				rows++
			}
			if rows != len(messages)-i {
				t.Fatalf("rows from %d: %d, want %d", m.Seq, rows, len(messages)-i)
			}
		}
	}
}

func TestManyMessages(t *testing.T) {
	messages := mixed(100_000, 3)
	object, info := build(t, Options{}, messages)
	checkReads(t, object, info, nil, messages)
}

// TestCallersBytesAreCopied: what Add was given may be reused at once.
func TestCallersBytesAreCopied(t *testing.T) {
	var object bytes.Buffer
	w, err := NewWriter(&object, Options{Stream: "S"})
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 8)
	for i := range 1000 {
		binary.BigEndian.PutUint64(buffer, uint64(i))
		if err := w.Add(Message{Seq: uint64(i + 1), Subject: buffer, Header: buffer, Data: buffer}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(object.Bytes(), info, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range got {
		if binary.BigEndian.Uint64(m.Subject) != uint64(i) || binary.BigEndian.Uint64(m.Header) != uint64(i) || binary.BigEndian.Uint64(m.Data) != uint64(i) {
			t.Fatalf("message %d: %q %q %q", i, m.Subject, m.Header, m.Data)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	w, err := NewWriter(&bytes.Buffer{}, Options{Stream: "S"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(m Message, want error) {
		t.Helper()
		if err := w.Add(m); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	check(message(5, "a", "", ""), nil)
	check(message(5, "a", "", ""), ErrOrder)
	check(message(4, "a", "", ""), ErrOrder)
	check(message(6, "", "", ""), ErrTooLarge)
	check(Message{Seq: 6, Subject: make([]byte, MaxSubjectBytes+1)}, ErrTooLarge)
	check(message(6, "a", "", ""), nil)
	info, err := w.Close()
	if err != nil || info.Messages != 2 {
		t.Errorf("after refusals: %+v, %v", info, err)
	}
	if err := w.Add(message(7, "a", "", "")); err == nil {
		t.Error("a closed writer takes messages")
	}
	if _, err := w.Close(); err == nil {
		t.Error("a closed writer closes again")
	}
	empty, _ := NewWriter(&bytes.Buffer{}, Options{Stream: "S"})
	if _, err := empty.Close(); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
	for _, o := range []Options{{}, {Stream: "S", Key: []byte{}}, {Stream: "S", Key: make([]byte, 15)}, {Stream: "S", GroupBytes: 1}, {Stream: "S", Level: 23}} {
		if _, err := NewWriter(&bytes.Buffer{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// failing fails once n bytes are written.
type failing struct{ n int }

func (f *failing) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, os.ErrClosed
	}
	return len(b), nil
}

func TestWriteErrorsAreReportedAndStay(t *testing.T) {
	messages := mixed(300, 4)
	object, _ := build(t, Options{Stream: "S", GroupBytes: 2 << 10}, messages)
	for _, key := range [][]byte{nil, testKey} {
		for n := 0; n < len(object); n += 1297 {
			w, err := NewWriter(&failing{n}, Options{Stream: "S", GroupBytes: 2 << 10, Key: key})
			for i := 0; err == nil && i < len(messages); i++ {
				if err = w.Add(messages[i]); err != nil && !errors.Is(w.Add(messages[i]), os.ErrClosed) {
					t.Fatalf("after %d bytes: the error does not stay", n)
				}
			}
			if err == nil {
				_, err = w.Close()
			}
			if !errors.Is(err, os.ErrClosed) {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
	}
}

func TestWrongKey(t *testing.T) {
	messages := mixed(100, 5)
	plain, plainInfo := build(t, Options{}, messages)
	secret, secretInfo := build(t, Options{Key: testKey[:16]}, messages)
	for name, err := range map[string]error{
		"no key":               second(open(secret, secretInfo, nil)),
		"another key":          second(open(secret, secretInfo, testKey[1:17])),
		"longer key":           second(open(secret, secretInfo, testKey)),
		"odd key":              second(open(secret, secretInfo, testKey[:5])),
		"key of a plain one":   second(open(plain, plainInfo, testKey)),
		"verify, no key":       second(Verify(bytes.NewReader(secret), secretInfo.Size, nil)),
		"verify, another key":  second(Verify(bytes.NewReader(secret), secretInfo.Size, testKey[1:17])),
		"verify, key of plain": second(Verify(bytes.NewReader(plain), plainInfo.Size, testKey)),
	} {
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestNothingShowsThrough: an encrypted object has no plain word of its messages, not in its index either.
func TestNothingShowsThrough(t *testing.T) {
	var messages []Message
	for i := range 500 {
		messages = append(messages, message(uint64(i+1), fmt.Sprintf("topsecret.%d", i), "NATS/1.0\r\nTopsecret: 1\r\n\r\n", "topsecret"))
	}
	object, info := build(t, Options{Key: testKey}, messages)
	for _, word := range []string{"topsecret", "Topsecret", "NATS/1.0", "ORDERS", "ACME"} {
		if bytes.Contains(object, []byte(word)) {
			t.Errorf("%q is in the object", word)
		}
	}
	if plain, _ := build(t, Options{}, messages[:1]); !bytes.Contains(plain, []byte("topsecret")) {
		t.Error("the test cannot see words")
	}
	// Two files of the same messages and key have nothing in common.
	again, againInfo := build(t, Options{Key: testKey}, messages)
	if _, err := ParseIndex(swapSections(object, info, again, againInfo), testKey); !errors.Is(err, ErrKey) {
		t.Errorf("a section of another file: %v", err)
	}
}

// swapSections puts the sections of the second object's index under the first one's header, with sound checksums.
func swapSections(a []byte, ai Info, b []byte, bi Info) []byte {
	ia, ib := a[ai.IndexAt:ai.IndexAt+ai.IndexSize], b[bi.IndexAt:bi.IndexAt+bi.IndexSize]
	ha, _ := decodeHeader(ia)
	hb, _ := decodeHeader(ib)
	ha.entries, ha.indexSize = hb.entries, hb.indexSize
	return append(ha.append(nil), ib[headerBytes:]...)
}

// TestFull: beyond the most groups, Add says so, and what was written before is a sound segment.
func TestFull(t *testing.T) {
	var object bytes.Buffer
	w, err := NewWriter(&object, Options{Stream: "S", GroupBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if w.maxGroups != MaxGroups || MaxGroups > 1<<15-1 {
		t.Fatalf("%d groups, and Parquet numbers encrypted ones by signed 16-bit numbers", w.maxGroups)
	}
	w.maxGroups = 7
	m := Message{Subject: []byte("a"), Data: make([]byte, 1000)}
	for m.Seq = 1; ; m.Seq++ {
		if err = w.Add(m); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || !errors.Is(w.Add(m), ErrFull) {
		t.Fatal(err)
	}
	info, err := w.Close()
	if err != nil || info.Messages != 7 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := Verify(bytes.NewReader(object.Bytes()), info.Size, nil); err != nil {
		t.Fatal(err)
	}
}
