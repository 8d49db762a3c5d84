package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// quietLook is how often the heap is looked at.
	quietLook = 5 * time.Second
	// spareHeap is how much a quiet process may keep beyond what it needs.
	spareHeap = 32 << 20
)

// heapState is what the runtime says of the heap.
type heapState struct {
	cycles  uint64 // of the garbage collector
	live    uint64 // bytes that the last cycle found in use
	objects uint64 // bytes of objects, garbage included
	free    uint64 // bytes held for future objects
}

// wasteful reports whether a process that has been quiet since before holds much more than it uses. Quiet is a process
// that has not filled its heap once meanwhile. Under load the heap's slack is what keeps the collector cheap, so it is left
// alone; but once a load or a compaction is over, nothing fills the heap any more, so the runtime would keep all of it.
func (h heapState) wasteful(before heapState) bool {
	return h.cycles == before.cycles && h.objects+h.free > h.live+max(spareHeap, h.live/4)
}

// returnMemory gives what a quiet process does not need back to the system, until ctx ends. It costs one collection for
// each time that the process falls quiet.
func returnMemory(ctx context.Context) {
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	before := readHeap()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := readHeap()
		if now.wasteful(before) {
			debug.FreeOSMemory()
			now = readHeap()
		}
		before = now
	}
}

func readHeap() heapState {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heapState{
		cycles: samples[0].Value.Uint64(), live: samples[1].Value.Uint64(),
		objects: samples[2].Value.Uint64(), free: samples[3].Value.Uint64(),
	}
}
