package subject

import "hash/maphash"

// seed is drawn at start, so that nobody can choose subjects that collide.
var seed = maphash.MakeSeed()

func hashOf(s string) uint64 { return maphash.String(seed, s) }

// Hash is a hash of s for caches that stand above the Trie. It differs from process to process.
func Hash[S Text](s S) uint64 { return hashOf(view(s)) }

// hashIndex finds positions in a table by the hash of what is there: open addressing with linear probing over slots of
// 8 bytes, so that a probe seldom leaves its cache line. It knows no keys: its users compare them.
type hashIndex struct {
	slots []slot // a power of two, or none
	used  int
}

// slot is free when ref is 0.
type slot struct{ hash, ref uint32 }

const minSlots = 8

// mask is only for an index with slots.
func (x *hashIndex) mask() uint32 { return uint32(len(x.slots) - 1) }

// add notes that something of this hash lies at ref, which is not 0.
func (x *hashIndex) add(hash, ref uint32) {
	if (x.used+1)*4 > len(x.slots)*3 {
		x.resize(max(minSlots, 2*len(x.slots)))
	}
	x.place(slot{hash, ref})
	x.used++
}

// remove forgets what add noted.
func (x *hashIndex) remove(hash, ref uint32) {
	mask := x.mask()
	i := hash & mask
	for x.slots[i].ref != ref {
		if x.slots[i].ref == 0 {
			return
		}
		i = (i + 1) & mask
	}
	// Close the gap: what follows moves up unless that would put it before its own place.
	for j := (i + 1) & mask; x.slots[j].ref != 0; j = (j + 1) & mask {
		home := x.slots[j].hash & mask
		if (j-home)&mask >= (j-i)&mask {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = slot{}
	x.used--
}

func (x *hashIndex) resize(n int) {
	old := x.slots
	x.slots = make([]slot, n)
	for _, s := range old {
		if s.ref != 0 {
			x.place(s)
		}
	}
}

func (x *hashIndex) place(s slot) {
	mask := x.mask()
	i := s.hash & mask
	for x.slots[i].ref != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

// indexFor is an index with room for n.
func indexFor(n int) hashIndex {
	slots := minSlots
	for n*4 > slots*3 {
		slots *= 2
	}
	return hashIndex{slots: make([]slot, slots)}
}
