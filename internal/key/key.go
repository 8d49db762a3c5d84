// Package key builds and parses every key of the store. Nothing else in Sluice spells a key.
//
// docs/format/keys.md has the table. Three rules hold for all of them: numbers are hex of fixed width, so that keys
// sort as their numbers do; names are escaped into single segments (see [Segment]), so that no name can reach into
// another's keys; and no key is the folder of another, since some stores lie on a file system.
package key

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Family tells what an object at a key is.
type Family uint8

// The families of keys.
const (
	Cluster       Family = iota + 1 // the cluster's own object
	Head                            // a node's head
	WAL                             // a batch or fence of a write-ahead log
	Broadcast                       // a batch or fence of a broadcast log
	Manifest                        // a stream's manifest
	StreamSegment                   // a segment of a stream
	Probe                           // what the start-up probe leaves for moments
	Quarantine                      // what a repair has moved out of the way
)

var familyNames = [...]string{"", "cluster", "heads", "wal", "broadcast", "streams", "streams", "probe", "quarantine"}

// String gives the family's first segment.
func (f Family) String() string {
	if int(f) < len(familyNames) && f > 0 {
		return familyNames[f]
	}
	return "Family(" + strconv.Itoa(int(f)) + ")"
}

// Prefix is what every key of the family starts with; it ends in '/' for all but Cluster.
func (f Family) Prefix() string {
	if f == Cluster {
		return ClusterKey
	}
	return f.String() + "/"
}

// ClusterKey is the key of the cluster's own object.
const ClusterKey = "cluster"

// A stream's objects lie in a folder of its name and its id: a stream that was deleted and another of its name share
// nothing, and neither do two of one name that two nodes created before they knew of each other.
const (
	manifestName  = "manifest"
	segmentFolder = "segments"
	segmentSuffix = ".parquet"
)

// numberDigits is the width of a number in a key.
const numberDigits = 16

// ErrForeign: the key is not one that Sluice builds. What lies there is left alone.
var ErrForeign = errors.New("key: not a key of Sluice")

// HeadKey is the key of a node's head.
func HeadKey(node string) string { return Head.Prefix() + Segment(node) }

// LogKey is the key of one offset of a log; family is WAL or Broadcast.
func LogKey(family Family, node string, epoch, offset uint64) string {
	return string(appendNumber([]byte(LogPrefix(family, node, epoch)), offset))
}

// LogPrefix is what the keys of one log start with, and no others do: the offset in fixed-width hex follows.
func LogPrefix(family Family, node string, epoch uint64) string {
	b := append([]byte(family.Prefix()), Segment(node)...)
	b = appendNumber(append(b, '/'), epoch)
	return string(append(b, '/'))
}

// LogNodePrefix is what the keys of all logs of one node start with; the epoch in fixed-width hex follows.
func LogNodePrefix(family Family, node string) string { return family.Prefix() + Segment(node) + "/" }

// StreamPrefix is what the keys of one stream start with, and no others do.
func StreamPrefix(account, stream string, id uint64) string {
	b := []byte(Manifest.Prefix() + Segment(account) + "/" + Segment(stream) + "/")
	return string(append(appendNumber(b, id), '/'))
}

// ManifestKey is the key of a stream's manifest.
func ManifestKey(account, stream string, id uint64) string {
	return StreamPrefix(account, stream, id) + manifestName
}

// SegmentKey is the key of a segment of a stream: the sequence of its first message, and a number that no other
// segment of the stream has.
func SegmentKey(account, stream string, id, first, unique uint64) string {
	b := []byte(StreamPrefix(account, stream, id) + segmentFolder + "/")
	b = append(appendNumber(b, first), '-')
	return string(append(appendNumber(b, unique), segmentSuffix...))
}

// QuarantineKey is where a repair moves the object of a key.
func QuarantineKey(original string) string { return Quarantine.Prefix() + original }

// Parsed is a key taken apart. Names stay in their escaped form, since an over-long name cannot be read from its
// segment: the object holds the name itself. Segments are compared with Segment(name), or read with [Name].
type Parsed struct {
	Family        Family
	Node          string // segment: Head, WAL, Broadcast
	Epoch, Offset uint64 // WAL, Broadcast
	Account       string // segment: Manifest, StreamSegment
	Stream        string // segment: Manifest, StreamSegment
	ID            uint64 // of the stream: Manifest, StreamSegment
	First, Unique uint64 // StreamSegment
	Rest          string // Probe: what follows the prefix; Quarantine: the key where the object was
}

// Parse takes a key apart. Whatever this package would not build is ErrForeign.
func Parse(k string) (Parsed, error) {
	p, ok := parse(k)
	if !ok {
		return Parsed{}, fmt.Errorf("%w: %q", ErrForeign, k)
	}
	return p, nil
}

func parse(k string) (p Parsed, ok bool) {
	if k == ClusterKey {
		return Parsed{Family: Cluster}, true
	}
	first, rest, found := strings.Cut(k, "/")
	if !found || rest == "" {
		return p, false
	}
	parts := strings.Split(rest, "/")
	switch first {
	case Head.String():
		p = Parsed{Family: Head, Node: parts[0]}
		return p, len(parts) == 1 && validSegment(parts[0])
	case WAL.String(), Broadcast.String():
		p.Family = WAL
		if first == Broadcast.String() {
			p.Family = Broadcast
		}
		if len(parts) != 3 || !validSegment(parts[0]) {
			return p, false
		}
		var okEpoch, okOffset bool
		p.Node = parts[0]
		p.Epoch, okEpoch = parseNumber(parts[1])
		p.Offset, okOffset = parseNumber(parts[2])
		return p, okEpoch && okOffset
	case Manifest.String():
		return parseStream(parts)
	case Probe.String():
		return Parsed{Family: Probe, Rest: rest}, true
	case Quarantine.String():
		if original, ok := parse(rest); ok && original.Family != Quarantine {
			return Parsed{Family: Quarantine, Rest: rest}, true
		}
	}
	return p, false
}

func parseStream(parts []string) (p Parsed, ok bool) {
	if len(parts) < 4 || !validSegment(parts[0]) || !validSegment(parts[1]) {
		return p, false
	}
	p = Parsed{Family: Manifest, Account: parts[0], Stream: parts[1]}
	if p.ID, ok = parseNumber(parts[2]); !ok {
		return p, false
	}
	if len(parts) == 4 {
		return p, parts[3] == manifestName
	}
	p.Family = StreamSegment
	name, suffixed := strings.CutSuffix(parts[len(parts)-1], segmentSuffix)
	first, unique, cut := strings.Cut(name, "-")
	if len(parts) != 5 || parts[3] != segmentFolder || !suffixed || !cut {
		return p, false
	}
	var okFirst, okUnique bool
	p.First, okFirst = parseNumber(first)
	p.Unique, okUnique = parseNumber(unique)
	return p, okFirst && okUnique
}

// appendNumber adds a number in fixed-width lower-case hex.
func appendNumber(b []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 4 * (numberDigits - 1); shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&0xf])
	}
	return b
}

func parseNumber(s string) (uint64, bool) {
	if len(s) != numberDigits || strings.ToLower(s) != s {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil
}
