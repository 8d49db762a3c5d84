package segment

import "hash/maphash"

// subjectTable numbers the subjects of a segment in the order in which they appear: an open hash table, at most half
// full, over names that follow each other in one buffer. It takes the names and about 30 bytes each. Names are together
// at most MaxIndexBytes, which the writer sees to.
type subjectTable struct {
	seed  maphash.Seed
	slots []subjectSlot // a power of two
	names []byte
	ends  []uint32 // of each name
	last  uint32   // the newest that was asked for; messages of a subject often follow each other
}

// subjectSlot is free where number is 0; else the subject's number is one less.
type subjectSlot struct{ number, hash uint32 }

const firstSubjectSlots = 64

func newSubjectTable() subjectTable {
	return subjectTable{seed: maphash.MakeSeed(), slots: make([]subjectSlot, firstSubjectSlots)}
}

func (t *subjectTable) len() int { return len(t.ends) }

// name gives the name of a subject by its number. It must not be changed.
func (t *subjectTable) name(number uint32) []byte {
	start := uint32(0)
	if number > 0 {
		start = t.ends[number-1]
	}
	return t.names[start:t.ends[number]]
}

// number gives the number of a subject, a new one where it was not there.
func (t *subjectTable) number(name []byte) (number uint32, isNew bool) {
	if len(t.ends) > 0 && string(t.name(t.last)) == string(name) {
		return t.last, false
	}
	hash := uint32(maphash.Bytes(t.seed, name))
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for ; t.slots[i].number != 0; i = (i + 1) & mask {
		if s := t.slots[i]; s.hash == hash && string(t.name(s.number-1)) == string(name) {
			t.last = s.number - 1
			return t.last, false
		}
	}
	t.names = append(t.names, name...)
	t.ends = append(t.ends, uint32(len(t.names)))
	t.last = uint32(len(t.ends) - 1)
	t.slots[i] = subjectSlot{t.last + 1, hash}
	if len(t.ends)*2 > len(t.slots) {
		t.grow()
	}
	return t.last, true
}

func (t *subjectTable) grow() {
	old := t.slots
	t.slots = make([]subjectSlot, 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.number == 0 {
			continue
		}
		i := s.hash & mask
		for t.slots[i].number != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}
