package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/jserr"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scenarios")

// TestScenarios runs the files of testdata. A file is a list of commands; what follows "----", up to an empty line, is
// what the command prints. Lines that begin with # are comments.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&scenario{t: t, now: time.Unix(1_700_000_000, 0).UTC()}).run(string(raw))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("the scenario went differently (run with -update to see the difference in the file):\n%s", firstLine(got, string(raw)))
			}
		})
	}
}

func firstLine(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d:\n%s\ngot:  %s\nwant: %s", i+1, strings.Join(g[max(i-4, 0):i], "\n"), g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g), len(w))
}

type scenario struct {
	t       *testing.T
	now     time.Time
	state   *State
	flight  []Message
	applied []func(*State) // for replay
	created api.StreamConfig
	effects Effects
	out     strings.Builder
	bodies  map[uint64]stored // what a stream would have in its log
	atomic  *AtomicBatches
	fast    *FastBatches
	pending []pendingFast
}

type stored struct{ subject, header, data string }

type pendingFast struct {
	reply []byte
	seq   uint64
}

func (s *scenario) run(text string) string {
	var file strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" && i == len(lines)-1 {
			break
		}
		file.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.out.Reset()
		s.effects.Reset()
		s.command(line)
		file.WriteString("----\n" + s.out.String())
		for i+1 < len(lines) && lines[i+1] != "" {
			i++
		}
	}
	return file.String()
}

// args are a command's words: key=value, or the value of "" for what has no key.
type args map[string]string

func (a args) number(key string) uint64 {
	n, _ := strconv.ParseUint(a[key], 10, 64)
	return n
}

func (s *scenario) command(line string) {
	words := strings.Fields(line)
	a := args{}
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			a[key] = value
		} else {
			a[""] = w
		}
	}
	commands := map[string]func(args){
		"create": s.create, "update": s.update, "publish": s.publish, "apply": s.apply, "delete": s.delete,
		"purge": s.purge, "advance": s.advance, "expire": s.expire, "state": s.print, "read": s.read, "restart": s.restart,
		"messages": s.messages, "batch": s.batch, "timeouts": s.timeouts, "fast": s.fastPublish, "stored": s.fastStored, "fire": s.fire,
	}
	run := commands[words[0]]
	if run == nil {
		s.t.Fatalf("no command %q", line)
	}
	run(a)
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// fault prints an error as a client would see it.
func (s *scenario) fault(err error) {
	var e *jserr.Error
	if !errors.As(err, &e) {
		s.t.Fatal(err)
	}
	s.printf("error %d: %s\n", e.Code, e.Description)
}

