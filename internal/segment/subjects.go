package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"sort"
)

// subjectsPerBlock is how many subjects share a restart point: a look-up reads at most that many names.
const subjectsPerBlock = 16

// Subject is a subject of a segment.
type Subject struct {
	Name        []byte
	Ordinal     uint32 // among the sorted subjects, from 0
	Count       uint64 // messages, 1 or more
	First, Last uint64 // their sequences

	postingsAt, postingsSize int // in the section of postings
}

// subjectsBuilder writes the dictionary: subjects sorted by their bytes, front-coded in blocks.
type subjectsBuilder struct {
	first  uint64 // of the segment
	n      int
	table  []byte // sizes of each block, and of its postings
	blocks []byte
	last   []byte

	blockAt, blockPostings int
}

func (b *subjectsBuilder) add(s *Subject) {
	shared := 0
	if b.n%subjectsPerBlock == 0 {
		b.endBlock()
	} else {
		shared = commonPrefix(b.last, s.Name)
	}
	b.n++
	b.last = append(b.last[:0], s.Name...)
	b.blocks = binary.AppendUvarint(b.blocks, uint64(shared))
	b.blocks = binary.AppendUvarint(b.blocks, uint64(len(s.Name)-shared))
	b.blocks = append(b.blocks, s.Name[shared:]...)
	b.blocks = binary.AppendUvarint(b.blocks, s.Count)
	b.blocks = binary.AppendUvarint(b.blocks, s.First-b.first)
	if s.Count > 1 {
		b.blocks = binary.AppendUvarint(b.blocks, s.Last-s.First)
	}
	if s.Count > 2 {
		b.blocks = binary.AppendUvarint(b.blocks, uint64(s.postingsSize))
		b.blockPostings += s.postingsSize
	}
}

func (b *subjectsBuilder) endBlock() {
	if size := len(b.blocks) - b.blockAt; size > 0 {
		b.table = binary.AppendUvarint(b.table, uint64(size))
		b.table = binary.AppendUvarint(b.table, uint64(b.blockPostings))
		b.blockAt, b.blockPostings = len(b.blocks), 0
	}
}

// section gives the whole section.
func (b *subjectsBuilder) section() []byte {
	b.endBlock()
	out := binary.AppendUvarint(nil, uint64(b.n))
	out = append(out, b.table...)
	return append(out, b.blocks...)
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// dictionary is the section of subjects, parsed.
type dictionary struct {
	n          uint32
	firstSeq   uint64
	blocks     []byte
	starts     []uint32 // of each block in blocks, and where the last ends
	postingsAt []uint32 // of each block in the section of postings, and where the last ends
}

func parseDictionary(b []byte, info *Info, postingsBytes int) (*dictionary, error) {
	c := &cursor{b: b}
	n := c.below(1 << 32)
	count := (n + subjectsPerBlock - 1) / subjectsPerBlock
	if c.bad || n == 0 || n > info.Messages || count*2 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: section of subjects: %d subjects of %d messages in %d bytes", ErrCorrupt, n, info.Messages, len(b))
	}
	d := &dictionary{n: uint32(n), firstSeq: info.First, starts: make([]uint32, count+1), postingsAt: make([]uint32, count+1)}
	var at, postingsAt uint64
	for i := range count {
		d.starts[i], d.postingsAt[i] = uint32(at), uint32(postingsAt)
		at += c.below(MaxIndexBytes)
		postingsAt += c.below(MaxIndexBytes)
		if at > MaxIndexBytes || postingsAt > MaxIndexBytes {
			c.fail()
			break
		}
	}
	d.blocks = b[c.at:]
	d.starts[count], d.postingsAt[count] = uint32(at), uint32(postingsAt)
	if c.bad || at != uint64(len(d.blocks)) || postingsAt != uint64(postingsBytes) {
		return nil, fmt.Errorf("%w: section of subjects: blocks of %d bytes with %d of postings, want %d with %d", ErrCorrupt, at, postingsAt, len(d.blocks), postingsBytes)
	}
	return d, nil
}

// subjectReader reads the subjects of one block.
type subjectReader struct {
	c        cursor
	firstSeq uint64
	left     int
	s        Subject // the newest; Name is reused
	next     int     // where the next one's postings begin
}

