package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// TestAgainstModel runs random commands against the State and the naive model and compares everything that can be
// read, at every step. It also goes through snapshots and replays.
func TestAgainstModel(t *testing.T) {
	seeds, steps := 60, 400
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			newRandomRun(t, uint64(seed)).run(steps)
		})
	}
}

// TestThinningOut fills a stream with thousands of messages and deletes most of them again in random order, in several
// rounds, so that the index has blocks and runs that thin out, join and vanish.
func TestThinningOut(t *testing.T) {
	for seed := range 2 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRandomRun(t, uint64(1000+seed))
			r.cfg.MaxMsgs, r.cfg.MaxBytes, r.cfg.MaxMsgsPer, r.cfg.MaxAge = -1, -1, -1, 0
			if seed%2 == 1 {
				r.cfg.MaxMsgsPer = 100
			}
			r.cfg.Discard, r.cfg.DiscardNewPer, r.cfg.RollupAllowed = api.DiscardOld, false, false
			r.start()
			for range 3 {
				r.fill(1600)
				r.thinOut()
			}
			r.checkSnapshot()
			r.checkReplay()
		})
	}
}

// TestPurgeEverything purges thousands of messages while others are in flight.
func TestPurgeEverything(t *testing.T) {
	r := newRandomRun(t, 5)
	r.cfg.MaxMsgs, r.cfg.MaxBytes, r.cfg.MaxMsgsPer, r.cfg.MaxAge = -1, -1, 3, 0
	r.cfg.Discard, r.cfg.DiscardNewPer, r.cfg.RollupAllowed, r.cfg.MaxMsgSize = api.DiscardNew, false, true, -1
	r.start()
	for i := range clearFrom + 200 {
		r.compareAccept(modelPublish{subject: fmt.Sprint("a.", i), data: 1})
		r.apply()
	}
	for range 50 {
		r.publish()
	}
	r.effects.Reset()
	r.purgeBy(Purge{})
	r.compare("the purge")
	for i := 0; len(r.model.flight) > 0; i++ {
		r.effects.Reset()
		r.apply()
		r.compare("applying")
		if i%2 == 0 {
			r.publish()
		}
	}
	r.checkSnapshot()
	r.checkReplay()
}

func (r *randomRun) fill(n int) {
	for i := range n {
		r.now = r.now.Add(time.Duration(r.rng.Int64N(int64(time.Second))))
		r.effects.Reset()
		p := modelPublish{subject: randomSubject(r.rng), data: r.rng.IntN(10)}
		if i > n/2 && r.rng.IntN(2) == 0 {
			p.subject = "hot"
		}
		r.compareAccept(p)
		r.apply()
	}
	r.compare("filling")
}

func (r *randomRun) thinOut() {
	order := r.rng.Perm(len(r.model.msgs))
	seqs := make([]uint64, len(order))
	for i, k := range order {
		seqs[i] = r.model.msgs[k].seq
	}
	for i, seq := range seqs[:len(seqs)*9/10] {
		r.effects.Reset()
		r.delete(seq)
		if i%50 == 0 {
			r.compare("thinning out")
		}
	}
}

func (r *randomRun) compare(after string) {
	r.t.Helper()
	if err := r.model.compare(r.state, r.rng, r.filters...); err != nil {
		r.t.Fatalf("after %s:\n%v\nconfig %+v", after, err, r.model.cfg)
	}
}

type randomRun struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     api.StreamConfig
	state   *State
	model   *model
	now     time.Time
	log     []func(*State) // what was applied, for the replay
	effects Effects
	filters []*Filter // are used again and again, so that what they remember is put to the test
}

func newRandomRun(t *testing.T, seed uint64) *randomRun {
	r := &randomRun{t: t, rng: rand.New(rand.NewPCG(seed, 7))}
	r.cfg = r.randomConfig()
	r.start()
	return r
}

func (r *randomRun) start() {
	var err error
	r.now = time.Unix(1_700_000_000, 0).UTC()
	if r.state, err = New(r.cfg, r.now); err != nil {
		r.t.Fatal(err)
	}
	r.model, r.log, r.filters = newModel(r.cfg), nil, nil
	for range 3 {
		r.filters = append(r.filters, randomFilter(r.rng))
	}
	for _, p := range rarePatterns[:1+r.rng.IntN(len(rarePatterns))] {
		f, err := CompileFilter(p)
		if err != nil {
			r.t.Fatal(err)
		}
		r.filters = append(r.filters, f)
	}
	r.model.clock = 0
}

