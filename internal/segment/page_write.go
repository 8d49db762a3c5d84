package segment

import (
	"hash/crc32"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is what the footer has of a chunk beside what the group has.
type chunk struct {
	at       int64
	stored   int64 // with the page's header, and what encryption adds
	unpacked int64 // with the page's header
}

// appendChunk appends a chunk, which is one page: its header, then the packed values; modules both in an encrypted file.
// A page that is not encrypted has a checksum in its header, for readers that look.
func (t *table) appendChunk(dst []byte, column int, raw []byte) ([]byte, chunk) {
	t.packed = t.packer.EncodeAll(raw, t.packed[:0])
	stored := len(t.packed)
	crc := uint32(0)
	if t.seal != nil {
		stored += moduleBytes
	} else {
		crc = crc32.ChecksumIEEE(t.packed)
	}
	t.thrift.reset()
	t.thrift.value(&format.PageHeader{
		Type:                 format.DataPage,
		UncompressedPageSize: int32(len(raw)),
		CompressedPageSize:   int32(stored),
		CRC:                  int32(crc),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues:               int32(t.rows.rows()),
			Encoding:                columnEncodings[column],
			DefinitionLevelEncoding: format.RLE,
			RepetitionLevelEncoding: format.RLE,
		}),
	})
	head := t.thrift.buffer.Bytes()
	at := len(dst)
	if t.seal == nil {
		dst = append(append(dst, head...), t.packed...)
	} else {
		dst = t.seal.appendModule(dst, head, t.seal.pageAAD(pageHeaderModule, t.groupCount, column))
		dst = t.seal.appendModule(dst, t.packed, t.seal.pageAAD(pageModule, t.groupCount, column))
	}
	n := int64(len(dst) - at)
	return dst, chunk{stored: n, unpacked: n - int64(stored) + int64(len(raw))}
}
