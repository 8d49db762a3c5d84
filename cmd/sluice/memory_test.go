package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestWasteful(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name        string
		now, before heapState
		want        bool
	}{
		{"a heap that was much larger", heapState{5, 100 * mib, 110 * mib, 200 * mib}, heapState{cycles: 5}, true},
		{"garbage that nobody collects", heapState{5, 100 * mib, 190 * mib, 0}, heapState{cycles: 5}, true},
		{"under load", heapState{9, 100 * mib, 190 * mib, 200 * mib}, heapState{cycles: 5}, false},
		{"small", heapState{5, 4 * mib, 8 * mib, 20 * mib}, heapState{cycles: 5}, false},
		{"a little in proportion", heapState{5, 400 * mib, 430 * mib, 50 * mib}, heapState{cycles: 5}, false},
	} {
		if got := tc.now.wasteful(tc.before); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// The runtime's figures mean what wasteful takes them for: a heap that has just shrunk is wasteful, and no longer once its
// memory is given back, so that a quiet process collects once and not for ever.
func TestHeapIsGivenBackOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only the cycles below
	big := make([][]byte, 128)
	for i := range big {
		big[i] = make([]byte, 1<<20)
		big[i][0] = 1
	}
	runtime.KeepAlive(big)
	big = nil
	runtime.GC()
	before := readHeap()
	if now := readHeap(); !now.wasteful(before) {
		t.Errorf("a heap of %+v is not wasteful", now)
	}
	debug.FreeOSMemory()
	before = readHeap()
	if now := readHeap(); now.wasteful(before) {
		t.Errorf("after it was given back, a heap of %+v is wasteful", now)
	}
}
