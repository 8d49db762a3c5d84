package segment

import (
	"encoding/binary"
	"math/bits"
)

// A column of varints is read in two steps, since it is read often and is large. isColumn checks once that it has as
// many numbers as it should; then takeColumn reads runs of them without asking again. A number that is too long for 64
// bits loses what is above: that is harmless, and who wrote it is not us.

// isColumn reports whether b is exactly n varints: each ends with the only byte of it that is below 0x80.
func isColumn(b []byte, n int) bool {
	if len(b) < n {
		return false
	}
	ends := 0
	rest := b
	for ; len(rest) >= 8; rest = rest[8:] {
		ends += bits.OnesCount64(^binary.LittleEndian.Uint64(rest) & 0x8080808080808080)
	}
	for _, c := range rest {
		if c < 0x80 {
			ends++
		}
	}
	return ends == n && (n == 0 && len(b) == 0 || n > 0 && b[len(b)-1] < 0x80)
}

// takeColumn fills dst with the next numbers of a column that isColumn, and gives what follows them.
func takeColumn(dst []uint64, b []byte) []byte {
	at := 0
	for i := range dst {
		if at >= len(b) {
			clear(dst[i:]) // never of a column that was checked
			break
		}
		c := b[at]
		at++
		v := uint64(c)
		if c >= 0x80 {
			v &= 0x7f
			for shift := uint(7); at < len(b); shift += 7 {
				c = b[at]
				at++
				v |= uint64(c&0x7f) << shift
				if c < 0x80 {
					break
				}
			}
		}
		dst[i] = v
	}
	return b[at:]
}

func zigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
