package stream

import (
	"github.com/cespare/xxhash/v2"
)

// maxRemembered bounds the message ids that a stream remembers within its window: 4,194,304, about 170 MB. Beyond it
// the oldest are forgotten before their time; [State.Forgotten] counts them.
const maxRemembered = 4 << 20

// digest stands for a message id: 128 bits, so that two different ids are never taken for the same.
type digest struct{ hi, lo uint64 }

func digestOf(id []byte) digest {
	var d xxhash.Digest
	d.ResetWithSeed(0x736c75696365) // any constant: the second half must differ from the first
	_, _ = d.Write(id)
	return digest{xxhash.Sum64(id), d.Sum64()}
}

// remembered is one id: 32 bytes.
type remembered struct {
	id   digest
	seq  uint64
	time int64
}

// dedup remembers the message ids of the last window, oldest first, in a ring with a hash index above it. An id takes
// 32 bytes and its share of the index, however long it is.
type dedup struct {
	window    int64        // ns; 0: off
	most      int          // ids at most
	ring      []remembered // a power of two
	head      uint64
	tail      uint64
	slots     []uint32 // a power of two: 1 + index in ring, or 0
	forgotten uint64
}

func (d *dedup) len() int                  { return int(d.tail - d.head) }
func (d *dedup) at(pos uint64) *remembered { return &d.ring[pos&uint64(len(d.ring)-1)] }

// find gives the sequence of the message with this id, if it was within the window before now.
func (d *dedup) find(id digest, now int64) (uint64, bool) {
	if d.window <= 0 {
		return 0, false
	}
	if d.expire(now); d.head == d.tail {
		return 0, false // expire lets go of the index with the last id
	}
	mask := uint64(len(d.slots) - 1)
	var newest uint64 // after a replay an id may be there twice, since a longer window applied meanwhile
	for i := id.lo & mask; d.slots[i] != 0; i = (i + 1) & mask {
		if r := &d.ring[d.slots[i]-1]; r.id == id {
			newest = max(newest, r.seq)
		}
	}
	return newest, newest != 0
}

// add remembers an id that find does not know.
func (d *dedup) add(id digest, seq uint64, time int64) {
	if d.window <= 0 {
		return
	}
	if d.len() >= d.most {
		d.forget()
		d.forgotten++
	}
	if d.len() == len(d.ring) {
		d.resize(max(16, 2*len(d.ring)))
	}
	*d.at(d.tail) = remembered{id, seq, time}
	d.index(d.tail)
	d.tail++
}

func (d *dedup) index(pos uint64) {
	mask := uint64(len(d.slots) - 1)
	i := d.at(pos).id.lo & mask
	for d.slots[i] != 0 {
		i = (i + 1) & mask
	}
	d.slots[i] = uint32(pos&uint64(len(d.ring)-1)) + 1
}

func (d *dedup) resize(n int) {
	old, oldMask := d.ring, uint64(len(d.ring)-1)
	if n == 0 {
		d.ring, d.slots, d.head, d.tail = nil, nil, 0, 0
		return
	}
	d.ring = make([]remembered, n)
	d.slots = make([]uint32, 2*n)
	for pos := d.head; pos != d.tail; pos++ {
		*d.at(pos) = old[pos&oldMask]
		d.index(pos)
	}
}

// expire forgets what has left the window.
func (d *dedup) expire(now int64) {
	for d.head != d.tail && now-d.at(d.head).time >= d.window {
		d.forget()
	}
	switch n := d.len(); {
	case n == 0 && len(d.ring) > 64:
		d.resize(0)
	case n > 0 && len(d.ring) > 64 && n < len(d.ring)/8:
		d.resize(len(d.ring) / 4)
	}
}

// forget drops the oldest.
func (d *dedup) forget() {
	r := d.at(d.head)
	want := uint32(d.head&uint64(len(d.ring)-1)) + 1
	mask := uint64(len(d.slots) - 1)
	i := r.id.lo & mask
	for d.slots[i] != want {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; d.slots[j] != 0; j = (j + 1) & mask {
		home := d.ring[d.slots[j]-1].id.lo & mask
		if (j-home)&mask >= (j-i)&mask {
			d.slots[i] = d.slots[j]
			i = j
		}
	}
	d.slots[i] = 0
	d.head++
}
