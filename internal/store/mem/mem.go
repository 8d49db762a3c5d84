// Package mem keeps objects in memory: for tests, simulations and throw-away servers. Nothing survives the process.
package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/internal/store"
)

// DefaultMaxBytes bounds the objects of a store whose options name no bound.
const DefaultMaxBytes = 4 << 30

// Options of a store in memory. The zero value works.
type Options struct {
	// MaxBytes bounds the sum of the object sizes; a Put beyond it fails with store.ErrFull. 0 means DefaultMaxBytes.
	MaxBytes int64
}

func (o *Options) setDefaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var faults []error
	if o.MaxBytes < 0 {
		faults = append(faults, fmt.Errorf("mem: MaxBytes is %d, want 0 or more", o.MaxBytes))
	}
	return errors.Join(faults...)
}

// Store is a store.Store in memory. Its sections under the mutex never wait, so it works in a testing/synctest bubble.
type Store struct {
	maxBytes int64

	// mu guards the following. keys holds the keys of objects, sorted.
	mu      sync.Mutex
	objects map[string]store.Object
	keys    []string
	bytes   int64
	version uint64
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(opts Options) (*Store, error) {
	opts.setDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Store{maxBytes: opts.MaxBytes, objects: make(map[string]store.Object)}, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	obj, err := s.lookup(ctx, key)
	if err != nil {
		return store.Object{}, fmt.Errorf("mem: get %s: %w", key, err)
	}
	// Non-nil even when empty, as a read of a file or a body is.
	return store.Object{Data: append([]byte{}, obj.Data...), ETag: obj.ETag}, nil
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := store.CheckRange(offset, length); err != nil {
		return nil, fmt.Errorf("mem: get range of %s: %w", key, err)
	}
	obj, err := s.lookup(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("mem: get range of %s: %w", key, err)
	}
	size := int64(len(obj.Data))
	if offset >= size {
		return nil, fmt.Errorf("mem: get range of %s: %w: offset %d, size %d", key, store.ErrInvalidRange, offset, size)
	}
	return slices.Clone(obj.Data[offset:min(offset+length, size)]), nil
}

// lookup gives the stored object, whose data is never modified and must not be handed out.
func (s *Store) lookup(ctx context.Context, key string) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[key]
	if !ok {
		return store.Object{}, store.ErrNotFound
	}
	return obj, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if err := store.CheckKey(key); err != nil {
		return "", fmt.Errorf("mem: put: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("mem: put %s: %w", key, err)
	}
	data = slices.Clone(data)

	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[key]
	if etag, ok := cond.Match(); ok && (!exists || old.ETag != etag) || cond.IsAbsent() && exists {
		return "", fmt.Errorf("mem: put %s (%v): %w", key, cond, store.ErrPrecondition)
	}
	if s.bytes-int64(len(old.Data))+int64(len(data)) > s.maxBytes {
		return "", fmt.Errorf("mem: put %s: %w: the bound is %d bytes", key, store.ErrFull, s.maxBytes)
	}
	if !exists {
		if err := s.insert(key); err != nil {
			return "", fmt.Errorf("mem: put: %w", err)
		}
	}
	s.version++
	obj := store.Object{Data: data, ETag: "m" + strconv.FormatUint(s.version, 16)}
	s.bytes += int64(len(data)) - int64(len(old.Data))
	s.objects[key] = obj
	return obj.ETag, nil
}

// insert adds a new key to the sorted ones, unless it is the folder of another key or lies under one.
func (s *Store) insert(key string) error {
	for i, c := range key {
		if c != '/' {
			continue
		}
		if _, ok := s.objects[key[:i]]; ok {
			return fmt.Errorf("%w: %s lies under the key %s", store.ErrInvalidKey, key, key[:i])
		}
	}
	folder := key + "/"
	if i, _ := slices.BinarySearch(s.keys, folder); i < len(s.keys) && strings.HasPrefix(s.keys[i], folder) {
		return fmt.Errorf("%w: %s is the folder of the key %s", store.ErrInvalidKey, key, s.keys[i])
	}
	i, _ := slices.BinarySearch(s.keys, key)
	s.keys = slices.Insert(s.keys, i, key)
	return nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	if err := ctx.Err(); err != nil {
		return store.Page{}, fmt.Errorf("mem: list %s: %w", opts.Prefix, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var page store.Page
	i, _ := slices.BinarySearch(s.keys, max(opts.Prefix, opts.StartAfter))
	for ; i < len(s.keys) && strings.HasPrefix(s.keys[i], opts.Prefix); i++ {
		key := s.keys[i]
		if !opts.Wanted(key) {
			continue // StartAfter itself
		}
		if len(page.Objects) == opts.PageLimit() {
			page.More = true
			break
		}
		obj := s.objects[key]
		page.Objects = append(page.Objects, store.Attributes{Key: key, Size: int64(len(obj.Data)), ETag: obj.ETag})
	}
	return page, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := store.CheckKey(key); err != nil {
			return fmt.Errorf("mem: delete: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mem: delete %d keys: %w", len(keys), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		obj, ok := s.objects[key]
		if !ok {
			continue
		}
		s.bytes -= int64(len(obj.Data))
		delete(s.objects, key)
		i, _ := slices.BinarySearch(s.keys, key)
		s.keys = slices.Delete(s.keys, i, i+1)
	}
	return nil
}
