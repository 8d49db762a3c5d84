package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// The header of an object of a log, see docs/format/wal.md. Numbers are big-endian, as in keys.
const (
	magic         = "SLOG"
	formatVersion = 1

	headerFixed    = 70 // bytes before the node's name
	headerCRC      = 4  // bytes after it
	maxHeaderBytes = headerFixed + MaxNodeBytes + headerCRC

	// maxBodyBytes bounds a body, stored and uncompressed.
	maxBodyBytes = 256 << 20
)

// objectType tells what follows the header.
type objectType uint8

const (
	batchObject objectType = 1
	fenceObject objectType = 2
)

// flagZstd: the stored body is one zstd frame.
const flagZstd uint16 = 1 << 0

const knownFlags = flagZstd

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the decoded header of any object of a log.
type header struct {
	objectType objectType
	flags      uint16
	id         LogID
	offset     Offset
	putID      PutID
	created    time.Time
	records    uint32
	bodyBytes  uint32 // as stored
	rawBytes   uint32 // uncompressed
	bodyCRC    uint32 // of the stored bytes
}

func (h *header) size() int { return headerFixed + len(h.id.Node) + headerCRC }

// put writes the header into b, which has exactly its size.
func (h *header) put(b []byte) {
	copy(b, magic)
	b[4] = formatVersion
	b[5] = byte(h.objectType)
	binary.BigEndian.PutUint16(b[6:], h.flags)
	binary.BigEndian.PutUint16(b[8:], uint16(len(b)))
	b[10] = byte(h.id.Kind)
	b[11] = 0
	binary.BigEndian.PutUint32(b[12:], h.bodyCRC)
	copy(b[16:], h.putID[:])
	binary.BigEndian.PutUint64(b[32:], uint64(h.id.Epoch))
	binary.BigEndian.PutUint64(b[40:], uint64(h.offset))
	binary.BigEndian.PutUint64(b[48:], uint64(h.created.UnixNano()))
	binary.BigEndian.PutUint32(b[56:], h.records)
	binary.BigEndian.PutUint32(b[60:], h.bodyBytes)
	binary.BigEndian.PutUint32(b[64:], h.rawBytes)
	binary.BigEndian.PutUint16(b[68:], uint16(len(h.id.Node)))
	n := copy(b[headerFixed:], h.id.Node)
	binary.BigEndian.PutUint32(b[headerFixed+n:], crc32.Checksum(b[:headerFixed+n], castagnoli))
}

// decodeHeader reads the header at the start of b, which may hold less or more than the whole object.
func decodeHeader(b []byte) (h header, err error) {
	if len(b) < headerFixed+headerCRC || string(b[:4]) != magic {
		return h, fmt.Errorf("%w: no header in %d bytes", ErrCorrupt, len(b))
	}
	if b[4] != formatVersion {
		return h, fmt.Errorf("%w: version %d, this one reads %d", ErrNewerFormat, b[4], formatVersion)
	}
	size, nodeBytes := int(binary.BigEndian.Uint16(b[8:])), int(binary.BigEndian.Uint16(b[68:]))
	if size != headerFixed+nodeBytes+headerCRC || size > len(b) || size > maxHeaderBytes {
		return h, fmt.Errorf("%w: header of %d bytes with a name of %d, in %d bytes", ErrCorrupt, size, nodeBytes, len(b))
	}
	crcAt := size - headerCRC
	if got, want := crc32.Checksum(b[:crcAt], castagnoli), binary.BigEndian.Uint32(b[crcAt:]); got != want {
		return h, fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	h = header{
		objectType: objectType(b[5]),
		flags:      binary.BigEndian.Uint16(b[6:]),
		id:         LogID{Kind: Kind(b[10]), Node: string(b[headerFixed:crcAt]), Epoch: Epoch(binary.BigEndian.Uint64(b[32:]))},
		offset:     Offset(binary.BigEndian.Uint64(b[40:])),
		putID:      PutID(b[16:32]),
		created:    time.Unix(0, int64(binary.BigEndian.Uint64(b[48:]))),
		records:    binary.BigEndian.Uint32(b[56:]),
		bodyBytes:  binary.BigEndian.Uint32(b[60:]),
		rawBytes:   binary.BigEndian.Uint32(b[64:]),
		bodyCRC:    binary.BigEndian.Uint32(b[12:]),
	}
	return h, h.check(b[11])
}

// check refuses what a sound header must not say, and what only a newer version knows.
func (h *header) check(reserved byte) error {
	switch {
	case h.objectType != batchObject && h.objectType != fenceObject:
		return fmt.Errorf("%w: object type %d", ErrNewerFormat, h.objectType)
	case h.flags&^knownFlags != 0:
		return fmt.Errorf("%w: flags %#x", ErrNewerFormat, h.flags)
	case reserved != 0 || !h.id.Kind.valid():
		return fmt.Errorf("%w: log kind %d", ErrNewerFormat, h.id.Kind)
	case h.bodyBytes > maxBodyBytes || h.rawBytes > maxBodyBytes:
		return fmt.Errorf("%w: body of %d bytes, %d uncompressed", ErrCorrupt, h.bodyBytes, h.rawBytes)
	case h.flags&flagZstd == 0 && h.bodyBytes != h.rawBytes:
		return fmt.Errorf("%w: uncompressed body of %d bytes, %d stored", ErrCorrupt, h.rawBytes, h.bodyBytes)
	case h.records > math.MaxInt32:
		return fmt.Errorf("%w: %d records", ErrCorrupt, h.records)
	}
	return h.id.checkStored()
}

func (id LogID) checkStored() error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// expect refuses an object that says it is another than its key.
func (h *header) expect(id LogID, at Offset) error {
	if h.id != id || h.offset != at {
		return fmt.Errorf("%w: it says that it is %s", ErrCorrupt, h.id.Key(h.offset))
	}
	return nil
}

// body checks and gives the stored body of a whole object.
func (h *header) body(object []byte) ([]byte, error) {
	body := object[h.size():]
	if len(body) != int(h.bodyBytes) {
		return nil, fmt.Errorf("%w: body of %d bytes, want %d", ErrCorrupt, len(body), h.bodyBytes)
	}
	if crc := crc32.Checksum(body, castagnoli); crc != h.bodyCRC {
		return nil, fmt.Errorf("%w: body checksum %08x, want %08x", ErrCorrupt, crc, h.bodyCRC)
	}
	return body, nil
}