// config reads JSON fields: max_msgs=5 subjects=a,b.
func (s *scenario) config(base api.StreamConfig, a args) api.StreamConfig {
	fields := map[string]any{}
	raw, _ := json.Marshal(base)
	if err := json.Unmarshal(raw, &fields); err != nil {
		s.t.Fatal(err)
	}
	for key, value := range a {
		var v any
		switch {
		case key == "subjects":
			v = strings.Split(value, ",")
		case json.Unmarshal([]byte(value), &v) == nil:
		default:
			v = value
			if d, err := time.ParseDuration(value); err == nil {
				v = d
			}
		}
		fields[key] = v
	}
	raw, _ = json.Marshal(fields)
	var cfg api.StreamConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

func (s *scenario) create(a args) {
	cfg, err := CheckCreate(s.config(api.StreamConfig{Name: "S", Subjects: []string{"a.>", "b"}}, a), Limits{Settles: true}, false)
	if err != nil {
		s.fault(err)
		return
	}
	state, err := New(cfg, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.state, s.created, s.flight, s.applied = state, cfg, nil, nil
	pool := NewBatchPool(BatchLimits{PerStream: 2, FastPerStream: 2, Size: 3, Bytes: 1000})
	s.bodies, s.atomic, s.fast, s.pending = map[uint64]stored{}, NewAtomicBatches(pool), NewFastBatches(pool), nil
}

func (s *scenario) update(a args) {
	cfg, err := CheckConfig(s.config(s.state.Config(), a), Limits{Settles: true}, false)
	if err == nil {
		cfg, err = CheckUpdate(s.state.Config(), cfg)
	}
	if err != nil {
		s.fault(err)
		return
	}
	s.do(func(st *State, e *Effects) {
		if err := st.UpdateConfig(cfg, e); err != nil {
			s.t.Fatal(err)
		}
	})
}

// do applies a change, prints what it removed, and keeps it for the replay.
func (s *scenario) do(change func(*State, *Effects)) {
	change(s.state, &s.effects)
	s.applied = append(s.applied, func(st *State) { change(st, &Effects{}) })
	for _, r := range s.effects.Removed {
		s.printf("removed %d %s\n", r.Seq, r.Subject)
	}
	if r := s.effects.Republish; len(r.Subject) > 0 {
		s.printf("republish to %s, last sequence %d, headers only %t\n", r.Subject, r.LastSeq, r.HeadersOnly)
	}
}

// scenarioHeaders are the words that stand for headers. In their values _ stands for a blank.
var scenarioHeaders = []struct{ word, key string }{
	{"id", "Nats-Msg-Id"}, {"rollup", "Nats-Rollup"}, {"expect-stream", "Nats-Expected-Stream"}, {"expect-id", "Nats-Expected-Last-Msg-Id"},
	{"expect-last", "Nats-Expected-Last-Sequence"}, {"expect-subject", "Nats-Expected-Last-Subject-Sequence"},
	{"expect-of", "Nats-Expected-Last-Subject-Sequence-Subject"}, {"ttl", "Nats-TTL"}, {"incr", "Nats-Incr"}, {"schedule", "Nats-Schedule"},
	{"source", "Nats-Stream-Source"}, {"batch", "Nats-Batch-Id"}, {"seq", "Nats-Batch-Sequence"}, {"commit", "Nats-Batch-Commit"},
	{"level", "Nats-Required-Api-Level"}, {"scheduler", "Nats-Scheduler"}, {"next", "Nats-Schedule-Next"}, {"target", "Nats-Schedule-Target"},
	{"from", "Nats-Schedule-Source"}, {"schedule-ttl", "Nats-Schedule-TTL"}, {"schedule-rollup", "Nats-Schedule-Rollup"},
	{"zone", "Nats-Schedule-Time-Zone"}, {"sources", "Nats-Counter-Sources"}, {"x", "X"}, {"kv", "KV-Operation"}, {"reason", "Nats-Marker-Reason"},
}

// message reads a command that publishes.
func (s *scenario) message(a args) (p Publish, data []byte) {
	var header strings.Builder
	for _, h := range scenarioHeaders {
		if value, ok := a[h.word]; ok {
			fmt.Fprintf(&header, "%s: %s\r\n", h.key, strings.ReplaceAll(value, "_", " "))
		}
	}
	h := header.String()
	if h != "" {
		h = "NATS/1.0\r\n" + h + "\r\n"
	}
	data = bytes.Repeat([]byte{'.'}, int(a.number("data")))
	return Publish{Subject: []byte(a[""]), Header: []byte(h), Size: len(data), Reply: []byte(a["reply"])}, data
}

// publish b id=x data=10 then=apply: what it is given, or why not. With "apply" it becomes visible at once.
func (s *scenario) publish(a args) {
	p, data := s.message(a)
	got, err := s.state.Accept(p, s.now)
	for err == nil && got.Need > 0 {
		s.learn(got.Need)
		got, err = s.state.Accept(p, s.now)
	}
	switch {
	case err != nil:
		s.fault(err)
	case got.Duplicate && got.InFlight:
		s.printf("duplicate of %d, which is in flight\n", got.Seq)
	case got.Duplicate:
		s.printf("duplicate of %d\n", got.Seq)
	default:
		s.accepted(&got, &p, data)
		if a["then"] == "apply" {
			s.apply(args{})
		}
	}
}

// learn tells the State a message that it asks for.
func (s *scenario) learn(seq uint64) {
	m, ok := s.bodies[seq]
	if !ok {
		s.t.Fatalf("the State asks for message %d", seq)
	}
	s.printf("needs %d\n", seq)
	s.state.Learn(seq, []byte(m.subject), []byte(m.header), []byte(m.data))
}

// accepted prints what was accepted of a publish and has it in flight.
func (s *scenario) accepted(got *Accepted, p *Publish, data []byte) {
	s.printf("%d", got.Seq)
	if string(got.Subject) != string(p.Subject) {
		s.printf(" as %s", got.Subject)
	}
	if string(got.Header) != string(p.Header) {
		s.printf(" with %q", got.Header)
	}
	if got.Data != nil {
		s.printf(" containing %s, total %s", got.Data, got.Total)
		data = got.Data
	}
	s.printf("\n")
	m := Message{Seq: got.Seq, Time: got.Time, Subject: bytes.Clone(got.Subject), Header: bytes.Clone(got.Header), Size: len(data)}
	s.bodies[m.Seq] = stored{string(m.Subject), string(m.Header), string(data)}
	s.flight = append(s.flight, m)
}

// batch b batch=x seq=1 commit=1: what becomes of a message of an atomic batch.
func (s *scenario) batch(a args) {
	p, data := s.message(a)
	step := s.atomic.Offer(s.state, p, data, s.now)
	if step.Abandoned != "" {
		s.printf("abandoned: %s\n", step.Abandoned)
	}
	switch {
	case step.Err != nil:
		s.fault(step.Err)
		return
	case step.Commit == nil:
		s.printf("staged\n")
		return
	}
	all, need, err := s.state.AcceptBatch(step.Commit, s.now)
	for need > 0 {
		s.learn(need)
		all, need, err = s.state.AcceptBatch(step.Commit, s.now)
	}
	s.atomic.Close(step.ID)
	if err != nil {
		s.fault(err)
		return
	}
	for i := range all {
		s.accepted(&all[i], &step.Commit[i], step.Bodies[i])
	}
	if a["then"] == "apply" {
		s.apply(args{})
	}
}

// timeouts lists the atomic batches that waited for too long.
func (s *scenario) timeouts(args) {
	for _, id := range s.atomic.Timeouts(s.now) {
		s.printf("%s timed out\n", id)
	}
	s.fast.Timeouts(s.now)
}

// fast b reply=x.batch.10.fail.1.0.$FI: what becomes of a message of a fast batch.
func (s *scenario) fastPublish(a args) {
	p, data := s.message(a)
	replies, store := s.fast.Offer(s.state, &p, s.now, nil)
	s.fastReplies(replies)
	if !store {
		return
	}
	m, _ := ParseFast(p.Reply)
	got, err := s.state.AcceptFast(p, s.now)
	switch {
	case err == nil && !got.Duplicate:
		s.accepted(&got, &p, data)
	case err == nil && got.InFlight:
		s.printf("duplicate of %d, which is in flight\n", got.Seq)
	default:
		s.fastReplies(s.fast.Refused(&m, got.Seq, err, nil))
		return
	}
	s.fast.Accepted(m.ID)
	s.pending = append(s.pending, pendingFast{p.Reply, got.Seq})
}

// stored makes the first messages of fast batches visible: stored 2.
func (s *scenario) fastStored(a args) {
	for range a.number("") {
		next := s.pending[0]
		s.pending = s.pending[1:]
		duplicate := next.seq <= s.state.LastSeq()
		if !duplicate {
			all := s.flight
			s.flight = all[:1]
			s.apply(nil)
			s.flight = all[1:]
		}
		m, _ := ParseFast(next.reply)
		s.fastReplies(s.fast.Stored(&m, next.seq, duplicate, nil))
	}
}

func (s *scenario) fastReplies(replies []FastReply) {
	for _, r := range replies {
		switch {
		case r.Err != nil:
			s.fault(r.Err)
		case r.Body != nil:
			s.printf("%s\n", r.Body)
		default:
			s.printf("batch %s of %d ends with %d, duplicate %t\n", r.ID, r.Count, r.Seq, r.Duplicate)
		}
	}
}

// fire publishes what the schedules that are due say.
func (s *scenario) fire(args) {
	for {
		f, ok := s.state.Fire(s.now)
		if !ok {
			break
		}
		plan := s.bodies[f.Seq]
		content := plan
		if source := ScheduleSource([]byte(plan.header)); len(source) > 0 {
			filter, err := CompileFilter(string(source))
			if err != nil {
				s.t.Fatal(err)
			}
			if last, ok := s.state.Last(filter, 0); ok {
				content = s.bodies[last.Seq]
			}
		}
		got, ok := s.state.AcceptFiring(f, []byte(plan.header), []byte(content.header), len(content.data), s.now)
		if !ok {
			s.printf("%s cannot fire\n", f.Subject)
			continue
		}
		s.printf("%s fires: %s ", f.Subject, got.Subject)
		s.accepted(&got, &Publish{Subject: got.Subject}, []byte(content.data))
	}
	if next := s.state.NextFiring(); !next.IsZero() {
		s.printf("next in %v\n", next.Sub(s.now))
	}
}

func (s *scenario) apply(args) {
	for _, m := range s.flight {
		s.do(func(st *State, e *Effects) {
			if err := st.Apply(m, e); err != nil {
				s.t.Fatal(err)
			}
		})
		s.effects.Reset()
	}
	s.flight = nil
}

func (s *scenario) delete(a args) {
	seq := a.number("")
	if err := s.state.CheckDelete(seq); err != nil {
		s.fault(err)
		return
	}
	s.do(func(st *State, e *Effects) { st.Delete(seq, e) })
}

func (s *scenario) purge(a args) {
	p := Purge{Subject: a["filter"], Upto: a.number("seq"), Keep: a.number("keep")}
	if err := s.state.AcceptPurge(p); err != nil {
		s.fault(err)
		return
	}
	s.apply(nil)
	s.do(func(st *State, e *Effects) { st.Purge(p, e) })
	s.printf("purged %d\n", s.effects.Count)
}

func (s *scenario) advance(a args) {
	d, err := time.ParseDuration(a[""])
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(d)
}

// expire carries out what is due. Delete markers are in flight afterwards.
func (s *scenario) expire(args) {
	var d Due
	s.state.Due(s.now, 1000, &d)
	for _, seq := range d.Markers {
		got, ok := s.state.AcceptMarker(seq, s.now)
		if !ok {
			s.t.Fatalf("no message %d to be replaced", seq)
		}
		m := Message{Seq: got.Seq, Time: got.Time, Subject: bytes.Clone(got.Subject), Header: bytes.Clone(got.Header)}
		s.bodies[m.Seq] = stored{string(m.Subject), string(m.Header), ""}
		s.printf("%d marks the end of %s: %q\n", m.Seq, m.Subject, m.Header)
		s.flight = append(s.flight, m)
	}
	seqs := slices.Clone(d.Seqs)
	s.do(func(st *State, e *Effects) {
		st.ExpireBefore(d.Before, e)
		for _, seq := range seqs {
			st.Delete(seq, e)
		}
	})
	if next := s.state.NextExpiry(); !next.IsZero() {
		s.printf("next in %v\n", next.Sub(s.now))
	}
}

func (s *scenario) print(args) {
	st := s.state
	s.printf("%d messages, %d bytes, %d to %d, %d subjects, %d deleted, %d in flight\n",
		st.Msgs(), st.Bytes(), st.FirstSeq(), st.LastSeq(), st.NumSubjects(), st.NumDeleted(), st.InFlight())
}

func (s *scenario) messages(args) {
	for m, ok := s.state.Next(nil, 0); ok; m, ok = s.state.Next(nil, m.Seq+1) {
		s.printf("%d %s\n", m.Seq, m.Subject)
	}
}

// read filter=a.*,b from=3: what a reader with that filter sees from there.
func (s *scenario) read(a args) {
	var subjects []string
	if a["filter"] != "" {
		subjects = strings.Split(a["filter"], ",")
	}
	f, err := CompileFilter(subjects...)
	if err != nil {
		s.t.Fatal(err)
	}
	from := a.number("from")
	next, _ := s.state.Next(f, from)
	last, _ := s.state.Last(f, 0)
	lasts, _ := s.state.LastPerSubject(nil, f, 0, 0)
	counts, _ := s.state.Subjects(f, 0, 100)
	s.printf("next %d, pending %d, last %d, last per subject %v, subjects %v\n", next.Seq, s.state.Pending(f, from), last.Seq, lasts, counts)
}

// restart goes on with a snapshot (from=snapshot) or with a replay of what was applied. What was in flight is lost.
func (s *scenario) restart(a args) {
	s.flight = nil
	if a["from"] == "snapshot" {
		b, err := s.state.Snapshot(nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.state, err = Restore(b); err != nil {
			s.t.Fatal(err)
		}
	} else {
		fresh, err := New(s.created, s.state.Created())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, change := range s.applied {
			change(fresh)
		}
		s.state = fresh
	}
	s.print(nil)
}
