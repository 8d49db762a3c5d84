package node

import (
	"context"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/monitor"
)

// startMonitoring opens the HTTP edge. It is there before the store is opened, so that a start that takes its time can
// be watched.
func (n *Node) startMonitoring(opts *config.Options) error {
	port := opts.HTTPPort
	if opts.HTTPSPort != 0 {
		port = opts.HTTPSPort
	}
	if port == 0 {
		return nil
	}
	handler, err := monitor.NewHandler(monitor.Options{Source: status{n}, BasePath: opts.HTTPBasePath, Gatherer: n.registry, Logger: n.log})
	if err != nil {
		return err
	}
	server, err := monitor.Listen(context.Background(), opts.HTTPHost, port, n.monitorTLS(opts), handler, n.log)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.monitor = server
	n.mu.Unlock()
	return nil
}

// MonitorURL is where a client on this host finds the monitoring endpoints, with their base path; "" when there are
// none.
func (n *Node) MonitorURL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.monitor == nil {
		return ""
	}
	return n.monitor.URL() + n.opts.HTTPBasePath
}
