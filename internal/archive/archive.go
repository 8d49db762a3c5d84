// Package archive reads and writes backups of streams in the forms of nats-server, so that they can be carried from one
// server to the other. docs/format/archive.md has the bytes.
//
// There are two forms, both compressed with S2. nats-server 2.15 and Sluice write a run of entries: the stream's state,
// its consumers, its messages, and an end. Older servers write a tar of the files of a stream's directory; this package
// reads it too.
//
// Nothing here is trusted: sizes are bounded before anything is allocated, checksums are checked where the form has
// some, and an archive that ends early is an error.
package archive

import (
	"errors"
	"time"

	"github.com/nats-io/jsm.go/api"
)

var (
	// ErrCorrupt: the bytes are not an archive, or their checksums do not hold.
	ErrCorrupt = errors.New("archive: corrupt")
	// ErrTruncated: the archive ends before its end.
	ErrTruncated = errors.New("backup was truncated") // as nats-server says it
	// ErrTooLarge: a part of the archive is larger than it may be.
	ErrTooLarge = errors.New("archive: too large")
)

// MaxMessage is the largest header and data of a message together, in bytes: the most that a server can be told to take.
const MaxMessage = 64 << 20

const (
	// maxMeta bounds a stream's state and a consumer's configuration and state, in bytes.
	maxMeta = 64 << 20
	// maxSubject bounds a message's subject, in bytes.
	maxSubject = 1<<16 - 1
	// maxName bounds any name in an archive.
	maxName = 1 << 20
)

// Message is a message of the archive. Its slices hold during the call that gets it.
type Message struct {
	Seq     uint64
	Time    int64 // ns since 1970 UTC
	Subject string
	Header  []byte
	Data    []byte
}

// Sequences are a consumer's sequence and the stream's that belongs to it.
type Sequences struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// Pending is a delivery that waits for its acknowledgement.
type Pending struct {
	// Sequence is the consumer's, of the first delivery.
	Sequence uint64
	// Timestamp is when it was delivered last, ns since 1970 UTC.
	Timestamp int64
}

// ConsumerState is how far a consumer is, as nats-server keeps it.
type ConsumerState struct {
	Delivered Sequences `json:"delivered"`
	AckFloor  Sequences `json:"ack_floor"`
	// Pending is by stream sequence.
	Pending map[uint64]Pending `json:"pending,omitempty"`
	// Redelivered counts the deliveries after the first, by stream sequence. What is in it and not pending was given up
	// when max_deliver was reached.
	Redelivered map[uint64]uint64 `json:"redelivered,omitempty"`
}

// Consumer is a consumer of the archive.
type Consumer struct {
	Name    string
	Created time.Time // zero: not told
	Config  api.ConsumerConfig
	State   ConsumerState
}

// Target takes what an archive holds. An error of a method ends the reading and comes back from [Read].
type Target interface {
	// State tells what the archive says of the stream. It comes first in archives of nats-server 2.15, and after the
	// messages in older ones, where only FirstSeq and LastSeq are set.
	State(api.StreamState) error
	// Created tells when the stream was created; archives of nats-server 2.15 do not know.
	Created(time.Time) error
	// Message takes a message; they come in order of sequence.
	Message(Message) error
	// Removed names sequences whose messages, as far as they came, the stream does not have any more.
	Removed(first, last uint64) error
	// Consumer takes a consumer. The maps of its state are the target's.
	Consumer(Consumer) error
}
