package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/api"
)

// StreamConfigBody is the JSON body of a StreamConfig record.
type StreamConfigBody struct {
	Account string           `json:"account"`
	Created time.Time        `json:"created"`
	Config  api.StreamConfig `json:"config"`
	// Update says that the record changes a stream that is there, rather than creating it or beginning its checkpoint.
	Update bool `json:"update,omitempty"`
	// Checkpoint says that the record begins a checkpoint: a state follows.
	Checkpoint bool `json:"checkpoint,omitempty"`
}

// StreamSourcesBody is the JSON body of a StreamSources record: by the key of each source, the newest sequence that came
// from it.
type StreamSourcesBody struct {
	Sources map[string]SourcePosition `json:"sources"`
}

// SourcePosition is how far a source was read: the sequence there (0: nothing), and the identity of that stream, which
// tells it from a later one of its name; empty: unknown.
type SourcePosition struct {
	Seq      uint64 `json:"seq"`
	Identity string `json:"identity,omitempty"`
}

// ConsumerConfigBody is the JSON body of a ConsumerConfig record.
type ConsumerConfigBody struct {
	Name    string             `json:"name"`
	Created time.Time          `json:"created"`
	Config  api.ConsumerConfig `json:"config"`
}

// PurgeBody is what a Purge record asks: messages of Subject ("" is all) below Upto (0: all), sparing the newest Keep.
type PurgeBody struct {
	Subject    string
	Upto, Keep uint64
}

// AppendJSON writes a record with a JSON body.
func AppendJSON(dst []byte, kind Kind, stream StreamID, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("record: encoding kind %d: %w", kind, err)
	}
	return Append(dst, kind, stream, body), nil
}

// ParseJSON reads a JSON body; unknown fields belong to a newer version and are refused, since what is not understood
// must not be lost at the next rewrite.
func ParseJSON(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// AppendSeqs writes a MessageDelete record.
func AppendSeqs(dst []byte, stream StreamID, seqs []uint64) []byte {
	body := binary.AppendUvarint(nil, uint64(len(seqs)))
	for _, s := range seqs {
		body = binary.AppendUvarint(body, s)
	}
	return Append(dst, MessageDelete, stream, body)
}

// ParseSeqs reads the body of a MessageDelete record.
func ParseSeqs(body []byte) ([]uint64, error) {
	n, w := binary.Uvarint(body)
	if w <= 0 || n > uint64(len(body)) {
		return nil, fmt.Errorf("%w: list of sequences", ErrMalformed)
	}
	body = body[w:]
	seqs := make([]uint64, 0, n)
	for range n {
		s, w := binary.Uvarint(body)
		if w <= 0 {
			return nil, fmt.Errorf("%w: list of sequences ends early", ErrMalformed)
		}
		seqs, body = append(seqs, s), body[w:]
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the sequences", ErrMalformed, len(body))
	}
	return seqs, nil
}

// AppendPurge writes a Purge record: upto (uvarint), keep (uvarint), subject.
func AppendPurge(dst []byte, stream StreamID, p PurgeBody) []byte {
	body := binary.AppendUvarint(nil, p.Upto)
	body = binary.AppendUvarint(body, p.Keep)
	return Append(dst, Purge, stream, append(body, p.Subject...))
}

// ParsePurge reads the body of a Purge record.
func ParsePurge(body []byte) (p PurgeBody, err error) {
	var w int
	if p.Upto, w = binary.Uvarint(body); w <= 0 {
		return p, fmt.Errorf("%w: purge", ErrMalformed)
	}
	body = body[w:]
	if p.Keep, w = binary.Uvarint(body); w <= 0 {
		return p, fmt.Errorf("%w: purge", ErrMalformed)
	}
	p.Subject = string(body[w:])
	return p, nil
}

// AppendExpire writes an Expire record.
func AppendExpire(dst []byte, stream StreamID, first uint64) []byte {
	return Append(dst, Expire, stream, binary.AppendUvarint(nil, first))
}

// ParseExpire reads the body of an Expire record.
func ParseExpire(body []byte) (first uint64, err error) {
	first, w := binary.Uvarint(body)
	if w <= 0 || w != len(body) {
		return 0, fmt.Errorf("%w: expire", ErrMalformed)
	}
	return first, nil
}

// MaxNameBytes bounds a consumer's name in a record, as NATS bounds it on the wire.
const MaxNameBytes = 255

// AppendConsumer writes a ConsumerProgress or ConsumerState record.
func AppendConsumer(dst []byte, kind Kind, stream StreamID, name string, state []byte) []byte {
	dst = appendFrame(dst, kind, stream, 1+len(name)+len(state))
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	return append(dst, state...)
}

// ParseConsumer reads the body of a ConsumerProgress or ConsumerState record. The slices point into the record.
func ParseConsumer(body []byte) (name, state []byte, err error) {
	if len(body) < 1 || len(body) < 1+int(body[0]) {
		return nil, nil, fmt.Errorf("%w: consumer of %d bytes", ErrMalformed, len(body))
	}
	n := 1 + int(body[0])
	return body[1:n], body[n:], nil
}
