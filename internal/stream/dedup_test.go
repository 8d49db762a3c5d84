package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestDedupWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d := dedup{window: 1000, most: maxRemembered}
	known := map[string]remembered{}
	now := int64(0)
	for seq := uint64(1); seq < 50_000; seq++ {
		// Bursts and pauses, so that the ring grows and shrinks.
		if rng.IntN(5000) == 0 {
			now += 900
		}
		now += rng.Int64N(3) * int64(seq/10_000%2)
		id := fmt.Sprint(rng.IntN(30_000))
		old, ok := known[id]
		ok = ok && now-old.time < d.window
		got, found := d.find(digestOf([]byte(id)), now)
		if found != ok || ok && got != old.seq {
			t.Fatalf("%s at %d: %d, %t; want %d, %t", id, now, got, found, old.seq, ok)
		}
		if !found {
			d.add(digestOf([]byte(id)), seq, now)
			known[id] = remembered{seq: seq, time: now}
		}
	}
	d.expire(now + d.window)
	if d.len() != 0 || d.ring != nil {
		t.Fatalf("%d ids and a ring of %d are left", d.len(), len(d.ring))
	}
}

// TestDedupBound: beyond its bound the oldest ids are forgotten, and counted.
func TestDedupBound(t *testing.T) {
	const most, over = 5000, 1000
	d := dedup{window: 1 << 60, most: most}
	var id [8]byte
	for i := range most + over {
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		d.add(digestOf(id[:]), uint64(i+1), 0)
	}
	if d.len() != most || d.forgotten != over {
		t.Fatalf("%d ids are remembered and %d forgotten", d.len(), d.forgotten)
	}
	for i, want := range map[int]bool{0: false, over - 1: false, over: true, most + over - 1: true} {
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if _, found := d.find(digestOf(id[:]), 0); found != want {
			t.Errorf("id %d: %t", i, found)
		}
	}
}

// The whole window has passed at once when the next id is looked for.
func TestDedupFindsNothingAfterALongPause(t *testing.T) {
	d := dedup{window: 100, most: 1 << 20}
	for seq := range uint64(65) { // more than the smallest ring that is let go
		d.add(digest{seq, seq}, seq+1, 1)
	}
	if seq, ok := d.find(digest{3, 3}, 1000); ok || d.len() != 0 {
		t.Errorf("found %d, and %d ids are left", seq, d.len())
	}
}
