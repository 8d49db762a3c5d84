package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/jsm.go/api"
)

// index.db is what nats-server knew of all blocks; u is an unsigned, i a signed varint:
//
//	11, version (1 byte each; 1 to 4)
//	u messages, u bytes, u first sequence, i time of the first, u last sequence, i time of the last
//	u subjects, each: u length, subject, u messages, u first block, u last block (where there is more than one message,
//	    or from version 4 on)
//	u blocks, each: u index, u bytes, u first sequence, i time, u last sequence, i time, u deleted sequences,
//	    u messages with a TTL (from version 2), u schedules (from version 3), and the deleted sequences if there are some
//	u index of the last block, 8 bytes checksum of its last record
//	8 bytes HighwayHash of all that, under SHA-256 of the stream's name
//
// Deleted sequences are: 22, version (1 byte each), u32 nodes, u32 sequences, and per node u64 base, 32 words of 64 bits
// (64 words in version 1), u16 height; little-endian. Bit n of the words stands for base + n.
const (
	indexMagic      = 11
	indexVersions   = 4
	setMagic        = 22
	setWords        = 32
	setWordsVersion = 64 // of version 1
)

// index takes what index.db says of messages that are gone. One that does not fit the blocks is of an earlier time, and
// is passed over, as nats-server does.
func (f *files) index(body []byte) error {
	if f.stated {
		return fmt.Errorf("%w: index.db out of order", ErrCorrupt)
	}
	if len(body) < recordSum+2 {
		return fmt.Errorf("%w: index.db of %d bytes", ErrCorrupt, len(body))
	}
	body, sum := body[:len(body)-recordSum], body[len(body)-recordSum:]
	key := sha256.Sum256([]byte(f.stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return fmt.Errorf("archive: index.db: %w", err)
	}
	h.Write(body)
	if !bytes.Equal(h.Sum(nil), sum) {
		return fmt.Errorf("%w: checksum of index.db", ErrCorrupt)
	}
	r := reader{rest: body[2:]}
	version := body[1]
	if body[0] != indexMagic || version < 1 || version > indexVersions {
		return fmt.Errorf("%w: index.db of version %d", ErrCorrupt, version)
	}
	ix := readIndex(&r, version)
	if r.bad {
		return fmt.Errorf("%w: index.db", ErrCorrupt)
	}
	if ix.last != f.blocks {
		return nil
	}
	for _, gone := range ix.gone {
		if err := f.to.Removed(gone.first, gone.last); err != nil {
			return err
		}
	}
	f.stated = true
	return f.to.State(ix.state)
}

type span struct{ first, last uint64 }

// indexed is what an index says.
type indexed struct {
	state api.StreamState
	gone  []span
	last  blockSum
}

func readIndex(r *reader, version byte) (ix indexed) {
	r.unsigned() // messages
	r.unsigned() // bytes
	ix.state.FirstSeq = r.unsigned()
	r.signed()
	ix.state.LastSeq = r.unsigned()
	if at := r.signed(); at > 0 {
		ix.state.LastTime = time.Unix(0, at).UTC()
	}
	for range r.count() {
		r.take(r.unsigned())
		msgs := r.unsigned()
		r.unsigned()
		if msgs > 1 || version >= 4 {
			r.unsigned()
		}
	}
	next := ix.state.FirstSeq
	for range r.count() {
		r.unsigned() // index
		r.unsigned() // bytes
		first := r.unsigned()
		r.signed()
		last := r.unsigned()
		r.signed()
		deleted := r.unsigned()
		if version >= 2 {
			r.unsigned()
		}
		if version >= 3 {
			r.unsigned()
		}
		if first > next && next > 0 {
			ix.gone = append(ix.gone, span{next, first - 1})
		}
		if deleted > 0 {
			ix.gone = append(ix.gone, readSet(r)...)
		}
		next = max(next, last+1)
		if r.bad || last == math.MaxUint64 {
			r.bad = true
			return ix
		}
	}
	ix.last.index = r.unsigned()
	copy(ix.last.sum[:], r.take(recordSum))
	if ix.state.FirstSeq == 0 || ix.state.FirstSeq-1 > ix.state.LastSeq {
		ix.state.FirstSeq = 0 // an empty stream
	}
	return ix
}

// readSet reads deleted sequences as runs.
func readSet(r *reader) (runs []span) {
	head := r.take(10)
	if r.bad || head[0] != setMagic || head[1] < 1 || head[1] > 2 {
		r.bad = true
		return nil
	}
	words := setWords
	if head[1] == 1 {
		words = setWordsVersion
	}
	nodes := uint64(binary.LittleEndian.Uint32(head[2:]))
	for ; nodes > 0 && !r.bad; nodes-- {
		node := r.take(uint64(8 + 8*words + 2))
		if r.bad {
			return nil
		}
		base := binary.LittleEndian.Uint64(node)
		if base > math.MaxUint64-64*setWordsVersion {
			r.bad = true
			return nil
		}
		for w := range words {
			word := binary.LittleEndian.Uint64(node[8+8*w:])
			for at := base + uint64(64*w); word != 0; {
				skip := bits.TrailingZeros64(word)
				word >>= skip
				n := bits.TrailingZeros64(^word)
				at += uint64(skip)
				runs = addRun(runs, span{at, at + uint64(n) - 1})
				at += uint64(n)
				word >>= n // 64 gives 0
			}
		}
	}
	return runs
}

// addRun joins runs that touch.
func addRun(runs []span, s span) []span {
	if n := len(runs); n > 0 && runs[n-1].last+1 == s.first {
		runs[n-1].last = s.last
		return runs
	}
	return append(runs, s)
}

// reader takes numbers apart. After a fault it gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads how many things of at least a byte follow.
func (r *reader) count() uint64 {
	n := r.unsigned()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return n
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
