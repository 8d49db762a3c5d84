package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Magic at both ends of a Parquet file; the second one of files with an encrypted footer.
const (
	plainMagic     = "PAR1"
	encryptedMagic = "PARE"
	trailerBytes   = 8 // the footer's length, little-endian, and the magic
	maxFooterBytes = 256 << 20
)

// footer is the Parquet footer of a segment.
type footer struct {
	meta   format.FileMetaData
	size   int64 // with the trailer: to the end of the object
	crc    uint32
	unique []byte // of an encrypted file
}

// readFooter reads the footer from the end of an object, which need not be a sound one.
func readFooter(r io.ReaderAt, size int64, key []byte) (*footer, error) {
	magic, trailer := make([]byte, firstGroupAt), make([]byte, trailerBytes)
	if size < firstGroupAt+trailerBytes {
		return nil, fmt.Errorf("%w: an object of %d bytes", ErrCorrupt, size)
	}
	if err := readAt(r, magic, 0); err != nil {
		return nil, fmt.Errorf("read the first bytes: %w", err)
	}
	if err := readAt(r, trailer, size-trailerBytes); err != nil {
		return nil, fmt.Errorf("read the last bytes: %w", err)
	}
	end := string(trailer[4:])
	if string(magic) != end || end != plainMagic && end != encryptedMagic {
		return nil, fmt.Errorf("%w: no Parquet file: it begins %q and ends %q", ErrCorrupt, magic, end)
	}
	switch {
	case end == encryptedMagic && key == nil:
		return nil, fmt.Errorf("%w: the segment is encrypted and there is no key", ErrKey)
	case end == plainMagic && key != nil:
		return nil, fmt.Errorf("%w: there is a key and the segment is not encrypted", ErrKey)
	}
	n := int64(binary.LittleEndian.Uint32(trailer))
	if n > maxFooterBytes || n > size-firstGroupAt-trailerBytes {
		return nil, fmt.Errorf("%w: footer of %d bytes in an object of %d", ErrCorrupt, n, size)
	}
	b := make([]byte, n+trailerBytes)
	if err := readAt(r, b, size-int64(len(b))); err != nil {
		return nil, fmt.Errorf("read the footer: %w", err)
	}
	f := &footer{size: int64(len(b)), crc: checksum(b)}
	if err := f.decode(b[:n], key); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return f, nil
}

func (f *footer) decode(b, key []byte) error {
	if key != nil {
		var crypto format.FileCryptoMetaData
		n, err := decodeThrift(b, &crypto)
		if err != nil {
			return err
		}
		gcm, ok := crypto.EncryptionAlgorithm.Value.(*format.AesGcmV1)
		if !ok || len(gcm.AadFileUnique) != uniqueBytes || len(gcm.AadPrefix) > 0 || gcm.SupplyAadPrefix {
			return fmt.Errorf("%w: encrypted in another way", ErrCorrupt)
		}
		f.unique = bytes.Clone(gcm.AadFileUnique)
		seal, err := newSeal(key, f.unique)
		if err != nil {
			return err
		}
		sealed, rest, err := module(b[n:])
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(rest))
		}
		if b, err = seal.decrypt(sealed, seal.footerAAD()); err != nil {
			return err
		}
	}
	n, err := decodeThrift(b, &f.meta)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(b)-n)
	}
	return err
}

// decodeThrift decodes what b begins with and gives its size. The value may alias a copy of b, never b.
func decodeThrift(b []byte, value any) (int, error) {
	r := compact.NewReaderFromBytes(bytes.Clone(b))
	if err := thrift.NewDecoder(r).Decode(value); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r.BytesRead(), nil
}

// value looks a name of the key-value metadata up.
func (f *footer) value(name string) string {
	for _, kv := range f.meta.KeyValueMetadata {
		if kv.Key == name {
			return kv.Value
		}
	}
	return ""
}

// index tells where the index is.
func (f *footer) index(size int64) (at, n int64, err error) {
	text := f.value(metaIndex)
	if _, err := fmt.Sscanf(text, "%d %d", &at, &n); err != nil || fmt.Sprintf("%d %d", at, n) != text {
		return 0, 0, fmt.Errorf("%w: footer: the index is at %q", ErrCorrupt, text)
	}
	if at <= firstGroupAt || n < int64(headerBytes) || n > MaxIndexBytes || at != size-f.size-n {
		return 0, 0, fmt.Errorf("%w: footer: the index is at %q, before a footer of %d bytes in an object of %d", ErrCorrupt, text, f.size, size)
	}
	return at, n, nil
}

// agree checks that other readers of the file find what the index says.
func (f *footer) agree(ix *Index) error {
	m := &f.meta
	if format := f.value(metaFormat); format != fmt.Sprint(FormatVersion) {
		return fmt.Errorf("%w: footer: format %q", ErrNewerFormat, format)
	}
	if m.NumRows != int64(ix.info.Messages) || len(m.RowGroups) != len(ix.groups) {
		return fmt.Errorf("%w: footer: %d rows in %d groups, the index has %d in %d", ErrCorrupt, m.NumRows, len(m.RowGroups), ix.info.Messages, len(ix.groups))
	}
	if len(m.Schema) != 1+columns {
		return fmt.Errorf("%w: footer: %d columns", ErrCorrupt, len(m.Schema)-1)
	}
	for i, name := range columnNames {
		if m.Schema[1+i].Name != name {
			return fmt.Errorf("%w: footer: column %d is %q, want %q", ErrCorrupt, i, m.Schema[1+i].Name, name)
		}
	}
	for i := range ix.groups {
		if err := agreeGroup(&m.RowGroups[i], &ix.groups[i]); err != nil {
			return fmt.Errorf("footer: group %d: %w", i, err)
		}
	}
	return nil
}

func agreeGroup(r *format.RowGroup, g *Group) error {
	if r.NumRows != int64(g.Rows) || len(r.Columns) != columns {
		return fmt.Errorf("%w: %d rows and %d columns, want %d", ErrCorrupt, r.NumRows, len(r.Columns), g.Rows)
	}
	at := g.Offset
	for i, length := range g.Lengths {
		c := &r.Columns[i].MetaData
		switch {
		case c.DataPageOffset != at || c.TotalCompressedSize != int64(length) || c.NumValues != int64(g.Rows):
			return fmt.Errorf("%w: column %s: %d bytes at %d with %d values, want %d at %d with %d", ErrCorrupt, columnNames[i],
				c.TotalCompressedSize, c.DataPageOffset, c.NumValues, length, at, g.Rows)
		case c.Codec != format.Zstd || strings.Join(c.PathInSchema, ".") != columnNames[i] || c.DictionaryPageOffset != 0 || c.IndexPageOffset != 0:
			return fmt.Errorf("%w: column %s: other settings", ErrCorrupt, columnNames[i])
		}
		at += int64(length)
	}
	return agreeRange(&r.Columns[seqColumn].MetaData.Statistics, int64(g.First), int64(g.Last))
}

// agreeRange checks the statistics that queries leave groups out by.
func agreeRange(s *format.Statistics, low, high int64) error {
	if low > high { // sequences from 2^63 on are negative there
		return nil
	}
	if len(s.MinValue) != 8 || len(s.MaxValue) != 8 || int64(binary.LittleEndian.Uint64(s.MinValue)) != low || int64(binary.LittleEndian.Uint64(s.MaxValue)) != high {
		return fmt.Errorf("%w: statistics that are not %d to %d", ErrCorrupt, low, high)
	}
	return nil
}
