package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/broadcast"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/config"
)

// ErrNoBroadcast: the server is not configured for broadcasts.
var ErrNoBroadcast = errors.New("node: broadcasts are not configured")

// startBroadcast joins the broadcasts of the nodes that share the store, if the configuration says so.
func (st *storage) startBroadcast(ctx context.Context, n *Node, o *config.Broadcast) error {
	if !o.Enabled {
		return nil
	}
	options := broadcast.Options{
		Store: st.store, Head: st.head, Subjects: o.Subjects, Compress: true,
		Space: func(name string) *broker.Space {
			if n.directory.Account(name) == nil {
				return nil
			}
			return n.broker.Space(name)
		},
		Answers: st.streamAnswers, System: n.broker.Space(n.directory.System().Name), ServerID: n.id,
		Window: o.Window, Poll: o.Poll, IdlePoll: o.IdlePoll, Retention: o.Retention,
		MaxBatch: int(o.MaxBatch), MaxPending: int(o.MaxPending),
		Registerer: n.registry, Logger: n.log,
	}
	casts, err := broadcast.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("starting broadcasts: %w", err)
	}
	n.mu.Lock()
	st.casts = casts
	n.mu.Unlock()
	return nil
}

// streamAnswers reports whether a stream acknowledges what is published to a subject.
func (st *storage) streamAnswers(account, subject string) bool {
	a := st.engine.Account(account)
	return a != nil && len(a.Streams(subject)) > 0
}

// Broadcast sends a message to the subscribers of all nodes, and returns when it is durable.
func (n *Node) Broadcast(ctx context.Context, account, subject string, data []byte) error {
	n.mu.Lock()
	var casts *broadcast.Service
	if n.storage != nil {
		casts = n.storage.casts
	}
	enabled, running := n.opts.Broadcast.Enabled, n.clients != nil && !n.ending.Load()
	n.mu.Unlock()
	switch {
	case !running:
		return ErrNotStarted
	case !enabled || casts == nil:
		return ErrNoBroadcast
	}
	_, err := casts.Broadcast(ctx, account, subject, nil, data)
	return err
}
