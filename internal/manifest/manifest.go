// Package manifest keeps the list of the segments that make a stream's history.
//
// A manifest is one object per stream, replaced by compare-and-swap by the node that owns the stream. It names only
// what is committed: a segment enters it after the segment's object is stored, and holds only messages that the log
// had committed before. So a manifest that a node swaps in after it has lost the stream, by a request that was delayed,
// is true as well, if not the newest; the new owner's next swap finds another version, reads it, and goes on from there.
//
// What a segment's messages were deleted since is not here but in the log, as are configuration and consumers.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/key"
)

// formatVersion is the newest format that this version reads and writes.
const formatVersion = 1

// MaxBytes bounds a manifest's object: about 250,000 segments.
const MaxBytes = 64 << 20

var (
	// ErrCorrupt: the object is not a manifest, or not whole. Nothing of its stream may be deleted or rewritten.
	ErrCorrupt = errors.New("manifest: corrupt")
	// ErrNewerFormat: a newer version of Sluice wrote it.
	ErrNewerFormat = errors.New("manifest: newer format")
)

// Manifest is the list of a stream's segments. docs/format/manifest.md has the table.
type Manifest struct {
	Format  int    `json:"format"`
	Account string `json:"account"`
	Stream  string `json:"stream"`
	ID      ID     `json:"id"` // of the stream; a stream of the same name that was created anew has another
	// Swap is drawn anew for every write, so that a writer recognises its own.
	Swap    ID        `json:"swap"`
	Node    string    `json:"node"`  // who wrote it
	Epoch   uint64    `json:"epoch"` // of that node
	Written time.Time `json:"written"`
	// From is the checkpoint that a replay of the stream begins with: before it only the log's messages count. What the
	// segments leave out, it says is deleted. A replay finds out as well by passing over checkpoints that lack messages;
	// the place spares it the attempts, and lets a check tell what must be there.
	From Place `json:"from"`
	// Window is the stream's dedup window, in ns: for so long segments note the ids of messages.
	Window int64 `json:"window,omitempty"`
	// Segments in the order of their sequences, which do not overlap.
	Segments []Segment `json:"segments"`
	// Dropped are segments that were in the list and whose objects may still be there.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// Place is a place in a write-ahead log; the zero value is before all others.
type Place struct {
	Node   string `json:"node"`
	Epoch  uint64 `json:"epoch"`
	Offset uint64 `json:"offset"`
	Byte   uint32 `json:"byte"` // in the batch's body
}

// Segment is what the manifest knows of a segment.
type Segment struct {
	First     uint64 `json:"first"`      // sequence of the first message
	Last      uint64 `json:"last"`       // of the last
	Unique    ID     `json:"unique"`     // with First, names the object
	Messages  uint64 `json:"messages"`   // rows
	Bytes     uint64 `json:"bytes"`      // of subjects, headers and data
	FirstTime int64  `json:"first_time"` // ns UTC
	LastTime  int64  `json:"last_time"`
	Size      int64  `json:"size"`     // of the object
	IndexAt   int64  `json:"index_at"` // where in the object its index lies
	IndexSize int64  `json:"index_size"`
	IndexSum  uint32 `json:"index_sum"` // CRC-32C of the index
	// DirectorySize is how many of the index's bytes, from its start, tell where the messages are.
	DirectorySize int64 `json:"directory_size"`
}

// Key is the key of the segment's object.
func (m *Manifest) Key(s Segment) string {
	return key.SegmentKey(m.Account, m.Stream, uint64(m.ID), s.First, uint64(s.Unique))
}

// Dropped is a segment that is no longer part of the stream.
type Dropped struct {
	First  uint64    `json:"first"`
	Unique ID        `json:"unique"`
	At     time.Time `json:"at"` // when it left the list
}

// DroppedKey is the key of a dropped segment's object.
func (m *Manifest) DroppedKey(d Dropped) string {
	return key.SegmentKey(m.Account, m.Stream, uint64(m.ID), d.First, uint64(d.Unique))
}

// ID is a 64-bit number, 16 hex digits in JSON: a JSON number keeps only 53 bits in many a reader.
type ID uint64

// MarshalText implements encoding.TextMarshaler.
func (n ID) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(n)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *ID) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("%q is not a number of 16 hex digits", text)
	}
	*n = ID(v)
	return nil
}

