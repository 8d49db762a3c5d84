package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/minio/highwayhash"
	"github.com/nats-io/jsm.go/api"
)

// story writes down what an archive tells.
type story struct {
	lines []string
	seqs  []uint64
	gone  []span
	state api.StreamState
	fail  string // the kind of call that is refused
}

var errRefused = errors.New("refused")

func (s *story) tell(kind, format string, args ...any) error {
	if kind == s.fail {
		return errRefused
	}
	s.lines = append(s.lines, kind+" "+fmt.Sprintf(format, args...))
	return nil
}

func (s *story) State(st api.StreamState) error {
	s.state = st
	return s.tell("state", "%d-%d", st.FirstSeq, st.LastSeq)
}
func (s *story) Created(at time.Time) error { return s.tell("created", "%d", at.Year()) }
func (s *story) Message(m Message) error {
	s.seqs = append(s.seqs, m.Seq)
	return s.tell("message", "%d %d %s %q %q", m.Seq, m.Time, m.Subject, m.Header, m.Data)
}
func (s *story) Removed(first, last uint64) error {
	s.gone = append(s.gone, span{first, last})
	return s.tell("removed", "%d-%d", first, last)
}
func (s *story) Consumer(c Consumer) error {
	state, _ := json.Marshal(c.State)
	return s.tell("consumer", "%s %v %s", c.Name, c.Config.AckPolicy, state)
}

// live lists the sequences that are left.
func (s *story) live() (left []uint64) {
	for _, seq := range s.seqs {
		if seq >= s.state.FirstSeq && !slices.ContainsFunc(s.gone, func(g span) bool { return g.first <= seq && seq <= g.last }) {
			left = append(left, seq)
		}
	}
	return left
}

func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		w.State(api.StreamState{Msgs: 3, FirstSeq: 4, LastSeq: 9, Consumers: 1}),
		w.Consumer(Consumer{Name: "c", Config: api.ConsumerConfig{Durable: "c", AckPolicy: api.AckExplicit}, State: ConsumerState{
			Delivered: Sequences{3, 6}, AckFloor: Sequences{1, 4},
			Pending: map[uint64]Pending{6: {3, 77}}, Redelivered: map[uint64]uint64{6: 2},
		}}),
		w.Message(Message{Seq: 4, Time: 10, Subject: "a", Data: []byte("one")}),
		w.Message(Message{Seq: 6, Time: 11, Subject: "b.c", Header: []byte("NATS/1.0\r\nA: b\r\n\r\n"), Data: []byte("two")}),
		w.Message(Message{Seq: 7, Time: 12, Subject: "a"}),
		w.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	var s story
	if err := Read(bytes.NewReader(sample(t)), &s); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"state 4-9",
		`consumer c Explicit {"delivered":{"consumer_seq":3,"stream_seq":6},"ack_floor":{"consumer_seq":1,"stream_seq":4},` +
			`"pending":{"6":{"Sequence":3,"Timestamp":77}},"redelivered":{"6":2}}`,
		`message 4 10 a "" "one"`,
		`message 6 11 b.c "NATS/1.0\r\nA: b\r\n\r\n" "two"`,
		`message 7 12 a "" ""`,
	}
	if !reflect.DeepEqual(s.lines, want) {
		t.Errorf("got %s", strings.Join(s.lines, "\n"))
	}
}

