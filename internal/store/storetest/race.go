package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
)

func testRacingCreates(t *testing.T, s store.Store) {
	const writers = 12
	// The large size makes a server that decides before it has read the body cut the losers' connections.
	for _, size := range []int{100, 512 << 10} {
		for round := range 6 {
			key := fmt.Sprintf("race/%d/%d", size, round)
			errs := make([]error, writers)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					<-start
					_, errs[w] = s.Put(t.Context(), key, Pattern(byte(w), size), store.IfAbsent())
				})
			}
			close(start)
			wg.Wait()

			got := mustGet(t, s, key)
			owner := -1
			for w := range writers {
				if bytes.Equal(got.Data, Pattern(byte(w), size)) {
					owner = w
				}
			}
			if owner < 0 {
				t.Fatalf("%s holds what nobody wrote: %s", key, abridge(got.Data))
			}
			for w, err := range errs {
				switch {
				case err == nil && w != owner:
					t.Errorf("%s: writer %d was told that it won, but writer %d's object is there", key, w, owner)
				case errors.Is(err, store.ErrPrecondition) && w == owner:
					t.Errorf("%s: writer %d was told that it lost, but its object is there", key, w)
				case err != nil && !errors.Is(err, store.ErrPrecondition) && !errors.Is(err, store.ErrUnknownOutcome):
					t.Errorf("%s: writer %d: %v", key, w, err)
				}
			}
		}
	}
}

// testRacingIfMatch lets writers append their marks to one object by compare-and-swap: a lost update loses a mark.
func testRacingIfMatch(t *testing.T, s store.Store) {
	const key, writers, rounds = "race/counter", 6, 12
	mustPut(t, s, key, []byte("start"), store.IfAbsent())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for round := range rounds {
				mark := fmt.Sprintf(",%d-%d", w, round)
				if err := AppendMark(t.Context(), s, key, mark); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	marks := strings.Split(string(mustGet(t, s, key).Data), ",")
	slices.Sort(marks)
	if distinct := slices.Compact(slices.Clone(marks)); len(marks) != writers*rounds+1 || len(distinct) != len(marks) {
		t.Errorf("%d marks, %d distinct, want %d", len(marks), len(distinct), writers*rounds+1)
	}
}

// AppendMark appends a mark, unique among all, to an object by compare-and-swap, trying until it is there once.
func AppendMark(ctx context.Context, s store.Store, key, mark string) error {
	for {
		obj, err := s.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("append mark: %w", err)
		}
		if bytes.Contains(append(obj.Data, ','), []byte(mark+",")) {
			return nil // an earlier try of unknown outcome had happened
		}
		_, err = s.Put(ctx, key, append(obj.Data, mark...), store.IfMatch(obj.ETag))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrPrecondition), errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrThrottled):
		default:
			return fmt.Errorf("append mark: %w", err)
		}
	}
}

// create writes a key that holds its own name, as every caller has to: in doubt it reads the key back.
func create(ctx context.Context, s store.Store, key string) (etag string, err error) {
	for {
		etag, err := s.Put(ctx, key, []byte(key), store.IfAbsent())
		if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrThrottled) {
			return etag, err
		}
		if obj, err := s.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			return obj.ETag, err
		}
	}
}

func testVisibleAtOnce(t *testing.T, s store.Store) {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 15 {
				key := fmt.Sprintf("visible/%d/%d", w%2, w*100+i)
				etag, err := create(t.Context(), s, key)
				if err != nil {
					t.Errorf("create %s: %v", key, err)
					continue
				}
				obj, err := s.Get(t.Context(), key)
				if err != nil || string(obj.Data) != key || obj.ETag != etag {
					t.Errorf("Get(%s) after Put = %q, %s, %v, want ETag %s", key, obj.Data, obj.ETag, err, etag)
				}
				page, err := s.List(t.Context(), store.ListOptions{Prefix: "visible/"})
				if err != nil || !slices.Contains(page.Objects, store.Attributes{Key: key, Size: int64(len(key)), ETag: etag}) {
					t.Errorf("List after Put lacks %s: %v", key, err)
				}
				if i%3 == 0 {
					if err := s.Delete(t.Context(), key); err != nil {
						t.Errorf("Delete(%s): %v", key, err)
					}
					page, err = s.List(t.Context(), store.ListOptions{Prefix: key})
					if err != nil || len(page.Objects) != 0 {
						t.Errorf("List after Delete still has %+v, %v", page.Objects, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// testWholeWhileReplaced reads an object while others replace it: never a mixture, never absent.
func testWholeWhileReplaced(t *testing.T, s store.Store) {
	const key = "whole/key"
	mustPut(t, s, key, Pattern(0, 1000), store.Always())
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range 30 {
				seed := byte(1 + w*100 + i)
				if _, err := s.Put(t.Context(), key, Pattern(seed, 1000+int(seed)*50), store.Always()); err != nil {
					t.Errorf("Put: %v", err)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				obj, err := s.Get(t.Context(), key)
				if err != nil {
					t.Errorf("Get while replaced: %v", err)
					return
				}
				seed := obj.Data[0]
				if !bytes.Equal(obj.Data, Pattern(seed, 1000+int(seed)*50)) {
					t.Errorf("Get while replaced: a mixture of %d bytes, seed %d", len(obj.Data), seed)
				}
				page, err := s.List(t.Context(), store.ListOptions{Prefix: "whole/"})
				if err != nil || len(page.Objects) != 1 {
					t.Errorf("List while replaced = %+v, %v", page.Objects, err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}
