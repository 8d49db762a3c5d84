package stream

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// loadMessages cuts messages into dictionaries of sorted subjects and loads them.
func loadMessages(t *testing.T, s *State, messages []Message, perDictionary int) {
	t.Helper()
	l, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(messages, perDictionary) {
		l.Dictionary()
		ordinals := map[string]uint32{"aa.no message has it": 0}
		for _, m := range part {
			ordinals[string(m.Subject)] = 0
		}
		sorted := make([]string, 0, len(ordinals))
		for text := range ordinals {
			sorted = append(sorted, text)
		}
		slices.Sort(sorted)
		for _, text := range sorted {
			if ordinals[text], err = l.Subject([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range part {
			size := s.accounted(len(m.Subject), len(m.Header), m.Size)
			if err := l.Message(m.Seq, m.Time, size, ordinals[string(m.Subject)], AppendNote(nil, m.Header, false)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Close()
}

// TestLoadIsApply: what is loaded is what was applied, gaps, TTLs, markers and schedules included.
func TestLoadIsApply(t *testing.T) {
	cfg := api.StreamConfig{
		Name: "S", Subjects: []string{"a.>"}, Storage: api.FileStorage, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPer: -1, MaxMsgSize: -1,
		MaxConsumers: -1, Replicas: 1, AllowMsgTTL: true, AllowMsgSchedules: true,
	}
	headers := []string{
		"NATS/1.0\r\nNats-TTL: 10s\r\nX: y\r\n\r\n", "NATS/1.0\r\nNats-TTL: never\r\n\r\n", "NATS/1.0\r\nX: y\r\n\r\n",
		"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: a.t\r\n\r\n", "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1s\r\n\r\n",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	applied, err := New(cfg, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := New(cfg, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var messages []Message
	seq, at := uint64(0), time.Unix(1000, 0).UnixNano()
	for range 10_000 {
		if seq++; rng.IntN(50) == 0 {
			seq += rng.Uint64N(100)
		}
		at += rng.Int64N(1e6) - 1e5 // now and then backwards
		m := Message{Seq: seq, Time: at, Subject: fmt.Appendf(nil, "a.%d", rng.IntN(2000)), Size: rng.IntN(1000)}
		if rng.IntN(20) == 0 {
			m.Header = []byte(headers[rng.IntN(len(headers))])
		}
		messages = append(messages, m)
		if err := applied.Apply(m, &Effects{}); err != nil {
			t.Fatal(err)
		}
	}
	loadMessages(t, loaded, messages, 3000)
	a, _ := applied.Snapshot(nil)
	b, _ := loaded.Snapshot(nil)
	if !bytes.Equal(a, b) {
		t.Fatal("the snapshots differ")
	}
	restored, err := Restore(a)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ = restored.Snapshot(nil); !bytes.Equal(a, b) {
		t.Fatal("the snapshot of what was restored differs")
	}
	if n := loaded.names.count; n != loaded.NumSubjects() {
		t.Errorf("%d subjects in the table, %d with messages", n, loaded.NumSubjects())
	}
	// Both go on alike.
	for range 1000 {
		p := Publish{Subject: fmt.Appendf(nil, "a.%d", rng.IntN(3000)), Size: 1}
		for _, s := range []*State{applied, loaded} {
			a, refused := s.Accept(p, time.Unix(0, at))
			if refused != nil {
				t.Fatal(refused)
			}
			if err := s.Apply(Message{Seq: a.Seq, Time: a.Time, Subject: p.Subject, Size: 1}, &Effects{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, _ = applied.Snapshot(nil)
	b, _ = loaded.Snapshot(nil)
	if !bytes.Equal(a, b) {
		t.Fatal("the snapshots differ after more messages")
	}
}

func TestLoadRefuses(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	l, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	ordinal, err := l.Subject([]byte("a.b"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Subject([]byte("a.b")); err != nil || again != ordinal+1 {
		t.Errorf("a subject twice: %d, %v", again, err)
	}
	if err := l.Message(5, 1, 10, ordinal+2, nil); !errors.Is(err, ErrLoad) {
		t.Errorf("an ordinal that is not there: %v", err)
	}
	if err := l.Message(5, 1, 10, ordinal, nil); err != nil {
		t.Error(err)
	}
	if err := l.Message(5, 1, 10, ordinal, nil); !errors.Is(err, ErrSequence) {
		t.Errorf("a sequence twice: %v", err)
	}
	for _, text := range []string{"", string(make([]byte, maxSubjectBytes+1))} {
		if _, err := l.Subject([]byte(text)); !errors.Is(err, ErrLoad) {
			t.Errorf("a subject of %d bytes: %v", len(text), err)
		}
	}
	l.Dictionary()
	for range 2 { // no message has it, and it is there twice
		if _, err := l.Subject([]byte("a.c")); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if s.names.count != 1 || s.NumSubjects() != 1 || s.AcceptedSeq() != 5 {
		t.Errorf("%d subjects in the table, %d with messages, accepted up to %d", s.names.count, s.NumSubjects(), s.AcceptedSeq())
	}
	if _, refused := s.Accept(Publish{Subject: []byte("a.b")}, time.Unix(1, 0)); refused != nil {
		t.Fatal(refused)
	}
	if _, err := s.Load(); !errors.Is(err, ErrSequence) {
		t.Errorf("with a message in flight: %v", err)
	}
}
