package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
)

// liar is an honest store but for the methods that a test replaces.
type liar struct {
	store.Store
	get      func(ctx context.Context, key string) (store.Object, error)
	put      func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error)
	list     func(ctx context.Context, opts store.ListOptions) (store.Page, error)
	delete   func(ctx context.Context, keys ...string) error
	requests atomic.Int64
}

func (l *liar) Get(ctx context.Context, key string) (store.Object, error) {
	l.requests.Add(1)
	if l.get != nil {
		return l.get(ctx, key)
	}
	return l.Store.Get(ctx, key)
}

func (l *liar) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	l.requests.Add(1)
	if l.put != nil {
		return l.put(ctx, key, data, cond)
	}
	return l.Store.Put(ctx, key, data, cond)
}

func (l *liar) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	l.requests.Add(1)
	if l.list != nil {
		return l.list(ctx, opts)
	}
	return l.Store.List(ctx, opts)
}

func (l *liar) Delete(ctx context.Context, keys ...string) error {
	l.requests.Add(1)
	if l.delete != nil {
		return l.delete(ctx, keys...)
	}
	return l.Store.Delete(ctx, keys...)
}

func TestProbe(t *testing.T) {
	isMatch := func(cond store.Condition) bool { _, ok := cond.Match(); return ok }
	for _, tt := range []struct {
		name string
		// lie makes the liar of an honest store.
		lie func(honest store.Store, l *liar)
		// want is a part of the error, which wraps ErrStoreLies.
		want string
	}{
		{"honest", func(store.Store, *liar) {}, ""},
		{"create-only is ignored", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if cond.IsAbsent() {
					cond = store.Always()
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "created the same key twice"},
		{"create-only is refused on a free key", func(_ store.Store, l *liar) {
			l.put = func(context.Context, string, []byte, store.Condition) (string, error) {
				return "", store.ErrPrecondition
			}
		}, "refused to create a new object"},
		{"a refused create writes all the same", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				etag, err := honest.Put(ctx, key, data, cond)
				if errors.Is(err, store.ErrPrecondition) {
					_, _ = honest.Put(ctx, key, data, store.Always())
				}
				return etag, err
			}
		}, "after a second create that it refused"},
		{"if-match is ignored", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if _, err := honest.Get(ctx, key); err == nil && isMatch(cond) {
					cond = store.Always()
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "although the version named was stale"},
		{"if-match creates", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if _, err := honest.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
					cond = store.Always()
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "replaced an object that does not exist"},
		{"if-match is refused on the right version", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if isMatch(cond) {
					return "", store.ErrPrecondition
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "whose version was named rightly"},
		{"one version for everything", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if isMatch(cond) {
					cond = store.Always()
				}
				_, err := honest.Put(ctx, key, data, cond)
				return "same", err
			}
			l.get = func(ctx context.Context, key string) (store.Object, error) {
				obj, err := honest.Get(ctx, key)
				obj.ETag = "same"
				return obj, err
			}
		}, "two different contents have the same version"},
		{"concurrent creates all win", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if strings.HasPrefix(string(data), "racer") {
					cond = store.Always()
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "concurrent creates of one key succeeded"},
		{"concurrent creates all lose", func(honest store.Store, l *liar) {
			l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
				if strings.HasPrefix(string(data), "racer") {
					return "", store.ErrPrecondition
				}
				return honest.Put(ctx, key, data, cond)
			}
		}, "were refused as if it were taken"},
		{"the loser's content stays", func(honest store.Store, l *liar) {
			l.get = func(ctx context.Context, key string) (store.Object, error) {
				obj, err := honest.Get(ctx, key)
				if bytes.HasPrefix(obj.Data, []byte("racer")) {
					obj.Data[len(obj.Data)-1] ^= 1 // another racer
				}
				return obj, err
			}
		}, "of concurrent creates"},
		{"a read does not see a create", func(_ store.Store, l *liar) {
			l.get = func(context.Context, string) (store.Object, error) { return store.Object{}, store.ErrNotFound }
		}, "missing right after it was created"},
		{"a read does not see a replacement", func(honest store.Store, l *liar) {
			seen := make(map[string]store.Object)
			l.get = func(ctx context.Context, key string) (store.Object, error) {
				obj, err := honest.Get(ctx, key)
				if old, ok := seen[key]; ok {
					return old, nil
				}
				seen[key] = obj
				return obj, err
			}
		}, "right after it was replaced"},
		{"a read gives another version than the write", func(honest store.Store, l *liar) {
			l.get = func(ctx context.Context, key string) (store.Object, error) {
				obj, err := honest.Get(ctx, key)
				obj.ETag += "?"
				return obj, err
			}
		}, "but the write was answered with"},
		{"a listing does not see a create", func(_ store.Store, l *liar) {
			l.list = func(context.Context, store.ListOptions) (store.Page, error) { return store.Page{}, nil }
		}, "a listing right after it"},
		{"a listing is unsorted", func(honest store.Store, l *liar) {
			l.list = func(ctx context.Context, opts store.ListOptions) (store.Page, error) {
				page, err := honest.List(ctx, opts)
				slices.Reverse(page.Objects)
				return page, err
			}
		}, "a listing right after it"},
		{"a listing gives an old version", func(honest store.Store, l *liar) {
			l.list = func(ctx context.Context, opts store.ListOptions) (store.Page, error) {
				page, err := honest.List(ctx, opts)
				if len(page.Objects) > 0 {
					page.Objects[0].ETag = "old"
				}
				return page, err
			}
		}, "a listing gives version old"},
		{"a listing ignores where to start", func(honest store.Store, l *liar) {
			l.list = func(ctx context.Context, opts store.ListOptions) (store.Page, error) {
				opts.StartAfter = ""
				return honest.List(ctx, opts)
			}
		}, "starts after the first of two keys"},
		{"a deletion does nothing", func(_ store.Store, l *liar) {
			l.delete = func(context.Context, ...string) error { return nil }
		}, "after it was deleted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			honest, err := mem.New(mem.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l := &liar{Store: honest}
			tt.lie(honest, l)
			err = store.Probe(t.Context(), l, "probe/")
			if tt.want == "" && err != nil {
				t.Errorf("Probe: %v", err)
			}
			if tt.want != "" && (!errors.Is(err, store.ErrStoreLies) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Probe: %v, want %v: %s", err, store.ErrStoreLies, tt.want)
			}
			if n := l.requests.Load(); n > 25 {
				t.Errorf("the probe took %d requests", n)
			}
			page, err := honest.List(t.Context(), store.ListOptions{})
			if l.delete == nil && (err != nil || len(page.Objects) != 0) {
				t.Errorf("the probe left %v, %v", page.Objects, err)
			}
		})
	}
}

