package consumer

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestProgressForm pins the bytes: a change of them is a change of the format.
func TestProgressForm(t *testing.T) {
	w := newWorld(t)
	w.create(checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","ack_wait":1000000000}`))
	for range 3 {
		w.publish("a", 1)
	}
	w.c.Pull([]byte("r"), []byte(`{"batch":10,"expires":3600000000000}`), w.now, &w.fx)
	w.settle()
	w.ack(2, "", "")
	w.ack(3, "-NAK 10s", "")
	want := []string{
		// version, whole; delivered 0/0; floor at delivered; no list; no from; nothing given up; nothing settled; nothing pending
		"01 00 00 00 00 00 00 00 00 00 00 00 00",
		// delivered 3/3, floor 3 below; three pending: the first with its deadline
		"01 01 03 03 06 06 00 00 00 00 00 00 03 08 e0 c1 cc ca ef 66 00 00",
		// 2 is settled: one span, from 2, no more
		"01 01 03 03 06 06 00 00 00 00 00 01 02 00 00",
		// 3 changed: its stream and consumer sequence, and its deadline
		"01 01 03 03 06 06 00 00 00 00 00 00 01 0b 03 06 b0 ce cd ca ef 66",
	}
	for i, part := range w.log {
		if got := fmt.Sprintf("% x", part); i >= len(want) || got != want[i] {
			t.Errorf("part %d is %s", i, got)
		}
	}
	if len(w.log) != len(want) {
		t.Errorf("%d parts", len(w.log))
	}
}

// TestProgressOfAList: the list of last messages ends the whole part.
func TestProgressOfAList(t *testing.T) {
	w := newWorld(t)
	for _, subj := range []string{"a", "b", "a", "c", "b", "d"} {
		w.publish(subj, 1)
	}
	w.create(checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","deliver_policy":"last_per_subject","filter_subject":"*"}`))
	// delivered 0/2, since 3 is the first to come; the list begins at or below 6: one run of 3 to 6, kept
	if got, want := fmt.Sprintf("% x", w.log[0]), "01 00 00 02 00 00 06 00 00 00 00 00 00 01 01 03 03"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A list that is too long is not kept, and found again.
	for i := range uint64(maxKeptSpans + 1) {
		w.c.skip.seqs = append(w.c.skip.seqs, 10+2*i)
	}
	long := w.c.Snapshot(nil)
	if long[len(long)-1] != 0 || len(long) > 20 {
		t.Errorf("%d bytes", len(long))
	}
	c := Restore(w.opts)
	if err := c.ApplyProgress(long); err != nil {
		t.Fatal(err)
	}
	c.Resume(w.now)
	if c.numPending != 4 {
		t.Errorf("%d to come", c.numPending)
	}
}

func TestProgressIsCompact(t *testing.T) {
	w := newWorld(t)
	w.create(checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit","max_ack_pending":-1}`))
	for range 1000 {
		w.stream.add("a", 0, 1)
		w.c.Visible(w.stream.last)
	}
	w.c.Pull([]byte("r"), []byte(`{"batch":1000}`), w.now, &w.fx)
	w.settle()
	if n := len(w.log[len(w.log)-1]); n > 1100 {
		t.Errorf("1000 deliveries take %d bytes", n)
	}
	for seq := uint64(1); seq <= 999; seq++ {
		w.c.Ack(&AckSubject{StreamSeq: seq, ConsumerSeq: seq}, nil, nil, w.now, &w.fx)
	}
	w.settle()
	if n := len(w.log[len(w.log)-1]); n > 40 {
		t.Errorf("999 acknowledgements in a row take %d bytes", n)
	}
}

func TestApplyProgressRefuses(t *testing.T) {
	w := newWorld(t)
	w.create(checkedConfig(t, `{"durable_name":"C","ack_policy":"explicit"}`))
	w.publish("a", 1)
	w.c.Pull([]byte("r"), []byte("1"), w.now, &w.fx)
	w.settle()
	good := w.log[1]
	for _, tc := range []struct {
		name string
		part []byte
		want error
	}{
		{"nothing", nil, ErrCorrupt},
		{"a newer version", append([]byte{2}, good[1:]...), ErrVersion},
		{"an unknown kind", append([]byte{1, 7}, good[2:]...), ErrCorrupt},
		{"cut short", good[:len(good)-1], ErrCorrupt},
		{"a list of no kind", append([]byte{1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0}, 2), ErrCorrupt},
		{"a list without its runs", append([]byte{1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0}, 1, 9), ErrCorrupt},
		{"too long", append(append([]byte{}, good...), 0), ErrCorrupt},
		{"more entries than bytes", append(append([]byte{}, good[:12]...), 0xff, 0x7f), ErrCorrupt},
	} {
		c := w.replayed(0)
		before := durable(c)
		if err := c.ApplyProgress(tc.part); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if durable(c) != before {
			t.Errorf("%s: the state changed", tc.name)
		}
	}
	if err := Restore(w.opts).ApplyProgress(good); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a change without a whole: %v", err)
	}
}

// FuzzApplyProgress: no bytes make a consumer panic, and what is taken can be written and read again.
func FuzzApplyProgress(f *testing.F) {
	w := newWorld(f)
	w.create(checkedConfig(f, `{"durable_name":"C","ack_policy":"explicit","ack_wait":1000000000,"max_deliver":2}`))
	for range 9 {
		w.publish("a", 1)
	}
	w.c.Pull([]byte("r"), []byte(`{"batch":100,"expires":3600000000000}`), w.now, &w.fx)
	w.settle()
	w.ack(2, "", "")
	w.ack(5, "-NAK", "")
	w.ack(5, "-NAK", "")
	w.advance(3 * time.Second)
	for _, part := range w.log {
		f.Add(part)
	}
	f.Add(w.c.Snapshot(nil))
	list := newWorld(f)
	for _, subj := range []string{"a", "b", "a", "c", "b", "d"} {
		list.publish(subj, 1)
	}
	list.create(checkedConfig(f, `{"durable_name":"C","ack_policy":"explicit","deliver_policy":"last_per_subject","filter_subject":"*"}`))
	f.Add(list.log[0])
	opts := w.opts
	f.Fuzz(func(t *testing.T, part []byte) {
		c := Restore(opts)
		if err := c.ApplyProgress(w.log[0]); err != nil {
			t.Fatal(err)
		}
		if c.ApplyProgress(part) != nil {
			return
		}
		again := Restore(opts)
		if err := again.ApplyProgress(c.Snapshot(nil)); err != nil {
			t.Fatalf("% x: its snapshot is refused: %v", part, err)
		}
		if durable(again) != durable(c) {
			t.Fatalf("% x: the snapshot of\n%sis\n%s", part, durable(c), durable(again))
		}
		var fx Effects
		c.Resume(epoch)
		c.Tick(epoch.Add(time.Hour), &fx)
		c.Pull([]byte("r"), []byte("3"), epoch, &fx)
		c.Peek(epoch, &fx)
	})
}
