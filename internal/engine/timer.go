package engine

import (
	"container/heap"
	"time"
)

// timerHeap orders a stream's consumers by when they want to be woken.
type timerHeap []*Consumer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].wakeAt.Before(h[j].wakeAt) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timerIndex, h[j].timerIndex = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	c := x.(*Consumer)
	c.timerIndex = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.timerIndex = -1
	return c
}

// set makes c wake at t; a zero t takes it out.
func (h *timerHeap) set(c *Consumer, t time.Time) {
	switch {
	case t.IsZero():
		if c.timerIndex >= 0 {
			heap.Remove(h, c.timerIndex)
		}
	case c.timerIndex < 0:
		c.wakeAt = t
		heap.Push(h, c)
	case !t.Equal(c.wakeAt):
		c.wakeAt = t
		heap.Fix(h, c.timerIndex)
	}
}

// next is when the first wants to wake; zero: never.
func (h timerHeap) next() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].wakeAt
}

// due takes the first consumer whose time has come, or nil.
func (h *timerHeap) due(now time.Time) *Consumer {
	if len(*h) == 0 || (*h)[0].wakeAt.After(now) {
		return nil
	}
	return heap.Pop(h).(*Consumer)
}
