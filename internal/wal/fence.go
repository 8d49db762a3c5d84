package wal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// MaxFenceBytes bounds the object of a fence, so that larger objects need not be read to know that they are none.
const MaxFenceBytes = 64 << 10

// Fence ends a log. It is created once and never deleted.
type Fence struct {
	// Node fenced the log, in its own Epoch: the first start's number if a node fences its own earlier epochs.
	Node  string `json:"node"`
	Epoch Epoch  `json:"epoch"`
	// Heirs are the nodes that continue the work.
	Heirs []string `json:"heirs"`

	PutID   PutID     `json:"-"` // drawn by FenceLog
	Created time.Time `json:"-"` // set by FenceLog, for people only
}

// encode makes the fence's object.
func (f *Fence) encode(id LogID, at Offset) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("wal: encode fence: %w", err)
	}
	h := header{
		objectType: fenceObject, id: id, offset: at, putID: f.PutID, created: f.Created,
		bodyBytes: uint32(len(body)), rawBytes: uint32(len(body)), bodyCRC: crc32.Checksum(body, castagnoli),
	}
	object := make([]byte, h.size(), h.size()+len(body))
	h.put(object)
	object = append(object, body...)
	if len(object) > MaxFenceBytes {
		return nil, fmt.Errorf("wal: fence of %d bytes, want at most %d", len(object), MaxFenceBytes)
	}
	return object, nil
}

// fence decodes the body of a fence's object.
func (h *header) fence(object []byte) (f Fence, err error) {
	body, err := h.body(object)
	if err != nil {
		return f, err
	}
	if h.flags != 0 || h.records != 0 {
		return f, fmt.Errorf("%w: fence with flags %#x and %d records", ErrCorrupt, h.flags, h.records)
	}
	if err := json.Unmarshal(body, &f); err != nil {
		return f, fmt.Errorf("%w: fence: %w", ErrCorrupt, err)
	}
	f.PutID, f.Created = h.putID, h.created
	return f, nil
}

// FenceLog ends a log for good and gives its end: batches lie at the offsets below it and none counts at or beyond it.
// If the log had been fenced before, existing is that fence, and f is not written.
//
// No batch may be missing at or above from, and nobody may delete any there meanwhile: from is the log's start as
// recorded in a head that its owner can no longer change, or the offset that the caller has replayed to.
//
// The fence goes to the first free offset, also when stray batches lie beyond it: they were never acknowledged. A batch
// that lands there first is part of the log, and the next offset is tried. Store trouble is retried until ctx ends or
// the store has not given one useful answer for storePatience. When FenceLog fails the log may or may not be fenced;
// calling it again is safe.
func FenceLog(ctx context.Context, s store.Store, id LogID, from Offset, f Fence) (end Offset, existing *Fence, err error) {
	if err := id.Validate(); err != nil {
		return 0, nil, err
	}
	end, existing, err = fencing{s, id, f}.run(ctx, from)
	if err != nil {
		return 0, nil, fmt.Errorf("fence %s: %w", id, err)
	}
	return end, existing, nil
}

type fencing struct {
	store store.Store
	id    LogID
	fence Fence
}

func (f fencing) run(ctx context.Context, from Offset) (Offset, *Fence, error) {
	next, small, err := f.firstFree(ctx, from)
	if err != nil {
		return 0, nil, err
	}
	for _, at := range small {
		if existing, err := readFence(ctx, f.store, f.id, at); err != nil || existing != nil {
			return at, existing, err
		}
	}
	for {
		existing, created, err := f.create(ctx, next)
		if err != nil || created || existing != nil {
			return next, existing, err
		}
		next++ // a batch lies there
	}
}

// firstFree gives the first offset from "from" that holds no object, and those offsets below it, in order, that may
// hold a fence: a fence has at most MaxPipeline-1 strays beyond it (invariant 4), and is small.
func (f fencing) firstFree(ctx context.Context, from Offset) (next Offset, small []Offset, err error) {
	next = from
	err = listLog(ctx, f.store, f.id, from, func(at Offset, size int64) bool {
		if at != next {
			return false
		}
		if size <= MaxFenceBytes {
			small = append(small, at)
		}
		if len(small) > 0 && at-small[0] >= MaxPipeline {
			small = small[1:]
		}
		next++
		return true
	})
	return next, small, err
}

// create tries to put the fence at an offset. When a fence is there, it is existing; when a batch is, neither.
func (f fencing) create(ctx context.Context, at Offset) (existing *Fence, created bool, err error) {
	fence := f.fence
	fence.Created = time.Now()
	if _, err := rand.Read(fence.PutID[:]); err != nil {
		return nil, false, fmt.Errorf("draw a put id: %w", err)
	}
	object, err := fence.encode(f.id, at)
	if err != nil {
		return nil, false, err
	}
	// Every attempt writes the same bytes, so it does not matter which of them landed.
	err = patiently(ctx, callTimeout, func(ctx context.Context) error {
		_, err := f.store.Put(ctx, f.id.Key(at), object, store.IfAbsent())
		if err == nil {
			created = true
			return nil
		}
		if outcomeOf(err) == definitelyNothing {
			return err
		}
		h, readErr := readHeader(ctx, f.store, f.id, at)
		switch {
		case errors.Is(readErr, store.ErrNotFound):
			return err
		case readErr != nil:
			return readErr
		case h.putID == fence.PutID:
			created = true
			return nil
		case h.objectType == batchObject:
			return nil
		}
		existing, err = readFence(ctx, f.store, f.id, at)
		return err
	})
	return existing, created, err
}

// readFence reads the fence at an offset; nil if a batch lies there.
func readFence(ctx context.Context, s store.Store, id LogID, at Offset) (*Fence, error) {
	_, err := ReadBatch(ctx, s, id, at)
	var fenced *FenceError
	if errors.As(err, &fenced) {
		return &fenced.Fence, nil
	}
	return nil, err
}

// readHeader reads and verifies the header alone: one attempt.
func readHeader(ctx context.Context, s store.Store, id LogID, at Offset) (header, error) {
	b, err := s.GetRange(ctx, id.Key(at), 0, maxHeaderBytes)
	if errors.Is(err, store.ErrInvalidRange) {
		err = fmt.Errorf("%w: empty", ErrCorrupt)
	}
	if err != nil {
		return header{}, fmt.Errorf("%s: %w", id.Key(at), err)
	}
	h, err := decodeHeader(b)
	if err == nil {
		err = h.expect(id, at)
	}
	if err != nil {
		return header{}, fmt.Errorf("%s: %w", id.Key(at), err)
	}
	return h, nil
}

// listLog calls fn with the offsets that hold objects, in order from "from", until it answers false.
func listLog(ctx context.Context, s store.Store, id LogID, from Offset, fn func(at Offset, size int64) bool) error {
	opts := store.ListOptions{Prefix: id.prefix()}
	if from > 0 {
		opts.StartAfter = id.Key(from - 1)
	}
	for {
		var page store.Page
		err := patiently(ctx, callTimeout, func(ctx context.Context) (err error) {
			page, err = s.List(ctx, opts)
			return err
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", opts.Prefix, err)
		}
		for _, object := range page.Objects {
			parsed, err := key.Parse(object.Key)
			if err != nil {
				return fmt.Errorf("%w in the log: %w", ErrCorrupt, err)
			}
			if !fn(Offset(parsed.Offset), object.Size) {
				return nil
			}
			opts.StartAfter = object.Key
		}
		if !page.More || len(page.Objects) == 0 {
			return nil
		}
	}
}
