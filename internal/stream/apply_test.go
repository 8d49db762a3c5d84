package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

func testState(t *testing.T, cfg api.StreamConfig) *State {
	t.Helper()
	cfg.Name = "S"
	if cfg.Subjects == nil {
		cfg.Subjects = []string{"a.>"}
	}
	cfg, err := CheckConfig(cfg, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fillState applies n messages whose subjects come from name, behind what is there.
func fillState(t *testing.T, s *State, n int, name func(i int) string) {
	t.Helper()
	for i := range n {
		m := Message{Seq: s.LastSeq() + 1, Time: int64(s.LastSeq()), Subject: []byte(name(i)), Size: 1}
		if err := s.Apply(m, &Effects{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEffectsAreBounded: however much a purge removes, the list of it does not grow without end, and whoever must hear
// of everything can.
func TestEffectsAreBounded(t *testing.T) {
	const n = maxListed + 1000
	name := func(i int) string { return fmt.Sprint("a.", i%10) }
	for _, filter := range []string{"", "a.*"} {
		s := testState(t, api.StreamConfig{})
		fillState(t, s, n, name)
		var e Effects
		if purged := s.Purge(Purge{Subject: filter}, &e); purged != n || e.Count != n || len(e.Removed) != maxListed || e.All() {
			t.Errorf("purge of %q: %d, effects count %d, list %d, all %t", filter, purged, e.Count, len(e.Removed), e.All())
		}
		fillState(t, s, n, name)
		heard := map[uint64]bool{}
		e.Reset()
		e.Each = func(r Removed) { heard[r.Seq] = true }
		s.Purge(Purge{Subject: filter}, &e)
		if len(heard) != n || e.Count != n || len(e.Removed) != 0 {
			t.Errorf("purge of %q: heard of %d, count %d, list %d", filter, len(heard), e.Count, len(e.Removed))
		}
		if e.Reset(); e.Each == nil || e.Count != 0 {
			t.Error("Reset does not keep Each, or the count")
		}
	}
}

func TestApplyInOrder(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	var e Effects
	a, refused := s.Accept(Publish{Subject: []byte("a.b")}, time.Unix(1, 0))
	if refused != nil {
		t.Fatal(refused)
	}
	for _, seq := range []uint64{0, a.Seq + 1} {
		if err := s.Apply(Message{Seq: seq, Subject: []byte("a.b")}, &e); !errors.Is(err, ErrSequence) {
			t.Errorf("sequence %d: %v", seq, err)
		}
	}
	if err := s.Apply(Message{Seq: a.Seq, Time: a.Time, Subject: []byte("a.b")}, &e); err != nil {
		t.Error(err)
	}
	if err := s.Apply(Message{Seq: a.Seq, Subject: []byte("a.b")}, &e); !errors.Is(err, ErrSequence) {
		t.Errorf("applied again: %v", err)
	}
	if s.Msgs() != 1 || s.InFlight() != 0 || s.AcceptedSeq() != 1 {
		t.Errorf("%d messages, %d in flight, accepted up to %d", s.Msgs(), s.InFlight(), s.AcceptedSeq())
	}
}

func TestSetPlace(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	fillState(t, s, 3, func(int) string { return "a.b" })
	if !s.SetPlace(2, 77) || s.SetPlace(4, 1) {
		t.Error("SetPlace does not tell what is there")
	}
	for seq, want := range map[uint64]Place{1: 0, 2: 77, 3: 0} {
		if m, ok := s.Meta(seq); !ok || m.Place != want {
			t.Errorf("message %d is at %d, want %d", seq, m.Place, want)
		}
	}
}

// TestNextOfMany: a wildcard that thousands of subjects match, none of which comes for a long while.
func TestNextOfMany(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	fillState(t, s, 2*fewSubjects, func(i int) string { return fmt.Sprintf("a.%d.x", i) })
	fillState(t, s, 3*scanLong, func(i int) string { return fmt.Sprintf("a.%d.y", i%50) })
	fillState(t, s, 2, func(i int) string { return fmt.Sprintf("a.%d.x", i) })
	f, err := CompileFilter("a.*.x")
	if err != nil {
		t.Fatal(err)
	}
	last := s.LastSeq()
	for _, c := range []struct{ from, want uint64 }{
		{0, 1}, {2 * fewSubjects, 2 * fewSubjects}, {2*fewSubjects + 1, last - 1}, {last, last}, {last + 1, 0},
	} {
		if m, _ := s.Next(f, c.from); m.Seq != c.want {
			t.Errorf("next from %d is %d, want %d", c.from, m.Seq, c.want)
		}
	}
	if n := s.Pending(f, 2*fewSubjects+1); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
}
