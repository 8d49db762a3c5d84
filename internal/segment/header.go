package segment

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The header of the index, see docs/format/segment.md. Numbers are big-endian.
const (
	indexMagic  = "SLIX"
	headerFixed = 52 // bytes before the table of sections
	entryBytes  = 28
	headerBytes = headerFixed + sections*entryBytes + 4

	flagEncrypted = 1
)

// sectionID names a section of the index.
type sectionID uint8

const (
	groupsSection sectionID = iota + 1
	rowsSection
	subjectsSection
	postingsSection
	notesSection
)

const sections = int(notesSection)

var sectionNames = [sections + 1]string{"", "groups", "rows", "subjects", "postings", "notes"}

// Packings of a section.
const (
	packedPlain = 0
	packedZstd  = 1
)

// sectionEntry tells where a section is.
type sectionEntry struct {
	id       sectionID
	packing  byte
	crc      uint32 // of the bytes as stored
	at       int64  // from the start of the index
	size     int64  // as stored
	rawBytes uint32 // unpacked
}

// header is the decoded header of an index.
type header struct {
	encrypted  bool
	unique     [uniqueBytes]byte // of an encrypted file
	indexAt    int64
	indexSize  int64
	footerSize int64 // from the end of the index to the end of the object
	footerCRC  uint32
	entries    [sections]sectionEntry
}

func (h *header) append(b []byte) []byte {
	start := len(b)
	b = append(b, indexMagic...)
	flags := byte(0)
	if h.encrypted {
		flags = flagEncrypted
	}
	b = append(b, FormatVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(headerBytes))
	b = append(b, h.unique[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.indexAt))
	b = binary.BigEndian.AppendUint64(b, uint64(h.indexSize))
	b = binary.BigEndian.AppendUint64(b, uint64(h.footerSize))
	b = binary.BigEndian.AppendUint32(b, h.footerCRC)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(sections))
	for _, e := range h.entries {
		b = append(b, byte(e.id), e.packing, 0, 0)
		b = binary.BigEndian.AppendUint32(b, e.crc)
		b = binary.BigEndian.AppendUint64(b, uint64(e.at))
		b = binary.BigEndian.AppendUint64(b, uint64(e.size))
		b = binary.BigEndian.AppendUint32(b, e.rawBytes)
	}
	return binary.BigEndian.AppendUint32(b, checksum(b[start:]))
}

// decodeHeader reads the header at the start of an index, and checks that all of the index is there.
func decodeHeader(b []byte) (*header, error) {
	h, err := decodeHeaderOf(b)
	if err != nil {
		return nil, err
	}
	if h.indexSize != int64(len(b)) {
		return nil, fmt.Errorf("%w: index of %d bytes, want %d", ErrCorrupt, len(b), h.indexSize)
	}
	return h, nil
}

// decodeHeaderOf reads the header at the start of an index of which the end may be missing.
func decodeHeaderOf(b []byte) (*header, error) {
	if len(b) < headerBytes || string(b[:4]) != indexMagic {
		return nil, fmt.Errorf("%w: no index in %d bytes", ErrCorrupt, len(b))
	}
	size := int(binary.BigEndian.Uint16(b[6:]))
	if size < headerBytes || size > len(b) {
		return nil, fmt.Errorf("%w: index header of %d bytes in %d", ErrCorrupt, size, len(b))
	}
	if got, want := checksum(b[:size-4]), binary.BigEndian.Uint32(b[size-4:]); got != want {
		return nil, fmt.Errorf("%w: index header checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	switch {
	case b[4] != FormatVersion:
		return nil, fmt.Errorf("%w: index version %d, this one reads %d", ErrNewerFormat, b[4], FormatVersion)
	case b[5]&^flagEncrypted != 0 || size != headerBytes || binary.BigEndian.Uint32(b[44:]) != 0 || binary.BigEndian.Uint32(b[48:]) != uint32(sections):
		return nil, fmt.Errorf("%w: index with flags %#x and a header of %d bytes", ErrNewerFormat, b[5], size)
	}
	h := &header{
		encrypted:  b[5]&flagEncrypted != 0,
		unique:     [uniqueBytes]byte(b[8:]),
		indexAt:    int64(binary.BigEndian.Uint64(b[16:])),
		indexSize:  int64(binary.BigEndian.Uint64(b[24:])),
		footerSize: int64(binary.BigEndian.Uint64(b[32:])),
		footerCRC:  binary.BigEndian.Uint32(b[40:]),
	}
	for i := range h.entries {
		e := b[headerFixed+i*entryBytes:]
		h.entries[i] = sectionEntry{
			id: sectionID(e[0]), packing: e[1], crc: binary.BigEndian.Uint32(e[4:]),
			at: int64(binary.BigEndian.Uint64(e[8:])), size: int64(binary.BigEndian.Uint64(e[16:])), rawBytes: binary.BigEndian.Uint32(e[24:]),
		}
		if e[2] != 0 || e[3] != 0 || e[1] > packedZstd {
			return nil, fmt.Errorf("%w: index section %d with packing %d", ErrNewerFormat, e[0], e[1])
		}
	}
	return h, h.check()
}

// check refuses what a sound header does not say. The sections fill the index, in the order of their numbers.
func (h *header) check() error {
	if h.indexAt <= firstGroupAt || h.footerSize <= 0 || h.footerSize > math.MaxInt32 || h.indexAt > math.MaxInt64-h.indexSize-h.footerSize {
		return fmt.Errorf("%w: index at %d before a footer of %d bytes", ErrCorrupt, h.indexAt, h.footerSize)
	}
	at := int64(headerBytes)
	for i, e := range h.entries {
		if e.id != sectionID(i+1) || e.at != at || e.size < 0 || e.size > h.indexSize-at || e.rawBytes > MaxIndexBytes {
			return fmt.Errorf("%w: index section %d: number %d, %d bytes at %d", ErrCorrupt, i+1, e.id, e.size, e.at)
		}
		at += e.size
	}
	if at != h.indexSize {
		return fmt.Errorf("%w: index sections of %d bytes, want %d", ErrCorrupt, at, h.indexSize)
	}
	return nil
}

// size is how many bytes the object has.
func (h *header) objectSize() int64 { return h.indexAt + h.indexSize + h.footerSize }
