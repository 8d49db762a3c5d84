package segment

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// page gives the unpacked page that is all of a chunk. A chunk is the page's header and the page; in an encrypted file
// both are modules.
func (ix *Index) page(g *Group, column int, chunk []byte) ([]byte, error) {
	sealed := chunk
	head := chunk
	var err error
	if ix.seal != nil {
		if sealed, chunk, err = module(chunk); err != nil {
			return nil, err
		}
		if head, err = ix.seal.decrypt(sealed, ix.seal.pageAAD(pageHeaderModule, g.Number, column)); err != nil {
			return nil, err
		}
	}
	h, n, err := decodePageHeader(head)
	if err != nil {
		return nil, err
	}
	stored := chunk
	if ix.seal == nil {
		stored = chunk[n:]
	} else if n != len(head) {
		return nil, fmt.Errorf("%w: page header of %d bytes in %d", ErrCorrupt, n, len(head))
	}
	if err := checkPageHeader(h, g, column, len(stored)); err != nil {
		return nil, err
	}
	if ix.seal != nil {
		sealed, rest, err := module(stored)
		if err != nil {
			return nil, err
		}
		if len(rest) != 0 {
			return nil, fmt.Errorf("%w: %d bytes behind the page", ErrCorrupt, len(rest))
		}
		if stored, err = ix.seal.decrypt(sealed, ix.seal.pageAAD(pageModule, g.Number, column)); err != nil {
			return nil, err
		}
	}
	return unpack(stored, int(h.UncompressedPageSize))
}

// decodePageHeader gives the header at the start of b and its size.
func decodePageHeader(b []byte) (*format.PageHeader, int, error) {
	h := &format.PageHeader{}
	r := compact.NewReaderFromBytes(b)
	if err := thrift.NewDecoder(r).Decode(h); err != nil {
		return nil, 0, fmt.Errorf("%w: page header: %w", ErrCorrupt, err)
	}
	return h, r.BytesRead(), nil
}

func checkPageHeader(h *format.PageHeader, g *Group, column, stored int) error {
	v1 := &h.DataPageHeader
	switch {
	case h.Type != format.DataPage || !v1.Valid:
		return fmt.Errorf("%w: page of type %d", ErrCorrupt, h.Type)
	case v1.V.Encoding != columnEncodings[column] || column == headersColumn && v1.V.DefinitionLevelEncoding != format.RLE:
		return fmt.Errorf("%w: page encoded as %v", ErrCorrupt, v1.V.Encoding)
	case int64(v1.V.NumValues) != int64(g.Rows):
		return fmt.Errorf("%w: page of %d values, want %d", ErrCorrupt, v1.V.NumValues, g.Rows)
	case int(h.CompressedPageSize) != stored:
		return fmt.Errorf("%w: page of %d bytes, want %d", ErrCorrupt, stored, h.CompressedPageSize)
	case h.UncompressedPageSize < 0 || uint64(h.UncompressedPageSize) > pageBound(g, column):
		return fmt.Errorf("%w: page of %d bytes unpacked", ErrCorrupt, h.UncompressedPageSize)
	}
	return nil
}

// pageBound is what a sound page of a group has at most.
func pageBound(g *Group, column int) uint64 {
	rows := uint64(g.Rows)
	if column == seqColumn || column == timeColumn {
		return 64 + (rows/deltaBlock+1)*(deltaBlock*8+deltaMiniBlocks+binary.MaxVarintLen64)
	}
	return 64 + g.Bytes + rows*(4+1) // a length each, and a level
}