// What may pass is no lie, whichever request it hits, and the probe leaves nothing behind.
func TestProbeMeetsTransientErrors(t *testing.T) {
	for failing := int64(1); ; failing++ {
		honest, err := mem.New(mem.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := &liar{Store: honest}
		fails := func() bool { return l.requests.Load() == failing }
		l.get = func(ctx context.Context, key string) (store.Object, error) {
			if fails() {
				return store.Object{}, store.ErrThrottled
			}
			return honest.Get(ctx, key)
		}
		l.put = func(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
			if fails() {
				return "", store.ErrUnknownOutcome
			}
			return honest.Put(ctx, key, data, cond)
		}
		l.list = func(ctx context.Context, opts store.ListOptions) (store.Page, error) {
			if fails() {
				return store.Page{}, errors.New("reset")
			}
			return honest.List(ctx, opts)
		}
		l.delete = func(ctx context.Context, keys ...string) error {
			if fails() {
				return errors.Join(store.ErrThrottled, honest.Delete(ctx, keys...))
			}
			return honest.Delete(ctx, keys...)
		}
		err = store.Probe(t.Context(), l, "")
		if errors.Is(err, store.ErrStoreLies) {
			t.Errorf("request %d failed: %v, but that is no lie", failing, err)
		}
		if page, err := honest.List(t.Context(), store.ListOptions{}); err != nil || len(page.Objects) != 0 {
			t.Errorf("request %d failed: the probe left %v, %v", failing, page.Objects, err)
		}
		if l.requests.Load() < failing {
			if err != nil {
				t.Errorf("no request failed: %v", err)
			}
			return
		}
	}
}

func TestProbeCleansUpAfterCancel(t *testing.T) {
	honest, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := &liar{Store: honest}
	l.list = func(ctx context.Context, opts store.ListOptions) (store.Page, error) {
		cancel()
		return honest.List(ctx, opts)
	}
	if err := store.Probe(ctx, l, "probe/"); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe: %v, want %v", err, context.Canceled)
	}
	if page, err := honest.List(t.Context(), store.ListOptions{}); err != nil || len(page.Objects) != 0 {
		t.Errorf("the probe left %v, %v", page.Objects, err)
	}
}
