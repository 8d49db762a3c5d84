package stream

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// kindRun drives a State at random with what only some streams take, and keeps all that a log would have.
type kindRun struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     api.StreamConfig
	state   *State
	now     time.Time
	flight  []Message
	bodies  map[uint64]stored
	log     []func(*State)
	effects Effects
}

func newKindRun(t *testing.T, seed uint64, cfg api.StreamConfig) *kindRun {
	cfg.Name, cfg.Subjects = "S", []string{"a.>"}
	cfg, err := CheckConfig(cfg, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &kindRun{t: t, rng: rand.New(rand.NewPCG(seed, 11)), cfg: cfg, now: time.Unix(1_700_000_000, 0).UTC(), bodies: map[uint64]stored{}}
	if r.state, err = New(cfg, r.now); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *kindRun) accepted(a *Accepted, data []byte) {
	if a.Data != nil {
		data = a.Data
	}
	m := Message{Seq: a.Seq, Time: a.Time, Subject: bytes.Clone(a.Subject), Header: bytes.Clone(a.Header), Size: len(data)}
	r.bodies[m.Seq] = stored{string(m.Subject), string(m.Header), string(data)}
	r.flight = append(r.flight, m)
}

func (r *kindRun) change(f func(*State, *Effects)) {
	r.effects.Reset()
	f(r.state, &r.effects)
	r.log = append(r.log, func(s *State) { f(s, &Effects{}) })
}

func (r *kindRun) apply(n int) {
	for ; n > 0 && len(r.flight) > 0; n-- {
		m := r.flight[0]
		r.flight = r.flight[1:]
		r.change(func(s *State, e *Effects) {
			if err := s.Apply(m, e); err != nil {
				r.t.Fatal(err)
			}
		})
	}
}

// remove deletes or purges something.
func (r *kindRun) remove() {
	if r.rng.IntN(8) == 0 {
		r.change(func(s *State, e *Effects) { s.Purge(Purge{}, e) })
		return
	}
	seq := r.state.FirstSeq() + r.rng.Uint64N(r.state.LastSeq()+2-r.state.FirstSeq())
	r.change(func(s *State, e *Effects) { s.Delete(seq, e) })
}

// restart goes on with a snapshot or a replay, which must agree, without what is in flight.
func (r *kindRun) restart() {
	fresh, err := New(r.cfg, r.state.Created())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range r.log {
		f(fresh)
	}
	a, errA := r.state.Snapshot(nil)
	b, errB := fresh.Snapshot(nil)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		r.t.Fatalf("a replay gives another state (%v, %v)", errA, errB)
	}
	if r.rng.IntN(2) == 0 {
		if fresh, err = Restore(a); err != nil {
			r.t.Fatal(err)
		}
	}
	r.state, r.flight = fresh, nil
}

func (r *kindRun) subject() string { return fmt.Sprintf("a.%d", r.rng.IntN(4)) }

// last is the sequence of the last message of a subject, in flight or visible.
func (r *kindRun) last(subj string) (seq uint64) {
	for m, ok := r.state.Next(nil, 0); ok; m, ok = r.state.Next(nil, m.Seq+1) {
		if string(m.Subject) == subj {
			seq = m.Seq
		}
	}
	for _, m := range r.flight {
		if string(m.Subject) == subj {
			seq = m.Seq
		}
	}
	return seq
}

func TestCountersAgainstTheirLastMessages(t *testing.T) {
	for seed := range uint64(20) {
		r := newKindRun(t, seed, api.StreamConfig{AllowMsgCounter: true, AllowAtomicPublish: true, MaxMsgsPer: int64(seed%3) - 1})
		for range 300 {
			switch n := r.rng.IntN(20); {
			case n < 10:
				r.countOne()
			case n < 12:
				r.countBatch()
			case n < 17:
				r.apply(1 + r.rng.IntN(3))
			case n < 19:
				r.remove()
			default:
				r.restart()
			}
		}
		r.restart()
	}
}

// counted is what a subject's last message says.
func (r *kindRun) counted(subj string) *big.Int {
	total := new(big.Int)
	if seq := r.last(subj); seq > 0 {
		body := strings.TrimSuffix(strings.TrimPrefix(r.bodies[seq].data, `{"val":"`), `"}`)
		if _, ok := total.SetString(body, 10); !ok {
			r.t.Fatalf("message %d is %s", seq, r.bodies[seq].data)
		}
	}
	return total
}

func (r *kindRun) increment() (by int64, header string) {
	by = r.rng.Int64N(100) - 40
	return by, fmt.Sprintf("NATS/1.0\r\nNats-Incr: %d\r\n", by)
}

func (r *kindRun) learn(seq uint64) {
	b := r.bodies[seq]
	r.state.Learn(seq, []byte(b.subject), []byte(b.header), []byte(b.data))
}

