package wal

import (
	"context"
	"fmt"

	"github.com/sluicemq/sluice/internal/store"
)

// Truncate deletes the batches of a log below an offset, and whatever delayed writes have left there. It never deletes
// a fence: should there be one below the offset, which is then the caller's error, that is an ErrCorrupt, and the last
// batches before it stay.
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
				if err = refuseFence(ctx, s, id, o.at); err != nil {
					break
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

// refuseFence fails if a fence lies at an offset.
func refuseFence(ctx context.Context, s store.Store, id LogID, at Offset) error {
	return patiently(ctx, callTimeout, func(ctx context.Context) error {
		h, err := readHeader(ctx, s, id, at)
		if err != nil {
			return err
		}
		if h.objectType == fenceObject {
			return fmt.Errorf("%w: fence at %s, below the end of what is to be deleted", ErrCorrupt, id.Key(at))
		}
		return nil
	})
}

func deleteAll(ctx context.Context, s store.Store, keys []string) error {
	return patiently(ctx, callTimeout, func(ctx context.Context) error { return s.Delete(ctx, keys...) })
}
