package head

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

const (
	// storePatience is how long one step of a claim goes on asking a store that gives no useful answer.
	storePatience = time.Minute
	// callTimeout bounds one request.
	callTimeout = 5 * time.Second

	// tornReads is how often a head that does not verify is read before that is believed: what arrived damaged need
	// not be stored so.
	tornReads = 5

	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// stored is a head as it lies in the store; head is nil where there is none.
type stored struct {
	head *Head
	etag string
}

// heads is the access to the heads of one store.
type heads struct{ store store.Store }

// get reads a node's head, retrying store trouble until ctx ends or storePatience is over.
func (h heads) get(ctx context.Context, node string) (stored, error) {
	got, err := h.read(ctx, key.HeadKey(node))
	if errors.Is(err, store.ErrNotFound) {
		return stored{}, nil
	}
	return got, err
}

// read is get by key; no head is store.ErrNotFound. With ErrCorrupt and ErrNewerFormat it gives the ETag.
func (h heads) read(ctx context.Context, k string) (got stored, err error) {
	torn := 0
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		object, err := h.store.Get(ctx, k)
		if err != nil {
			return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNoBucket) || errors.Is(err, store.ErrInvalidKey), err
		}
		got.etag = object.ETag
		got.head, err = Decode(k, object.Data)
		torn++
		return err == nil || torn >= tornReads, err
	})
	if err != nil {
		return got, fmt.Errorf("read %s: %w", k, err)
	}
	return got, nil
}

// swap replaces the version old of a head by next: by compare-and-swap, or by create where old is none. It settles
// doubts by reading back: contents are unique (see Head.Counter), so next was written if it is there. If swapped is
// false, now is what lies there instead, and next was not written, nor will it be. With an error it may have been, or
// may still be.
func (h heads) swap(ctx context.Context, old stored, next *Head) (now stored, swapped bool, err error) {
	data, err := next.encode()
	if err != nil {
		return stored{}, false, err
	}
	k := key.HeadKey(next.Node)
	cond := store.IfAbsent()
	if old.head != nil {
		cond = store.IfMatch(old.etag)
	}
	torn := 0
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		etag, err := h.store.Put(ctx, k, data, cond)
		switch {
		case err == nil:
			now, swapped = stored{next, etag}, true
			return true, nil
		case errors.Is(err, store.ErrInvalidKey):
			return true, err
		case !doubtful(err):
			return false, err
		}
		object, readErr := h.store.Get(ctx, k)
		switch {
		case errors.Is(readErr, store.ErrNotFound) && old.head == nil:
			return false, err
		case readErr != nil:
			return false, readErr
		case bytes.Equal(object.Data, data):
			now, swapped = stored{next, object.ETag}, true
			return true, nil
		case old.head != nil && object.ETag == old.etag:
			return false, err
		}
		now.etag = object.ETag
		now.head, err = Decode(k, object.Data)
		torn++
		return err == nil || torn >= tornReads, err
	})
	if err != nil {
		return stored{}, false, fmt.Errorf("write %s: %w", k, err)
	}
	return now, swapped, nil
}

// doubtful reports whether a failed Put may have been written all the same, or by an earlier attempt.
func doubtful(err error) bool {
	return errors.Is(err, store.ErrPrecondition) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// retry calls op, each time with a context of its own, until it says that it is done, ctx ends, or storePatience is
// over. The error is op's last one.
func retry(ctx context.Context, op func(context.Context) (done bool, err error)) error {
	start, wait := time.Now(), minBackoff
	for {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		done, err := op(callCtx)
		cancel()
		if done {
			return err
		}
		if ctx.Err() != nil || time.Since(start) > storePatience {
			return err
		}
		if sleep(ctx, wait) != nil {
			return err
		}
		wait = min(2*wait, maxBackoff)
	}
}

// sleep waits; the error is that of ctx if it ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
