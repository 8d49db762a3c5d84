package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// audit stands before the store itself and sees what really lands: no key of the log ever has two contents, none is
// replaced, and no fence is deleted.
type audit struct {
	store.Store
	seed maphash.Seed

	mu     sync.Mutex // guards the following
	wrote  map[string]uint64
	all    store.Store // nil, or everything that ever landed in the log, deleted or not
	faults []string

	truncated int // objects that were deleted
	refused   int // creates, since there was something
}

func newAudit(next store.Store) *audit {
	return &audit{Store: next, seed: maphash.MakeSeed(), wrote: map[string]uint64{}}
}

func (a *audit) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// Put implements store.Store.
func (a *audit) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	etag, err := a.Store.Put(ctx, k, data, cond)
	if errors.Is(err, store.ErrPrecondition) && cond.IsAbsent() {
		a.mu.Lock()
		a.refused++
		a.mu.Unlock()
	}
	if err != nil || !strings.HasPrefix(k, "wal/") {
		return etag, err
	}
	if !cond.IsAbsent() {
		a.fault("the log's object %s was put with the condition %v", k, cond)
	}
	if a.all != nil {
		_, _ = a.all.Put(ctx, k, data, store.Always()) // for people
	}
	sum := maphash.Bytes(a.seed, data)
	a.mu.Lock()
	old, again := a.wrote[k]
	a.wrote[k] = sum
	a.mu.Unlock()
	if again && old != sum {
		a.fault("the key %s had two contents", k)
	}
	return etag, nil
}

// Delete implements store.Store.
func (a *audit) Delete(ctx context.Context, keys ...string) error {
	for _, k := range keys {
		if strings.HasPrefix(k, "streams/") {
			a.checkSegment(ctx, k)
			continue
		}
		if !strings.HasPrefix(k, "wal/") {
			a.fault("%s was deleted", k)
			continue
		}
		if fence, err := isFence(ctx, a.Store, k); err != nil {
			a.fault("%s was deleted, which is not understood: %v", k, err)
		} else if fence {
			a.fault("the fence %s was deleted", k)
		}
	}
	a.mu.Lock()
	a.truncated += len(keys)
	a.mu.Unlock()
	return a.Store.Delete(ctx, keys...)
}

// checkSegment looks whether a segment that is being deleted is part of its stream.
func (a *audit) checkSegment(ctx context.Context, k string) {
	p, err := key.Parse(k)
	if err != nil {
		a.fault("%s was deleted: %v", k, err)
		return
	}
	if p.Family != key.StreamSegment || p.Stream == comes {
		return // they go with their stream
	}
	v, err := manifest.Load(ctx, a.Store, p.Account, p.Stream, p.ID) // the names of a run need no escapes
	if err != nil {
		a.fault("%s was deleted, whose manifest cannot be read: %v", k, err)
		return
	}
	if v.Manifest == nil {
		return
	}
	for _, s := range v.Manifest.Segments {
		if v.Manifest.Key(s) == k {
			a.fault("%s was deleted, which is part of its stream", k)
		}
	}
}

// isFence reports whether a fence lies at a key of the log.
func isFence(ctx context.Context, s store.Store, k string) (bool, error) {
	object, err := s.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return fenceIn(ctx, k, object.Data)
}

// fenceIn reports whether an object of the log is a fence.
func fenceIn(ctx context.Context, k string, data []byte) (bool, error) {
	at, err := key.Parse(k)
	if err != nil {
		return false, err
	}
	if at.Family != key.WAL {
		return false, nil
	}
	_, err = wal.ReadBatch(ctx, one{data: data}, wal.LogID{Kind: wal.WriteAhead, Node: at.Node, Epoch: wal.Epoch(at.Epoch)}, wal.Offset(at.Offset))
	if errors.Is(err, wal.ErrFenced) {
		return true, nil
	}
	return false, err
}

// one is a store of one object, to be read.
type one struct {
	store.Store
	data []byte
}

// Get implements store.Store.
func (o one) Get(context.Context, string) (store.Object, error) {
	return store.Object{Data: bytes.Clone(o.data)}, nil
}
