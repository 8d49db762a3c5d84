// Package sluice is a NATS server to embed: core NATS and JetStream for every NATS client, with an object store as its
// only durable dependency. Start the same program again with the same store, and it continues where the last one
// stopped.
//
//	srv, err := sluice.New(sluice.Options{Store: "dir:///var/lib/app", Port: sluice.NoPort})
//	if err != nil { … }
//	if err := srv.Start(ctx); err != nil { … }
//	defer srv.Shutdown(context.Background())
//	nc, err := nats.Connect("", nats.InProcessServer(srv))
package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/node"
)

const (
	// RandomPort, as a port, takes a free one.
	RandomPort = -1
	// NoPort, as Options.Port, opens no port: clients connect in-process only.
	NoPort = -2
)

// Options configure a Server. The zero value is a server with JetStream that listens on port 4222 of all interfaces and
// stores in ./sluice-data.
type Options struct {
	// Name of the server, and of its log in the store: two servers that share a store must differ in it. Empty is the
	// host's name.
	Name string
	// Host and Port to listen on; "" is all interfaces, 0 is 4222. See RandomPort and NoPort.
	Host string
	Port int
	// Store says where durable objects go: dir:///path, s3://bucket/prefix?region=…&endpoint=…&path_style=true, or
	// mem:// for tests. Empty is the folder ./sluice-data.
	Store string
	// NoJetStream serves core NATS alone and touches no store.
	NoJetStream bool
	// Broadcast has messages reach the subscribers of all servers that share the store; nil: as ConfigFile says.
	Broadcast *BroadcastOptions
	// Username and Password, or Token, that clients must present; empty: none.
	Username, Password, Token string
	// TLSConfig has clients connect with TLS; nil: as ConfigFile says. It is not changed, and those connecting in-process
	// may do without.
	TLSConfig *tls.Config
	// HTTPPort serves /healthz, /varz, /metrics and so on; 0: not.
	HTTPPort int
	// ConfigFile is read first, in the syntax of NATS; fields that are set here win over it.
	ConfigFile string
	// Logger hears what happens; nil: nobody. Nothing is logged per message.
	Logger *slog.Logger
	// Registry takes the server's metrics; nil: a registry of its own. Servers in one program need one each.
	Registry *prometheus.Registry
}

// BroadcastOptions configure broadcasts. The zero value hears what other servers broadcast, and lets Server.Broadcast be
// used.
type BroadcastOptions struct {
	// Subjects are broadcast when a client of the default account publishes to them. They do not overlap.
	Subjects []string
	// Window is how long broadcasts gather before they are written; 0: 100 ms.
	Window time.Duration
	// Poll is the time between two looks for others' broadcasts, 0: 250 ms. Without news it grows to IdlePoll, 0: 2 s.
	Poll, IdlePoll time.Duration
	// Retention is how long broadcasts are kept for servers that are behind; 0: 1 h.
	Retention time.Duration
}

// Server is a NATS server in this program.
type Server struct {
	node *node.Node
}

// New makes a server; Start runs it. The error names every fault of the options.
func New(opts Options) (*Server, error) {
	o, err := opts.config()
	if err != nil {
		return nil, fmt.Errorf("sluice: %w", err)
	}
	n, err := node.New(o, opts.Logger, opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("sluice: %w", err)
	}
	return &Server{node: n}, nil
}

// config is the whole configuration that the options stand for.
func (o *Options) config() (c config.Options, err error) {
	if o.ConfigFile != "" {
		if c, err = config.Load(o.ConfigFile); err != nil {
			return c, err
		}
	} else {
		c.JetStream.Enabled = true
	}
	if o.NoJetStream {
		c.JetStream.Enabled = false
	}
	if o.Token != "" && o.Username != "" {
		return c, errors.New("either a token or a user name, not both")
	}
	set(&c.ServerName, o.Name)
	set(&c.Host, o.Host)
	set(&c.Store.URL, o.Store)
	set(&c.HTTPPort, o.HTTPPort)
	set(&c.Auth.Username, o.Username)
	set(&c.Auth.Password, o.Password)
	set(&c.Auth.Token, o.Token)
	if b := o.Broadcast; b != nil {
		c.Broadcast.Enabled = true
		if len(b.Subjects) > 0 {
			if c.Broadcast.Subjects == nil {
				c.Broadcast.Subjects = map[string][]string{}
			}
			c.Broadcast.Subjects[account.DefaultName] = slices.Clone(b.Subjects)
		}
		set(&c.Broadcast.Window, b.Window)
		set(&c.Broadcast.Poll, b.Poll)
		set(&c.Broadcast.IdlePoll, b.IdlePoll)
		set(&c.Broadcast.Retention, b.Retention)
	}
	if o.TLSConfig != nil {
		c.TLS = &config.TLS{Given: o.TLSConfig}
	}
	if o.Port == NoPort {
		c.NoListen = true
	} else {
		set(&c.Port, o.Port)
	}
	return c, nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// Start opens the store, continues the work that its log holds, and listens. It returns once clients can connect;
// cancelling ctx gives up. After an error nothing is left running.
func (s *Server) Start(ctx context.Context) error { return s.node.Start(ctx) }

// Shutdown ends the server: streams are written out, the node's place in the store is released, connections are
// closed. When ctx ends before that is done, the rest is left to the next start; nothing acknowledged is lost.
func (s *Server) Shutdown(ctx context.Context) error { return s.node.Shutdown(ctx) }

// Done is closed when the server has ended: by Shutdown, or by itself because another process took its log over. Err
// then tells why.
func (s *Server) Done() <-chan struct{} { return s.node.Done() }

// Err is why the server ended by itself; nil while it runs and after Shutdown.
func (s *Server) Err() error { return s.node.Err() }

// Broadcast sends a message to the subscribers of all servers that share the store, in the default account, and returns
// when it is durable: this server's subscribers have it then, the others' get it when their server next looks, if it has
// Options.Broadcast too. The subject need not be among the configured ones. When ctx ends before, the message may be
// broadcast all the same.
func (s *Server) Broadcast(ctx context.Context, subject string, data []byte) error {
	return s.node.Broadcast(ctx, account.DefaultName, subject, data)
}

// ClientURL is a URL that clients on this host can connect to; "" when the server opens no port.
func (s *Server) ClientURL() string { return s.node.ClientURL() }

// InProcessConn connects a client without the network. It is what nats.InProcessServer asks of a server.
func (s *Server) InProcessConn() (net.Conn, error) { return s.node.InProcessConn() }