// decodeDeltas decodes a page of n numbers. What parquet-go trusts is checked before: it unpacks with vector
// instructions, which take bit widths as they come.
func decodeDeltas(page []byte, n int) ([]int64, error) {
	c := &cursor{b: page}
	if block, mini, total := c.uvarint(), c.uvarint(), c.uvarint(); block != deltaBlock || mini != deltaMiniBlocks || total != uint64(n) {
		return nil, fmt.Errorf("%w: %d deltas in blocks of %d by %d, want %d", ErrCorrupt, total, block, mini, n)
	}
	c.varint() // the first
	for left := n - 1; left > 0 && !c.bad; left -= deltaBlock {
		c.varint()
		widths := c.bytes(deltaMiniBlocks)
		for i, width := range widths {
			if i*deltaBlock/deltaMiniBlocks >= left {
				break // its bytes may be left out
			}
			if width > 64 {
				c.fail()
			}
			c.bytes(uint64(width) * deltaBlock / deltaMiniBlocks / 8)
		}
	}
	if !c.atEnd() {
		return nil, fmt.Errorf("%w: deltas in %d bytes", ErrCorrupt, len(page))
	}
	var e delta.BinaryPackedEncoding
	values, err := e.DecodeInt64(make([]int64, 0, n), page)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(values) != n {
		return nil, fmt.Errorf("%w: %d deltas, want %d", ErrCorrupt, len(values), n)
	}
	return values, nil
}

// absent is the place of a value that is NULL.
const absent = math.MaxUint32

// values is a page of byte strings: where each one's length is in the page, or absent.
type values struct {
	page []byte
	at   []uint32
}

// get gives a value, which aliases the page; nil for an absent one and only for that.
func (v *values) get(i int) []byte {
	at := v.at[i]
	if at == absent {
		return nil
	}
	end := at + 4 + binary.LittleEndian.Uint32(v.page[at:])
	return v.page[at+4 : end : end]
}

// decodeValues finds the n values of a page. present is nil where all are, and gives the sum of their lengths.
func decodeValues(page []byte, at, n int, present []bool) (v values, bytes uint64, err error) {
	v = values{page: page, at: make([]uint32, n)}
	for i := range v.at {
		if present != nil && !present[i] {
			v.at[i] = absent
			continue
		}
		if len(page)-at < 4 {
			return v, 0, fmt.Errorf("%w: value %d of %d is not there", ErrCorrupt, i, n)
		}
		length := binary.LittleEndian.Uint32(page[at:])
		if uint64(length) > uint64(len(page)-at-4) {
			return v, 0, fmt.Errorf("%w: value %d of %d has %d bytes", ErrCorrupt, i, n, length)
		}
		v.at[i] = uint32(at)
		at += 4 + int(length)
		bytes += uint64(length)
	}
	if at != len(page) {
		return v, 0, fmt.Errorf("%w: %d bytes behind the values", ErrCorrupt, len(page)-at)
	}
	return v, bytes, nil
}

// decodeLevels reads the n definition levels at the start of a page, each 0 or 1: runs, and groups of eight bits. It
// gives where the values begin.
func decodeLevels(page []byte, n int) (present []bool, at int, err error) {
	if len(page) < 4 || uint64(binary.LittleEndian.Uint32(page)) > uint64(len(page)-4) {
		return nil, 0, fmt.Errorf("%w: levels in a page of %d bytes", ErrCorrupt, len(page))
	}
	at = 4 + int(binary.LittleEndian.Uint32(page))
	c := &cursor{b: page[4:at]}
	present = make([]bool, 0, n)
	for len(present) < n && !c.bad {
		head := c.uvarint()
		if head&1 == 0 {
			value := c.bytes(1)
			if count := head >> 1; c.bad || value[0] > 1 || count > uint64(n-len(present)) {
				c.fail()
			} else {
				for range count {
					present = append(present, value[0] == 1)
				}
			}
			continue
		}
		for _, bits := range c.bytes(head >> 1) {
			for bit := 0; bit < 8 && len(present) < n; bit++ {
				present = append(present, bits>>bit&1 == 1)
			}
		}
	}
	if !c.atEnd() || len(present) != n {
		return nil, 0, fmt.Errorf("%w: %d levels, want %d", ErrCorrupt, len(present), n)
	}
	return present, at, nil
}
