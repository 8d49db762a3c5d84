package node

import (
	"context"

	"github.com/sluicemq/sluice/internal/config"
)

// monitoring is the HTTP edge.
type monitoring struct{}

func (n *Node) startMonitoring(*config.Options) error { return nil }

func (m *monitoring) close(context.Context) error { return nil }
