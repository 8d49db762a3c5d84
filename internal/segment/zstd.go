package segment

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// Coders are shared: EncodeAll and DecodeAll may be called at the same time, and keep their own pools. Those are
// channels, made here and not at the first use: a channel that is made in a synctest bubble works in no other.
var (
	packer   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(0), zstd.WithEncoderCRC(false)))
	unpacker = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)))
)

func init() {
	packer.EncodeAll(nil, nil)
	if codec, err := compress.GetCodec(compress.Codecs.Zstd); err == nil { // the one that pages are packed by
		codec.Encode(nil, []byte{0})
	}
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
