// Package segment writes and reads segments: immutable Parquet objects that each hold a range of one stream's messages.
//
// One format serves and shares. Any engine that reads Parquet sees a table of seq, time, subject, headers and data. The
// same object serves consumers, because of two things that Parquet leaves open and this package fixes:
//
//   - Row groups are small (480 KiB by default) and have exactly one data page per column. So a group is the block of a
//     segment: contiguous, fetched by one ranged read, decoded as a whole.
//   - Between the last group and the Parquet footer lies the [Index]. Readers of Parquet go by the offsets that the
//     footer has, and never see it. One ranged read of the place that [Info] tells brings it: where the groups are, which
//     subjects there are and at which sequences, and sequence, time, size and subject of every message.
//
// Every byte of an object is checked by somebody: each group by a checksum in the index, the sections of the index and
// the Parquet footer by checksums in the index's header, the header by its own. Nothing is returned from a group or a
// section before its checksum agreed. docs/format/segment.md has the byte tables and the reasons for the settings.
package segment

import (
	"errors"
	"hash/crc32"
)

// FormatVersion is what this package writes and the newest that it reads.
const FormatVersion = 1

// Bounds of a segment.
const (
	// MaxGroups is how many row groups a segment may have: their ordinals are signed 16-bit numbers where files are
	// encrypted.
	MaxGroups = 32767
	// MaxMessageBytes bounds subject, header and data of one message together.
	MaxMessageBytes = 256 << 20
	// MaxSubjectBytes bounds a subject.
	MaxSubjectBytes = 64 << 10
	// MaxNoteBytes bounds the note of one message.
	MaxNoteBytes = 64 << 10
	// MaxIndexBytes bounds an index, as stored and each section unpacked.
	MaxIndexBytes = 1 << 30
)

// Errors of this package. What is damaged or wrong is named by the error that wraps them; the caller adds the key.
var (
	// ErrCorrupt: the bytes are not those that were written.
	ErrCorrupt = errors.New("segment: corrupt")
	// ErrNewerFormat: a later version of Sluice wrote this.
	ErrNewerFormat = errors.New("segment: newer format")
	// ErrKey: the segment is encrypted and the key is missing or another.
	ErrKey = errors.New("segment: wrong key")
	// ErrFull: the segment takes no more messages, of MaxGroups groups or an index that might outgrow MaxIndexBytes;
	// close it and begin another.
	ErrFull = errors.New("segment: full")
	// ErrOrder: the sequence is not above the one before.
	ErrOrder = errors.New("segment: sequence out of order")
	// ErrTooLarge: the message is above MaxMessageBytes, its note above MaxNoteBytes, or its subject above
	// MaxSubjectBytes or empty.
	ErrTooLarge = errors.New("segment: message out of bounds")
	// ErrEmpty: a segment without messages was closed. What was written is no segment.
	ErrEmpty = errors.New("segment: no messages")
)

// Message is one message of a stream.
type Message struct {
	Seq  uint64
	Time int64 // nanoseconds since 1970, UTC
	// Subject is 1 to MaxSubjectBytes bytes, any.
	Subject []byte
	// Header is the block as NATS has it, with its version line. nil is no header, which differs from an empty one.
	Header []byte
	Data   []byte
	// Note is kept in the index, and in no column: what must be known of the message without reading it. It is empty as
	// a rule, and at most MaxNoteBytes. Blocks do not have it.
	Note []byte
}

// Size is what a message counts: the bytes of subject, header and data.
func (m *Message) Size() uint64 { return uint64(len(m.Subject) + len(m.Header) + len(m.Data)) }

// Info is what a manifest keeps of a segment.
type Info struct {
	First, Last         uint64 // sequences
	FirstTime, LastTime int64  // of the messages First and Last, nanoseconds since 1970
	Messages            uint64
	Bytes               uint64 // sum of [Message.Size]

	Size               int64  // bytes of the object
	IndexAt, IndexSize int64  // where the index is in the object
	IndexChecksum      uint32 // CRC-32C of the index
	DirectorySize      int64  // of the index's first bytes, which ParseDirectory reads
	Checksum           uint32 // CRC-32C of the object
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func updateChecksum(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// The columns, in the order of the file.
const (
	seqColumn = iota
	timeColumn
	subjectColumn
	headersColumn
	dataColumn
	columns
)

var columnNames = [columns]string{"seq", "time", "subject", "headers", "data"}

// Names in the key-value metadata of the Parquet footer.
const (
	metaFormat  = "sluice.format"  // FormatVersion, decimal
	metaAccount = "sluice.account" // as it is, not escaped
	metaStream  = "sluice.stream"
	metaIndex   = "sluice.index" // offset and size of the index, decimal, a space between
)

// firstGroupAt is the offset of the first row group: the file's magic lies before.
const firstGroupAt = 4
