package wal

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

var update = flag.Bool("update", false, "rewrite the expectations under testdata")

// TestMachine runs the scenarios under testdata/machine: each paragraph is some commands, a line "----", and what the
// machine answers to them. The commands:
//
//	open rate=R burst=N inflight=N batch=BYTES pending=BYTES gather=N% lazy=D resolve=D   a fresh machine at time 0
//	append BYTES [lazy] [xN]     N entries
//	at D                         it is time D
//	put OFFSET ok|precondition|unknown|throttled|full|denied|invalid    how a create ended
//	check OFFSET mine|fence|other|absent|failed             what a read-back found
//	close
//
// After each command the machine takes a step. Answers: put, check and commit with the offset; when it wants to step
// again, and which entries would make it step before; "dead" with the reason.
func TestMachine(t *testing.T) {
	files, err := filepath.Glob("testdata/machine/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			s := &scenario{t: t}
			for i, paragraph := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
				commands, want, _ := strings.Cut(paragraph+"\n", "----\n")
				got := s.run(commands)
				if strings.TrimSpace(got) != strings.TrimSpace(want) && !*update {
					t.Errorf("paragraph %d:\n%sgives\n%swant\n%s", i+1, commands, got, want)
				}
				if i > 0 {
					out.WriteByte('\n')
				}
				out.WriteString(commands)
				if got != "" {
					out.WriteString("----\n" + got)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type scenario struct {
	t     *testing.T
	m     *machine
	start time.Time
	now   time.Time
	dead  bool // its death was printed
	out   strings.Builder
}

func (s *scenario) run(commands string) string {
	s.out.Reset()
	for line := range strings.Lines(commands) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if words := strings.Fields(line); len(words) > 0 {
			s.command(words)
			s.step()
		}
	}
	return s.out.String()
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scenario) command(words []string) {
	switch args := words[1:]; words[0] {
	case "open":
		s.open(args)
	case "append":
		s.append(args)
	case "at":
		s.now = s.start.Add(s.duration(args[0]))
	case "put":
		s.m.putDone(s.batch(args[0]), s.putError(args[1]), s.now)
	case "check":
		b := s.batch(args[0])
		switch args[1] {
		case "mine":
			s.m.checkDone(b, foundMine, nil, s.now)
		case "fence":
			s.m.checkDone(b, foundFence, &FenceError{Key: "KEY", Fence: Fence{Node: "n2", Epoch: 7}}, s.now)
		case "other":
			s.m.checkDone(b, foundOther, errors.New("put by somebody"), s.now)
		case "absent":
			s.m.checkDone(b, foundNothing, store.ErrNotFound, s.now)
		case "failed":
			s.m.checkDone(b, foundUnknown, errors.New("no answer"), s.now)
		default:
			s.t.Fatalf("unknown finding %q", args[1])
		}
	case "close":
		s.m.closing = true
	default:
		s.t.Fatalf("unknown command %q", words)
	}
}

func (s *scenario) open(args []string) {
	s.start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.now = s.start
	opts := Options{ID: testID}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "rate":
			opts.Rate = float64(s.number(value))
		case "burst":
			opts.Burst = s.number(value)
		case "inflight":
			opts.MaxInFlight = s.number(value)
		case "batch":
			opts.MaxBatchBytes = s.number(value)
		case "pending":
			opts.MaxPendingBytes = int64(s.number(value))
		case "gather":
			percent := s.number(strings.TrimSuffix(value, "%"))
			opts.Gather = float64(percent) / 100
		case "lazy":
			opts.LazyWindow = s.duration(value)
		case "resolve":
			opts.ResolveTimeout = s.duration(value)
		default:
			s.t.Fatalf("unknown option %q", arg)
		}
	}
	opts.setDefaults()
	s.m, s.dead = newMachine(opts, s.now), false
}

func (s *scenario) append(args []string) {
	lazy, times := false, 1
	for _, arg := range args[1:] {
		if arg == "lazy" {
			lazy = true
		} else {
			times = s.number(strings.TrimPrefix(arg, "x"))
		}
	}
	for range times {
		e := &Entry{Data: make([]byte, s.number(args[0])), Records: 1, Lazy: lazy}
		wake, err := s.m.append(e, func() time.Time { return s.now })
		if err != nil {
			s.printf("refused: %v", err)
		}
		if wake {
			s.printf("wake")
		}
	}
}

// step prints what the machine wants.
func (s *scenario) step() {
	actions, at := s.m.step(s.now, nil)
	for _, a := range actions {
		switch a.kind {
		case actPut:
			s.printf("put %d: %d entries, %d bytes", a.batch.offset, len(a.batch.entries), a.batch.bytes)
		case actCheck:
			s.printf("check %d", a.batch.offset)
		case actCommit:
			s.printf("commit %d: %d entries", a.batch.offset, len(a.batch.entries))
			s.m.recycle(a.batch)
		}
	}
	if s.m.err != nil {
		if !s.dead {
			s.dead = true
			s.printf("dead: %v", s.m.err)
			for _, b := range s.m.drain() {
				s.printf("give back %d entries", len(b.entries))
			}
		}
		return
	}
	if s.m.finished() {
		s.printf("finished")
		return
	}
	var on []string
	if !at.IsZero() {
		on = append(on, "at "+at.Sub(s.start).Round(time.Millisecond).String())
	}
	for _, wake := range []struct {
		on   bool
		name string
	}{{s.m.wakeUrgent, "urgent"}, {s.m.wakeLazy, "lazy"}, {s.m.wakeFull, "full"}, {s.m.wakeComplete, "complete"}} {
		if wake.on {
			on = append(on, wake.name)
		}
	}
	if len(on) > 0 {
		s.printf("  until %s", strings.Join(on, ", "))
	}
}

func (s *scenario) putError(word string) error {
	switch word {
	case "ok":
		return nil
	case "precondition":
		return store.ErrPrecondition
	case "unknown":
		return store.ErrUnknownOutcome
	case "throttled":
		return store.ErrThrottled
	case "full":
		return store.ErrFull
	case "denied":
		return errors.New("access denied")
	case "invalid":
		return store.ErrInvalidKey
	}
	s.t.Fatalf("unknown outcome %q", word)
	return nil
}

func (s *scenario) batch(word string) *batch {
	for _, b := range s.m.inFlight {
		if b.offset == Offset(s.number(word)) {
			return b
		}
	}
	s.t.Fatalf("no batch %s is under way", word)
	return nil
}

func (s *scenario) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
