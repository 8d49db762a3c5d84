// Package record is the byte form of a log's entries: what a stream accepted, what a consumer made of it, and how both
// are configured. docs/format/record.md has the tables.
//
// A batch's body is a run of records. Each is
//
//	uvarint length of what follows | kind (1 byte) | stream id (8 bytes) | body
//
// so that a reader finds the records of one stream, and their kinds, without decoding bodies.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind tells what a record's body is. Numbers are part of the format and never reused.
type Kind uint8

const (
	// StreamConfig creates a stream or changes its configuration: JSON of StreamConfigBody.
	StreamConfig Kind = 1
	// StreamDelete ends a stream; nothing of its id follows.
	StreamDelete Kind = 2
	// Message is a stored message: see AppendMessage.
	Message Kind = 3
	// MessageDelete removes single messages: uvarint count, then that many uvarint sequences.
	MessageDelete Kind = 4
	// Purge removes messages by rule: see PurgeBody.
	Purge Kind = 5
	// ConsumerConfig creates or changes a consumer: JSON of ConsumerConfigBody.
	ConsumerConfig Kind = 6
	// ConsumerDelete ends a consumer: its name.
	ConsumerDelete Kind = 7
	// ConsumerProgress is what changed in a consumer's state: name length (1 byte), name, the consumer's own delta.
	ConsumerProgress Kind = 8
	// ConsumerState is a consumer's whole state, as ConsumerProgress frames it; earlier progress is void.
	ConsumerState Kind = 9
	// Expire removes messages by age: uvarint, the first sequence that stays.
	Expire Kind = 10
	// StreamState is what there is of a stream at this place in the log: see StreamStateBody. It follows a StreamConfig
	// in a checkpoint, before which the log may have been truncated.
	StreamState Kind = 11
	// StreamRestore says that the messages of this id that follow it in the same batch are part of a restore: they are
	// nothing until a checkpoint (a StreamConfig and a StreamState) says that the stream is whole. It has no body.
	StreamRestore Kind = 12
	// StreamSources is how far the sources of a stream were read: JSON of StreamSourcesBody. It is part of a checkpoint.
	StreamSources Kind = 13
	// StreamIDs are the message ids that the dedup window of a stream remembers: see stream.State.AppendIDs. It is part of
	// a checkpoint.
	StreamIDs Kind = 14
)

// StreamID names one incarnation of a stream: random, never reused, so that records of a deleted stream of the same
// name are never taken for the new one's.
type StreamID uint64

// ErrMalformed: the bytes are not what their kind says.
var ErrMalformed = errors.New("record: malformed")

// MaxFrame is the most bytes that frame a record beyond its body.
const MaxFrame = binary.MaxVarintLen32 + 1 + 8

// Record is one entry as it is read; Body points into the batch.
type Record struct {
	Kind   Kind
	Stream StreamID
	Body   []byte
}

// Append writes a record whose body is known.
func Append(dst []byte, kind Kind, stream StreamID, body []byte) []byte {
	dst = appendFrame(dst, kind, stream, len(body))
	return append(dst, body...)
}

func appendFrame(dst []byte, kind Kind, stream StreamID, bodyLen int) []byte {
	dst = binary.AppendUvarint(dst, uint64(1+8+bodyLen))
	dst = append(dst, byte(kind))
	return binary.BigEndian.AppendUint64(dst, uint64(stream))
}

// Next reads the first record of b and returns the rest.
func Next(b []byte) (r Record, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n < 9 || n > uint64(len(b)-w) {
		return r, nil, fmt.Errorf("%w: frame of %d bytes in %d", ErrMalformed, n, len(b))
	}
	body := b[w : w+int(n)]
	r.Kind = Kind(body[0])
	r.Stream = StreamID(binary.BigEndian.Uint64(body[1:9]))
	r.Body = body[9:]
	return r, b[w+int(n):], nil
}
