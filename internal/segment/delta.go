package segment

import (
	"encoding/binary"
	"math/bits"
)

// The blocks of DELTA_BINARY_PACKED as everybody writes them.
const (
	deltaBlock      = 128
	deltaMiniBlocks = 4
	deltaMiniBlock  = deltaBlock / deltaMiniBlocks
)

// appendPacked appends a page of numbers, at least one, as DELTA_BINARY_PACKED: the first, then for each block of 128
// the least difference, the bits that each quarter needs above it, and these. Quarters without a number have no bytes.
func appendPacked(dst []byte, values []int64) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaMiniBlocks)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	dst = binary.AppendVarint(dst, values[0])
	last := values[0]
	var block [deltaBlock]uint64
	for rest := values[1:]; len(rest) > 0; {
		n := min(len(rest), deltaBlock)
		least := rest[0] - last
		for i, v := range rest[:n] {
			d := v - last // wraps, as the reader's sum does
			block[i] = uint64(d)
			least = min(least, d)
			last = v
		}
		for i := range block[:n] {
			block[i] -= uint64(least)
		}
		clear(block[n:])
		dst = binary.AppendVarint(dst, least)
		dst = appendBlock(dst, &block, n)
		rest = rest[n:]
	}
	return dst
}

// appendBlock appends the widths of a block's quarters, and the quarters that have one of the n numbers.
func appendBlock(dst []byte, block *[deltaBlock]uint64, n int) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, deltaMiniBlocks)...)
	for i := 0; i*deltaMiniBlock < n; i++ {
		quarter := (*[deltaMiniBlock]uint64)(block[i*deltaMiniBlock:])
		all := uint64(0)
		for _, v := range quarter {
			all |= v
		}
		width := bits.Len64(all)
		dst[at+i] = byte(width)
		if width > 0 {
			dst = appendBits(dst, quarter, uint(width))
		}
	}
	return dst
}

// appendBits appends the numbers of a quarter, width bits each from the lowest on.
func appendBits(dst []byte, quarter *[deltaMiniBlock]uint64, width uint) []byte {
	var pending uint64
	var held uint // bits in pending, less than 64
	for _, v := range quarter {
		pending |= v << held
		if held += width; held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, pending)
			held -= 64
			pending = v >> (width - held)
		}
	}
	if held > 0 { // 32 numbers are whole words of 32 bits
		dst = binary.LittleEndian.AppendUint32(dst, uint32(pending))
	}
	return dst
}
