package segment

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// Verify reads a whole object of size bytes and checks that it is a sound segment: the Parquet footer, the index, every
// group, and that the three say the same of every message. It needs nothing but the object, and gives what a manifest
// should say of it, with its checksum. It holds one group and the index. Errors: ErrCorrupt, ErrNewerFormat, ErrKey, or
// what r returned.
func Verify(r io.ReaderAt, size int64, key []byte) (Info, error) {
	f, err := readFooter(r, size, key)
	if err != nil {
		return Info{}, err
	}
	at, n, err := f.index(size)
	if err != nil {
		return Info{}, err
	}
	raw := make([]byte, n)
	if err := readAt(r, raw, at); err != nil {
		return Info{}, fmt.Errorf("read the index: %w", err)
	}
	ix, err := ParseIndex(raw, key)
	if err != nil {
		return Info{}, fmt.Errorf("index: %w", err)
	}
	h := ix.header
	switch {
	case h.indexAt != at || h.footerSize != f.size || h.objectSize() != size:
		return Info{}, fmt.Errorf("%w: the index says that it is at %d and the footer has %d bytes; they are at %d and have %d", ErrCorrupt, h.indexAt, h.footerSize, at, f.size)
	case h.footerCRC != f.crc:
		return Info{}, fmt.Errorf("%w: footer checksum %08x, want %08x", ErrCorrupt, f.crc, h.footerCRC)
	case h.encrypted && !bytes.Equal(h.unique[:], f.unique):
		return Info{}, fmt.Errorf("%w: the index and the footer are of two files", ErrCorrupt)
	}
	if err := f.agree(ix); err != nil {
		return Info{}, err
	}
	return verifyGroups(r, size, ix, f)
}

// verifyGroups reads every group, in order, and compares its messages with the index and with the footer's statistics.
func verifyGroups(r io.ReaderAt, size int64, ix *Index, f *footer) (Info, error) {
	info := ix.Info()
	v := newVerifier(ix)
	var body []byte
	for i := range ix.groups {
		g := &ix.groups[i]
		body = slices.Grow(body[:0], int(g.Size()))[:g.Size()]
		if err := readAt(r, body, g.Offset); err != nil {
			return Info{}, fmt.Errorf("read group %d: %w", i, err)
		}
		block, err := ix.Decode(i, body)
		if err != nil {
			return Info{}, err
		}
		if err := v.block(block); err != nil {
			return Info{}, fmt.Errorf("group %d: %w", i, err)
		}
		columns := f.meta.RowGroups[i].Columns
		if err := agreeRange(&columns[timeColumn].MetaData.Statistics, slices.Min(block.times), slices.Max(block.times)); err != nil {
			return Info{}, fmt.Errorf("footer: group %d: column time: %w", i, err)
		}
	}
	if v.lastTime != info.LastTime {
		return Info{}, fmt.Errorf("%w: index: last time %d, want %d", ErrCorrupt, info.LastTime, v.lastTime)
	}
	crc, err := checksumOf(r, size)
	info.Checksum = crc
	return info, err
}

// verifier compares messages, in order, with what the index says of them.
type verifier struct {
	subjects []Subject
	postings []postingsReader
	rows     func() (Row, bool)
	lastTime int64
}

func newVerifier(ix *Index) *verifier {
	v := &verifier{}
	for s := range ix.Subjects(nil) {
		s.Name = bytes.Clone(s.Name)
		v.subjects = append(v.subjects, s)
		v.postings = append(v.postings, newPostingsReader(&s, ix.postings))
	}
	group, r := 0, &rowsReader{}
	r.start(ix.rowsOf(0), &ix.groups[0])
	v.rows = func() (Row, bool) {
		ok := r.read()
		if !ok && group+1 < len(ix.groups) {
			group++
			r.start(ix.rowsOf(group), &ix.groups[group])
			ok = r.read()
		}
		return r.row, ok
	}
	return v
}

func (v *verifier) block(b *Block) error {
	for i := range b.Len() {
		m := b.At(i)
		row, ok := v.rows()
		if !ok || row.Seq != m.Seq || row.Time != m.Time || row.Size != m.Size() || row.Header != (len(m.Header) > 0) {
			return fmt.Errorf("%w: sequence %d: the index has sequence %d, time %d and %d bytes, the message time %d and %d bytes", ErrCorrupt, m.Seq, row.Seq, row.Time, row.Size, m.Time, m.Size())
		}
		if name := v.subjects[row.Subject].Name; !bytes.Equal(name, m.Subject) {
			return fmt.Errorf("%w: sequence %d: the index has subject %q, the message %q", ErrCorrupt, m.Seq, name, m.Subject)
		}
		if seq, ok := v.postings[row.Subject].next(); !ok || seq != m.Seq {
			return fmt.Errorf("%w: sequence %d: the index has %d next of subject %q", ErrCorrupt, m.Seq, seq, m.Subject)
		}
		v.lastTime = m.Time
	}
	return nil
}

// checksumOf is the CRC-32C of the whole object.
func checksumOf(r io.ReaderAt, size int64) (crc uint32, err error) {
	buffer := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(buffer)) {
		b := buffer[:min(int64(len(buffer)), size-at)]
		if err := readAt(r, b, at); err != nil {
			return 0, fmt.Errorf("read at %d: %w", at, err)
		}
		crc = updateChecksum(crc, b)
	}
	return crc, nil
}

// readAt fills b. A reader may say that the end is reached when it has.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	if n, err := r.ReadAt(b, at); n < len(b) {
		return err
	}
	return nil
}
