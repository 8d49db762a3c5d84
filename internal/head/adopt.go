package head

import (
	"context"
	"slices"
)

// adoptDead moves the ranges of all dead nodes to this one's list. It returns when no head is left of which it is
// unknown whether its node lives.
func (c *Claimed) adoptDead(ctx context.Context, w *watch) error {
	if c.opts.NoAdopt {
		return nil
	}
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		wait, progress, err := c.adoptRound(ctx, w)
		if err != nil {
			return err
		}
		if !wait && !progress {
			return nil
		}
		if err := c.heartbeatIfDue(ctx); err != nil {
			return err
		}
		if !progress {
			if err := sleep(ctx, w.pollInterval()); err != nil {
				return err
			}
		}
	}
}

// adoptRound goes through the heads once. wait: there are some to judge later; progress: something was changed.
func (c *Claimed) adoptRound(ctx context.Context, w *watch) (wait, progress bool, err error) {
	for _, k := range slices.Clone(w.order) {
		s := w.seen[k]
		if s.err != nil || s.head.Node == c.node || len(s.head.Logs) == 0 && s.head.TakenBy == nil {
			continue
		}
		switch w.verdict(s) {
		case undecided:
			wait = true
		case dead:
			did, later, err := c.adopt(ctx, w, s.stored)
			if err != nil {
				return false, false, err
			}
			progress = progress || did
			wait = wait || later
		}
	}
	return wait, progress, nil
}

// adopt takes the ranges of one dead head over. Its head is given as it was judged: if it has changed, nothing is done.
//
//  1. Mark it as taken by this claim and end its own claim. From here on its process, should it live after all, cannot
//     write the head, nor truncate a log; and nobody else adopts it while this claim lasts.
//  2. If that node had itself begun to adopt others, and lists their ranges, empty those others' heads on its behalf.
//  3. Add its ranges to our list, before our own current range: in one swap, with From saying whence. From here on
//     they are ours.
//  4. Empty its head.
//
// later: another claim, of which it is not known whether it lives, is at it.
func (c *Claimed) adopt(ctx context.Context, w *watch, dead stored) (did, later bool, err error) {
	if t := dead.head.TakenBy; t == nil || t.Instance != c.instance {
		logs, settled, err := w.contested(ctx, dead.head)
		if err != nil {
			return false, false, err
		}
		if !settled {
			taker := w.of(dead.head.TakenBy.Node)
			return false, taker != nil && taker.err == nil && w.verdict(taker) == undecided, nil
		}
		next := dead.head.clone()
		next.Logs, next.Instance = logs, ""
		next.TakenBy = &Taker{Node: c.node, Epoch: c.epoch, Instance: c.instance}
		next.Counter++
		now, swapped, err := w.swap(ctx, dead, next)
		w.note(now)
		if err != nil || !swapped {
			return !swapped, false, err
		}
		dead = now
	}
	for _, from := range sources(dead.head.Logs) {
		if err := c.finish(ctx, from, dead.head); err != nil {
			return false, false, err
		}
	}
	err = c.Update(ctx, func(h *Head) {
		at := slices.IndexFunc(h.Logs, func(r LogRange) bool { return r.Node == c.node && r.Epoch == c.epoch })
		for _, r := range dead.head.Logs {
			if !h.lists(r) {
				r.From = dead.head.Node
				h.Logs = slices.Insert(h.Logs, at, r)
				at++
			}
		}
	})
	if err != nil {
		return false, false, err
	}
	c.opts.Logger.Info("took over the logs of a dead node", "node", dead.head.Node, "epoch", dead.head.Epoch, "logs", len(dead.head.Logs))
	return true, false, c.finish(ctx, dead.head.Node, c.Head())
}

// sources gives the nodes whose heads may still list some of the ranges.
func sources(logs []LogRange) (nodes []string) {
	for _, r := range logs {
		if r.From != "" && !slices.Contains(nodes, r.From) {
			nodes = append(nodes, r.From)
		}
	}
	return nodes
}

// finishMoves ends the moves of ranges to this head that may not be over, and notes that they are. Until then no range
// may be dropped from its list.
func (c *Claimed) finishMoves(ctx context.Context) error {
	own := c.Head()
	from := sources(own.Logs)
	for _, node := range from {
		if err := c.finish(ctx, node, own); err != nil {
			return err
		}
	}
	if len(from) == 0 {
		return nil
	}
	return c.Update(ctx, func(h *Head) {
		for i := range h.Logs {
			h.Logs[i].From = ""
		}
	})
}

// finish takes the ranges that taker lists off the head of a node that says that taker is taking them. A node that
// has been claimed again meanwhile has done so itself.
func (c *Claimed) finish(ctx context.Context, node string, taker *Head) error {
	for {
		from, err := c.get(ctx, node)
		if err != nil {
			return err
		}
		if from.head == nil || from.head.TakenBy == nil || from.head.TakenBy.Node != taker.Node {
			return nil
		}
		next := from.head.clone()
		next.Logs = from.head.without(taker)
		if len(next.Logs) == len(from.head.Logs) && len(next.Logs) > 0 {
			return nil
		}
		if len(next.Logs) == 0 {
			next.TakenBy, next.Released = nil, true
		}
		next.Counter++
		if _, swapped, err := c.swap(ctx, from, next); err != nil || swapped {
			return err
		}
	}
}
