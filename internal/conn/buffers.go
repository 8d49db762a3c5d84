package conn

import "sync"

// Buffers come in size classes, each a factor of four apart, and are shared by all connections for reading and
// writing.
const (
	minBuffer  = 1 << 10
	pageBuffer = 4 << 10
	maxBuffer  = 64 << 10 // of an ordinary read or a piece of output; larger ones hold one large payload
	maxPooled  = 16 << 20
	sizeStep   = 2 // bits
)

var pools [8]sync.Pool // of *[]byte boxes: 1 KiB, 4 KiB, … 16 MiB

// boxes carry slices through a sync.Pool without allocating.
var boxes = sync.Pool{New: func() any { return new([]byte) }}

// class gives the smallest class that holds n bytes, and its size; a class of -1 is not pooled.
func class(n int) (c, size int) {
	size = minBuffer
	for c = 0; c < len(pools); c++ {
		if n <= size {
			return c, size
		}
		size <<= sizeStep
	}
	return -1, n
}

// getBuffer gives an empty buffer of at least that capacity.
func getBuffer(n int) []byte {
	c, size := class(n)
	if c < 0 {
		return make([]byte, 0, n)
	}
	if box, ok := pools[c].Get().(*[]byte); ok {
		b := *box
		*box = nil
		boxes.Put(box)
		return b[:0]
	}
	return make([]byte, 0, size)
}

// putBuffer takes a buffer back that getBuffer gave; nobody may use it any more.
func putBuffer(b []byte) {
	c, size := class(cap(b))
	if c < 0 || size != cap(b) {
		return
	}
	box := boxes.Get().(*[]byte)
	*box = b[:0]
	pools[c].Put(box)
}