func (r *randomRun) oneOf(values ...int64) int64 { return values[r.rng.IntN(len(values))] }

func (r *randomRun) randomConfig() api.StreamConfig {
	cfg := api.StreamConfig{
		Name: "S", Subjects: []string{">"}, NoAck: true, MaxMsgsPer: r.oneOf(-1, -1, 1, 2, 3, 5), MaxMsgs: r.oneOf(-1, -1, 5, 20),
		MaxBytes: r.oneOf(-1, -1, 300, 2000), MaxMsgSize: int32(r.oneOf(-1, 400)), MaxAge: time.Duration(r.oneOf(0, 0, 20)) * time.Second,
		Storage: api.StorageType(r.rng.IntN(2)), Discard: api.DiscardPolicy(r.rng.IntN(2)), Duplicates: time.Duration(r.oneOf(1, 10)) * time.Second,
		RollupAllowed: r.rng.IntN(2) == 0, AllowMsgTTL: r.rng.IntN(2) == 0, FirstSeq: uint64(r.oneOf(0, 0, 100)),
	}
	if r.rng.IntN(3) == 0 {
		cfg.SubjectDeleteMarkerTTL = time.Duration(r.oneOf(1, 3, 20)) * time.Second
	}
	if r.rng.IntN(3) == 0 {
		cfg.Subjects = []string{"a.>", "a", "b.*", "c"}
	}
	cfg.DiscardNewPer = cfg.Discard == api.DiscardNew && cfg.MaxMsgsPer > 0 && r.rng.IntN(2) == 0
	out, err := CheckConfig(cfg, Limits{}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *randomRun) run(steps int) {
	for i := range steps {
		r.now = r.now.Add(time.Duration(r.rng.Int64N(int64(time.Second))) - 100*time.Millisecond)
		r.effects.Reset()
		what := r.step()
		r.compare(fmt.Sprintf("step %d: %s", i, what))
		if r.rng.IntN(40) == 0 {
			r.checkSnapshot()
			r.checkReplay()
		}
	}
	r.checkReplay()
}

func (r *randomRun) step() string {
	n := r.rng.IntN(100)
	switch {
	case n < 15:
		return r.remove()
	case n < 19:
		return r.update()
	case n < 60 || len(r.model.flight) == 0:
		return r.publish()
	default:
		return r.apply()
	}
}

func (r *randomRun) apply() string {
	x, want := r.model.apply()
	if r.rng.IntN(4) == 0 {
		x.place = Place(r.rng.Uint64())
	}
	for i := range r.model.msgs {
		if r.model.msgs[i].seq == x.seq {
			r.model.msgs[i].place = x.place
		}
	}
	for i := range want {
		if want[i].seq == x.seq {
			want[i].place = x.place
		}
	}
	msg := Message{Seq: x.seq, Time: x.time, Subject: []byte(x.subject), Header: []byte(x.header), Size: x.data, Place: x.place}
	if err := r.state.Apply(msg, &r.effects); err != nil {
		r.t.Fatal(err)
	}
	r.log = append(r.log, func(s *State) {
		if err := s.Apply(msg, &Effects{}); err != nil {
			r.t.Fatal(err)
		}
	})
	r.checkRemoved("apply", want)
	return fmt.Sprintf("apply %+v", x)
}

func (r *randomRun) checkRemoved(what string, want []modelMessage) {
	r.t.Helper()
	if got, want := describeRemoved(&r.effects), describeModelRemoved(want); got != want {
		r.t.Fatalf("%s removed %s, want %s\nconfig %+v", what, got, want, r.model.cfg)
	}
}

func (r *randomRun) publish() string {
	p := modelPublish{subject: randomSubject(r.rng), data: r.rng.IntN(60)}
	maybe := func(n int) bool { return r.rng.IntN(n) == 0 }
	near := func() string { return fmt.Sprint(r.model.next - 1 - min(r.model.next-1, uint64(r.rng.IntN(3)))) }
	if maybe(3) {
		p.id = fmt.Sprint("id", r.rng.IntN(20))
	}
	if maybe(8) {
		p.rollup = []string{"sub", "all", "sub", "other"}[r.rng.IntN(4)]
	}
	if maybe(20) {
		p.stream = []string{"S", "T"}[r.rng.IntN(2)]
	}
	if maybe(20) {
		p.lastID = []string{r.model.lastID(), "x"}[r.rng.IntN(2)]
	}
	if maybe(10) {
		p.expectLast = near()
	}
	if maybe(5) {
		p.expectSubject = near()
		if maybe(2) {
			p.expectSubject = "0"
		}
		if maybe(3) {
			p.ofSubject = randomPattern(r.rng)
		}
	} else if maybe(30) {
		p.ofSubject = randomSubject(r.rng)
	}
	if maybe(50) || r.model.cfg.AllowMsgTTL && maybe(3) {
		p.ttl = []string{"never", "5s", "5", "1"}[r.rng.IntN(4)]
	}
	p.kvPurge = maybe(20)
	r.compareAccept(p)
	return fmt.Sprintf("publish %+v", p)
}

func (r *randomRun) compareAccept(p modelPublish) {
	got, err := r.state.Accept(Publish{Subject: []byte(p.subject), Header: []byte(p.header()), Size: p.data}, r.now)
	seq, duplicate, refusal := r.model.accept(p, r.now.UnixNano())
	if refusalOf(err) != refusal || got.Seq != seq || got.Duplicate != duplicate {
		r.t.Fatalf("publish %+v gives %+v, error %q; want sequence %d, duplicate %t, error %q\nconfig %+v\nflight %+v\nmsgs %+v",
			p, got, refusalOf(err), seq, duplicate, refusal, r.model.cfg, r.model.flight, r.model.msgs)
	}
	if err != nil {
		return
	}
	if got.InFlight != (duplicate && seq > r.model.last) {
		r.t.Fatalf("publish %+v gives %+v with last sequence %d", p, got, r.model.last)
	}
	if !duplicate && got.Time != r.model.clock {
		r.t.Fatalf("time is %d, want %d", got.Time, r.model.clock)
	}
}

func (r *randomRun) remove() string {
	switch r.rng.IntN(4) {
	case 0:
		return r.purge()
	case 1:
		r.expire()
		return "expire"
	default:
		return r.delete(r.model.randomSeq(r.rng))
	}
}

// expire carries out all that is due, and applies the markers.
func (r *randomRun) expire() {
	for len(r.model.flight) > 0 && r.rng.IntN(2) == 0 {
		r.effects.Reset()
		r.apply()
	}
	want, marked := r.model.due(r.now.UnixNano())
	var got, gotMarked []uint64
	most := 3
	if r.model.cfg.SubjectDeleteMarkerTTL > 0 {
		most = 1000 // which of a subject's messages is the last depends on how many are told at a time
	}
	for r.effects.Reset(); ; {
		var d Due
		r.state.Due(r.now, most, &d)
		if d.Empty() {
			break
		}
		for _, seq := range d.Markers {
			x := r.model.mark(seq, r.now.UnixNano())
			a, ok := r.state.AcceptMarker(seq, r.now)
			if !ok || a.Seq != x.seq || a.Time != x.time || string(a.Subject) != x.subject || string(a.Header) != x.header {
				r.t.Fatalf("the marker of %d is %+v, want %+v", seq, a, x)
			}
			gotMarked = append(gotMarked, seq)
		}
		change := func(s *State, e *Effects) {
			s.ExpireBefore(d.Before, e)
			for _, seq := range d.Seqs {
				s.Delete(seq, e)
			}
		}
		change(r.state, &r.effects)
		r.log = append(r.log, func(s *State) { change(s, &Effects{}) })
	}
	for _, x := range r.effects.Removed {
		got = append(got, x.Seq)
	}
	slices.Sort(got)
	slices.Sort(want)
	slices.Sort(marked)
	slices.Sort(gotMarked)
	if !slices.Equal(got, want) || !slices.Equal(gotMarked, marked) {
		r.t.Fatalf("expiry at %d removes %v and marks %v, want %v and %v\nconfig %+v\n%+v", r.now.UnixNano(), got, gotMarked, want, marked,
			r.model.cfg, r.model.msgs)
	}
	r.model.remove(func(x modelMessage) bool { return slices.Contains(want, x.seq) })
	if next := r.state.NextExpiry(); !next.IsZero() && !next.After(r.now) {
		r.t.Fatalf("next expiry %v is not after now %v", next, r.now)
	}
	// What is marked goes with its marker; until then it must not be told again.
	for len(r.model.flight) > 0 && len(marked) > 0 {
		r.effects.Reset()
		r.apply()
	}
	r.effects.Reset()
}

func (r *randomRun) delete(seq uint64) string {
	want := r.model.remove(func(x modelMessage) bool { return x.seq == seq })
	if got := r.state.Delete(seq, &r.effects); got != (len(want) == 1) {
		r.t.Fatalf("delete %d says %t", seq, got)
	}
	r.log = append(r.log, func(s *State) { s.Delete(seq, &Effects{}) })
	r.checkRemoved("delete", want)
	return fmt.Sprint("delete ", seq)
}

func (r *randomRun) purge() string {
	var p Purge
	if r.rng.IntN(3) > 0 {
		p.Subject = randomPattern(r.rng)
	}
	switch r.rng.IntN(3) {
	case 0:
		p.Upto = r.model.randomSeq(r.rng)
		if len(r.model.flight) > 0 {
			p.Upto = min(p.Upto, r.model.last+1)
		} else if r.rng.IntN(20) == 0 {
			p.Upto = r.model.last + 10
		}
	case 1:
		p.Keep = r.rng.Uint64N(4)
	}
	return r.purgeBy(p)
}

func (r *randomRun) purgeBy(p Purge) string {
	if err := r.state.AcceptPurge(p); err != nil {
		r.t.Fatal(err)
	}
	want := r.model.purge(p)
	if got := r.state.Purge(p, &r.effects); got != uint64(len(want)) {
		r.t.Fatalf("purge %+v says %d, want %d", p, got, len(want))
	}
	r.log = append(r.log, func(s *State) { s.Purge(p, &Effects{}) })
	r.checkRemoved("purge", want)
	return fmt.Sprintf("purge %+v", p)
}

func (r *randomRun) update() string {
	cfg := r.randomConfig()
	cfg.Storage, cfg.FirstSeq = r.model.cfg.Storage, r.model.cfg.FirstSeq
	cfg.Duplicates = r.model.cfg.Duplicates // the model's memory of ids knows one window
	cfg.MaxAge = r.model.cfg.MaxAge
	cfg.AllowMsgTTL = cfg.AllowMsgTTL || r.model.cfg.AllowMsgTTL
	cfg, err := CheckUpdate(r.model.cfg, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.state.UpdateConfig(cfg, &r.effects); err != nil {
		r.t.Fatal(err)
	}
	want := r.model.update(cfg)
	r.log = append(r.log, func(s *State) {
		if err := s.UpdateConfig(cfg, &Effects{}); err != nil {
			r.t.Fatal(err)
		}
	})
	r.checkRemoved("update", want)
	return "update"
}

// checkSnapshot restores a snapshot and goes on with it where nothing is in flight.
func (r *randomRun) checkSnapshot() {
	b, err := r.state.Snapshot(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	restored, err := Restore(b)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.model.compare(restored, r.rng); err != nil {
		r.t.Fatalf("after a restore: %v", err)
	}
	again, err := restored.Snapshot(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if !bytes.Equal(b, again) {
		r.t.Fatal("the snapshot of what was restored differs")
	}
	if len(r.model.flight) == 0 {
		r.state = restored
	}
}

// checkReplay applies everything that was applied to a fresh State.
func (r *randomRun) checkReplay() {
	fresh, err := New(r.cfg, r.state.Created())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, apply := range r.log {
		apply(fresh)
	}
	if err := r.model.compare(fresh, r.rng); err != nil {
		r.t.Fatalf("after a replay: %v", err)
	}
	fresh.dedup.expire(r.now.UnixNano())
	r.state.dedup.expire(r.now.UnixNano())
	a, _ := fresh.Snapshot(nil)
	b, _ := r.state.Snapshot(nil)
	if !bytes.Equal(a, b) {
		r.t.Fatal("a replay gives another state")
	}
}
