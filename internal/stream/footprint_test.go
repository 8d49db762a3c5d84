package stream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

// held is how many bytes of heap a State keeps that fill made.
func held(t *testing.T, s *State, fill func()) int64 {
	t.Helper()
	before := heapInUse()
	fill()
	after := heapInUse()
	runtime.KeepAlive(s)
	return int64(after) - int64(before)
}

// TestFootprint: a subject with its message takes at most 56 bytes, a message of few subjects 10, however they come.
func TestFootprint(t *testing.T) {
	const subjects, perSubject = 100_000, 56
	const messages, perMessage = 600_000, 10.5
	texts := map[string]func(i int, rng *rand.Rand) string{
		"in order":      func(i int, _ *rand.Rand) string { return fmt.Sprintf("a.devices.%08d.temperature", i) },
		"in any order":  func(i int, _ *rand.Rand) string { return fmt.Sprintf("a.devices.%05d.temperature.eu", i*7919%subjects) },
		"random tokens": func(_ int, rng *rand.Rand) string { return fmt.Sprintf("a.devices.%013x.temp", rng.Uint64N(1<<52)) },
	}
	for name, text := range texts {
		t.Run("subjects "+name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := testState(t, api.StreamConfig{})
			n := held(t, s, func() {
				for i := range subjects {
					m := Message{Seq: uint64(i + 1), Time: int64(i) * 1e6, Subject: []byte(text(i, rng)), Size: 100 + rng.IntN(900)}
					if err := s.Apply(m, &Effects{}); err != nil {
						t.Fatal(err)
					}
				}
			})
			if n > perSubject*subjects {
				t.Errorf("%d bytes for %d subjects", n, subjects)
			}
			// All go, one by one and from the front, and what they took goes with them.
			n += held(t, s, func() {
				e := &Effects{Each: func(Removed) {}}
				for s.Msgs() > 0 {
					s.RemoveBefore(s.FirstSeq()+100, e)
				}
			})
			if n > 1<<20 {
				t.Errorf("%d bytes are kept of nothing", n)
			}
		})
	}
	for _, load := range []bool{false, true} {
		t.Run(fmt.Sprint("messages, loaded: ", load), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := testState(t, api.StreamConfig{})
			n := held(t, s, func() { fillFew(t, s, messages, rng, load) })
			if float64(n) > perMessage*messages {
				t.Errorf("%d bytes for %d messages", n, messages)
			}
			// Nine in ten go, in any order: what is left takes as little again, within twice.
			n += held(t, s, func() {
				for seq := range s.LastSeq() {
					if rng.IntN(10) > 0 {
						s.Delete(seq+1, &Effects{})
					}
				}
			})
			if float64(n) > 3*perMessage*messages/10 {
				t.Errorf("%d bytes for %d messages that are left", n, s.Msgs())
			}
			n += held(t, s, func() { s.Purge(Purge{}, &Effects{Each: func(Removed) {}}) })
			if n > 1<<20 {
				t.Errorf("%d bytes are kept of nothing", n)
			}
		})
	}
}

// fillFew enters messages of 300 subjects, about a millisecond apart.
func fillFew(t *testing.T, s *State, n int, rng *rand.Rand, load bool) {
	const subjects = 300
	var l *Loader
	if load {
		var err error
		if l, err = s.Load(); err != nil {
			t.Fatal(err)
		}
		for i := range subjects {
			if _, err := l.Subject(fmt.Appendf(nil, "a.%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
		defer l.Close()
	}
	at := int64(1_700_000_000_000_000_000)
	var text []byte
	for i := range n {
		at += rng.Int64N(2e6)
		k, size := rng.IntN(subjects), 100+rng.IntN(900)
		var err error
		if load {
			err = l.Message(uint64(i+1), at, uint64(size), uint32(k), nil)
		} else {
			text = fmt.Appendf(text[:0], "a.%03d", k)
			err = s.Apply(Message{Seq: uint64(i + 1), Time: at, Subject: text, Size: size}, &Effects{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilterOutlivesTable: what a filter remembers of subjects does no harm when a purge has taken the whole table.
func TestFilterOutlivesTable(t *testing.T) {
	s := testState(t, api.StreamConfig{})
	fillState(t, s, 2*clearFrom, func(i int) string { return fmt.Sprintf("a.%d.x", i%500) })
	f, err := CompileFilter("a.*.x")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Pending(f, 0); n != 2*clearFrom {
		t.Fatalf("%d pending", n)
	}
	s.Purge(Purge{}, &Effects{})
	fillState(t, s, 2*scanAhead, func(i int) string { return fmt.Sprintf("a.%d.x", i%3) })
	if n := s.Pending(f, 0); n != 2*scanAhead {
		t.Errorf("%d pending after a purge", n)
	}
	if m, ok := s.Next(f, 0); !ok || m.Seq != 2*clearFrom+1 {
		t.Errorf("the next after a purge is %d, %t", m.Seq, ok)
	}
}

// TestLongSubjects: subjects up to the longest, which no leaf holds many of, in random order of coming and going.
func TestLongSubjects(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table names
	table.init()
	texts := map[subjectID]string{}
	for round := range 400 {
		b := make([]byte, []int{3, 300, 30_000, maxSubjectBytes}[rng.IntN(4)])
		for i := range b {
			b[i] = "ab\xff"[rng.IntN(3)]
		}
		if rng.IntN(2) == 0 { // one that differs late
			for i := range b {
				b[i] = 'a'
			}
			b[rng.IntN(len(b))] = 'b'
		}
		if id, added := table.intern(b); added {
			texts[id] = string(b)
		}
		if round > 200 || rng.IntN(3) == 0 {
			for id := range texts {
				table.drop(id)
				delete(texts, id)
				break
			}
		}
		if round%20 > 0 {
			continue
		}
		n, before := 0, ""
		table.tree.walk(func(id subjectID) int {
			text := string(table.text(id))
			if text != texts[id] || text <= before && n > 0 {
				t.Fatalf("round %d: subject %d of %d bytes is wrong, or out of order", round, id, len(text))
			}
			n, before = n+1, text
			return walkOn
		})
		for id, text := range texts {
			if table.find([]byte(text)) != id || string(table.text(id)) != text {
				t.Fatalf("round %d: subject %d of %d bytes is not found", round, id, len(text))
			}
		}
		if n != len(texts) {
			t.Fatalf("round %d: %d subjects are walked, want %d", round, n, len(texts))
		}
	}
}
