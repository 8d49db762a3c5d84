// Package node builds a server out of its parts and runs it: the store and the node's log below, the streams on them,
// the broker, and the edges that clients see. It is the only place where all of them meet.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/conn"
	"github.com/sluicemq/sluice/internal/monitor"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/sysapi"
	"github.com/sluicemq/sluice/internal/version"
)

// ErrNotStarted: the server has not been started, or has ended.
var ErrNotStarted = errors.New("node: the server is not running")

// Node is a server. New makes it, Start runs it, Shutdown ends it; it cannot be started again.
type Node struct {
	log      *slog.Logger
	registry *prometheus.Registry
	id       string
	broker   *broker.Broker
	storeURL string        // without secrets; "" when JetStream is off
	done     chan struct{} // closed when the server has ended
	endOnce  sync.Once
	ending   atomic.Bool                   // the end has begun
	decorate func(store.Store) store.Store // set by tests, which want a store that fails

	mu         sync.Mutex // guards what follows
	opts       config.Options
	directory  *account.Directory
	begun      time.Time
	configured time.Time // when the options were taken over
	clients    *conn.Server
	listener   net.Listener
	websocket  net.Listener // nil: WebSocket is off
	secured    secured
	storage    *storage // nil: JetStream is off
	monitor    *monitor.Server
	system     *sysapi.Service
	reread     func() error // see OnReload
	cause      error        // why the server ended by itself
}

// New makes a server from options; their defaults are filled in. registry takes the metrics.
func New(opts config.Options, log *slog.Logger, registry *prometheus.Registry) (*Node, error) {
	opts.SetDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	directory, err := account.NewDirectory(opts.Auth)
	if err != nil {
		return nil, err
	}
	if err := checkAccountLimits(&opts); err != nil {
		return nil, err
	}
	storeURL, err := safeStoreURL(&opts)
	if err != nil {
		return nil, err
	}
	secured, err := readSecured(&opts)
	if err != nil {
		return nil, err
	}
	id, err := serverID()
	if err != nil {
		return nil, err
	}
	return &Node{
		log: log, registry: registry, id: id, opts: opts, configured: time.Now(), directory: directory, storeURL: storeURL,
		secured: secured,
		broker:  broker.New(broker.Options{ServerName: opts.ServerName}),
		done:    make(chan struct{}),
	}, nil
}

// serverID is a new public key of the kind that names NATS servers.
func serverID() (string, error) {
	k, err := nkeys.CreateServer()
	if err != nil {
		return "", fmt.Errorf("node: drawing a server id: %w", err)
	}
	return k.PublicKey()
}

// Start opens the store, takes the node's log over, recovers its streams, and then listens. It returns once clients
// can connect. After an error nothing is left running.
func (n *Node) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			n.end(context.WithoutCancel(ctx), nil)
		}
	}()
	opts := n.options()
	if err := n.share(&opts.Auth, n.directory.Accounts()); err != nil {
		return err
	}
	listener, err := listen(&opts)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.begun, n.listener = time.Now(), listener
	secured := n.secured
	n.mu.Unlock()
	websocket, err := listenWebsocket(&opts)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.websocket = websocket
	n.mu.Unlock()
	if err := n.startMonitoring(&opts); err != nil {
		return err
	}
	if opts.JetStream.Enabled {
		st, err := openStorage(ctx, n, &opts)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.storage = st
		n.mu.Unlock()
		if err := st.serve(n); err != nil {
			return err
		}
		if err := st.startBroadcast(ctx, n, &opts.Broadcast); err != nil {
			return err
		}
	}
	if err := n.serveSystem(&opts); err != nil {
		return err
	}
	clients, err := conn.New(n.connOptions(&opts, secured))
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.clients = clients
	n.mu.Unlock()
	if listener != nil {
		go n.accept("clients", func() error { return clients.Serve(listener) })
		n.log.Info("Listening for client connections on " + listener.Addr().String())
		if secured.clients != nil && !opts.AllowNonTLS {
			n.log.Info("TLS required for client connections")
		}
	}
	if websocket != nil {
		go n.accept("WebSocket clients", func() error { return clients.ServeWebsocket(websocket) })
		n.log.Info("Listening for websocket clients on " + n.WebsocketURL())
	}
	return nil
}