func TestAnArchiveThatEndsEarlyIsTold(t *testing.T) {
	whole := sample(t)
	// Behind the end entry there is nothing that matters.
	for n := range len(whole) - 16 {
		err := Read(bytes.NewReader(whole[:n]), &story{})
		if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestARefusalComesBack(t *testing.T) {
	for _, kind := range []string{"state", "consumer", "message"} {
		if err := Read(bytes.NewReader(sample(t)), &story{fail: kind}); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	build := func(f func(w *Writer)) []byte {
		var b bytes.Buffer
		w, err := NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		f(w)
		_ = w.out.Close()
		return b.Bytes()
	}
	state := func(w *Writer, st api.StreamState) { _ = w.State(st) }
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":          {nil, ErrTruncated},
		"no S2":            {[]byte("hello, this is no archive"), ErrCorrupt},
		"no state":         {build(func(w *Writer) { _ = w.Message(Message{Seq: 1, Subject: "a"}) }), ErrCorrupt},
		"negative count":   {build(func(w *Writer) { state(w, api.StreamState{Consumers: -1}) }), ErrCorrupt},
		"bounds":           {build(func(w *Writer) { state(w, api.StreamState{FirstSeq: 9, LastSeq: 3}) }), ErrCorrupt},
		"too many":         {build(func(w *Writer) { state(w, api.StreamState{FirstSeq: 1, LastSeq: 3, Msgs: 4}) }), ErrCorrupt},
		"missing consumer": {build(func(w *Writer) { state(w, api.StreamState{Consumers: 1}); _ = w.Message(Message{Seq: 1, Subject: "a"}) }), ErrCorrupt},
		"out of order": {build(func(w *Writer) {
			state(w, api.StreamState{FirstSeq: 1, LastSeq: 9})
			_ = w.Message(Message{Seq: 5, Subject: "a"})
			_ = w.Message(Message{Seq: 5, Subject: "a"})
		}), ErrCorrupt},
		"before the first": {build(func(w *Writer) {
			state(w, api.StreamState{FirstSeq: 6, LastSeq: 9})
			_ = w.Message(Message{Seq: 5, Subject: "a"})
		}), ErrCorrupt},
		"no end": {build(func(w *Writer) { state(w, api.StreamState{FirstSeq: 1, LastSeq: 9}) }), ErrTruncated},
		"a subject without bound": {build(func(w *Writer) {
			state(w, api.StreamState{FirstSeq: 1, LastSeq: 9})
			_ = w.Message(Message{Seq: 1, Subject: strings.Repeat("x", maxSubject+1)})
		}), ErrTooLarge},
		"a size without bound": {build(func(w *Writer) {
			state(w, api.StreamState{FirstSeq: 1, LastSeq: 9})
			_, _ = w.out.Write([]byte{1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 'a'})
		}), ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Read(bytes.NewReader(c.raw), &story{}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// The archives in testdata were made by nats-server, of a stream of the same past: see testdata/README.
func TestArchivesOfTheReferenceAreRead(t *testing.T) {
	for _, name := range []string{"stream.arc.s2", "stream.tar.s2", "noindex.tar.s2"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			var s story
			if err := Read(bytes.NewReader(raw), &s); err != nil {
				t.Fatal(err)
			}
			if s.state.LastSeq != 40 || len(s.live()) == 0 {
				t.Fatalf("state %+v, %d messages", s.state, len(s.live()))
			}
			if name == "noindex.tar.s2" {
				return // it does not know what limits pushed out
			}
			if want := []uint64{27, 28, 29, 31, 32, 33, 34, 35, 36, 37, 38, 39}; !reflect.DeepEqual(s.live(), want) {
				t.Errorf("got %v", s.live())
			}
			consumer := s.lines[slices.IndexFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, "consumer") })]
			if !strings.Contains(consumer, `"delivered":{"consumer_seq":5,"stream_seq":`) || !strings.Contains(consumer, `"pending":{`) {
				t.Error(consumer)
			}
		})
	}
}

// FuzzRead looks for what makes the reader panic, or allocate beyond what is there.
func FuzzRead(f *testing.F) {
	plain, err := io.ReadAll(s2.NewReader(bytes.NewReader(sample(f))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	var old bytes.Buffer
	w := tar.NewWriter(&old)
	for _, file := range []struct{ name, body string }{
		{"meta.inf", `{"name":"S"}`}, {"msgs/1.blk", ""}, {"obs/c/meta.inf", `{}`}, {"obs/c/o.dat", "\x16\x02\x00\x00\x00\x00\x00\x00"},
	} {
		_ = w.WriteHeader(&tar.Header{Name: file.name, Size: int64(len(file.body))})
		_, _ = w.Write([]byte(file.body))
	}
	_ = w.Close()
	f.Add(old.Bytes())
	f.Fuzz(func(t *testing.T, plain []byte) {
		var s story
		if err := readPlain(bytes.NewReader(plain), &s); err == nil && !slices.IsSorted(s.seqs) {
			t.Fatal("messages out of order")
		}
		_ = Read(bytes.NewReader(plain), &story{}) // as a rule no S2
	})
}

// FuzzParts fuzzes what lies behind checksums.
func FuzzParts(f *testing.F) {
	f.Add([]byte{stateMagic, 2, 1, 1, 3, 3, 1, 20, 1, 1, 2, 1, 1, 1})
	f.Add([]byte{setMagic, 2, 1, 0, 0, 0, 1, 0, 0, 0})
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 9, 1, 'a', 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseConsumerState(raw); err == nil && len(s.Pending) > len(raw) {
			t.Fatal("more than there is")
		}
		for version := byte(1); version <= indexVersions; version++ {
			r := reader{rest: raw}
			ix := readIndex(&r, version)
			for _, g := range ix.gone {
				if !r.bad && g.first > g.last {
					t.Fatalf("version %d: %v", version, g)
				}
			}
		}
		r := reader{rest: raw}
		readSet(&r)
		h, err := highwayhash.New64(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		if rec, _, err := nextRecord(raw, h); err == nil && len(rec.subject)+len(rec.header)+len(rec.data) > len(raw) {
			t.Fatal("a record larger than its block")
		}
	})
}
