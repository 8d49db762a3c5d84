// Package storetest is the acceptance suite that every store.Store passes: what the layers above may rely on, said as
// tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

// Run checks a store implementation. open gives an empty store for one subtest and registers its own cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, s store.Store)
	}{
		{"sizes", testSizes},
		{"missing", testMissing},
		{"conditions", testConditions},
		{"ranges", testRanges},
		{"ownership of memory", testOwnership},
		{"invalid keys", testInvalidKeys},
		{"allowed keys", testAllowedKeys},
		{"delete", testDelete},
		{"cancelled context", testCancelled},
		{"list combinations", testListCombinations},
		{"list paging", testListPaging},
		{"racing creates", testRacingCreates},
		{"racing if-match", testRacingIfMatch},
		{"visible at once", testVisibleAtOnce},
		{"whole while replaced", testWholeWhileReplaced},
		{"probe", testProbe},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, open(t)) })
	}
}

// Pattern gives n bytes that depend on seed, so that a mixed-up or shifted object shows.
func Pattern(seed byte, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i) ^ byte(i>>8)*31 ^ seed
	}
	return data
}

func mustPut(t *testing.T, s store.Store, key string, data []byte, cond store.Condition) string {
	t.Helper()
	etag, err := s.Put(t.Context(), key, data, cond)
	if err != nil {
		t.Fatalf("Put(%s, %d bytes, %v): %v", key, len(data), cond, err)
	}
	if etag == "" {
		t.Fatalf("Put(%s, %d bytes, %v): empty ETag", key, len(data), cond)
	}
	return etag
}

func mustGet(t *testing.T, s store.Store, key string) store.Object {
	t.Helper()
	obj, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get(%s): %v", key, err)
	}
	return obj
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func wantObject(t *testing.T, s store.Store, key string, data []byte, etag string) {
	t.Helper()
	obj := mustGet(t, s, key)
	if !bytes.Equal(obj.Data, data) {
		t.Errorf("Get(%s): %s, want %s", key, abridge(obj.Data), abridge(data))
	}
	if obj.ETag != etag {
		t.Errorf("Get(%s): ETag %s, want %s", key, obj.ETag, etag)
	}
}

func abridge(data []byte) string {
	if len(data) <= 32 {
		return fmt.Sprintf("%q", data)
	}
	return fmt.Sprintf("%q... (%d bytes)", data[:32], len(data))
}

func testSizes(t *testing.T, s store.Store) {
	for _, size := range []int{0, 1, 100 << 10, 8 << 20} {
		for _, cond := range []store.Condition{store.Always(), store.IfAbsent()} {
			key := fmt.Sprintf("sizes/%d-%v", size, cond)
			data := Pattern(1, size)
			etag := mustPut(t, s, key, data, cond)
			wantObject(t, s, key, data, etag)

			changed := Pattern(2, size+1)
			wantObject(t, s, key, changed, mustPut(t, s, key, changed, store.IfMatch(etag)))

			page, err := s.List(t.Context(), store.ListOptions{Prefix: key})
			if err != nil || len(page.Objects) != 1 || page.Objects[0].Size != int64(size)+1 {
				t.Errorf("List(%s) = %+v, %v, want one object of %d bytes", key, page, err, size+1)
			}
		}
	}
}

func testMissing(t *testing.T, s store.Store) {
	mustPut(t, s, "folder/object", []byte("x"), store.Always())
	for _, key := range []string{"nothing", "folder", "folder/nothing", "no/such/folder"} {
		_, err := s.Get(t.Context(), key)
		wantErr(t, "Get of "+key, err, store.ErrNotFound)
		_, err = s.GetRange(t.Context(), key, 0, 10)
		wantErr(t, "GetRange of "+key, err, store.ErrNotFound)
	}
	page, err := s.List(t.Context(), store.ListOptions{Prefix: "no/such/"})
	if err != nil || len(page.Objects) != 0 || page.More {
		t.Errorf("List of a missing prefix = %+v, %v, want an empty page", page, err)
	}
}

func testConditions(t *testing.T, s store.Store) {
	const key = "conditions/key"
	one, two, three := []byte("one"), []byte("two"), []byte("three")

	_, err := s.Put(t.Context(), key, one, store.IfMatch(`"d41d8cd98f00b204e9800998ecf8427e"`))
	wantErr(t, "if-match on a missing key", err, store.ErrPrecondition)
	_, err = s.Get(t.Context(), key)
	wantErr(t, "Get after a refused if-match", err, store.ErrNotFound)

	first := mustPut(t, s, key, one, store.IfAbsent())
	_, err = s.Put(t.Context(), key, two, store.IfAbsent())
	wantErr(t, "second create", err, store.ErrPrecondition)
	_, err = s.Put(t.Context(), key, one, store.IfAbsent())
	wantErr(t, "second create of the same bytes", err, store.ErrPrecondition)
	wantObject(t, s, key, one, first)

	second := mustPut(t, s, key, two, store.IfMatch(first))
	if second == first {
		t.Errorf("two versions of different content have the ETag %s", first)
	}
	_, err = s.Put(t.Context(), key, three, store.IfMatch(first))
	wantErr(t, "if-match on a stale version", err, store.ErrPrecondition)
	wantObject(t, s, key, two, second)

	third := mustPut(t, s, key, three, store.Always())
	wantObject(t, s, key, three, third)
	_, err = s.Put(t.Context(), key, two, store.IfMatch(second))
	wantErr(t, "if-match on a version that Always replaced", err, store.ErrPrecondition)

	page, err := s.List(t.Context(), store.ListOptions{Prefix: key})
	want := []store.Attributes{{Key: key, Size: int64(len(three)), ETag: third}}
	if err != nil || !slices.Equal(page.Objects, want) {
		t.Errorf("List = %+v, %v, want %+v", page, err, want)
	}

	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	_, err = s.Put(t.Context(), key, one, store.IfMatch(third))
	wantErr(t, "if-match on a deleted key", err, store.ErrPrecondition)
	wantObject(t, s, key, two, mustPut(t, s, key, two, store.IfAbsent()))
}