// Clone gives a copy that shares nothing.
func (m *Manifest) Clone() *Manifest {
	c := *m
	c.Segments = slices.Clone(m.Segments)
	c.Dropped = slices.Clone(m.Dropped)
	return &c
}

// Through is the last sequence that a segment covers; 0 without segments.
func (m *Manifest) Through() uint64 {
	if n := len(m.Segments); n > 0 {
		return m.Segments[n-1].Last
	}
	return 0
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumField is the last field of the object: the CRC-32C, in hex, of all bytes before its comma.
const (
	sumField = `,"checksum":"`
	sumEnd   = "\"}\n"
	sumBytes = len(sumField) + 8 + len(sumEnd)
)

// Encode gives the manifest's object.
func (m *Manifest) Encode() ([]byte, error) {
	m.Format = formatVersion
	if m.Segments == nil {
		m.Segments = []Segment{}
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("manifest: encoding that of stream %s: %w", m.Stream, err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("manifest: encoding that of stream %s: %w", m.Stream, err)
	}
	data = data[:len(data)-1] // the closing brace
	data = fmt.Appendf(data, "%s%08x%s", sumField, crc32.Checksum(data, castagnoli), sumEnd)
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("manifest: that of stream %s has %d bytes, want at most %d", m.Stream, len(data), MaxBytes)
	}
	return data, nil
}

// Decode reads a manifest's object; k is its key, for the errors, which are ErrCorrupt and ErrNewerFormat.
func Decode(k string, data []byte) (*Manifest, error) {
	corrupt := func(why any) error { return fmt.Errorf("%w: %s: %v", ErrCorrupt, k, why) }
	if len(data) < sumBytes || len(data) > MaxBytes {
		return nil, corrupt(fmt.Sprintf("%d bytes", len(data)))
	}
	body, end := data[:len(data)-sumBytes], data[len(data)-sumBytes:]
	if want := fmt.Appendf(nil, "%s%08x%s", sumField, crc32.Checksum(body, castagnoli), sumEnd); !bytes.Equal(end, want) {
		return nil, corrupt("the checksum does not fit")
	}
	body = append(body[:len(body):len(body)], '}')
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return nil, corrupt(err)
	}
	if version.Format > formatVersion {
		return nil, fmt.Errorf("%w: %s: version %d, this one reads %d", ErrNewerFormat, k, version.Format, formatVersion)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields() // the next swap would lose them
	m := new(Manifest)
	if err := d.Decode(m); err != nil {
		return nil, corrupt(err)
	}
	if err := m.check(); err != nil {
		return nil, corrupt(err)
	}
	return m, nil
}

// check reports every fault.
func (m *Manifest) check() error {
	var errs []error
	if m.Format != formatVersion {
		errs = append(errs, fmt.Errorf("format %d", m.Format))
	}
	if m.Stream == "" || m.ID == 0 {
		errs = append(errs, errors.New("no stream"))
	}
	through := uint64(0)
	for i, s := range m.Segments {
		if err := s.check(through); err != nil {
			errs = append(errs, fmt.Errorf("segment %d, from sequence %d: %w", i, s.First, err))
		}
		through = max(through, s.Last)
	}
	return errors.Join(errs...)
}

func (s Segment) check(through uint64) error {
	var errs []error
	if s.First <= through || s.Last < s.First {
		errs = append(errs, fmt.Errorf("sequences %d to %d follow %d", s.First, s.Last, through))
	}
	if span := s.Last - s.First + 1; s.Messages == 0 || s.Messages > span && span != 0 {
		errs = append(errs, fmt.Errorf("%d messages in %d sequences", s.Messages, span))
	}
	if s.Size <= 0 || s.IndexAt < 0 || s.IndexSize <= 0 || s.IndexAt > s.Size-s.IndexSize || s.DirectorySize <= 0 || s.DirectorySize > s.IndexSize {
		errs = append(errs, fmt.Errorf("an index of %d bytes at %d in an object of %d", s.IndexSize, s.IndexAt, s.Size))
	}
	return errors.Join(errs...)
}
