package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/node"
)

// newNode makes the server that this command runs.
func newNode(o config.Options, log *slog.Logger, registry *prometheus.Registry) (server, error) {
	return node.New(o, log, registry)
}
