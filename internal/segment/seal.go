package segment

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
)

// seal is the encryption of one segment: AES-GCM with one key for everything, each module bound to its place by the
// additional data, which begins with what is unique to the file. The modules of Parquet have the types that its
// specification gives them; the sections of the index have types of their own above.
type seal struct {
	aead   cipher.AEAD
	unique [uniqueBytes]byte
}

const (
	uniqueBytes = 8
	nonceBytes  = 12
	tagBytes    = 16

	footerModule     = 0
	pageModule       = 2
	pageHeaderModule = 4
	sectionModule    = 0x80 // and the section's number
)

func validKey(key []byte) bool { return len(key) == 16 || len(key) == 24 || len(key) == 32 }

func newSeal(key, unique []byte) (*seal, error) {
	if !validKey(key) {
		return nil, fmt.Errorf("%w: key of %d bytes, want 16, 24 or 32", ErrKey, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	s := &seal{}
	copy(s.unique[:], unique)
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return s, nil
}

func (s *seal) footerAAD() []byte {
	return append(s.unique[:len(s.unique):len(s.unique)], footerModule)
}

// pageAAD binds the only page of a column of a group, or its header.
func (s *seal) pageAAD(module byte, group, column int) []byte {
	b := append(make([]byte, 0, uniqueBytes+7), s.unique[:]...)
	b = append(b, module)
	b = binary.LittleEndian.AppendUint16(b, uint16(group))
	b = binary.LittleEndian.AppendUint16(b, uint16(column))
	return binary.LittleEndian.AppendUint16(b, 0) // the page
}

// sectionAAD binds a section of the index to the file, its number, its packing and its place in the object.
func (s *seal) sectionAAD(e sectionEntry, indexAt int64) []byte {
	b := append(make([]byte, 0, uniqueBytes+18), s.unique[:]...)
	b = append(b, sectionModule+byte(e.id), e.packing)
	b = binary.BigEndian.AppendUint64(b, uint64(indexAt)+uint64(e.at))
	return binary.BigEndian.AppendUint64(b, uint64(e.rawBytes))
}

// encrypt gives nonce, ciphertext and tag.
func (s *seal) encrypt(plain, aad []byte) []byte {
	b := make([]byte, nonceBytes, nonceBytes+len(plain)+tagBytes)
	rand.Read(b) // never fails
	return s.aead.Seal(b, b, plain, aad)
}

// moduleBytes is what a module of Parquet has beside its content.
const moduleBytes = 4 + nonceBytes + tagBytes

// appendModule appends a module of Parquet: its length (little-endian, 4 bytes), then as encrypt gives it.
func (s *seal) appendModule(dst, plain, aad []byte) []byte {
	dst = slices.Grow(dst, moduleBytes+len(plain))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(nonceBytes+len(plain)+tagBytes))
	nonce := dst[len(dst) : len(dst)+nonceBytes]
	rand.Read(nonce) // never fails
	return s.aead.Seal(dst[:len(dst)+nonceBytes], nonce, plain, aad)
}

// newUnique makes what is unique to a file.
func newUnique() []byte {
	b := make([]byte, uniqueBytes)
	rand.Read(b) // never fails
	return b
}

// decrypt is the reverse of encrypt; the result is a new buffer.
func (s *seal) decrypt(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < nonceBytes+tagBytes {
		return nil, fmt.Errorf("%w: %d encrypted bytes", ErrCorrupt, len(sealed))
	}
	plain, err := s.aead.Open(nil, sealed[:nonceBytes], sealed[nonceBytes:], aad)
	if err != nil {
		return nil, fmt.Errorf("%w: it does not open what is encrypted here", ErrKey)
	}
	return plain, nil
}

// module cuts the first module of Parquet off b: a length (little-endian, 4 bytes), then that much. It gives the
// module without its length, and what follows it.
func module(b []byte) (sealed, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: encrypted module of %d bytes", ErrCorrupt, len(b))
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	if n > uint64(len(b)-4) {
		return nil, nil, fmt.Errorf("%w: encrypted module of %d bytes in %d", ErrCorrupt, n, len(b)-4)
	}
	return b[4 : 4+n], b[4+n:], nil
}