func (d *dictionary) block(i int) subjectReader {
	r := subjectReader{c: cursor{b: d.blocks[d.starts[i]:d.starts[i+1]]}, firstSeq: d.firstSeq}
	r.left = min(subjectsPerBlock, int(d.n)-i*subjectsPerBlock)
	r.s.Ordinal = uint32(i*subjectsPerBlock) - 1 // next counts up
	r.next = int(d.postingsAt[i])
	return r
}

func (r *subjectReader) read() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	c := &r.c
	shared := c.below(uint64(len(r.s.Name)) + 1)
	suffix := c.bytes(c.below(MaxSubjectBytes + 1))
	r.s.Name = append(r.s.Name[:shared], suffix...)
	r.s.Ordinal++
	r.s.Count = c.uvarint()
	r.s.First = r.firstSeq + c.uvarint()
	r.s.Last = r.s.First
	r.s.postingsAt, r.s.postingsSize = r.next, 0
	if r.s.Count > 1 {
		r.s.Last += c.uvarint()
	}
	if r.s.Count > 2 {
		r.s.postingsSize = int(c.below(MaxIndexBytes))
		r.next += r.s.postingsSize
	}
	return !c.bad
}

// firstName is the name at a block's restart point.
func (d *dictionary) firstName(block int) []byte {
	c := cursor{b: d.blocks[d.starts[block]:d.starts[block+1]]}
	c.uvarint()
	return c.bytes(c.uvarint())
}

// seek gives the block where name is or would be.
func (d *dictionary) seek(name []byte) int {
	i := sort.Search(len(d.starts)-1, func(i int) bool { return bytes.Compare(d.firstName(i), name) > 0 })
	return max(0, i-1)
}

func (d *dictionary) lookup(name []byte) (Subject, bool) {
	for r := d.block(d.seek(name)); r.read(); {
		switch bytes.Compare(r.s.Name, name) {
		case 0:
			return r.s, true
		case 1:
			return Subject{}, false
		}
	}
	return Subject{}, false
}

// withPrefix gives the subjects that begin so, sorted.
func (d *dictionary) withPrefix(prefix []byte) iter.Seq[Subject] {
	return func(yield func(Subject) bool) {
		for block := d.seek(prefix); block < len(d.starts)-1; block++ {
			for r := d.block(block); r.read(); {
				if bytes.HasPrefix(r.s.Name, prefix) {
					if !yield(r.s) {
						return
					}
				} else if bytes.Compare(r.s.Name, prefix) > 0 {
					return
				}
			}
		}
	}
}

// check reads every subject and its postings once, so that whoever reads them later need not check.
func (d *dictionary) check(info *Info, postings []byte) error {
	var last []byte
	var messages uint64
	for block := range len(d.starts) - 1 {
		r := d.block(block)
		for r.left > 0 {
			ok := r.read()
			s := &r.s
			if !ok || len(s.Name) == 0 || len(s.Name) > MaxSubjectBytes || last != nil && bytes.Compare(last, s.Name) >= 0 {
				return fmt.Errorf("%w: section of subjects: subject %d", ErrCorrupt, s.Ordinal)
			}
			sequences := s.First >= info.First && s.Last >= s.First && s.Last <= info.Last
			if !sequences || s.Count == 0 || s.Count-1 > s.Last-s.First || s.Count == 1 && s.Last != s.First || s.Count > info.Messages {
				return fmt.Errorf("%w: section of subjects: subject %d: %d messages from %d to %d", ErrCorrupt, s.Ordinal, s.Count, s.First, s.Last)
			}
			if s.postingsAt+s.postingsSize > len(postings) || !checkPostings(s, postings) {
				return fmt.Errorf("%w: section of postings: subject %d", ErrCorrupt, s.Ordinal)
			}
			messages += s.Count
			last = append(last[:0], s.Name...)
		}
		if !r.c.atEnd() || r.next != int(d.postingsAt[block+1]) {
			return fmt.Errorf("%w: section of subjects: block %d", ErrCorrupt, block)
		}
	}
	if messages != info.Messages {
		return fmt.Errorf("%w: subjects have %d messages, want %d", ErrCorrupt, messages, info.Messages)
	}
	return nil
}
