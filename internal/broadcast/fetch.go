package broadcast

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/wal"
)

// flushBytes is how much is staged for subscribers before it is handed over.
const flushBytes = 256 << 10

// fetch delivers what a node's head tells of beyond a position, in order, and gives the new position.
func (p *poller) fetch(ctx context.Context, at position, h *head.Head) (position, error) {
	r := plan(at, h)
	for _, g := range r.gaps {
		p.announce(h.Node, g)
	}
	if len(r.gaps) > 0 && len(r.spans) > 0 {
		at = position{r.spans[0].epoch, r.spans[0].from}
	}
	for _, s := range r.spans {
		at = position{s.epoch, s.from}
		id := wal.LogID{Kind: wal.Broadcast, Node: h.Node, Epoch: s.epoch}
		err := wal.Replay(ctx, p.opts.Store, id, s.from, s.to, func(b *wal.Batch) error {
			p.metrics.fetches.Inc()
			if err := p.deliver(ctx, b); err != nil {
				return err
			}
			at.next = b.Offset + 1
			return nil
		})
		if err != nil {
			return at, err
		}
	}
	return r.end, nil
}

// deliver hands a batch's messages to this node's subscribers. A batch that is malformed is delivered not at all.
func (p *poller) deliver(ctx context.Context, b *wal.Batch) error {
	for rest := b.Body; len(rest) > 0; {
		var err error
		if _, _, rest, err = nextMessage(rest); err != nil {
			return err
		}
	}
	var touched []*outlet
	staged := 0
	flush := func() {
		for _, o := range touched {
			o.flush(ctx)
		}
		touched, staged = touched[:0], 0
	}
	for rest := b.Body; len(rest) > 0; {
		m, known, next, _ := nextMessage(rest)
		staged += len(rest) - len(next)
		rest = next
		var out *outlet
		if known {
			out = p.outlet(m.Account)
		}
		if out == nil {
			p.metrics.ignored.Inc()
			continue
		}
		out.deliver(m.Msg)
		p.metrics.delivered.Inc()
		if n := len(touched); n == 0 || touched[n-1] != out {
			touched = append(touched, out)
		}
		if staged >= flushBytes {
			flush()
		}
	}
	flush()
	p.metrics.lag.Observe(max(0, time.Since(b.Created).Seconds()))
	return nil
}

// Gap is the advisory that broadcasts were deleted before this node had read them. It is published in the system account
// to $SYS.SERVER.<id>.BROADCAST.GAP.
type Gap struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"timestamp"`
	Node  string    `json:"node"` // whose broadcasts
	Epoch wal.Epoch `json:"epoch"`
	// From and To are the first batch that is missing and the first that is not. To is 0 where it is not known.
	From wal.Offset `json:"from"`
	To   wal.Offset `json:"to"`
}

func (p *poller) announce(node string, g span) {
	p.metrics.gaps.Inc()
	if g.to > g.from {
		p.metrics.missing.Add(float64(g.to - g.from))
	}
	p.opts.Logger.Error("broadcasts were deleted before this node had read them; it goes on behind them",
		"node", node, "epoch", g.epoch, "from", g.from, "to", g.to, "retention", p.opts.Retention)
	p.advise("BROADCAST.GAP", Gap{Type: "io.sluice.server.advisory.v1.broadcast_gap", Time: time.Now().UTC(), Node: node, Epoch: g.epoch, From: g.from, To: g.to})
}
