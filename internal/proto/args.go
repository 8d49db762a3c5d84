package proto

import (
	"encoding/binary"
	"math/bits"
)

// blank finds the first byte that is a blank or a control character, eight bytes at a time; -1 is none.
func blank(s []byte) int {
	const ones = 0x0101010101010101
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		// The lowest bit of this that is set belongs to the first byte below '!'.
		if low := (x - ones*('!')) & ^x & (ones << 7); low != 0 {
			return i + bits.TrailingZeros64(low)/8
		}
	}
	for ; i < len(s); i++ {
		if s[i] <= ' ' {
			return i
		}
	}
	return -1
}

// trailingSize reads the digits that the line ends with, and where they begin. Digits that are no size, or none at all,
// give a start of -1.
func trailingSize(line []byte) (n, start int) {
	i := len(line) - 1
	for i >= 0 && line[i]-'0' <= 9 {
		i--
	}
	digits := line[i+1:]
	if len(digits) == 0 || len(digits) > maxSizeDigits {
		return -1, -1
	}
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n, i + 1
}

// pubArgs are the arguments of a PUB or HPUB.
type pubArgs struct {
	subject, reply       []byte
	headerText, sizeText []byte
	header, size         int // header is 0 for PUB
}

// splitPub splits a line at any run of blanks and tabs.
func splitPub(line []byte, hpub bool) (a pubArgs, ok bool) {
	var fields [5][]byte
	n := Fields(line, fields[:], isBlank)
	want := 2
	if hpub {
		want = 3
	}
	if n != want && n != want+1 {
		return a, false
	}
	a.subject = fields[0]
	if n == want+1 {
		a.reply = fields[1]
	}
	a.sizeText = fields[n-1]
	a.size = ParseSize(a.sizeText)
	if hpub {
		a.headerText = fields[n-2]
		a.header = ParseSize(a.headerText)
	}
	return a, true
}

// Fields splits a line at the bytes that are separators, and gives how many fields there are. When there are more than
// fit, the count is one above the capacity.
func Fields(line []byte, fields [][]byte, separator func(byte) bool) int {
	n, start := 0, -1
	for i := 0; i <= len(line); i++ {
		if i < len(line) && !separator(line[i]) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start < 0 {
			continue
		}
		if n == len(fields) {
			return n + 1
		}
		fields[n] = line[start:i]
		n++
		start = -1
	}
	return n
}

// SplitArgs splits the arguments of a SUB or UNSUB, of which there are at most three. More give a count of four.
func SplitArgs(line []byte) (fields [3][]byte, n int) {
	n = Fields(line, fields[:], func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
	return fields, n
}
