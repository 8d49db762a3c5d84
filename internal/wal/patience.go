package wal

import (
	"context"
	"errors"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

const (
	// storePatience is how long reading, fencing and truncating go on asking a store that gives no useful answer.
	storePatience = time.Minute
	// callTimeout bounds one request to the store, with transferTime added for large objects.
	callTimeout = 10 * time.Second
	// readTimeout bounds the reading of a whole batch.
	readTimeout = 90 * time.Second
	// tornReads is how often an object that does not verify is read before that is believed: what arrived damaged
	// need not be stored so.
	tornReads = 5

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// transferTime allows 1 MiB a second.
func transferTime(bytes int) time.Duration { return time.Duration(bytes) * time.Second / (1 << 20) }

// backoff doubles from minBackoff to maxBackoff, and is scattered over its upper half by seed, so that nodes that were
// throttled together do not return together.
func backoff(attempt int, seed byte) time.Duration {
	d := maxBackoff
	if attempt < 6 {
		d = min(maxBackoff, minBackoff<<max(attempt-1, 0))
	}
	return d/2 + d/2*time.Duration(seed)/255
}

// patiently calls op, each time with a context of its own that ends after timeout, until it succeeds, fails for good, ctx ends, or
// storePatience is over. The error is op's last one.
func patiently(ctx context.Context, timeout time.Duration, op func(context.Context) error) error {
	start, torn := time.Now(), 0
	for attempt := 1; ; attempt++ {
		callCtx, cancel := context.WithTimeout(ctx, timeout)
		err := op(callCtx)
		cancel()
		switch {
		case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrNoBucket):
			return err
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerFormat):
			if torn++; torn >= tornReads {
				return err
			}
		case errors.Is(err, ErrFenced):
			return err
		}
		if ctx.Err() != nil || time.Since(start) > storePatience {
			return err
		}
		timer := time.NewTimer(backoff(attempt, byte(start.UnixNano()>>10)+byte(attempt)*37))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// outcome is what a failed Put tells.
type outcome uint8

const (
	landed            outcome = iota // no error
	definitelyNothing                // try again
	doubtful                         // read back
	impossible                       // it can never succeed
)

// outcomeOf sorts the errors of a create. A refused precondition is as doubtful as a timeout: it may be the writer's
// own earlier attempt that holds the key. So is an ended context, wherever it ended.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return landed
	case errors.Is(err, store.ErrPrecondition), errors.Is(err, store.ErrUnknownOutcome),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return doubtful
	case errors.Is(err, store.ErrInvalidKey):
		return impossible
	}
	return definitelyNothing
}
