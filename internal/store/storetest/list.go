package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

// listAll pages through a listing and checks what holds for every page.
func listAll(t *testing.T, s store.Store, opts store.ListOptions) (keys []string) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), opts)
		if err != nil {
			t.Fatalf("List(%+v): %v", opts, err)
		}
		if len(page.Objects) > opts.PageLimit() || page.More && len(page.Objects) == 0 {
			t.Fatalf("List(%+v): %d objects, more %v", opts, len(page.Objects), page.More)
		}
		for _, obj := range page.Objects {
			keys = append(keys, obj.Key)
		}
		if !page.More {
			return keys
		}
		opts.StartAfter = keys[len(keys)-1]
	}
}

// The characters $ % + - . sort before '/', the others after it, so a folder's place among its siblings is easily got
// wrong.
var listKeys = []string{
	"a$b", "a%b", "a+b", "a-", "a-b/c", "a.b", "a/$", "a/0", "a/b/1", "a/b/2/deep/er", "a/b-", "a/b.c/x", "a/b0", "a/bc",
	"a0", "a=", "aa/b", "ab", "b/b/b", "c", "c-/x", "c.d/x", "wal/00000001/0000000a", "wal/00000001/0000000b", "wal/00000002/0000000a",
}

func testListCombinations(t *testing.T, s store.Store) {
	var all []store.Attributes
	for i, key := range listKeys {
		data := Pattern(byte(i), i)
		all = append(all, store.Attributes{Key: key, Size: int64(i), ETag: mustPut(t, s, key, data, store.Always())})
	}
	slices.SortFunc(all, func(a, b store.Attributes) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	prefixes := []string{"", "a", "a-", "a/", "a/b", "a/b/", "a/b/2/de", "wal/0", "wal/00000001/", "wal/00000001/0000000b", "x"}
	afters := []string{"", "A", "a", "a-", "a-z", "a/b", "a/b/", "a/b/1", "a/b/2/deep/er", "a/b/2/z", "a/b0", "aa", "b", "wal/00000001", "wal/00000001/0000000a", "wal/00000001/zzz", "z"}
	for _, prefix := range prefixes {
		for _, after := range afters {
			for _, limit := range []int{0, 1, 3} {
				opts := store.ListOptions{Prefix: prefix, StartAfter: after, Limit: limit}
				var want store.Page
				for _, obj := range all {
					if opts.Wanted(obj.Key) {
						want.Objects = append(want.Objects, obj)
					}
				}
				if limit > 0 && len(want.Objects) > limit {
					want.Objects, want.More = want.Objects[:limit], true
				}
				got, err := s.List(t.Context(), opts)
				// A server may say that there is more when the page is full and there is not.
				if err != nil || !slices.Equal(got.Objects, want.Objects) || want.More && !got.More {
					t.Errorf("List(%+v) = %+v, %v\nwant %+v", opts, got, err, want)
				}
			}
		}
	}
}

func testListPaging(t *testing.T, s store.Store) {
	var want []string
	for i := range 1100 {
		want = append(want, fmt.Sprintf("paging/%d/%08x", i/500, i))
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(want, 100) {
		wg.Go(func() {
			for _, key := range part {
				if _, err := create(t.Context(), s, key); err != nil {
					t.Errorf("create %s: %v", key, err)
				}
			}
		})
	}
	wg.Wait()
	mustPut(t, s, "pagina", []byte("outside"), store.Always())
	for _, limit := range []int{0, store.MaxListKeys + 5, 999, 250} {
		if got := listAll(t, s, store.ListOptions{Prefix: "paging/", Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("listing in pages of %d gave %d keys, want %d", limit, len(got), len(want))
		}
	}
	page, err := s.List(t.Context(), store.ListOptions{Prefix: "paging/", Limit: 5000})
	if err != nil || len(page.Objects) != store.MaxListKeys || !page.More {
		t.Errorf("List with limit 5000: %d objects, more %v, %v; want %d and more", len(page.Objects), page.More, err, store.MaxListKeys)
	}
	if err := s.Delete(t.Context(), want...); err != nil {
		t.Errorf("Delete: %v", err)
	}
}