func (r *kindRun) countOne() {
	subj := r.subject()
	by, header := r.increment()
	want := new(big.Int).Add(r.counted(subj), big.NewInt(by))
	p := Publish{Subject: []byte(subj), Header: []byte(header + "\r\n")}
	a, err := r.state.Accept(p, r.now)
	if a.Need > 0 {
		r.learn(a.Need)
		a, err = r.state.Accept(p, r.now)
	}
	if err != nil || a.Need > 0 || a.Total != want.String() {
		r.t.Fatalf("%s by %d is %+v, %v; want %v", subj, by, a, err, want)
	}
	r.accepted(&a, nil)
}

func (r *kindRun) countBatch() {
	sums := map[string]*big.Int{}
	var batch []Publish
	var want []string
	for i := range 1 + r.rng.IntN(4) {
		subj := r.subject()
		by, header := r.increment()
		if sums[subj] == nil {
			sums[subj] = r.counted(subj)
		}
		sums[subj] = new(big.Int).Add(sums[subj], big.NewInt(by))
		want = append(want, sums[subj].String())
		batch = append(batch, Publish{Subject: []byte(subj), Header: fmt.Appendf(nil, "%sNats-Batch-Id: k\r\nNats-Batch-Sequence: %d\r\n\r\n", header, i+1)})
	}
	all, need, err := r.state.AcceptBatch(batch, r.now)
	for need > 0 {
		r.learn(need)
		all, need, err = r.state.AcceptBatch(batch, r.now)
	}
	if err != nil || len(all) != len(batch) {
		r.t.Fatalf("batch: %v, %v", all, err)
	}
	for i := range all {
		if all[i].Total != want[i] {
			r.t.Fatalf("message %d of a batch counts to %s, want %s", i, all[i].Total, want[i])
		}
		r.accepted(&all[i], nil)
	}
}

