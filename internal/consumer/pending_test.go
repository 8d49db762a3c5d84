package consumer

import (
	"math/rand/v2"
	"testing"
)

// TestPendingList holds the list against a map.
func TestPendingList(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, gap := range []uint64{1, 2, 50} {
		var p pendingList
		naive := map[uint64]uint32{}
		var seqs []uint64
		next := uint64(0)
		for step := range 20000 {
			switch rng.IntN(5) {
			case 0, 1, 2:
				if step%4000 > 3000 { // let it run empty now and then
					continue
				}
				next += 1 + rng.Uint64N(gap)
				e := entry{stream: next, consumer: next, deliveries: 1 + rng.Uint32N(2)}
				p.add(e)
				naive[next] = e.deliveries
				seqs = append(seqs, next)
			default:
				if len(seqs) == 0 {
					continue
				}
				k := rng.IntN(len(seqs))
				if rng.IntN(3) > 0 {
					k = 0
				}
				seq := seqs[k]
				seqs = append(seqs[:k], seqs[k+1:]...)
				delete(naive, seq)
				p.remove(p.find(seq))
			}
			if p.live != len(naive) {
				t.Fatalf("%d live, not %d", p.live, len(naive))
			}
			probe := rng.Uint64N(next + 2)
			if i := p.find(probe); (i >= 0) != (naive[probe] > 0) || i >= 0 && p.entries[i].stream != probe {
				t.Fatalf("find(%d) is %d", probe, i)
			}
			if p.live > 0 && p.first().flags&gone != 0 {
				t.Fatal("the first is gone")
			}
		}
		last, n, again := uint64(0), 0, 0
		for _, e := range p.all {
			if e.stream <= last || naive[e.stream] != e.deliveries {
				t.Fatalf("entry %+v after %d", e, last)
			}
			last = e.stream
			n++
			if e.deliveries > 1 {
				again++
			}
		}
		if n != len(naive) || again != p.redelivered {
			t.Fatalf("%d entries, %d redelivered", n, again)
		}
	}
}

func TestPendingListPut(t *testing.T) {
	var p pendingList
	for _, seq := range []uint64{5, 9, 7, 1, 9} {
		p.put(entry{stream: seq, deliveries: 2})
	}
	p.put(entry{stream: 7, deliveries: 1})
	var got []uint64
	for _, e := range p.all {
		got = append(got, e.stream)
	}
	if len(got) != 4 || got[0] != 1 || got[1] != 5 || got[2] != 7 || got[3] != 9 || p.live != 4 || p.redelivered != 3 {
		t.Fatalf("%v, %d live, %d redelivered", got, p.live, p.redelivered)
	}
	p.removeSpan(span{2, 8})
	if p.live != 2 || p.find(7) >= 0 || p.find(9) < 0 {
		t.Fatalf("%d live", p.live)
	}
}

// TestPendingMemory checks that what acknowledgements leave behind is given back.
func TestPendingMemory(t *testing.T) {
	c := New(Options{Stream: "S", Name: "C", Config: checkedConfig(t, `{"ack_policy":"explicit","max_ack_pending":-1}`), Messages: &endless{1 << 40}}, epoch)
	var fx Effects
	var d Dispatch
	c.Pull([]byte("r"), []byte("100000000"), epoch, &fx)
	deliver := func(n int) {
		for range n {
			seq, _ := c.Peek(epoch, &fx)
			if !c.Take(&d, Message{Seq: seq}, epoch, &fx) {
				t.Fatal("nothing goes out")
			}
		}
	}
	deliver(100_000)
	for seq := uint64(1); seq <= 99_990; seq++ {
		c.Ack(&AckSubject{StreamSeq: seq * 7919 % 100_000, ConsumerSeq: 1}, nil, nil, epoch, &fx)
	}
	for range 2 * slack {
		deliver(1)
		c.Ack(&AckSubject{StreamSeq: d.Seq, ConsumerSeq: d.ConsumerSeq}, nil, nil, epoch, &fx)
	}
	if n := cap(c.pending.entries); n > 64*slack {
		t.Errorf("room for %d entries is kept for %d", n, c.pending.live)
	}
	if n := cap(c.deadlines); n > 64*slack {
		t.Errorf("room for %d deadlines is kept for %d", n, c.pending.live)
	}
}
