package broadcast

import (
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/wal"
)

// position is how far a reader is in a node's broadcast logs: the next batch that it wants.
type position struct {
	epoch wal.Epoch
	next  wal.Offset
}

// span is a run of batches of one epoch: from ≤ offset < to.
type span struct {
	epoch    wal.Epoch
	from, to wal.Offset
}

// route says how a reader gets from its position to what a head tells.
type route struct {
	spans []span // to read, in order
	gaps  []span // deleted before they were read; to is 0 where it is not known how many
	end   position
}

func (r *route) batches() (n int) {
	for _, s := range r.spans {
		n += int(s.to - s.from)
	}
	return n
}

// endOf is the offset behind the last batch of a range that the head tells of.
func endOf(h *head.Head, r *head.LogRange) wal.Offset {
	if !r.Open {
		return r.End
	}
	if h.Broadcast != nil && h.Broadcast.Epoch == r.Epoch {
		return max(r.Start, h.Broadcast.Offset+1)
	}
	return r.Start
}

// newest is the position of a reader that wants nothing of what there is.
func newest(h *head.Head) position {
	if n := len(h.BroadcastLogs); n > 0 {
		last := &h.BroadcastLogs[n-1]
		return position{last.Epoch, endOf(h, last)}
	}
	return position{epoch: h.Epoch}
}

// plan finds the way from a position to what a head tells.
func plan(at position, h *head.Head) (r route) {
	r.end = at
	listed := false
	for i := range h.BroadcastLogs {
		l := &h.BroadcastLogs[i]
		if l.Epoch < at.epoch {
			continue
		}
		from := wal.Offset(0)
		if l.Epoch == at.epoch {
			from, listed = at.next, true
		} else if !listed && at.next > 0 {
			// The range of the position is gone: something of it may have been missed.
			r.gaps = append(r.gaps, span{epoch: at.epoch, from: at.next})
			listed = true
		}
		if from < l.Start {
			r.gaps = append(r.gaps, span{l.Epoch, from, l.Start})
			from = l.Start
		}
		to := endOf(h, l)
		if from < to {
			r.spans = append(r.spans, span{l.Epoch, from, to})
		}
		r.end = position{l.Epoch, max(from, to)}
	}
	return r
}
