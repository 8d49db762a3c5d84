package head

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// Claim starts a node: it takes a name and a fresh epoch, fences the logs that the node and dead others left, and
// gives the ranges to replay. It may take a lease's time, but only while some head is neither known to be dead nor
// seen to live.
//
// Every step is one compare-and-swap of one head, or a fence, which is a create. A process may die between any two,
// and the next claim, by this node or another, goes on. The invariants: an epoch is taken once; a range is in the list
// of one head, or is being moved from one to another, which both heads say; a range leaves a list only when another
// list has it, or when it is empty.
//
//  1. Take the name: swap the head to the next epoch, with a fresh instance id, keeping its list and adding the new
//     epoch's own range, open. Dies before: nothing has happened. After: an epoch is used up; its range is open in the
//     list, and the next claim fences it and finds it empty.
//     Should the list say that an earlier claim was moving ranges to it, end those moves.
//  2. Fence the open ranges of the list, other than the own; then swap their ends in, and drop those that are empty.
//     Dies in between: some are fenced but open in the list; the next claim finds the fences.
//  3. Adopt the dead, see [Claimed.adopt]: mark the dead head as taken, which ends its claim and freezes its list; add
//     its ranges to the own list; empty the dead head. Dies after the mark: whoever comes next sees that the mark's
//     claim is over and that its head lists nothing, so the mark is void. After the addition: both heads list the
//     ranges and say so; the adopter's list counts, and the dead head is emptied for it.
//  4. Fence what was adopted, as in 2.
//
// Errors: ErrNameInUse, ErrLost if somebody ends this claim meanwhile, ErrCorrupt or ErrNewerFormat of the own head,
// and what wal.FenceLog gives. Heads of others that cannot be read are left alone and logged. Store trouble is retried
// for a minute per step.
func Claim(ctx context.Context, s store.Store, opts Options) (*Claimed, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	w := newWatch(heads{s}, opts)
	c, err := w.takeName(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim a node: %w", err)
	}
	steps := []func(context.Context) error{
		c.finishMoves,
		c.fenceOpen,
		func(ctx context.Context) error { return c.adoptDead(ctx, w) },
		c.finishMoves,
		c.fenceOpen,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			c.giveUp(ctx)
			return nil, fmt.Errorf("claim node %q in epoch %d: %w", c.node, c.epoch, err)
		}
	}
	return c, nil
}

// giveUp releases the head of a claim that failed half-way, if it can, so that the next one need not wait.
func (c *Claimed) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := c.Release(ctx); err != nil {
		c.opts.Logger.Warn("the next claim will have to wait for the lease", "error", err)
	}
}

// takeName takes the first of the candidates that can be had.
func (w *watch) takeName(ctx context.Context) (*Claimed, error) {
	for {
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		name, wait, err := w.chooseName()
		if err != nil {
			return nil, err
		}
		if !wait {
			c, err := w.take(ctx, name)
			if c != nil || err != nil {
				return c, err
			}
		}
		if err := sleep(ctx, w.pollInterval()); err != nil {
			return nil, err
		}
	}
}

// chooseName gives the name to take, or says that it takes more watching to know.
func (w *watch) chooseName() (name string, wait bool, err error) {
	var faults []error
	for _, name := range w.opts.Names {
		s := w.of(name)
		if s == nil {
			return name, false, nil
		}
		if s.err != nil {
			faults = append(faults, s.err)
			continue
		}
		runsHere := len(w.opts.Names) > 1 && s.head.Host != "" && s.head.Host == w.opts.Host
		switch w.verdict(s) {
		case dead:
			return name, false, nil
		case undecided:
			if !runsHere { // or else its process id was found running: no need to wait, there are other names
				return "", true, nil
			}
		}
		faults = append(faults, fmt.Errorf("%w: %q, by process %d of host %q, in epoch %d; every node needs a name of its own (server_name)",
			ErrNameInUse, name, s.head.PID, s.head.Host, s.head.Epoch))
	}
	return "", false, errors.Join(faults...)
}

