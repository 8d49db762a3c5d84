package segment

import (
	"bytes"
	"encoding/binary"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// createdBy is the name that the footer has of who wrote the file.
const createdBy = "sluice"

// maxSubjectStatistics is how long a subject may be to be told in the statistics of a group.
const maxSubjectStatistics = 1 << 10

// noteGroup encodes what the footer will say of the group that is in the buffer. Groups are kept encoded, since their
// structures take several times the memory.
func (t *table) noteGroup(at int64, chunks *[columns]chunk) {
	group := format.RowGroup{
		Columns: make([]format.ColumnChunk, columns), NumRows: int64(t.rows.rows()),
		FileOffset: at, Ordinal: int16(t.groupCount),
	}
	for i := range chunks {
		c := &group.Columns[i]
		c.MetaData = format.ColumnMetaData{
			Type:                  columnTypes[i],
			Encoding:              []format.Encoding{columnEncodings[i], format.RLE},
			PathInSchema:          columnNames[i : i+1],
			Codec:                 format.Zstd,
			NumValues:             int64(t.rows.rows()),
			TotalUncompressedSize: chunks[i].unpacked,
			TotalCompressedSize:   chunks[i].stored,
			DataPageOffset:        chunks[i].at,
			Statistics:            t.rows.statistics(i),
		}
		if t.seal != nil {
			c.CryptoMetadata.Value = &format.EncryptionWithFooterKey{}
		}
		group.TotalByteSize += chunks[i].unpacked
		group.TotalCompressedSize += chunks[i].stored
	}
	t.thrift.reset()
	t.thrift.value(&group)
	t.groups = append(t.groups, t.thrift.buffer.Bytes()...)
	t.groupCount++
	t.messages += int64(t.rows.rows())
}

// statistics gives the range of a column where queries leave out groups by it, and how many are NULL.
func (b *groupBuffer) statistics(column int) (s format.Statistics) {
	switch column {
	case seqColumn:
		s.MinValue, s.MaxValue = numberRange(b.seqs)
	case timeColumn:
		s.MinValue, s.MaxValue = numberRange(b.times)
	case subjectColumn:
		if len(b.low) <= maxSubjectStatistics && len(b.high) <= maxSubjectStatistics {
			s.MinValue, s.MaxValue = b.low, b.high
		}
	case headersColumn:
		s.NullCount = int64(b.rows() - b.headerCount)
	}
	return s
}

// footer gives the bytes that end the file.
func (t *table) footer(metadata [][2]string) ([]byte, error) {
	meta := t.metadata(metadata)
	var out []byte
	magic := plainMagic
	if t.seal == nil {
		out = append(out, meta...)
	} else {
		magic = encryptedMagic
		meta = bytes.Clone(meta) // the writer's buffer is used again
		t.thrift.reset()
		var crypto cryptoMetaData
		crypto.Algorithm.GCM.Unique = t.seal.unique[:]
		t.thrift.value(&crypto)
		out = append(out, t.thrift.buffer.Bytes()...)
		out = t.seal.appendModule(out, meta, t.seal.footerAAD())
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(out)))
	return append(out, magic...), t.thrift.err
}

// cryptoMetaData is format.FileCryptoMetaData of AES_GCM_V1, with the field written that is false: arrow-go expects it.
type cryptoMetaData struct {
	Algorithm struct {
		GCM struct {
			Unique       []byte `thrift:"2,required"`
			SupplyPrefix bool   `thrift:"3,required"`
		} `thrift:"1,required"`
	} `thrift:"1,required"`
}

// metadata encodes format.FileMetaData around the groups that are encoded already.
func (t *table) metadata(metadata [][2]string) []byte {
	w := t.thrift
	w.reset()
	w.field(1, thrift.I32)
	w.keep(w.w.WriteInt32(formatParquet))
	schema := schemaElements(t.binarySubjects)
	w.list(2, len(schema))
	for i := range schema {
		w.value(&schema[i])
	}
	w.field(3, thrift.I64)
	w.keep(w.w.WriteInt64(t.messages))
	w.list(4, t.groupCount)
	w.raw(t.groups)
	w.list(5, len(metadata))
	for _, kv := range metadata {
		w.value(&format.KeyValue{Key: kv[0], Value: kv[1]})
	}
	w.field(6, thrift.BINARY)
	w.keep(w.w.WriteString(createdBy))
	w.list(7, columns) // how statistics are ordered
	for range columns {
		w.value(&format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	w.stop()
	return w.buffer.Bytes()
}

// formatParquet is the version of the file format that the footer tells.
const formatParquet = 2
