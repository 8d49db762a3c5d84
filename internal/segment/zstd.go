package segment

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Coders are shared: EncodeAll and DecodeAll may be called at the same time, and keep their own pools. Those are
// channels, made here and not at the first use: a channel that is made in a synctest bubble works in no other.
var (
	packer   = must(newPacker(zstd.SpeedFastest, 0))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)))
)

func init() { packer.EncodeAll(nil, nil) }

// newPacker makes an encoder of whole frames for so many callers at once, 0 for as many as there are processors. Frames
// have no checksum: what holds them has.
func newPacker(level zstd.EncoderLevel, callers int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(callers), zstd.WithEncoderCRC(false))
}

// packerFor gives the packer of a level of zstd: the shared one of the lowest, one of their own of higher ones, whose
// tables have many megabytes.
func packerFor(level int) (*zstd.Encoder, error) {
	if l := zstd.EncoderLevelFromZstd(level); l != zstd.SpeedFastest {
		return newPacker(l, 1)
	}
	return packer, nil
}

// must is for options that are known to be right.
func must[T any](coder T, err error) T {
	if err != nil {
		panic(err)
	}
	return coder
}

// unpack gives the n bytes that b was packed from.
func unpack(b []byte, n int) ([]byte, error) {
	raw, err := unpacker.DecodeAll(b, make([]byte, 0, n))
	if err != nil {
		return nil, fmt.Errorf("%w: unpacking: %w", ErrCorrupt, err)
	}
	if len(raw) != n {
		return nil, fmt.Errorf("%w: unpacked %d bytes, want %d", ErrCorrupt, len(raw), n)
	}
	return raw, nil
}
