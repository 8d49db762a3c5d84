package stream

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// sampleState has subjects of one and of many messages, gaps, places and message ids.
func sampleState(t testing.TB) *State {
	t.Helper()
	cfg, err := CheckConfig(api.StreamConfig{Name: "S", Subjects: []string{"a.>"}, MaxMsgsPer: 3}, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, time.Unix(5, 6))
	if err != nil {
		t.Fatal(err)
	}
	var e Effects
	for i, text := range []string{"a.b", "a.bc", "a.b", "a.b.c", "a.b", "a.b"} {
		m := Message{Seq: uint64(i+1) << (6 * i), Time: int64(i) * 1e9, Subject: []byte(text), Size: 10 * i, Place: Place(i)}
		if i%2 == 0 {
			m.Header = []byte("NATS/1.0\r\nNats-Msg-Id: id" + text + "\r\n\r\n")
		}
		if err := s.Apply(m, &e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestSparseSequences: sequences that are billions apart, as deletes leave them behind, need no more room than others.
func TestSparseSequences(t *testing.T) {
	s := sampleState(t)
	if n := len(s.log.blocks); n > 4 {
		t.Errorf("%d blocks for %d messages", n, s.Msgs())
	}
	f, err := CompileFilter("a.b")
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for m, ok := s.Next(f, 0); ok; m, ok = s.Next(f, m.Seq+1) {
		seqs = append(seqs, m.Seq)
	}
	if len(seqs) != 3 || seqs[0] != 3<<12 || seqs[2] != 6<<30 {
		t.Errorf("messages of a.b: %v", seqs)
	}
	if n := s.Pending(f, 3<<12+1); n != 2 {
		t.Errorf("%d pending", n)
	}
}

func TestRestoreRefuses(t *testing.T) {
	good, err := sampleState(t).Snapshot([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	good = bytes.TrimPrefix(good, []byte("before"))
	if _, err := Restore(good); err != nil {
		t.Fatal(err)
	}
	newer := bytes.Clone(good)
	newer[0]++
	if _, err := Restore(newer); !errors.Is(err, ErrSnapshotVersion) {
		t.Errorf("a newer version: %v", err)
	}
	for i := 1; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := Restore(bad); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := Restore(good[:i]); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

// FuzzRestore feeds anything behind the checksum. What is taken for a state must work as one.
func FuzzRestore(f *testing.F) {
	b, err := sampleState(f).Snapshot(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[1 : len(b)-4])
	empty, err := New(api.StreamConfig{Name: "E"}, time.Unix(0, 0))
	if err != nil {
		f.Fatal(err)
	}
	if b, err = empty.Snapshot(nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b[1 : len(b)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := restoreBody(data)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("error %v is of no kind", err)
			}
			return
		}
		exercise(t, s)
	})
}

func exercise(t *testing.T, s *State) {
	b, err := s.Snapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	if b2, _ := again.Snapshot(nil); !bytes.Equal(b, b2) {
		t.Fatal("restored twice, it differs")
	}
	f, err := CompileFilter("*.b", "a.>")
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for m, ok := s.Next(nil, 0); ok; m, ok = s.Next(nil, m.Seq+1) {
		n++
	}
	if n != s.Msgs() || s.Pending(nil, 0) != n {
		t.Fatalf("%d messages are read and %d pending, of %d", n, s.Pending(nil, 0), s.Msgs())
	}
	s.Last(f, 0)
	s.Pending(f, s.FirstSeq()+1)
	var e Effects
	if s.LastSeq() < math.MaxUint64-10 {
		a, refused := s.Accept(Publish{Subject: []byte("a.b"), Size: 3}, time.Unix(0, s.LastTime()))
		if refused == nil {
			if err := s.Apply(Message{Seq: a.Seq, Time: a.Time, Subject: a.Subject, Size: 3}, &e); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Delete(s.FirstSeq(), &e)
	s.Purge(Purge{}, &e)
	if s.Msgs() != 0 || s.Bytes() != 0 || s.NumSubjects() != 0 {
		t.Fatalf("after a purge %d messages, %d bytes, %d subjects", s.Msgs(), s.Bytes(), s.NumSubjects())
	}
}

// FuzzHeaders: no header block makes Accept fail in any other way than with an error.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte("NATS/1.0\r\nNats-Msg-Id: x\r\nNats-Rollup: all\r\nNats-Expected-Last-Sequence: 3\r\n\r\n"))
	f.Add([]byte("NATS/1.0\r\nNats-TTL:1h\r\nNats-Msg-Id:\r\nnats-Msg-Id: y\r\n\r\n"))
	f.Add([]byte("Nats-\r\nNats-Nats-:\r\n:"))
	f.Fuzz(func(t *testing.T, block []byte) {
		s, err := New(api.StreamConfig{Name: "S", RollupAllowed: true, MaxMsgSize: -1, Duplicates: time.Minute}, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			a, refused := s.Accept(Publish{Subject: []byte("a"), Header: block}, time.Unix(1, 0))
			if refused != nil || a.Duplicate {
				continue
			}
			if err := s.Apply(Message{Seq: a.Seq, Time: a.Time, Subject: []byte("a"), Header: block}, &Effects{}); err != nil {
				t.Fatal(err)
			}
		}
		if id := parseHeaders(block).msgID; len(id) > 0 && s.LastSeq() > 1 {
			t.Fatalf("id %q was taken twice", id)
		}
	})
}
