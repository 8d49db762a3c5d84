package segment

import (
	"fmt"
	"iter"
	"slices"
)

// Block is a row group, decoded. It owns its buffers, which take about [Group].Bytes and 50 bytes a message; the
// messages that it gives alias them and live as long as they. It is immutable and safe for concurrent use.
type Block struct {
	group                   Group
	seqs, times             []int64
	subjects, headers, data values
}

// Decode decodes group number n from its bytes in the object: [Group.Size] of them from [Group.Offset]. body is not
// kept. It checks them before anything else, so that what is returned is what was written, or ErrCorrupt or ErrKey.
func (ix *Index) Decode(n int, body []byte) (*Block, error) {
	if n < 0 || n >= len(ix.groups) {
		return nil, fmt.Errorf("segment: no group %d of %d", n, len(ix.groups))
	}
	g := &ix.groups[n]
	if int64(len(body)) != g.Size() {
		return nil, fmt.Errorf("%w: group %d: %d bytes, want %d", ErrCorrupt, n, len(body), g.Size())
	}
	if got := checksum(body); got != g.CRC {
		return nil, fmt.Errorf("%w: group %d at %d: checksum %08x, want %08x", ErrCorrupt, n, g.Offset, got, g.CRC)
	}
	return ix.decode(g, body)
}

// decode decodes bytes whose checksum agreed, and trusts them no more for that.
func (ix *Index) decode(g *Group, body []byte) (*Block, error) {
	b := &Block{group: *g}
	var sum uint64
	at := 0
	for c, length := range g.Lengths {
		chunk := body[at : at+int(length)]
		at += int(length)
		bytes, err := b.column(ix, c, chunk)
		if err != nil {
			return nil, fmt.Errorf("group %d at %d: column %s: %w", g.Number, g.Offset, columnNames[c], err)
		}
		sum += bytes
	}
	if sum != g.Bytes {
		return nil, fmt.Errorf("%w: group %d at %d: messages of %d bytes, want %d", ErrCorrupt, g.Number, g.Offset, sum, g.Bytes)
	}
	return b, nil
}

// column decodes one chunk and gives the bytes that its values have.
func (b *Block) column(ix *Index, c int, chunk []byte) (bytes uint64, err error) {
	n := int(b.group.Rows)
	page, err := ix.page(&b.group, c, chunk)
	if err != nil {
		return 0, err
	}
	switch c {
	case seqColumn:
		if b.seqs, err = decodeDeltas(page, n); err == nil {
			err = b.checkSequences()
		}
	case timeColumn:
		if b.times, err = decodeDeltas(page, n); err == nil && b.times[0] != b.group.FirstTime {
			err = fmt.Errorf("%w: first time %d, want %d", ErrCorrupt, b.times[0], b.group.FirstTime)
		}
	case subjectColumn:
		b.subjects, bytes, err = decodeValues(page, 0, n, nil)
	case headersColumn:
		var present []bool
		var at int
		if present, at, err = decodeLevels(page, n); err == nil {
			b.headers, bytes, err = decodeValues(page, at, n, present)
		}
	case dataColumn:
		b.data, bytes, err = decodeValues(page, 0, n, nil)
	}
	return bytes, err
}

func (b *Block) checkSequences() error {
	last := uint64(0)
	for i, seq := range b.seqs {
		if i > 0 && uint64(seq) <= last {
			return fmt.Errorf("%w: sequence %d after %d", ErrCorrupt, uint64(seq), last)
		}
		last = uint64(seq)
	}
	if first := uint64(b.seqs[0]); first != b.group.First || last != b.group.Last {
		return fmt.Errorf("%w: sequences %d to %d, want %d to %d", ErrCorrupt, first, last, b.group.First, b.group.Last)
	}
	return nil
}

// Group is where the block came from.
func (b *Block) Group() Group { return b.group }

// Len is how many messages there are, at least one.
func (b *Block) Len() int { return len(b.seqs) }

// At gives message i, from 0. It aliases the block and must not be changed.
func (b *Block) At(i int) Message {
	return Message{
		Seq: uint64(b.seqs[i]), Time: b.times[i],
		Subject: b.subjects.get(i), Header: b.headers.get(i), Data: b.data.get(i),
	}
}

// Find gives the place of the first message with seq or above, and whether it is seq; Len() where there is none.
func (b *Block) Find(seq uint64) (i int, found bool) {
	return slices.BinarySearchFunc(b.seqs, seq, func(a int64, seq uint64) int {
		switch {
		case uint64(a) < seq:
			return -1
		case uint64(a) > seq:
			return 1
		}
		return 0
	})
}

// Messages gives the messages from sequence from on, in order, as At does.
func (b *Block) Messages(from uint64) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		i, _ := b.Find(from)
		for ; i < b.Len() && yield(b.At(i)); i++ {
		}
	}
}
