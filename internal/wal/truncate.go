package wal

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/store"
)

// Truncate deletes the batches of a log below an offset, and whatever delayed writes have left there. The log's fence
// stays, even if the caller should be wrong about the offset.
//
// The caller has recorded durably that the log starts at before, or later, and that nobody will look below it: see
// invariant 5. Truncate may be repeated, also after it failed half-way, when some of the batches are gone. Store
// trouble is retried as FenceLog does.
func Truncate(ctx context.Context, s store.Store, id LogID, before Offset) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var (
		held  []object // the newest that were listed: the only ones that may be fences (invariant 4)
		doom  []string
		fault error
	)
	flush := func() bool {
		if fault == nil && len(doom) > 0 {
			fault = deleteAll(ctx, s, doom)
		}
		doom = doom[:0]
		return fault == nil
	}
	err := listLog(ctx, s, id, 0, func(at Offset, size int64) bool {
		if at >= before {
			return false
		}
		held = append(held, object{at, size})
		for at-held[0].at >= MaxPipeline {
			doom = append(doom, id.Key(held[0].at))
			held = held[1:]
		}
		return len(doom) < store.MaxListKeys || flush()
	})
	if err == nil && flush() {
		for _, o := range held {
			if o.size <= MaxFenceBytes {
				var fence bool
				if fence, err = isFence(ctx, s, id, o.at); err != nil {
					break
				}
				if fence {
					continue
				}
			}
			doom = append(doom, id.Key(o.at))
		}
		if err == nil {
			flush()
		}
	}
	if err == nil {
		err = fault
	}
	if err != nil {
		return fmt.Errorf("truncate %s before %d: %w", id, before, err)
	}
	return nil
}

type object struct {
	at   Offset
	size int64
}

// isFence reports whether a fence lies at an offset.
func isFence(ctx context.Context, s store.Store, id LogID, at Offset) (bool, error) {
	var h header
	err := patiently(ctx, callTimeout, func(ctx context.Context) (err error) {
		h, err = readHeader(ctx, s, id, at)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil // another Truncate was faster
	}
	return h.objectType == fenceObject, err
}

func deleteAll(ctx context.Context, s store.Store, keys []string) error {
	return patiently(ctx, callTimeout, func(ctx context.Context) error { return s.Delete(ctx, keys...) })
}
