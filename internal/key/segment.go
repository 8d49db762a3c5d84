package key

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxSegmentBytes bounds a segment, so that it fits the file names of every system with room for a suffix.
const MaxSegmentBytes = 200

const (
	// escape begins two hex digits of an escaped byte. Of the characters that every store takes it is the one least
	// used in names.
	escape = '='
	// hashMark begins the hash that ends a shortened segment. An escape is followed by hex digits, so no escaped name
	// contains it.
	hashMark = "=-"
	// hashBytes of SHA-256 stand in for what a shortened segment leaves out.
	hashBytes = 20
)

// Segment escapes a name of an account, stream or node into one segment of a key. Different names give different
// segments, up to a collision of 160 bits of SHA-256 among names that are too long.
//
// Letters, digits, '-', '_', '$' and '.' (but not at the start) stand for themselves, every other byte becomes "=" and
// two lower-case hex digits. If that exceeds MaxSegmentBytes, its beginning is kept and "=-" with the hash of the whole
// name follows. The empty name is "=-".
//
// Upper and lower case stay as they are: on a file system that does not tell them apart, two names that differ in
// case alone would meet. The dir store must refuse such a file system.
func Segment(name string) string {
	if name == "" {
		return hashMark
	}
	plain := true
	for i := range len(name) {
		if !literal(name, i) {
			plain = false
			break
		}
	}
	if plain && len(name) <= MaxSegmentBytes {
		return name
	}
	var b strings.Builder
	cut := 0 // the longest prefix of whole bytes of the name that leaves room for the hash
	for i := range len(name) {
		if b.Len() <= MaxSegmentBytes-len(hashMark)-2*hashBytes {
			cut = b.Len()
		}
		if literal(name, i) {
			b.WriteByte(name[i])
			continue
		}
		b.WriteByte(escape)
		b.WriteString(hex.EncodeToString([]byte{name[i]}))
	}
	if b.Len() <= MaxSegmentBytes {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return b.String()[:cut] + hashMark + hex.EncodeToString(sum[:hashBytes])
}

// Name gives the name that Segment escaped; ok is false for a shortened or malformed segment.
func Name(segment string) (name string, ok bool) {
	if segment == hashMark {
		return "", true
	}
	b := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		if segment[i] != escape {
			b = append(b, segment[i])
			continue
		}
		if i+2 >= len(segment) {
			return "", false
		}
		c, err := hex.DecodeString(segment[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b = append(b, c[0])
		i += 2
	}
	name = string(b)
	return name, Segment(name) == segment
}

// literal reports whether byte i of a name stands for itself.
func literal(name string, i int) bool {
	switch c := name[i]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '$':
		return true
	case c == '.':
		return i > 0 // never "." or "..", never a hidden file
	}
	return false
}

// validSegment reports whether Segment could have built it.
func validSegment(s string) bool {
	if _, ok := Name(s); ok {
		return true
	}
	// A shortened one: its beginning is an escaped name, its end a hash.
	i := len(s) - 2*hashBytes - len(hashMark)
	if i < 1 || len(s) > MaxSegmentBytes || s[i:i+len(hashMark)] != hashMark {
		return false
	}
	hash := s[i+len(hashMark):]
	if _, err := hex.DecodeString(hash); err != nil || strings.ToLower(hash) != hash {
		return false
	}
	// At least all but two bytes of the room are used, or an escape would have fitted.
	if _, ok := Name(s[:i]); !ok || len(s) < MaxSegmentBytes-2 {
		return false
	}
	return true
}
