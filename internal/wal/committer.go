package wal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/store"
)

// objects lends the memory of objects under way. A log holds at most MaxInFlight of them; what nobody uses is left to
// the garbage collector.
var objects = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes is the largest object whose memory is kept for the next one.
const maxPooledBytes = 16 << 20

// put is one attempt to create a batch's object, in a goroutine of its own. The first one encodes it.
func (l *Log) put(b *batch) {
	if b.object == nil {
		buf := objects.Get().(*[]byte)
		b.object = encodeBatch((*buf)[:0], b, l.opts.ID, time.Now(), l.opts.Compress)
	} else {
		l.metrics.repeats.Inc()
	}
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout+transferTime(len(b.object)))
	defer cancel()
	_, err := l.opts.Store.Put(ctx, l.opts.ID.Key(b.offset), b.object, store.IfAbsent())
	l.results <- result{batch: b, err: err}
}

// release gives a committed batch's memory back.
func (l *Log) release(b *batch) {
	if object := b.object; object != nil && cap(object) <= maxPooledBytes {
		objects.Put(&object)
	}
	b.object = nil
}

// check reads a batch's key back, in a goroutine of its own.
func (l *Log) check(b *batch) {
	l.metrics.checks.Inc()
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	found, err := l.find(ctx, b)
	l.results <- result{batch: b, checked: true, found: found, err: err}
}

// find tells whose object lies at a batch's key.
func (l *Log) find(ctx context.Context, b *batch) (finding, error) {
	h, err := readHeader(ctx, l.opts.Store, l.opts.ID, b.offset)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return foundNothing, err
	case err != nil:
		return foundUnknown, err
	case h.putID == b.putID:
		return foundMine, nil
	case h.objectType == batchObject:
		return foundOther, fmt.Errorf("%s was put by %s, not by %s", l.opts.ID.Key(b.offset), h.putID, b.putID)
	}
	fence, err := readFence(ctx, l.opts.Store, l.opts.ID, b.offset)
	if err != nil || fence == nil {
		return foundUnknown, fmt.Errorf("read the fence: %w", err)
	}
	return foundFence, &FenceError{Key: l.opts.ID.Key(b.offset), Fence: *fence}
}