// accept runs until the port is closed.
func (n *Node) accept(whom string, serve func() error) {
	if err := serve(); err != nil && !errors.Is(err, conn.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		n.log.Error("accepting "+whom, "error", err)
	}
}

// listenWebsocket takes the port of WebSocket clients; nil when there is none.
func listenWebsocket(opts *config.Options) (net.Listener, error) {
	if opts.Websocket.Port == 0 {
		return nil, nil
	}
	l, err := net.Listen("tcp", hostPort(opts.Websocket.Host, opts.Websocket.Port))
	if err != nil {
		return nil, fmt.Errorf("listening for WebSocket clients: %w", err)
	}
	return l, nil
}

// listen takes the client port before anything slow happens, so that a port that is taken is told at once.
func listen(opts *config.Options) (net.Listener, error) {
	if opts.NoListen {
		return nil, nil
	}
	l, err := net.Listen("tcp", hostPort(opts.Host, opts.Port))
	if err != nil {
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	return l, nil
}

func hostPort(host string, port int) string {
	return net.JoinHostPort(host, strconv.Itoa(max(port, 0)))
}

func (n *Node) options() config.Options {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.opts
}

// connOptions are the options of the client edge.
func (n *Node) connOptions(o *config.Options, s secured) conn.Options {
	n.mu.Lock()
	port, urls := n.portLocked(), n.connectURLsLocked(o)
	n.mu.Unlock()
	c := conn.Options{
		Broker: n.broker, Directory: n.directory, Log: n.log, Metrics: n.registry, Watcher: watcher{n},
		Trace: o.Log.Trace, MaxTraced: o.MaxTracedMsgLen,
		ServerID: n.id, ServerName: o.ServerName, Version: version.String(), GoVersion: runtime.Version(), GitCommit: version.Commit(),
		Host: o.Host, Port: port, ConnectURLs: urls, JetStream: o.JetStream.Enabled, Domain: o.JetStream.Domain,
		MaxPayload: o.MaxPayload, MaxControlLine: o.MaxControlLine, MaxPending: o.MaxPending,
		MaxConnections: o.MaxConnections, MaxSubscriptions: max(o.MaxSubscriptions, 0),
		PingInterval: o.PingInterval, MaxPingsOut: o.MaxPingsOut, WriteDeadline: o.WriteDeadline,
		MaxSubTokens: o.MaxSubTokens, NoFastProducerStall: o.NoFastProducerStall,
		NoHeaders: o.NoHeaders, MaxClosed: o.MaxClosedClients,
		LameDuckDuration: o.LameDuckDuration, LameDuckGrace: o.LameDuckGracePeriod,
	}
	c.Websocket = n.websocketOptions(o, s)
	if c.TLS = connTLS(o.TLS, s.clients); c.TLS != nil {
		c.TLS.AllowPlain = o.AllowNonTLS
	}
	if o.JetStream.Enabled {
		c.APILevel = version.APILevel
	}
	return c
}

// portLocked is the port that clients connect to. mu is held.
func (n *Node) portLocked() int {
	if n.listener != nil {
		return n.listener.Addr().(*net.TCPAddr).Port
	}
	return n.opts.Port
}

// connectURLsLocked are the addresses that clients are told. mu is held.
func (n *Node) connectURLsLocked(o *config.Options) []string {
	if o.ClientAdvertise == "" {
		return nil
	}
	host, port, err := config.SplitAdvertise(o.ClientAdvertise, n.portLocked())
	if err != nil {
		return nil // the options are valid, so there is none
	}
	return []string{net.JoinHostPort(host, strconv.Itoa(port))}
}

// Shutdown ends the server: streams are written out, the node's head is released, and connections are closed. What is
// not done when ctx ends is left to whoever takes over; nothing acknowledged is lost.
func (n *Node) Shutdown(ctx context.Context) error {
	return n.end(ctx, nil)
}

// LameDuck lets clients go, spread over the configured time, and returns when they have gone.
func (n *Node) LameDuck(ctx context.Context) error {
	n.mu.Lock()
	clients, system := n.clients, n.system
	n.mu.Unlock()
	if clients == nil {
		return ErrNotStarted
	}
	system.LameDuck()
	return clients.LameDuck(ctx)
}

// end closes everything once. cause is why the server ends by itself.
func (n *Node) end(ctx context.Context, cause error) (err error) {
	n.endOnce.Do(func() {
		n.ending.Store(true)
		n.mu.Lock()
		n.cause = cause
		clients, listener, websocket, st, mon, system := n.clients, n.listener, n.websocket, n.storage, n.monitor, n.system
		n.mu.Unlock()
		var errs []error
		if listener != nil {
			listener.Close()
		}
		if websocket != nil {
			websocket.Close()
		}
		if st != nil {
			errs = append(errs, st.close(ctx))
		}
		if system != nil {
			system.Shutdown()
		}
		if clients != nil {
			errs = append(errs, clients.Shutdown(ctx))
		}
		if system != nil {
			system.Close()
		}
		if mon != nil {
			errs = append(errs, mon.Shutdown(ctx))
		}
		close(n.done)
		err = errors.Join(errs...)
	})
	return err
}

// lost ends the server because its log is no longer its own.
func (n *Node) lost(cause error) {
	n.log.Error("The server stops: its log is lost", "error", cause)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.end(ctx, cause); err != nil {
		n.log.Error("stopping", "error", err)
	}
}

// Done is closed when the server has ended, asked to or not.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the server ended by itself; nil while it runs and after a Shutdown.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cause
}

