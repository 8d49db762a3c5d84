package broadcast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/wal"
)

// headRetry is the time between two attempts to move the head.
const headRetry = time.Second

// write is the writer's goroutine: one parcel after the other goes to the log, and then the head is moved to it. What
// comes meanwhile gathers in the next parcel, so there is at most one batch and one write of the head per window.
func (s *Service) write(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p, due, ended := s.queue.take(time.Now())
		if ended {
			return
		}
		if p != nil {
			s.tell(p, s.commit(ctx, p))
			s.queue.release(p)
			continue
		}
		if due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(due))
		}
		select {
		case <-s.queue.wake:
		case <-timer.C:
		}
	}
}

// commit makes a parcel durable and visible.
func (s *Service) commit(ctx context.Context, p *parcel) outcome {
	at, err := s.append(ctx, p)
	if err == nil {
		err = s.moveHead(ctx, at)
	}
	if err != nil {
		s.metrics.lost.Add(float64(p.records))
		s.opts.Logger.Error("broadcasts are given up", "messages", p.records, "error", err)
		return outcome{err: fmt.Errorf("%w: %w", ErrUnknown, err)}
	}
	s.metrics.broadcasts.Add(float64(p.records))
	s.metrics.batches.Inc()
	s.journal.wrote(at, time.Now())
	return outcome{receipt: Receipt{Broadcast: true, Node: s.opts.Head.Node(), Epoch: s.opts.Head.Epoch(), Offset: at}}
}

// slip hears of one entry of the log.
type slip struct{ done chan *wal.Entry }

// Committed implements wal.Sink.
func (s *slip) Committed(entries []*wal.Entry) { s.done <- entries[0] }

func (s *Service) append(ctx context.Context, p *parcel) (wal.Offset, error) {
	sink := &slip{done: make(chan *wal.Entry, 1)}
	if err := s.log.Append(&wal.Entry{Data: p.body, Records: p.records, Sink: sink}); err != nil {
		return 0, err
	}
	select {
	case e := <-sink.done:
		return e.Position.Offset, e.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// moveHead lets the head tell of a batch, however long the store is away.
func (s *Service) moveHead(ctx context.Context, at wal.Offset) error {
	for {
		err := s.opts.Head.Update(ctx, func(h *head.Head) {
			h.Broadcast = &head.BroadcastBatch{Epoch: s.opts.Head.Epoch(), Offset: at}
		})
		if err == nil || errors.Is(err, head.ErrLost) || errors.Is(err, head.ErrReleased) || ctx.Err() != nil {
			return err
		}
		s.opts.Logger.Warn("the head could not be moved to a broadcast batch; trying again", "error", err)
		select {
		case <-time.After(headRetry):
		case <-ctx.Done():
		}
	}
}
