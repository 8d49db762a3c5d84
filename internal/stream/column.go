package stream

import (
	"math/bits"
	"slices"
)

// column is a packed list of numbers, read at any position without reading the others: each is what a straight line
// says there, plus a remainder of a fixed number of bits. A list that grows evenly, as sequences and times do, is close to
// its line; one that grows by a constant takes no bits at all. Every list of 64-bit numbers comes back as it was: sums wrap.
type column struct {
	base  uint64
	slope uint64
	start uint32 // of the remainders, in words
	width uint8  // bits of a remainder
}

func (c *column) at(words []uint64, i int) uint64 {
	v := c.base + c.slope*uint64(i)
	if c.width == 0 {
		return v
	}
	bit := uint(i) * uint(c.width)
	w := uint(c.start) + bit>>6
	shift := bit & 63
	r := words[w] >> shift
	if shift+uint(c.width) > 64 {
		r |= words[w+1] << (64 - shift)
	}
	return v + r&(^uint64(0)>>(64-c.width))
}

// search gives the first position whose number is at least v, in a column of n numbers that ascend.
func (c *column) search(words []uint64, n int, v uint64) int {
	if v <= c.at(words, 0) {
		return 0
	}
	if c.width == 0 && c.slope == 1 {
		return int(min(v-c.base, uint64(n)))
	}
	low, high := 1, n // the answer is in low..high
	for low < high {
		middle := int(uint(low+high) >> 1)
		if c.at(words, middle) < v {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// packColumn appends the remainders of a list to words.
func packColumn(words []uint64, list []uint64) (column, []uint64) {
	c := fitColumn(list)
	c.start = uint32(len(words))
	if c.width == 0 {
		return c, words
	}
	width := uint(c.width)
	need := (uint(len(list))*width + 63) / 64
	words = slices.Grow(words, int(need))[:len(words)+int(need)]
	out := words[c.start:]
	var word uint64
	filled, line, at := uint(0), c.base, 0
	for _, v := range list {
		r := v - line
		line += c.slope
		word |= r << filled
		if filled += width; filled >= 64 {
			out[at] = word
			at++
			filled -= 64
			word = r >> (width - filled) // nothing, where it fitted: a shift by its whole width
		}
	}
	if filled > 0 {
		out[at] = word
	}
	return c, words
}

// fitColumn chooses the line: level, or through the first and the last number, whichever leaves less.
func fitColumn(list []uint64) column {
	c := fitLevel(list)
	if n := uint64(len(list)); c.width > 0 && n > 1 && list[n-1]-list[0] > 1<<(c.width-1) && list[n-1] > list[0] {
		if slope := (list[n-1] - list[0]) / (n - 1); slope > 0 {
			if rising := fitSlope(list, slope); rising.width < c.width {
				return rising
			}
		}
	}
	return c
}

func fitLevel(list []uint64) column {
	if len(list) == 0 {
		return column{}
	}
	low, high := list[0], list[0]
	for _, v := range list {
		low, high = min(low, v), max(high, v)
	}
	return column{base: low, width: uint8(bits.Len64(high - low))}
}

func fitSlope(list []uint64, slope uint64) column {
	var low, high int64
	line := list[0]
	for _, v := range list {
		r := int64(v - line)
		low, high = min(low, r), max(high, r)
		line += slope
	}
	return column{base: list[0] + uint64(low), slope: slope, width: uint8(bits.Len64(uint64(high) - uint64(low)))}
}

// absent marks positions of a packed list that were taken out. nil: none was.
type absent []uint64

func (a *absent) set(i, n int) {
	if *a == nil {
		*a = make(absent, (n+63)/64)
	}
	(*a)[i>>6] |= 1 << (i & 63)
}

func (a absent) has(i int) bool { return a != nil && a[i>>6]>>(i&63)&1 == 1 }

// next gives the first position from i on that is there, or n.
func (a absent) next(i, n int) int {
	if a == nil || i >= n {
		return min(i, n)
	}
	w := i >> 6
	free := ^a[w] &^ (1<<(i&63) - 1)
	for free == 0 {
		if w++; w == len(a) {
			return n
		}
		free = ^a[w]
	}
	return min(w<<6+bits.TrailingZeros64(free), n)
}

// previous gives the last position up to i that is there, or -1.
func (a absent) previous(i int) int {
	if a == nil || i < 0 {
		return i
	}
	w := i >> 6
	free := ^a[w] & (^uint64(0) >> (63 - i&63))
	for free == 0 {
		if w--; w < 0 {
			return -1
		}
		free = ^a[w]
	}
	return w<<6 + 63 - bits.LeadingZeros64(free)
}

// count counts the positions of i..n-1 that are not there.
func (a absent) count(i, n int) int {
	if a == nil || i >= n {
		return 0
	}
	w := i >> 6
	gone := bits.OnesCount64(a[w] &^ (1<<(i&63) - 1))
	for _, word := range a[w+1:] {
		gone += bits.OnesCount64(word)
	}
	return gone
}
