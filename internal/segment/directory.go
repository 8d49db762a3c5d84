package segment

import (
	"fmt"
	"unsafe"
)

// Directory is the part of an index that reading messages needs: where the groups are. It is immutable and safe for
// concurrent use.
type Directory struct{ index *Index }

// directorySize is how much of the index a Directory is: its header and its first section.
func (h *header) directorySize() int64 { return h.entries[0].at + h.entries[0].size }

// ParseDirectory reads the first [Info.DirectorySize] bytes of an index, as ParseIndex reads all of it.
func ParseDirectory(b, key []byte) (*Directory, error) {
	h, err := decodeHeaderOf(b)
	if err != nil {
		return nil, err
	}
	if h.directorySize() != int64(len(b)) {
		return nil, fmt.Errorf("%w: directory of %d bytes, want %d", ErrCorrupt, len(b), h.directorySize())
	}
	ix := &Index{header: h}
	if err := ix.open(key); err != nil {
		return nil, err
	}
	raw, err := ix.section(b, h.entries[0], MaxIndexBytes)
	if err != nil {
		return nil, fmt.Errorf("section of %s: %w", sectionNames[groupsSection], err)
	}
	if ix.info, ix.groups, err = parseGroups(raw, h.indexAt, int(h.entries[rowsSection-1].rawBytes)); err != nil {
		return nil, err
	}
	ix.noteHeader()
	return &Directory{ix}, nil
}

// Info is what the directory says of its segment: everything but the checksums, which are 0.
func (d *Directory) Info() Info { return d.index.info }

// Groups is that of Index.
func (d *Directory) Groups() []Group { return d.index.groups }

// Find is that of Index.
func (d *Directory) Find(seq uint64) int { return d.index.Find(seq) }

// Decode is that of Index.
func (d *Directory) Decode(n int, body []byte) (*Block, error) { return d.index.Decode(n, body) }

// MemorySize is about how many bytes the directory takes.
func (d *Directory) MemorySize() int {
	return len(d.index.groups)*int(unsafe.Sizeof(Group{})) + int(unsafe.Sizeof(Index{})) + int(unsafe.Sizeof(header{}))
}

// MemorySize is about how many bytes the block takes.
func (b *Block) MemorySize() int {
	return int(b.group.Bytes) + 50*len(b.seqs) + int(unsafe.Sizeof(Block{}))
}