// take tries to swap the head of a name that is free or dead to the next epoch; nil if the head has changed.
func (w *watch) take(ctx context.Context, name string) (*Claimed, error) {
	old := stored{}
	if s := w.of(name); s != nil {
		old = s.stored
	}
	instance, err := drawInstance(w.opts.Rand)
	if err != nil {
		return nil, err
	}
	next := &Head{Node: name, Instance: instance, Host: w.opts.Host, PID: w.opts.PID,
		ClientAddress: w.opts.ClientAddress, LinkAddress: w.opts.LinkAddress}
	if old.head != nil {
		logs, settled, err := w.contested(ctx, old.head)
		if err != nil || !settled {
			return nil, err
		}
		next.Epoch, next.Counter, next.Broadcast, next.Logs = old.head.Epoch, old.head.Counter, old.head.Broadcast, slices.Clone(logs)
		next.BroadcastLogs = slices.Clone(old.head.BroadcastLogs)
	}
	next.Epoch++
	next.Counter++
	next.Logs = append(next.Logs, LogRange{Node: name, Epoch: next.Epoch, Open: true})
	start := time.Now()
	now, swapped, err := w.swap(ctx, old, next)
	if err != nil {
		return nil, err
	}
	w.note(now)
	if !swapped {
		return nil, nil
	}
	c := &Claimed{heads: w.heads, opts: w.opts, node: name, epoch: next.Epoch, instance: instance, turn: make(chan struct{}, 1)}
	c.wrote(now, start)
	return c, nil
}

// contested gives the ranges of a dead head that are still its own, once that is settled: while another node is
// taking them over, that node either is known to have listed them, or must be unable to do it any more.
func (w *watch) contested(ctx context.Context, h *Head) (logs []LogRange, settled bool, err error) {
	if h.TakenBy == nil {
		return h.Logs, true, nil
	}
	taker, err := w.get(ctx, h.TakenBy.Node)
	if err != nil {
		return nil, false, err
	}
	if taker.head == nil {
		return h.Logs, true, nil
	}
	logs = h.without(taker.head)
	if len(logs) < len(h.Logs) || taker.head.Instance != h.TakenBy.Instance || taker.head.Released {
		return logs, true, nil
	}
	// The claim that took them may add them at any moment, unless it is dead and is ended.
	s := w.of(taker.head.Node)
	if s == nil || s.err != nil || s.etag != taker.etag || w.verdict(s) != dead {
		return nil, false, nil
	}
	next := taker.head.clone()
	next.Instance = ""
	next.Counter++
	now, swapped, err := w.swap(ctx, taker, next)
	w.note(now)
	return logs, swapped, err
}

// fenceOpen fences the open ranges of the head other than the current epoch's, and notes where they end.
func (c *Claimed) fenceOpen(ctx context.Context) error {
	fence := wal.Fence{Node: c.node, Epoch: c.epoch, Heirs: []string{c.node}}
	ends := map[wal.LogID]wal.Offset{}
	for _, r := range c.Logs() {
		if !r.Open {
			continue
		}
		end, _, err := wal.FenceLog(ctx, c.store, r.ID(), r.Start, fence)
		if err != nil {
			return err
		}
		ends[r.ID()] = end
		if err := c.heartbeatIfDue(ctx); err != nil {
			return err
		}
	}
	if len(ends) == 0 {
		return nil
	}
	return c.Update(ctx, func(h *Head) {
		for i := range h.Logs {
			if end, ok := ends[h.Logs[i].ID()]; ok {
				h.Logs[i].End, h.Logs[i].Open = end, false
			}
		}
		h.dropEmpty()
	})
}

// drawInstance gives a fresh instance id.
func drawInstance(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("draw an instance id: %w", err)
	}
	return fmt.Sprintf("%x", b), nil
}