// TestSchedulesAgainstAList compares when schedules fire with a list of them.
func TestSchedulesAgainstAList(t *testing.T) {
	for seed := range uint64(20) {
		r := newKindRun(t, seed, api.StreamConfig{AllowMsgSchedules: true})
		for step := range 300 {
			r.now = r.now.Add(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
			switch n := r.rng.IntN(20); {
			case n < 6:
				r.schedule()
			case n < 12:
				r.apply(1 + r.rng.IntN(3))
			case n < 16:
				r.fire()
			case n < 18:
				if list := r.state.plans.list(); len(list) > 0 {
					seq := list[r.rng.IntN(len(list))].seq
					r.change(func(s *State, e *Effects) { s.Delete(seq, e) })
				}
			case n < 19:
				// It ends a schedule, for good only together with it.
				a, err := r.state.Accept(Publish{Subject: []byte(r.subject()), Header: []byte("NATS/1.0\r\nNats-Rollup: sub\r\n\r\n")}, r.now)
				if err != nil {
					t.Fatal(err)
				}
				r.accepted(&a, nil)
			default:
				r.restart()
			}
			r.checkSchedules(step)
		}
	}
}

func (r *kindRun) schedule() {
	pattern := fmt.Sprintf("@every %ds", 1+r.rng.IntN(5))
	if r.rng.IntN(3) == 0 {
		pattern = "@at " + r.now.Add(time.Duration(r.rng.IntN(5))*time.Second).Format(time.RFC3339)
	}
	h := fmt.Appendf(nil, "NATS/1.0\r\nNats-Schedule: %s\r\nNats-Schedule-Target: a.out\r\n\r\n", pattern)
	a, err := r.state.Accept(Publish{Subject: []byte(r.subject()), Header: h}, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	r.accepted(&a, nil)
}

func (r *kindRun) fire() {
	for {
		f, ok := r.state.Fire(r.now)
		if !ok {
			return
		}
		if f.At > r.now.UnixNano() || r.bodies[f.Seq].subject != f.Subject {
			r.t.Fatalf("%+v fires at %d", f, r.now.UnixNano())
		}
		plan := r.bodies[f.Seq]
		a, ok := r.state.AcceptFiring(f, []byte(plan.header), []byte(plan.header), len(plan.data), r.now)
		if !ok {
			r.t.Fatalf("%+v does not fire", f)
		}
		r.accepted(&a, []byte(plan.data))
	}
}

// checkSchedules compares the schedules with the visible messages: each subject's last one, and the newest message that
// it published.
func (r *kindRun) checkSchedules(step int) {
	want := map[uint64]int64{}
	next := map[string]int64{}
	bySubject := map[string]uint64{}
	for m, ok := r.state.Next(nil, 0); ok; m, ok = r.state.Next(nil, m.Seq+1) {
		h := parseHeaders([]byte(r.bodies[m.Seq].header))
		subj := string(m.Subject)
		if len(h.scheduler) > 0 {
			if at, err := time.Parse(time.RFC3339Nano, string(h.scheduleNext)); err == nil {
				next[string(h.scheduler)] = at.UnixNano()
			}
			continue
		}
		delete(want, bySubject[subj])
		delete(next, subj)
		bySubject[subj] = m.Seq
		if at, _, err := nextFiring(h.schedule, nil, m.Time, m.Time); err == nil && !at.IsZero() {
			want[m.Seq] = at.UnixNano()
		}
	}
	var seqs []uint64
	for _, p := range r.state.plans.list() {
		seqs = append(seqs, p.seq)
		if p.index < 0 {
			continue // it is firing
		}
		at, told := next[p.subject]
		if !told {
			at = want[p.seq]
		}
		if p.at != at {
			r.t.Fatalf("step %d: the schedule on %s fires at %d, want %d (%t)", step, p.subject, p.at, at, told)
		}
	}
	for _, seq := range seqs {
		if _, ok := want[seq]; !ok {
			r.t.Fatalf("step %d: message %d has no schedule", step, seq)
		}
	}
	if len(seqs) != len(want) {
		r.t.Fatalf("step %d: schedules in %v, want %v", step, seqs, want)
	}
}

// TestABatchIsAcceptedAsAWholeOrNotAtAll puts batches with all kinds of headers to streams that are nearly full.
func TestABatchIsAcceptedAsAWholeOrNotAtAll(t *testing.T) {
	accepted, refused := 0, 0
	for seed := range uint64(30) {
		cfg := api.StreamConfig{AllowAtomicPublish: true, RollupAllowed: true, MaxMsgs: 12, MaxMsgsPer: int64(seed%4) - 1, Discard: api.DiscardPolicy(seed % 2)}
		cfg.DiscardNewPer = cfg.Discard == api.DiscardNew && cfg.MaxMsgsPer > 0
		r := newKindRun(t, seed, cfg)
		for range 200 {
			switch n := r.rng.IntN(10); {
			case n < 5:
				if r.tryBatch() {
					accepted++
				} else {
					refused++
				}
			case n < 8:
				r.apply(1 + r.rng.IntN(6))
			case n < 9:
				r.remove()
			default:
				r.restart()
			}
			r.checkLimits()
		}
	}
	if accepted < 500 || refused < 500 {
		t.Errorf("%d batches were accepted and %d refused: too few to say much", accepted, refused)
	}
}

func (r *kindRun) tryBatch() bool {
	var batch []Publish
	ids := map[string]bool{}
	var clash bool
	for i := range 1 + r.rng.IntN(4) {
		subj := r.subject()
		h := fmt.Appendf(nil, "NATS/1.0\r\nNats-Batch-Id: k\r\nNats-Batch-Sequence: %d\r\n", i+1)
		switch r.rng.IntN(8) {
		case 0:
			id := fmt.Sprint(r.rng.IntN(40))
			clash = clash || ids[id]
			ids[id] = true
			h = fmt.Appendf(h, "Nats-Msg-Id: %s\r\n", id)
		case 1:
			h = fmt.Appendf(h, "Nats-Expected-Last-Subject-Sequence: %d\r\n", r.last(subj))
			clash = clash || slices.ContainsFunc(batch, func(p Publish) bool { return string(p.Subject) == subj })
		case 2:
			h = append(h, "Nats-Rollup: sub\r\n"...)
			clash = clash || slices.ContainsFunc(batch, func(p Publish) bool { return string(p.Subject) == subj })
		}
		batch = append(batch, Publish{Subject: []byte(subj), Header: append(h, "\r\n"...)})
	}
	before, _ := r.state.Snapshot(nil)
	next, flight := r.state.AcceptedSeq(), r.state.InFlight()
	all, _, err := r.state.AcceptBatch(batch, r.now)
	if err != nil {
		after, _ := r.state.Snapshot(nil)
		if len(all) > 0 || r.state.AcceptedSeq() != next || r.state.InFlight() != flight || !bytes.Equal(before, after) {
			r.t.Fatalf("a refused batch (%v) left traces", err)
		}
		return false
	}
	if clash {
		r.t.Fatalf("accepted although it contradicts itself: %v", batch)
	}
	for i := range all {
		if all[i].Seq != next+uint64(i)+1 || string(all[i].Subject) != string(batch[i].Subject) {
			r.t.Fatalf("message %d of a batch is %+v after %d", i, all[i], next)
		}
		r.accepted(&all[i], nil)
	}
	return true
}

// checkLimits looks whether a stream that refuses what it has no room for is beyond its limits.
func (r *kindRun) checkLimits() {
	if r.cfg.Discard != api.DiscardNew {
		return
	}
	if n := int64(r.state.Msgs()); n > r.cfg.MaxMsgs {
		r.t.Fatalf("%d messages", n)
	}
	counts, _ := r.state.Subjects(nil, 0, 100)
	for _, c := range counts {
		if r.cfg.MaxMsgsPer > 0 && int64(c.Msgs) > r.cfg.MaxMsgsPer {
			r.t.Fatalf("%+v", c)
		}
	}
}
