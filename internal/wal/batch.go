package wal

import (
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Batch is one object of a log as it was read, verified.
type Batch struct {
	ID      LogID
	Offset  Offset
	PutID   PutID
	Created time.Time // by the writer's clock, for people only
	Records int
	Body    []byte // the records, uncompressed; owned by whoever got the batch
	Stored  int    // bytes of the object in the store
}

// encodeBatch appends the object of a batch to dst[:0] and sets the entries' positions.
func encodeBatch(dst []byte, b *batch, id LogID, created time.Time, compress bool) []byte {
	h := header{objectType: batchObject, id: id, offset: b.offset, putID: b.putID, created: created, rawBytes: uint32(b.bytes), records: uint32(b.records)}
	start := h.size()
	if total := start + b.bytes; cap(dst) < total {
		dst = make([]byte, 0, total)
	}
	dst = dst[:start]
	for _, e := range b.entries {
		e.Position = Position{Epoch: id.Epoch, Offset: b.offset, Byte: uint32(len(dst) - start)}
		dst = append(dst, e.Data...)
	}
	if compress {
		if packed := encoder().EncodeAll(dst[start:], nil); len(packed) < b.bytes {
			h.flags |= flagZstd
			dst = append(dst[:start], packed...)
		}
	}
	body := dst[start:]
	h.bodyBytes = uint32(len(body))
	h.bodyCRC = crc32.Checksum(body, castagnoli)
	h.put(dst[:start])
	return dst
}

// decodeBatch verifies a whole object that was read for an offset. A fence is a *FenceError without its key. The
// batch's body may be part of object.
func decodeBatch(object []byte, id LogID, at Offset) (*Batch, error) {
	h, err := decodeHeader(object)
	if err != nil {
		return nil, err
	}
	if err := h.expect(id, at); err != nil {
		return nil, err
	}
	if h.objectType == fenceObject {
		fence, err := h.fence(object)
		if err != nil {
			return nil, err
		}
		return nil, &FenceError{Fence: fence}
	}
	body, err := h.body(object)
	if err != nil {
		return nil, err
	}
	if h.flags&flagZstd != 0 {
		if body, err = unpack(body, int(h.rawBytes)); err != nil {
			return nil, err
		}
	}
	return &Batch{ID: id, Offset: at, PutID: h.putID, Created: h.created, Records: int(h.records), Body: body, Stored: len(object)}, nil
}

// encoder and decoder are shared: EncodeAll and DecodeAll may be called concurrently, and keep no state between calls.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(4),
			zstd.WithSingleSegment(true)) // so that the frame tells its size
		if err != nil {
			panic(err) // fixed options: found by the first test that compresses
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderMaxMemory(maxBodyBytes))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// unpack decompresses a body whose size is known. A frame that grows beyond it is refused before memory is spent on it.
func unpack(packed []byte, size int) ([]byte, error) {
	var zh zstd.Header
	if err := zh.Decode(packed); err != nil || !zh.HasFCS || zh.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("%w: zstd frame is not of %d bytes", ErrCorrupt, size)
	}
	body, err := decoder().DecodeAll(packed, make([]byte, 0, size))
	if err != nil || len(body) != size {
		return nil, fmt.Errorf("%w: zstd body of %d bytes, want %d: %v", ErrCorrupt, len(body), size, err)
	}
	return body, nil
}
