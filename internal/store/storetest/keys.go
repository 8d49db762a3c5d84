package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

func testInvalidKeys(t *testing.T, s store.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a b", "a\x00b", "@tmp/x", "ü", `a\b`,
		strings.Repeat("x", store.MaxSegmentBytes+1), strings.Repeat("ab/", 342) + "x",
	} {
		_, err := s.Get(t.Context(), key)
		wantErr(t, fmt.Sprintf("Get(%q)", key), err, store.ErrInvalidKey)
		_, err = s.GetRange(t.Context(), key, 0, 1)
		wantErr(t, fmt.Sprintf("GetRange(%q)", key), err, store.ErrInvalidKey)
		_, err = s.Put(t.Context(), key, nil, store.Always())
		wantErr(t, fmt.Sprintf("Put(%q)", key), err, store.ErrInvalidKey)
		wantErr(t, fmt.Sprintf("Delete(%q)", key), s.Delete(t.Context(), key), store.ErrInvalidKey)
	}
	// Options of a listing are not keys: what no key can match finds nothing.
	for _, prefix := range []string{"/", "..", "../", "a//", "a/../", "@", "\x00", "a b"} {
		page, err := s.List(t.Context(), store.ListOptions{Prefix: prefix})
		if err != nil || len(page.Objects) != 0 {
			t.Errorf("List(prefix %q) = %+v, %v, want no objects", prefix, page.Objects, err)
		}
	}
}

func testAllowedKeys(t *testing.T, s store.Store) {
	var keys []string
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=%$+-"
	for _, c := range allowed {
		keys = append(keys, fmt.Sprintf("chars/x%cy", c))
	}
	segment := (allowed + allowed + allowed)[:store.MaxSegmentBytes]
	keys = append(keys, "chars/"+allowed, "...", ".hidden/-dash/%2F", "chars/"+segment,
		// Just short of the longest key: the store may put a prefix before it.
		strings.Join([]string{segment, segment, segment, segment, segment[:190]}, "/"))
	for i, key := range keys {
		mustPut(t, s, key, []byte(key), store.IfAbsent())
		if i%8 == 0 {
			mustPut(t, s, key, []byte(key), store.IfMatch(mustGet(t, s, key).ETag))
		}
	}
	slices.Sort(keys)
	if got := listAll(t, s, store.ListOptions{}); !slices.Equal(got, keys) {
		t.Errorf("List = %q, want %q", got, keys)
	}
	for _, key := range keys {
		if got := mustGet(t, s, key); string(got.Data) != key {
			t.Errorf("Get(%s) = %s", key, abridge(got.Data))
		}
	}
}
