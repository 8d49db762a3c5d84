package wal

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/store"
)

// replayAhead is how many batches Replay holds or fetches beyond the one that is being replayed.
const replayAhead = 4

// ReadBatch reads the batch at an offset and verifies all of it: checksums, and that it is the batch of this log and
// offset. Nothing there is store.ErrNotFound, a fence is a *FenceError; ErrCorrupt and ErrNewerFormat name the key.
// Store trouble is retried as FenceLog does.
func ReadBatch(ctx context.Context, s store.Store, id LogID, at Offset) (*Batch, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	var b *Batch
	k := id.Key(at)
	err := patiently(ctx, readTimeout, func(ctx context.Context) error {
		object, err := s.Get(ctx, k)
		if err != nil {
			return err
		}
		b, err = decodeBatch(object.Data, id, at)
		return err
	})
	var fenced *FenceError
	if errors.As(err, &fenced) {
		fenced.Key = k
		return nil, fenced
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k, err)
	}
	return b, nil
}

// Replay calls fn with the batches at the offsets from ≤ offset < to, in order, on the caller's goroutine; the next
// ones are fetched meanwhile. fn owns the batch. Replay stops at the first error, fn's included.
//
// A missing offset is ErrGap. A fence below to is a *FenceError: the caller was wrong about the end of the log.
func Replay(ctx context.Context, s store.Store, id LogID, from, to Offset, fn func(*Batch) error) error {
	if err := id.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	type read struct {
		batch *Batch
		err   error
	}
	var ahead []chan read // of the offsets from "at" on
	defer func() {
		cancel()
		for _, c := range ahead {
			<-c // no goroutine outlives the call
		}
	}()
	next := from
	for at := from; at < to; at++ {
		for next < to && len(ahead) <= replayAhead {
			c, offset := make(chan read, 1), next
			go func() {
				b, err := ReadBatch(ctx, s, id, offset)
				c <- read{b, err}
			}()
			ahead = append(ahead, c)
			next++
		}
		r := <-ahead[0]
		ahead = ahead[1:]
		if errors.Is(r.err, store.ErrNotFound) {
			return fmt.Errorf("replay %s from %d to %d: %w: %s", id, from, to, ErrGap, id.Key(at))
		}
		if r.err != nil {
			return fmt.Errorf("replay %s from %d to %d: %w", id, from, to, r.err)
		}
		if err := fn(r.batch); err != nil {
			return err
		}
	}
	return nil
}
