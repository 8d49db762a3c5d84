package stream

import (
	"encoding/binary"
	"math"
)

const (
	// maxSubjectBytes is the longest subject that a stream keeps.
	maxSubjectBytes = math.MaxUint16

	arenaUnit  = 4
	arenaChunk = 256 << 10 // 65,536 units
	nameFixed  = 2         // the length before the bytes
)

// arena keeps the names of subjects. A reference is a chunk's number in the upper half and a unit in the lower, which
// reaches 16 GiB. Room that was freed is used again for names of the same number of units, and nothing is moved.
type arena struct {
	chunks [][]byte
	free   map[uint32][]uint32 // rooms to use again, by units
}

func unitsOf(n int) int { return (nameFixed + n + arenaUnit - 1) / arenaUnit }

// put copies a name in. References are never 0.
func (a *arena) put(name []byte) uint32 {
	units := unitsOf(len(name))
	if free := a.free[uint32(units)]; len(free) > 0 {
		ref := free[len(free)-1]
		a.free[uint32(units)] = free[:len(free)-1]
		room := a.room(ref)
		binary.LittleEndian.PutUint16(room, uint16(len(name)))
		copy(room[nameFixed:], name)
		return ref
	}
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last])+units*arenaUnit > arenaChunk {
		var fresh []byte
		if last >= 0 {
			fresh = make([]byte, 0, arenaChunk)
		} else {
			fresh = make([]byte, arenaUnit) // reference 0 stays unused
		}
		a.chunks = append(a.chunks, fresh)
		last++
	}
	c := a.chunks[last]
	at := len(c)
	c = binary.LittleEndian.AppendUint16(c, uint16(len(name)))
	c = append(c, name...)
	for len(c)%arenaUnit != 0 {
		c = append(c, 0)
	}
	a.chunks[last] = c
	return uint32(last)<<16 | uint32(at/arenaUnit)
}

func (a *arena) room(ref uint32) []byte {
	return a.chunks[ref>>16][int(ref&0xffff)*arenaUnit:]
}

// get views a name.
func (a *arena) get(ref uint32) []byte {
	room := a.room(ref)
	n := nameFixed + int(binary.LittleEndian.Uint16(room))
	return room[nameFixed:n:n]
}

// drop frees a name's room. Its bytes stay as they are until a later put.
func (a *arena) drop(ref uint32) {
	units := uint32(unitsOf(len(a.get(ref))))
	if a.free == nil {
		a.free = map[uint32][]uint32{}
	}
	a.free[units] = append(a.free[units], ref)
}
