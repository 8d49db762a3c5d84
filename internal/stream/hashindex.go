package stream

import "slices"

const (
	// shardSubjects is how many subjects a shard holds at most.
	shardSubjects = 256
	// maxDepth bounds the directory; beyond it shards just grow, which takes billions of subjects.
	maxDepth = 24
)

// hashIndex finds subjects by the hash of their text: an extendible hash table. The first bits of a hash choose a shard, a
// short list in order of hash, which is split in two when it is full. So it grows and shrinks by small pieces, and what it
// holds has little to spare.
type hashIndex struct {
	directory []*shard // by the first depth bits
	depth     uint8
}

type shard struct {
	slots []uint64 // hash<<32 | subject id, ascending
	depth uint8    // bits that all its hashes share
}

func (x *hashIndex) shard(h uint32) *shard { return x.directory[h>>(32-x.depth)] }

// search gives the first slot whose hash is at least h, or the number of slots.
func (s *shard) search(h uint32) int {
	n := len(s.slots)
	i := int(uint64(h<<s.depth) * uint64(n) >> 32) // hashes are spread evenly, so it is about here
	for i > 0 && uint32(s.slots[i-1]>>32) >= h {
		i--
	}
	for i < n && uint32(s.slots[i]>>32) < h {
		i++
	}
	return i
}

// find gives the subject with a hash that is accepted by is, or 0.
func (x *hashIndex) find(h uint32, is func(subjectID) bool) subjectID {
	if x.directory == nil {
		return 0
	}
	s := x.shard(h)
	for _, slot := range s.slots[s.search(h):] {
		if uint32(slot>>32) != h {
			return 0
		}
		if id := subjectID(slot); is(id) {
			return id
		}
	}
	return 0
}

// add inserts a subject that is not there.
func (x *hashIndex) add(h uint32, id subjectID) {
	if x.directory == nil {
		x.directory = []*shard{{}}
	}
	s := x.shard(h)
	for len(s.slots) >= shardSubjects && s.depth < maxDepth {
		x.split(h, s)
		s = x.shard(h)
	}
	if n := len(s.slots); n == cap(s.slots) {
		s.slots = append(make([]uint64, 0, n+n/8+2), s.slots...)
	}
	s.slots = slices.Insert(s.slots, s.search(h), uint64(h)<<32|uint64(id))
}

func (x *hashIndex) split(h uint32, s *shard) {
	if s.depth == x.depth {
		wide := make([]*shard, 2*len(x.directory))
		for i, s := range x.directory {
			wide[2*i], wide[2*i+1] = s, s
		}
		x.directory = wide
		x.depth++
	}
	bit := uint32(1) << (31 - s.depth)
	at := s.search(h&^(bit-1) | bit) // the first whose next bit is set
	low := &shard{slices.Clone(s.slots[:at]), s.depth + 1}
	high := &shard{slices.Clone(s.slots[at:]), s.depth + 1}
	x.set(h&^bit, low)
	x.set(h|bit, high)
}

// set puts a shard wherever the hashes that begin like h lead.
func (x *hashIndex) set(h uint32, s *shard) {
	first := h >> (32 - x.depth) &^ (1<<(x.depth-s.depth) - 1)
	for i := range uint32(1) << (x.depth - s.depth) {
		x.directory[first+i] = s
	}
}

// remove takes a subject out.
func (x *hashIndex) remove(h uint32, id subjectID) {
	s := x.shard(h)
	i := s.search(h)
	for ; subjectID(s.slots[i]) != id; i++ {
	}
	s.slots = slices.Delete(s.slots, i, i+1)
	n := len(s.slots)
	if n >= shardSubjects/8 || n%8 != 0 {
		return
	}
	if s.depth > 0 {
		bit := uint32(1) << (32 - s.depth)
		if other := x.shard(h ^ bit); other.depth == s.depth && n+len(other.slots) <= shardSubjects/4 {
			low, high := s.slots, other.slots
			if h&bit != 0 {
				low, high = high, low
			}
			x.set(h&^bit, &shard{slices.Concat(low, high), s.depth - 1})
			return
		}
	}
	s.slots = slices.Clone(s.slots)
}
