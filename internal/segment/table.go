package segment

import (
	"bytes"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// table is the Parquet side of a writer, the only place that knows arrow-go: groups and a footer, with settings that
// make a group readable by [Index.Decode]. Two of them are what DuckDB needs to open encrypted files as well: one data
// page in each chunk, and pages of version 1.
type table struct {
	sink    *sink
	file    *file.Writer
	subject *schema.PrimitiveNode
	unique  []byte // of an encrypted file, nil of a plain one
	scratch scratch
}

// scratch is reused from group to group.
type scratch struct {
	seqs, times             []int64
	subjects, headers, data []parquet.ByteArray
	levels                  []int16
}

func newTable(w io.Writer, o *Options) (*table, error) {
	subject, root, err := newSchema(schema.StringLogicalType{})
	if err != nil {
		return nil, err
	}
	properties := []parquet.WriterProperty{
		parquet.WithCreatedBy("sluice"),
		parquet.WithDictionaryDefault(false),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDataPageSize(1 << 30), // only the end of the group ends a page
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(o.Level),
		parquet.WithEncoding(parquet.Encodings.Plain),
		parquet.WithEncodingFor(columnNames[seqColumn], parquet.Encodings.DeltaBinaryPacked),
		parquet.WithEncodingFor(columnNames[timeColumn], parquet.Encodings.DeltaBinaryPacked),
		parquet.WithStats(true),
		parquet.WithStatsFor(columnNames[headersColumn], false),
		parquet.WithStatsFor(columnNames[dataColumn], false),
	}
	t := &table{sink: &sink{w: w}, subject: subject}
	if o.Key != nil {
		encryption := parquet.NewFileEncryptionProperties(string(o.Key), parquet.WithAlg(parquet.AesGcm))
		t.unique = []byte(encryption.FileAad()) // there is no prefix, so this is what is unique
		properties = append(properties, parquet.WithEncryptionProperties(encryption))
	}
	t.file, err = file.NewParquetWriterWithError(t.sink, root, file.WithWriterProps(parquet.NewWriterProperties(properties...)))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newSchema gives the schema and its node of the subject, which is text or plain bytes.
func newSchema(subjectType schema.LogicalType) (subject *schema.PrimitiveNode, root *schema.GroupNode, err error) {
	instant := schema.NewTimestampLogicalTypeWithOpts(schema.WithTSTimeUnitType(schema.TimeUnitNanos), schema.WithTSIsAdjustedToUTC())
	required := parquet.Repetitions.Required
	time, err := schema.NewPrimitiveNodeLogical(columnNames[timeColumn], required, instant, parquet.Types.Int64, -1, -1)
	if err != nil {
		return nil, nil, err
	}
	if subject, err = schema.NewPrimitiveNodeLogical(columnNames[subjectColumn], required, subjectType, parquet.Types.ByteArray, -1, -1); err != nil {
		return nil, nil, err
	}
	root, err = schema.NewGroupNode("message", required, schema.FieldList{
		schema.NewInt64Node(columnNames[seqColumn], required, -1),
		time,
		subject,
		schema.NewByteArrayNode(columnNames[headersColumn], parquet.Repetitions.Optional, -1),
		schema.NewByteArrayNode(columnNames[dataColumn], required, -1),
	}, -1)
	return subject, root, err
}

// group writes one row group and gives where it lies. The messages are not kept.
func (t *table) group(messages []Message) (at int64, lengths [columns]uint32, crc uint32, err error) {
	t.scratch.fill(messages)
	at = t.sink.at
	t.sink.groupCRC = 0
	group, err := t.file.AppendRowGroupChecked()
	if err != nil {
		return 0, lengths, 0, err
	}
	var starts [columns + 1]int64
	for c := range columns {
		column, err := group.NextColumn() // ends the column before
		if err != nil {
			return 0, lengths, 0, err
		}
		starts[c] = t.sink.at
		if err := t.scratch.write(c, column); err != nil {
			return 0, lengths, 0, fmt.Errorf("column %s: %w", columnNames[c], err)
		}
	}
	if err := group.Close(); err != nil {
		return 0, lengths, 0, err
	}
	starts[columns] = t.sink.at
	for c := range columns {
		lengths[c] = uint32(starts[c+1] - starts[c])
	}
	return at, lengths, t.sink.groupCRC, nil
}

func (s *scratch) fill(messages []Message) {
	s.seqs, s.times, s.levels = s.seqs[:0], s.times[:0], s.levels[:0]
	s.subjects, s.headers, s.data = s.subjects[:0], s.headers[:0], s.data[:0]
	for i := range messages {
		m := &messages[i]
		s.seqs = append(s.seqs, int64(m.Seq))
		s.times = append(s.times, m.Time)
		s.subjects = append(s.subjects, m.Subject)
		s.data = append(s.data, m.Data)
		if m.Header == nil {
			s.levels = append(s.levels, 0)
			continue
		}
		s.levels = append(s.levels, 1)
		s.headers = append(s.headers, m.Header)
	}
}

func (s *scratch) write(c int, column file.ColumnChunkWriter) (err error) {
	switch c {
	case seqColumn:
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(s.seqs, nil, nil)
	case timeColumn:
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(s.times, nil, nil)
	case subjectColumn:
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(s.subjects, nil, nil)
	case headersColumn:
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(s.headers, s.levels, nil)
	case dataColumn:
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(s.data, nil, nil)
	}
	return err
}

// binarySubjects says that a subject is not UTF-8. Text that is none makes queries of the whole file fail, so the
// column becomes one of bytes. The schema is only in the footer, so it may still change; arrow-go has no call for
// that, but it writes what the nodes say when the file is closed.
func (t *table) binarySubjects() error {
	plain, _, err := newSchema(schema.NoLogicalType{})
	if err != nil {
		return err
	}
	*t.subject = *plain
	return nil
}

// footer ends the file and gives the bytes that end it, which are not written yet.
func (t *table) footer(metadata [][2]string) ([]byte, error) {
	for _, kv := range metadata {
		if err := t.file.AppendKeyValueMetadata(kv[0], kv[1]); err != nil {
			return nil, err
		}
	}
	t.sink.held = &bytes.Buffer{}
	if err := t.file.Close(); err != nil {
		return nil, err
	}
	footer := t.sink.held.Bytes()
	t.sink.held = nil
	return footer, nil
}

// sink counts and checksums what is written, and holds the footer back so that the index can go before it.
type sink struct {
	w        io.Writer
	at       int64
	crc      uint32 // of everything
	groupCRC uint32 // of the group
	held     *bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	if s.held != nil {
		return s.held.Write(b)
	}
	n, err := s.w.Write(b)
	s.at += int64(n)
	s.crc = updateChecksum(s.crc, b[:n])
	s.groupCRC = updateChecksum(s.groupCRC, b[:n])
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}
