package conn

import "sync"

// Buffers come in size classes and are shared by all connections for reading and writing.
const (
	minBuffer  = 1 << 10
	pageBuffer = 4 << 10
	maxBuffer  = 64 << 10 // of an ordinary read or a piece of output; larger ones hold one large payload
)

var bufferSizes = [...]int{
	minBuffer, pageBuffer, 16 << 10, maxBuffer, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20,
}

// pools hold boxes with free buffers, by class.
var pools [len(bufferSizes)]sync.Pool

// boxes carry slices through a sync.Pool without allocating.
var boxes = sync.Pool{New: func() any { return new([]byte) }}

// class gives the smallest class that holds n bytes; -1 is none, and such a buffer is not pooled.
func class(n int) int {
	for c, size := range bufferSizes {
		if n <= size {
			return c
		}
	}
	return -1
}

// getBuffer gives an empty buffer of at least that capacity.
func getBuffer(n int) []byte {
	c := class(n)
	if c < 0 {
		return make([]byte, 0, n)
	}
	if box, ok := pools[c].Get().(*[]byte); ok {
		b := *box
		*box = nil
		boxes.Put(box)
		return b[:0]
	}
	return make([]byte, 0, bufferSizes[c])
}

// putBuffer takes a buffer back that getBuffer gave; nobody may use it any more.
func putBuffer(b []byte) {
	c := class(cap(b))
	if c < 0 || bufferSizes[c] != cap(b) {
		return
	}
	box := boxes.Get().(*[]byte)
	*box = b[:0]
	pools[c].Put(box)
}
