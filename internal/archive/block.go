package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
)

// A block is a run of records; numbers are little-endian:
//
//	u32 length of the record; its highest bit says that there is a header
//	u64 sequence; bit 63: the message was erased, bit 62: a tombstone, the message of that sequence is gone
//	i64 time, ns
//	u16 length of the subject
//	    subject
//	u32 length of the header, if there is one
//	    header, data
//	8   HighwayHash of sequence to data without the length of the header, under SHA-256 of "<stream>-<block>"
const (
	recordHead = 4 + 8 + 8 + 2
	recordSum  = 8

	headerBit    = 1 << 31
	erasedBit    = 1 << 63
	tombstoneBit = 1 << 62
)

// blockRecord is a record of a block. Its slices point into the block.
type blockRecord struct {
	seq                   uint64 // without its bits
	at                    int64
	erased, tombstone     bool
	subject, header, data []byte
	sum                   []byte
}

// nextRecord reads the first record of b and returns the rest.
func nextRecord(b []byte, h hash.Hash) (r blockRecord, rest []byte, err error) {
	fail := func(what string) (blockRecord, []byte, error) {
		return blockRecord{}, nil, fmt.Errorf("%w: block: %s", ErrCorrupt, what)
	}
	if len(b) < recordHead {
		return fail("record ends early")
	}
	size := binary.LittleEndian.Uint32(b)
	hasHeader := size&headerBit != 0
	size &^= headerBit
	subject := int(binary.LittleEndian.Uint16(b[20:]))
	if size < recordHead+recordSum || uint64(size) > uint64(len(b)) {
		return fail("length of a record")
	}
	body := b[recordHead : size-recordSum]
	if subject > len(body) {
		return fail("length of a subject")
	}
	seq := binary.LittleEndian.Uint64(b[4:])
	r.at = int64(binary.LittleEndian.Uint64(b[12:]))
	r.erased, r.tombstone = seq&erasedBit != 0, seq&tombstoneBit != 0
	r.seq = seq &^ (erasedBit | tombstoneBit)
	r.subject, r.data = body[:subject], body[subject:]
	if hasHeader {
		if len(r.data) < 4 {
			return fail("header ends early")
		}
		n := binary.LittleEndian.Uint32(r.data)
		if uint64(n) > uint64(len(r.data)-4) {
			return fail("length of a header")
		}
		r.header, r.data = r.data[4:4+n:4+n], r.data[4+n:]
	}
	r.sum = b[size-recordSum : size]
	h.Reset()
	h.Write(b[4:20])
	h.Write(r.subject)
	h.Write(r.header)
	h.Write(r.data)
	var sum [recordSum]byte
	if !bytes.Equal(h.Sum(sum[:0]), r.sum) {
		return fail("checksum of a record")
	}
	return r, b[size:], nil
}

// block reads a block of messages. Blocks come in order.
func (f *files) block(index uint64, body []byte) error {
	if f.stated || index <= f.blocks.index && f.blocks.index != 0 {
		return fmt.Errorf("%w: block %d out of order", ErrCorrupt, index)
	}
	f.blocks = blockSum{index: index}
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", f.stream, index))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return fmt.Errorf("archive: block %d: %w", index, err)
	}
	for len(body) > 0 {
		r, rest, err := nextRecord(body, h)
		if err != nil {
			return fmt.Errorf("block %d: %w", index, err)
		}
		body = rest
		copy(f.blocks.sum[:], r.sum)
		if err := f.record(&r); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) record(r *blockRecord) error {
	switch {
	case r.tombstone:
		f.known = max(f.known, r.seq)
		return f.to.Removed(r.seq, r.seq)
	case r.seq == 0:
		return nil
	case r.erased:
		f.known = max(f.known, r.seq)
		return nil
	case r.seq <= f.last:
		return fmt.Errorf("%w: message sequence %d out of order", ErrCorrupt, r.seq)
	case len(r.header)+len(r.data) > MaxMessage:
		return fmt.Errorf("%w: message %d", ErrTooLarge, r.seq)
	}
	f.last, f.known = r.seq, max(f.known, r.seq)
	return f.to.Message(Message{Seq: r.seq, Time: r.at, Subject: string(r.subject), Header: r.header, Data: r.data})
}
