package node

import (
	"errors"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/conn"
	"github.com/sluicemq/sluice/internal/monitor"
	"github.com/sluicemq/sluice/internal/sysapi"
)

var errNoFile = errors.New("can only reload config when a file is provided using -c or --config")

// OnReload sets what reads the configuration again and calls Reload, for requests of the system account. It is called
// on a goroutine of its own at any time.
func (n *Node) OnReload(reread func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reread = reread
}

// serveSystem lets the system account ask and listen.
func (n *Node) serveSystem(o *config.Options) error {
	s, err := sysapi.New(sysapi.Options{
		Broker: n.broker, Report: monitor.NewReporter(status{n}), Server: control{n}, SystemAccount: n.directory.System().Name, Logger: n.log,
		Identity: sysapi.Identity{Name: o.ServerName, Host: o.Host, ID: n.id, Domain: o.JetStream.Domain, Tags: o.Tags, Metadata: o.Metadata,
			JetStream: o.JetStream.Enabled},
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.system = s
	n.mu.Unlock()
	return n.attachSystem(s)
}

// attachSystem lets all accounts ask about themselves.
func (n *Node) attachSystem(s *sysapi.Service) error {
	var names []string
	for _, a := range n.directory.Accounts() {
		names = append(names, a.Name)
	}
	return s.Attach(names)
}

// control is what the system account can do to a node.
type control struct{ *Node }

func (c control) server() *conn.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients
}

// Kick implements sysapi.Server.
func (c control) Kick(cid uint64) bool {
	s := c.server()
	return s != nil && s.Kick(cid)
}

// TellLameDuck implements sysapi.Server.
func (c control) TellLameDuck(cid uint64) bool {
	s := c.server()
	return s != nil && s.TellLameDuck(cid)
}

// ReadConfig implements sysapi.Server.
func (c control) ReadConfig() error {
	c.mu.Lock()
	reread := c.reread
	c.mu.Unlock()
	if reread == nil {
		return errNoFile
	}
	return reread()
}

// watcher tells the system account of clients that come and go.
type watcher struct{ *Node }

var _ conn.Watcher = watcher{}

func (w watcher) events() *sysapi.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.system
}

// Connected implements conn.Watcher.
func (w watcher) Connected(account string, describe func() conn.Snapshot) {
	w.events().Connected(account, toConnLater(describe))
}

// Refused implements conn.Watcher.
func (w watcher) Refused(describe func() conn.Snapshot) { w.events().Refused(toConnLater(describe)) }

// Disconnected implements conn.Watcher.
func (w watcher) Disconnected(s *conn.Snapshot) {
	c := toConn(s)
	w.events().Disconnected(&c)
}

func toConnLater(describe func() conn.Snapshot) func() monitor.Conn {
	return func() monitor.Conn {
		s := describe()
		return toConn(&s)
	}
}
