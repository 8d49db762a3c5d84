package stream

const (
	minSlots = 8
	// migrateAtOnce is the index size up to which a change of size is done in one go.
	migrateAtOnce = 1024
	// migrateStep is how many old slots move at each insertion, which is enough to be done before the next growth.
	migrateStep = 16
	// gone marks a slot of the old index whose subject was removed.
	gone = ^subjectID(0)
)

// hashIndex finds subjects by text: open addressing with linear probing. It grows by moving a few slots at each
// insertion, so that no insertion waits for a million others.
type hashIndex struct {
	names *names
	slots []subjectID // a power of two; 0 is free
	used  int
	old   []subjectID // the slots before the last change of size; what is in both is the same
	moved int         // slots of old that were moved
}

func (x *hashIndex) find(h uint32, text []byte) subjectID {
	if id := x.probe(x.slots, h, text); id != 0 || x.old == nil {
		return id
	}
	return x.probe(x.old, h, text)
}

func (x *hashIndex) probe(slots []subjectID, h uint32, text []byte) subjectID {
	if len(slots) == 0 {
		return 0
	}
	mask := uint32(len(slots) - 1)
	for i := h & mask; slots[i] != 0; i = (i + 1) & mask {
		if id := slots[i]; id != gone && x.names.is(id, h, text) {
			return id
		}
	}
	return 0
}

// add inserts a subject that is not there.
func (x *hashIndex) add(id subjectID) {
	x.migrate(migrateStep)
	if (x.used+1)*4 > len(x.slots)*3 {
		x.resize(max(minSlots, 2*len(x.slots)))
	}
	x.place(id)
	x.used++
}

func (x *hashIndex) place(id subjectID) {
	mask := uint32(len(x.slots) - 1)
	i := x.names.row(id).hash & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = id
}

func (x *hashIndex) resize(n int) {
	x.migrate(len(x.old)) // as a rule it is done
	x.old, x.moved = x.slots, 0
	x.slots = make([]subjectID, n)
	if len(x.old) <= migrateAtOnce {
		x.migrate(len(x.old))
	}
}

func (x *hashIndex) migrate(n int) {
	if x.old == nil {
		return
	}
	end := min(x.moved+n, len(x.old))
	for _, id := range x.old[x.moved:end] {
		if id != 0 && id != gone {
			x.place(id)
		}
	}
	if x.moved = end; end == len(x.old) {
		x.old = nil
	}
}

// remove takes a subject out whose row still holds its hash.
func (x *hashIndex) remove(id subjectID) {
	h := x.names.row(id).hash
	x.removeNew(id, h)
	if x.old != nil {
		mask := uint32(len(x.old) - 1)
		for i := h & mask; x.old[i] != 0; i = (i + 1) & mask {
			if x.old[i] == id {
				x.old[i] = gone
				break
			}
		}
	}
	x.used--
	if len(x.slots) > migrateAtOnce && x.used*8 < len(x.slots) && x.old == nil {
		x.resize(len(x.slots) / 2)
	}
}

func (x *hashIndex) removeNew(id subjectID, h uint32) {
	mask := uint32(len(x.slots) - 1)
	i := h & mask
	for x.slots[i] != id {
		if x.slots[i] == 0 {
			return // not moved yet
		}
		i = (i + 1) & mask
	}
	// Close the gap: what follows moves up unless that would put it before its own place.
	for j := (i + 1) & mask; x.slots[j] != 0; j = (j + 1) & mask {
		home := x.names.row(x.slots[j]).hash & mask
		if (j-home)&mask >= (j-i)&mask {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = 0
}
