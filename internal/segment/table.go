package segment

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// table is the Parquet side of a writer: row groups and a footer, of one fixed profile that makes a group readable by
// [Index.Decode]. Two parts of it are what DuckDB needs to open encrypted files as well: one data page in each chunk, and
// pages of version 1. Parquet's own words are in group_write.go, page_write.go and footer_write.go.
type table struct {
	sink   sink
	seal   *seal // nil of a plain segment
	packer *zstd.Encoder
	thrift *thriftWriter

	rows           groupBuffer // of the group that is being filled
	groups         []byte      // of the footer: each group, encoded, about 270 bytes and two subjects
	groupCount     int
	messages       int64 // in groups
	binarySubjects bool  // a subject was not UTF-8

	raw, packed, body []byte // reused
}

// newTable begins a file.
func newTable(w io.Writer, o *Options, seal *seal) (*table, error) {
	packer, err := packerFor(o.Level)
	if err != nil {
		return nil, err
	}
	t := &table{sink: sink{w: w}, seal: seal, packer: packer, thrift: newThriftWriter()}
	magic := plainMagic
	if seal != nil {
		magic = encryptedMagic
	}
	return t, t.sink.write([]byte(magic))
}

// group writes the messages that are in the buffer as one row group and gives where it lies. limit is how large the
// buffers may be that are kept for the next one.
func (t *table) group(limit int) (at int64, lengths [columns]uint32, crc uint32, err error) {
	at = t.sink.at
	var chunks [columns]chunk
	t.body = t.body[:0]
	for c := range columns {
		var page []byte
		page, t.raw = t.rows.page(c, t.raw)
		start := at + int64(len(t.body))
		t.body, chunks[c] = t.appendChunk(t.body, c, page)
		chunks[c].at, lengths[c] = start, uint32(chunks[c].stored)
	}
	t.noteGroup(at, &chunks)
	crc = checksum(t.body)
	if err := t.sink.write(t.body); err != nil {
		return 0, lengths, 0, err
	}
	t.rows.reset(limit)
	for _, buffer := range []*[]byte{&t.raw, &t.packed, &t.body} {
		*buffer = shrink(*buffer, limit)
	}
	return at, lengths, crc, t.thrift.err
}

// sink counts and checksums what is written.
type sink struct {
	w   io.Writer
	at  int64
	crc uint32 // of everything
}

func (s *sink) write(b []byte) error {
	n, err := s.w.Write(b)
	s.at += int64(n)
	s.crc = updateChecksum(s.crc, b[:n])
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}