// ClientURL is a URL that a client on this host can connect to; "" when the server does not listen.
func (n *Node) ClientURL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return localURL(n.listener, n.secured.clients != nil && !n.opts.AllowNonTLS, "nats", "tls")
}

// WebsocketURL is the same for WebSocket clients.
func (n *Node) WebsocketURL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return localURL(n.websocket, n.secured.websocket != nil, "ws", "wss")
}

// localURL is where a client on this host finds a port; "" for none.
func localURL(l net.Listener, secure bool, plain, withTLS string) string {
	if l == nil {
		return ""
	}
	scheme := plain
	if secure {
		scheme = withTLS
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// StoreURL says where the server stores, without secrets and with an absolute path; "" when JetStream is off.
func (n *Node) StoreURL() string {
	return n.storeURL
}

// InProcessConn connects a client in this process, without the network.
func (n *Node) InProcessConn() (net.Conn, error) {
	n.mu.Lock()
	clients := n.clients
	n.mu.Unlock()
	if clients == nil {
		return nil, ErrNotStarted
	}
	return clients.InProcessConn()
}

// Reload takes over the options that can change while the server runs, or nothing.
func (n *Node) Reload(opts config.Options) error {
	opts.SetDefaults()
	if err := opts.Validate(); err != nil {
		return err
	}
	n.mu.Lock()
	old, clients, st, system := n.opts, n.clients, n.storage, n.system
	n.mu.Unlock()
	if clients == nil {
		return ErrNotStarted
	}
	if _, err := config.Reloadable(&old, &opts); err != nil {
		return err
	}
	if err := checkAccountLimits(&opts); err != nil {
		return err
	}
	secured, err := readSecured(&opts)
	if err != nil {
		return err
	}
	accounts := n.directory.Accounts()
	if err := n.directory.Swap(opts.Auth); err != nil {
		return err
	}
	if err := n.share(&opts.Auth, append(accounts, n.directory.Accounts()...)); err != nil {
		return err
	}
	if err := n.attachSystem(system); err != nil {
		return err
	}
	if err := clients.Reload(n.connOptions(&opts, secured)); err != nil {
		return err
	}
	n.mu.Lock()
	n.opts, n.configured, n.secured = opts, time.Now(), secured
	n.mu.Unlock()
	if st != nil {
		st.engine.SetLimits(opts.JetStream.MaxMemory, opts.JetStream.MaxStore, engineLimits(&opts))
		return st.serve(n)
	}
	return nil
}
