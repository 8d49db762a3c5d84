package broadcast

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/wal"
)

const (
	// maxEarlier bounds the ranges of earlier epochs that a head lists: beyond it the oldest go, whatever their age.
	maxEarlier = 64
	// keptEmpty is how many ranges of which nothing is left stay, so that a reader that was at their end knows that it
	// has missed nothing.
	keptEmpty = 8
	// retentionSteps is into how many steps the retention is divided: batches are kept for that much longer.
	retentionSteps = 16
)

// journal looks after the node's own broadcast logs: it opens one, and deletes what is too old. Ages are reckoned by this
// process's own clock: a batch of an earlier epoch is taken to be as old as the process.
type journal struct {
	opts    *Options
	metrics *metrics
	id      wal.LogID
	begun   time.Time

	mu    sync.Mutex // guards what follows
	marks []mark     // by time; at most one per retention step, and the newest

	// doomed are the ranges below whose starts something may still lie. The retention's goroutine owns it.
	doomed map[wal.Epoch]head.LogRange
}

// mark says that every batch below an offset is at least as old as a time.
type mark struct {
	at    time.Time
	below wal.Offset
}

// open ends the log of the last epoch in which the node broadcast, notes its end, and lists this epoch's log, which is
// empty. A crash in between leaves a fence that the next start finds.
func (j *journal) open(ctx context.Context) error {
	ends := map[wal.Epoch]wal.Offset{}
	for _, r := range j.opts.Head.Head().BroadcastLogs {
		if !r.Open || r.Epoch == j.id.Epoch {
			continue
		}
		fence := wal.Fence{Node: j.id.Node, Epoch: j.id.Epoch, Heirs: []string{j.id.Node}}
		end, _, err := wal.FenceLog(ctx, j.opts.Store, j.logOf(r), r.Start, fence)
		if err != nil {
			return fmt.Errorf("broadcast: ending the log before: %w", err)
		}
		ends[r.Epoch] = end
	}
	err := j.opts.Head.Update(ctx, func(h *head.Head) {
		kept := h.BroadcastLogs[:0]
		for _, r := range h.BroadcastLogs {
			if end, ok := ends[r.Epoch]; ok && r.Open {
				r.End, r.Open = end, false
			}
			if r.Open && r.Epoch == j.id.Epoch || !r.Open && r.End == 0 {
				continue // listed again below, or nothing was ever in it
			}
			kept = append(kept, r)
		}
		h.BroadcastLogs = append(kept, head.LogRange{Node: j.id.Node, Epoch: j.id.Epoch, Open: true})
	})
	if err != nil {
		return fmt.Errorf("broadcast: opening the log: %w", err)
	}
	return nil
}

func (j *journal) logOf(r head.LogRange) wal.LogID {
	return wal.LogID{Kind: wal.Broadcast, Node: r.Node, Epoch: r.Epoch}
}

// wrote notes a batch that the head tells of.
func (j *journal) wrote(at wal.Offset, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.marks); n >= 2 && j.marks[n-1].at.Sub(j.marks[n-2].at) < j.opts.Retention/retentionSteps {
		j.marks[n-1] = mark{now, at + 1}
		return
	}
	j.marks = append(j.marks, mark{now, at + 1})
}

// expired gives the offset below which batches are too old.
func (j *journal) expired(now time.Time) (below wal.Offset) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for n < len(j.marks) && now.Sub(j.marks[n].at) >= j.opts.Retention {
		below = j.marks[n].below
		n++
	}
	j.marks = slices.Delete(j.marks, 0, n)
	return below
}

// retain deletes what is too old, again and again.
func (j *journal) retain(ctx context.Context) {
	var below wal.Offset
	j.doomed = map[wal.Epoch]head.LogRange{}
	for _, r := range j.opts.Head.Head().BroadcastLogs {
		if r.Start > 0 {
			j.doomed[r.Epoch] = r // the last process may have died before it deleted
		}
	}
	for {
		select {
		case <-time.After(j.opts.Retention / retentionSteps):
		case <-ctx.Done():
			return
		}
		now := time.Now()
		below = max(below, j.expired(now))
		if err := j.trim(ctx, below, now.Sub(j.begun) >= j.opts.Retention); err != nil && ctx.Err() == nil {
			j.opts.Logger.Warn("old broadcasts could not be deleted; trying again", "error", err)
		}
	}
}

// trim moves the starts of the logs in the head, and then deletes what lies before them. old: whatever is of an earlier
// epoch is too old.
func (j *journal) trim(ctx context.Context, below wal.Offset, old bool) error {
	h := j.opts.Head.Head()
	next, deleted := j.trimmed(h.BroadcastLogs, below, old)
	if !slices.Equal(next, h.BroadcastLogs) {
		// Nobody else writes this part of the head.
		if err := j.opts.Head.Update(ctx, func(h *head.Head) { h.BroadcastLogs = slices.Clone(next) }); err != nil {
			return fmt.Errorf("noting the start: %w", err)
		}
	}
	for _, r := range deleted {
		j.doomed[r.Epoch] = r
	}
	for epoch, r := range j.doomed {
		if err := wal.Truncate(ctx, j.opts.Store, j.logOf(r), r.Start); err != nil {
			return err
		}
		delete(j.doomed, epoch)
	}
	return nil
}

// trimmed gives the ranges that stay, and those of which something is to be deleted, with their new starts.
func (j *journal) trimmed(ranges []head.LogRange, below wal.Offset, old bool) (next, deleted []head.LogRange) {
	empty := 0
	for i := len(ranges) - 1; i >= 0; i-- {
		r := ranges[i]
		start := r.Start
		switch {
		case r.Open:
			start = max(start, below)
		case old || len(next) > maxEarlier:
			start = r.End
		}
		if start > r.Start {
			r.Start = start
			deleted = append(deleted, r)
		}
		if !r.Open && r.Start >= r.End {
			if empty++; empty > keptEmpty {
				continue
			}
		}
		next = append(next, r)
	}
	slices.Reverse(next)
	return next, deleted
}