func testRanges(t *testing.T, s store.Store) {
	const key = "ranges/key"
	data := Pattern(3, 1000)
	mustPut(t, s, key, data, store.Always())
	mustPut(t, s, "ranges/empty", nil, store.Always())
	for _, tt := range []struct {
		key            string
		offset, length int64
		want           []byte
		err            error
	}{
		{key, 0, 1, data[:1], nil},
		{key, 0, 1000, data, nil},
		{key, 0, 5000, data, nil},
		{key, 10, 20, data[10:30], nil},
		{key, 990, 10, data[990:], nil},
		{key, 990, 11, data[990:], nil},
		{key, 999, 1 << 40, data[999:], nil},
		{key, 1000, 1, nil, store.ErrInvalidRange},
		{key, 5000, 1, nil, store.ErrInvalidRange},
		{key, -1, 1, nil, store.ErrInvalidRange},
		{key, 0, 0, nil, store.ErrInvalidRange},
		{key, 0, -1, nil, store.ErrInvalidRange},
		{"ranges/empty", 0, 1, nil, store.ErrInvalidRange},
	} {
		got, err := s.GetRange(t.Context(), tt.key, tt.offset, tt.length)
		if !errors.Is(err, tt.err) || !bytes.Equal(got, tt.want) {
			t.Errorf("GetRange(%s, %d, %d) = %s, %v, want %s, %v",
				tt.key, tt.offset, tt.length, abridge(got), err, abridge(tt.want), tt.err)
		}
	}
}

func testOwnership(t *testing.T, s store.Store) {
	const key = "ownership/key"
	data := []byte("written")
	etag := mustPut(t, s, key, data, store.Always())
	copy(data, "garbage")
	wantObject(t, s, key, []byte("written"), etag)

	copy(mustGet(t, s, key).Data, "garbage")
	part, err := s.GetRange(t.Context(), key, 0, 7)
	if err != nil {
		t.Fatal(err)
	}
	copy(part, "garbage")
	wantObject(t, s, key, []byte("written"), etag)
}

func testDelete(t *testing.T, s store.Store) {
	ctx := t.Context()
	if err := s.Delete(ctx); err != nil {
		t.Errorf("Delete of no keys: %v", err)
	}
	if err := s.Delete(ctx, "delete/nothing", "nothing"); err != nil {
		t.Errorf("Delete of missing keys: %v", err)
	}
	mustPut(t, s, "delete/a", []byte("a"), store.Always())
	mustPut(t, s, "delete/b", []byte("b"), store.Always())
	for range 2 {
		if err := s.Delete(ctx, "delete/a", "delete/nothing", "delete/a"); err != nil {
			t.Errorf("Delete: %v", err)
		}
		_, err := s.Get(ctx, "delete/a")
		wantErr(t, "Get of a deleted key", err, store.ErrNotFound)
	}
	mustGet(t, s, "delete/b")
	// The folder of deleted keys may become a key, and the other way round.
	if err := s.Delete(ctx, "delete/b"); err != nil {
		t.Errorf("Delete: %v", err)
	}
	mustPut(t, s, "delete", []byte("x"), store.IfAbsent())
	if err := s.Delete(ctx, "delete"); err != nil {
		t.Errorf("Delete: %v", err)
	}
	mustPut(t, s, "delete/c/d", []byte("x"), store.IfAbsent())

	keys := make([]string, 2100) // more than two groups of S3's DeleteObjects
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%04d", i)
	}
	for i := 0; i < len(keys); i += 100 {
		mustPut(t, s, keys[i], []byte("x"), store.Always())
	}
	if err := s.Delete(ctx, keys...); err != nil {
		t.Errorf("Delete of %d keys: %v", len(keys), err)
	}
	page, err := s.List(ctx, store.ListOptions{Prefix: "many/"})
	if err != nil || len(page.Objects) != 0 {
		t.Errorf("List after Delete = %+v, %v, want no objects", page, err)
	}
}

func testCancelled(t *testing.T, s store.Store) {
	mustPut(t, s, "cancelled/there", []byte("x"), store.Always())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, "cancelled/there")
	wantErr(t, "Get", err, context.Canceled)
	_, err = s.GetRange(ctx, "cancelled/there", 0, 1)
	wantErr(t, "GetRange", err, context.Canceled)
	_, err = s.List(ctx, store.ListOptions{})
	wantErr(t, "List", err, context.Canceled)
	wantErr(t, "Delete", s.Delete(ctx, "cancelled/there"), context.Canceled)
	for _, cond := range []store.Condition{store.Always(), store.IfAbsent(), store.IfMatch("x")} {
		_, err = s.Put(ctx, "cancelled/new", []byte("x"), cond)
		wantErr(t, "Put", err, context.Canceled)
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Put with a context that had ended: %v, but nothing can have been written", err)
		}
	}
	mustGet(t, s, "cancelled/there")
	_, err = s.Get(t.Context(), "cancelled/new")
	wantErr(t, "Get after cancelled Puts", err, store.ErrNotFound)
}

func testProbe(t *testing.T, s store.Store) {
	if err := store.Probe(t.Context(), s, "probe/"); err != nil {
		t.Errorf("Probe: %v", err)
	}
	page, err := s.List(t.Context(), store.ListOptions{})
	if err != nil || len(page.Objects) != 0 {
		t.Errorf("the probe left %+v, %v", page.Objects, err)
	}
}
