package store

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	long := strings.Repeat("s", MaxSegmentBytes)
	tests := []struct {
		name string
		key  string
		ok   bool
	}{
		{"plain", "a", true},
		{"every character", "AZaz09._=%$+-/x", true},
		{"dots inside", "a..b/...", true},
		{"longest segment", long + "/" + long, true},
		{"longest key", strings.Repeat("abc/", 255) + "abcd", true},
		{"empty", "", false},
		{"too long a key", strings.Repeat("abc/", 255) + "abcde", false},
		{"too long a segment", long + "s", false},
		{"leading slash", "/a", false},
		{"trailing slash", "a/", false},
		{"double slash", "a//b", false},
		{"dot", "a/./b", false},
		{"dot dot", "../b", false},
		{"dot dot at the end", "b/..", false},
		{"space", "a b", false},
		{"backslash", `a\b`, false},
		{"at", "@tmp/x", false},
		{"nul", "a\x00", false},
		{"not ASCII", "straße", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckKey(tt.key)
			if (err == nil) != tt.ok {
				t.Fatalf("CheckKey(%q) = %v, want ok %v", tt.key, err, tt.ok)
			}
			if err != nil && !errors.Is(err, ErrInvalidKey) {
				t.Fatalf("CheckKey(%q) = %v, does not wrap ErrInvalidKey", tt.key, err)
			}
		})
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"a", "a/b", "", "/", "a//b", "..", "a/../b", "x\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if CheckKey(key) != nil {
			return
		}
		// What passes must be safe to join to a folder.
		for segment := range strings.SplitSeq(key, "/") {
			if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "\x00@\\:") {
				t.Fatalf("accepted %q", key)
			}
		}
	})
}

func TestCheckRange(t *testing.T) {
	for _, tt := range []struct {
		offset, length int64
		ok             bool
	}{{0, 1, true}, {7, 1 << 40, true}, {-1, 2, false}, {0, 0, false}, {0, -1, false}, {1, 1<<63 - 1, false}} {
		if err := CheckRange(tt.offset, tt.length); (err == nil) != tt.ok {
			t.Errorf("CheckRange(%d, %d) = %v, want ok %v", tt.offset, tt.length, err, tt.ok)
		}
	}
}
