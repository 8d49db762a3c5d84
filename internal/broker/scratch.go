package broker

import (
	"sync"

	"github.com/sluicemq/sluice/internal/proto"
)

// What a chunk needs lies in memory that publishers share: between chunks each keeps little, so that ten thousand that
// were busy once cost no more than those that are.
const (
	keptMsgs = 16 // of 64 bytes
	keptRefs = 32 // of 16 bytes
	// largeScratch is how many of either a shared slice begins with.
	largeScratch = 2048
)

var (
	msgScratch = sync.Pool{New: func() any { s := make([]proto.Pub, 0, largeScratch); return &s }}
	refScratch = sync.Pool{New: func() any { s := make([]Ref, 0, largeScratch); return &s }}
)

// grow makes room for one more element, from the pool where the slice is about to outgrow what is kept.
func grow[T any](s []T, kept int, pool *sync.Pool) []T {
	switch n := len(s); {
	case n < cap(s):
		return s
	case n == 0:
		return make([]T, 0, kept)
	case n <= kept:
		large := pool.Get().(*[]T)
		return append(*large, s...)
	}
	return append(s, *new(T))[:len(s)] // more than usual: the runtime's growth
}

// giveBack empties a slice, and puts it into the pool if it is more than is kept.
func giveBack[T any](s []T, kept int, pool *sync.Pool) []T {
	s = s[:0]
	if cap(s) <= kept {
		return s
	}
	pool.Put(&s)
	return nil
}
