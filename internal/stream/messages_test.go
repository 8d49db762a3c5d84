package stream

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nats-io/jsm.go/api"
)

// indexModel is the index of messages as one would write it without caring for memory.
type indexModel []indexed

type indexed struct {
	seq, size uint64
	time      int64
	id        subjectID
	place     Place
}

func (m indexModel) search(seq uint64) int {
	i, _ := slices.BinarySearchFunc(m, seq, func(x indexed, seq uint64) int { return cmp.Compare(x.seq, seq) })
	return i
}

// TestIndexAgainstModel runs random changes through blocks that are open, packed, thinned out and joined, and compares
// everything that can be read.
func TestIndexAgainstModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			newIndexRun(seed).run(t)
		})
	}
}

type indexRun struct {
	rng   *rand.Rand
	log   messages
	model indexModel
	seq   uint64
	time  int64
	gaps  uint64 // of sequences
	ticks int64  // of time
}

func newIndexRun(seed uint64) *indexRun {
	rng := rand.New(rand.NewPCG(seed, 9))
	return &indexRun{
		rng: rng, gaps: []uint64{1, 1, 3, 1 << 20, 1 << 31, 1 << 34}[seed%6], ticks: []int64{1, 1000, 1e9, 1e13}[seed%4],
		log: messages{eager: seed%5 == 4}, time: []int64{0, 1_700_000_000_000_000_000, -5e18}[seed%3],
	}
}

func (r *indexRun) run(t *testing.T) {
	for round := range 6 {
		for range 1500 + r.rng.IntN(5000) {
			r.add()
		}
		r.compare(t)
		for range len(r.model) * r.rng.IntN(100) / 100 {
			switch {
			case len(r.model) == 0:
			case round%3 == 0:
				r.remove(0)
			default:
				r.remove(r.rng.IntN(len(r.model)))
			}
			if r.rng.IntN(500) == 0 {
				r.probe(t)
			}
			if r.rng.IntN(3) == 0 && round%2 == 1 {
				r.add()
			}
		}
		r.compare(t)
	}
	for len(r.model) > 0 {
		r.remove(r.rng.IntN(len(r.model)))
	}
	r.compare(t)
	if len(r.log.blocks) > 0 || len(r.log.bases) > 0 || len(r.log.lives.counts) > 0 {
		t.Fatalf("%d blocks are left of nothing", len(r.log.blocks))
	}
}

func (r *indexRun) add() {
	r.seq += 1 + r.rng.Uint64N(r.gaps)
	if r.rng.IntN(3) > 0 {
		r.time += r.rng.Int64N(r.ticks)
	}
	x := indexed{seq: r.seq, time: r.time, size: r.rng.Uint64() >> (20 + r.rng.IntN(40)), id: 1 + r.rng.Uint32N(1<<r.rng.IntN(20))}
	if r.rng.IntN(900) == 0 {
		x.place = Place(r.rng.Uint64())
	}
	r.log.add(x.seq, x.time, x.id, x.size, x.place)
	x.size = min(x.size, math.MaxUint32)
	r.model = append(r.model, x)
}

func (r *indexRun) remove(i int) {
	c, ok := r.log.find(r.model[i].seq)
	if !ok {
		panic("not found")
	}
	r.log.remove(c)
	r.model = slices.Delete(r.model, i, i+1)
}

func (r *indexRun) at(c cursor) indexed {
	return indexed{r.log.seq(c), r.log.size(c), r.log.time(c), r.log.subject(c), r.log.place(c)}
}

// compare reads everything forward and backward.
func (r *indexRun) compare(t *testing.T) {
	t.Helper()
	i := 0
	for c, ok := r.log.first(); ok; c, ok = r.log.after(c) {
		if got := r.at(c); i == len(r.model) || got != r.model[i] {
			t.Fatalf("message %d is %+v", i, got)
		}
		i++
	}
	if i != len(r.model) || r.log.live != uint64(i) {
		t.Fatalf("%d messages are read, %d are live, want %d", i, r.log.live, len(r.model))
	}
	for c, ok := r.log.seekBack(math.MaxUint64); ok; c, ok = r.log.before(c) {
		if i--; i < 0 || r.log.seq(c) != r.model[i].seq {
			t.Fatalf("backward, message %d is another", i)
		}
	}
	for range 20 {
		r.probe(t)
	}
}

// probe looks from a random place.
func (r *indexRun) probe(t *testing.T) {
	t.Helper()
	seq, ns := r.rng.Uint64N(r.seq+3), r.time-r.rng.Int64N(r.ticks)*r.rng.Int64N(1000)
	if n := len(r.model); n > 0 {
		x := r.model[r.rng.IntN(n)]
		if r.rng.IntN(2) == 0 {
			seq = x.seq + r.rng.Uint64N(3) - 1
		}
		if r.rng.IntN(2) == 0 {
			ns = x.time + r.rng.Int64N(3) - 1
		}
	}
	check := func(what string, c cursor, ok bool, i int) {
		t.Helper()
		if ok != (i >= 0 && i < len(r.model)) || ok && r.log.seq(c) != r.model[i].seq {
			t.Fatalf("%s: %t, want message %d of %d", what, ok, i, len(r.model))
		}
	}
	i := r.model.search(seq)
	c, ok := r.log.seek(seq)
	check(fmt.Sprint("seek ", seq), c, ok, i)
	if n := r.log.from(seq); n != uint64(len(r.model)-i) {
		t.Fatalf("%d from %d on, want %d", n, seq, len(r.model)-i)
	}
	exact := i < len(r.model) && r.model[i].seq == seq
	if _, ok := r.log.find(seq); ok != exact {
		t.Fatalf("find %d: %t", seq, ok)
	}
	if !exact {
		i--
	}
	c, ok = r.log.seekBack(seq)
	check(fmt.Sprint("seekBack ", seq), c, ok, i)
	at := slices.IndexFunc(r.model, func(x indexed) bool { return x.time >= ns })
	c, ok = r.log.seekTime(ns)
	check(fmt.Sprint("seekTime ", ns), c, ok, at)
}

// TestThinningOutPacked is TestThinningOut with blocks that are packed as soon as they are full.
func TestThinningOutPacked(t *testing.T) {
	r := newRandomRun(t, 2000)
	r.cfg.MaxMsgs, r.cfg.MaxBytes, r.cfg.MaxMsgsPer, r.cfg.MaxAge = -1, -1, -1, 0
	r.cfg.Discard, r.cfg.DiscardNewPer, r.cfg.RollupAllowed = api.DiscardOld, false, false
	r.start()
	for range 2 {
		r.state.log.eager = true
		r.fill(1800)
		if n := len(r.state.log.blocks); r.state.log.blocks[n-2].packed == nil {
			t.Fatalf("of %d blocks the last but one is not packed", n)
		}
		r.thinOut()
	}
	r.checkSnapshot()
	r.checkReplay()
}
