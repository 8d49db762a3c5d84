package store

import (
	"fmt"
	"strings"
)

const (
	// MaxKeyBytes bounds a key, as S3 does.
	MaxKeyBytes = 1024
	// MaxSegmentBytes bounds one '/'-separated segment of a key, so that it fits a file name with room for a suffix.
	MaxSegmentBytes = 200
)

// keyByte holds the characters that a segment may be made of: what every S3 server, file system and shell takes
// unescaped.
var keyByte = func() (ok [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		ok[c], ok[c-'a'+'A'] = true, true
	}
	for c := '0'; c <= '9'; c++ {
		ok[c] = true
	}
	for _, c := range "._=%$+-" {
		ok[c] = true
	}
	return ok
}()

// CheckKey reports whether key may name an object: segments of [A-Za-z0-9._=%$+-], none of them "." or "..", joined
// by single slashes. The error wraps ErrInvalidKey.
//
// A further rule needs the other keys to be seen: no key is the folder of another ("a" beside "a/b"), since a store on
// a file system cannot hold both. The dir and mem stores refuse it, S3 does not.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrInvalidKey, len(key), MaxKeyBytes)
	}
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			if !keyByte[key[i]] {
				return fmt.Errorf("%w: %q has byte %q", ErrInvalidKey, key, key[i])
			}
			continue
		}
		segment := key[start:i]
		switch {
		case segment == "" || segment == "." || segment == "..":
			return fmt.Errorf("%w: %q has segment %q", ErrInvalidKey, key, segment)
		case len(segment) > MaxSegmentBytes:
			return fmt.Errorf("%w: %q has a segment of %d bytes, want at most %d", ErrInvalidKey, key, len(segment), MaxSegmentBytes)
		}
		start = i + 1
	}
	return nil
}

// CheckRange reports whether a ranged read can be answered at all. The error wraps ErrInvalidRange.
func CheckRange(offset, length int64) error {
	if offset < 0 || length < 1 || offset+length < offset {
		return fmt.Errorf("%w: offset %d, length %d", ErrInvalidRange, offset, length)
	}
	return nil
}

// Wanted reports whether a listing with these options covers the key, its limit aside.
func (o ListOptions) Wanted(key string) bool {
	return key > o.StartAfter && strings.HasPrefix(key, o.Prefix)
}
