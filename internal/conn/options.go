// Package conn is the edge to clients: it accepts connections, speaks the NATS client protocol on them, and joins them
// to the broker.
//
// A connection is one goroutine that reads, parses and publishes, and for as long as there is something to send a
// second one that writes. An idle connection holds no buffers.
package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// Defaults of nats-server.
const (
	DefaultMaxPending       = 64 << 20
	DefaultMaxConnections   = 64 << 10
	DefaultPingInterval     = 2 * time.Minute
	DefaultMaxPingsOut      = 2
	DefaultWriteDeadline    = 10 * time.Second
	DefaultLameDuckDuration = 2 * time.Minute
	DefaultLameDuckGrace    = 10 * time.Second
	DefaultMaxClosed        = 10_000
)

// Options configure a Server. Broker, Directory, ServerID and ServerName must be set; a zero value elsewhere is the
// default.
type Options struct {
	Broker    *broker.Broker
	Directory *account.Directory
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil: none
	Watcher   Watcher               // nil: none
	Trace     bool                  // log every operation, at LevelTrace
	MaxTraced int                   // bytes of header and payload that the trace shows of a message; 0: all

	ServerID   string // INFO server_id
	ServerName string
	Version    string // Sluice's own
	GoVersion  string
	GitCommit  string
	XKey       string
	Host       string // INFO host and port
	Port       int
	JetStream  bool
	Domain     string // JetStream domain
	APILevel   int    // of JetStream
	// ConnectURLs are "host:port" of all nodes that a client may connect to.
	ConnectURLs []string

	TLS       *TLSOptions       // of the connections that Serve accepts; nil: none
	Websocket *WebsocketOptions // of those that ServeWebsocket accepts; nil: none of them

	MaxPayload       int32         // bytes; 1 MiB
	MaxControlLine   int32         // bytes; 4096
	MaxPending       int64         // bytes waiting to be written to one client; 64 MiB
	MaxConnections   int           // 65,536; negative: none at all
	MaxSubscriptions int           // per connection; 0: no limit
	MaxSubTokens     int           // tokens of a subscription's subject; 0: no limit
	PingInterval     time.Duration // 2 min
	MaxPingsOut      int           // unanswered pings before a connection counts as stale; 2
	WriteDeadline    time.Duration // for one write; 10 s
	NoHeaders        bool
	// NoFastProducerStall does without waiting for a receiver that is behind: it gets no messages of other clients until
	// it has caught up, as in nats-server.
	NoFastProducerStall bool
	// LongFirstPing waits the whole ping interval before the first ping too.
	LongFirstPing bool
	MaxClosed     int // closed connections to remember; 10,000; negative: none

	LameDuckDuration time.Duration // within which clients are closed; 2 min
	LameDuckGrace    time.Duration // before the first is closed; 10 s
}

func (o *Options) setDefaults() {
	def(&o.MaxPayload, proto.DefaultMaxPayload)
	def(&o.MaxControlLine, proto.DefaultMaxControlLine)
	def(&o.MaxPending, DefaultMaxPending)
	def(&o.MaxConnections, DefaultMaxConnections)
	def(&o.PingInterval, DefaultPingInterval)
	def(&o.MaxPingsOut, DefaultMaxPingsOut)
	def(&o.WriteDeadline, DefaultWriteDeadline)
	def(&o.LameDuckDuration, DefaultLameDuckDuration)
	def(&o.LameDuckGrace, DefaultLameDuckGrace)
	def(&o.MaxClosed, DefaultMaxClosed)
	def(&o.GoVersion, runtime.Version())
	if o.TLS != nil {
		def(&o.TLS.Timeout, DefaultTLSTimeout)
	}
	if o.Websocket != nil {
		def(&o.Websocket.HandshakeTimeout, DefaultWebsocketHandshake)
	}
	if o.Watcher == nil {
		o.Watcher = unwatched{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate reports every fault.
func (o *Options) Validate() error {
	var errs []error
	if o.Broker == nil {
		errs = append(errs, errors.New("no broker"))
	}
	if o.Directory == nil {
		errs = append(errs, errors.New("no account directory"))
	}
	if o.ServerID == "" || o.ServerName == "" {
		errs = append(errs, errors.New("server id and name must be set"))
	}
	if o.TLS != nil && o.TLS.Config == nil || o.Websocket != nil && o.Websocket.TLS != nil && o.Websocket.TLS.Config == nil {
		errs = append(errs, errors.New("TLS options without a configuration"))
	}
	if o.MaxPayload < 0 {
		errs = append(errs, fmt.Errorf("max_payload %d is negative", o.MaxPayload))
	}
	if int64(o.MaxPayload) > o.MaxPending && o.MaxPending != 0 {
		errs = append(errs, fmt.Errorf("max_payload %d is above max_pending %d", o.MaxPayload, o.MaxPending))
	}
	if o.MaxControlLine < 0 {
		errs = append(errs, fmt.Errorf("max_control_line %d is negative", o.MaxControlLine))
	}
	for name, d := range map[string]time.Duration{
		"ping_interval": o.PingInterval, "write_deadline": o.WriteDeadline,
		"lame_duck_duration": o.LameDuckDuration, "lame_duck_grace_period": o.LameDuckGrace,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s %v is negative", name, d))
		}
	}
	return errors.Join(errs...)
}
