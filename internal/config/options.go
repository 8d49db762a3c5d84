// Package config holds everything that a server can be told, as plain data, and reads it from a file in NATS's
// configuration syntax.
//
// Nothing is silently ignored: a setting that Sluice does not support is an error with its file, line and name, and one
// that has no effect here is a warning.
package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/logging"
)

// Options is the whole configuration of a server. The zero value, after SetDefaults, is a server on port 4222 without
// JetStream, as for nats-server.
type Options struct {
	// ServerName is the server's name for clients and the node's name in the store, where it heads the keys of its log:
	// a stable name lets a restarted server find its log at once, and two servers that share a store must differ in it.
	// SetDefaults takes NodeName.
	ServerName string
	// Tags and Metadata are only reported.
	Tags     []string
	Metadata map[string]string

	Host string // to listen on for clients; default 0.0.0.0
	Port int    // default 4222; RandomPort takes a free one
	// NoListen leaves the client port closed: only in-process connections.
	NoListen bool
	// ClientAdvertise is the "host" or "host:port" that INFO's connect_urls names in place of the addresses listened on.
	ClientAdvertise string

	// TLS of the client port, and of HTTPSPort; nil: none. AllowNonTLS lets clients without TLS in as well.
	TLS         *TLS
	AllowNonTLS bool
	Websocket   Websocket

	HTTPHost     string // of the monitoring port; default: Host
	HTTPPort     int    // 0: no monitoring; RandomPort takes a free one
	HTTPSPort    int    // the same with TLS; not both
	HTTPBasePath string // before every monitoring path; "" or "/…" without a trailing slash

	MaxConnections   int           // clients; default 65,536; negative refuses every client, as nats-server's max_connections: 0 does
	MaxSubscriptions int           // per connection; 0 and negative: no limit
	MaxSubTokens     int           // of the subject of a subscription; 0: no limit
	MaxPayload       int32         // bytes, headers included; default 1 MiB
	MaxPending       int64         // bytes queued for a connection before it is a slow consumer; default 64 MiB
	MaxControlLine   int32         // bytes; default 4 KiB
	MaxClosedClients int           // connections that /connz?state=closed remembers; default 10,000
	WriteDeadline    time.Duration // for one write to a connection; default 10 s
	PingInterval     time.Duration // default 2 min
	MaxPingsOut      int           // unanswered pings before a connection is stale; default 2
	NoHeaders        bool          // INFO says that the server takes no headers
	// NoFastProducerStall does without slowing a publisher whose subscribers are behind.
	NoFastProducerStall bool

	Auth account.Settings

	JetStream JetStream
	Store     Store
	Broadcast Broadcast

	Log logging.Options
	// TraceVerbose traces the system account as well; MaxTracedMsgLen bounds the payload bytes in a trace line (0: all).
	TraceVerbose    bool
	MaxTracedMsgLen int

	PidFile      string // where the process id is written; "" nowhere
	PortsFileDir string // where <executable>_<pid>.ports is written, the addresses listened on as JSON; "" nowhere

	// LameDuckDuration is the time over which a server in lame duck mode closes its clients, LameDuckGracePeriod the time
	// before it closes the first. Defaults 2 min and 10 s.
	LameDuckDuration, LameDuckGracePeriod time.Duration

	// ConfigFile is the file that Load read, ConfigDigest nats-server's digest of its contents ("sha256:…").
	ConfigFile, ConfigDigest string
	// ConfigWarnings are the remarks of Load, each with file and line, for the log.
	ConfigWarnings []string
}

// JetStream is the part about persistence as clients see it.
type JetStream struct {
	Enabled bool
	// StoreDir is where nats-server would keep its files. Without a Store.URL the store is a directory store there.
	StoreDir string
	// MaxMemory and MaxStore bound, in bytes, what all streams of the two storage kinds may hold. 0 is the default, no
	// bound (-1 says the same).
	MaxMemory, MaxStore int64
	Domain              string
	// UniqueTag is only reported: it keeps replicas off servers with equal tags, and here one server holds a stream while
	// the store keeps the copies.
	UniqueTag string
	// SyncInterval and SyncAlways are only reported: every acknowledged write is synced, which satisfies any setting.
	SyncInterval time.Duration
	SyncAlways   bool
	Limits       JetStreamLimits
}

// JetStreamLimits bound single streams and consumers on this server; 0 means no bound.
type JetStreamLimits struct {
	MaxAckPending   int           // of a consumer
	MaxRequestBatch int           // messages of one pull
	DuplicateWindow time.Duration // of a stream
	// DefaultMaxConsumers bounds the consumers of a stream that names no bound itself; default 1,000, negative: none.
	DefaultMaxConsumers int
	Batch               BatchLimits
}

// BatchLimits bound the batches that are open. 0: the default.
type BatchLimits struct {
	MaxInflightPerStream int           // atomic ones (50) and fast ones (1,000), each
	MaxInflightTotal     int           // of the server: atomic ones (1,000) and fast ones (50,000), each
	MaxMsgs              int           // of an atomic batch; 1,000
	Timeout              time.Duration // to the next message of a batch; 10 s
}

// Store says where durable objects go, and how the log batches writes to it.
type Store struct {
	// URL is dir:///path, s3://bucket/prefix?region=…&endpoint=…&path_style=true or mem://. Default DefaultStoreURL, or
	// the directory store at JetStream.StoreDir.
	URL string
	// CommitRate is how many log objects a second may be written in the long run, CommitBurst how many at once after a
	// pause. 0 takes the store's own default (S3: 10 and 100; dir and mem: no bound); a negative rate is no bound.
	CommitRate  float64
	CommitBurst int
	// BatchBytes is the size at which a batch is written without waiting; 0 takes the log's default, 8 MiB.
	BatchBytes int
	// Prices are what the cost in the metrics is reckoned by. nil takes S3Prices for an s3 store, and none for others.
	Prices *Prices
	// Segments says how history is kept, Cache what of it is remembered.
	Segments Segments
	Cache    Cache
}

// Segments are where the streams' history lies. 0 takes the engine's default.
type Segments struct {
	// Key encrypts new segments, in hex: 16, 24 or 32 bytes; "" does not encrypt. OldKeys open those that were written
	// with an earlier one; what was written without a key stays readable.
	Key     string
	OldKeys []string
	// ReplayBytes bounds the log that a start replays.
	ReplayBytes int64
	// Grace is how long objects that left a stream are kept for those who still read them.
	Grace time.Duration
	// DeletedWithin is how long deleted messages may stay in a segment.
	DeletedWithin time.Duration
	// Every is how often it is looked for what there is to do.
	Every time.Duration
}

// Cache is what a node remembers of segments. 0 takes the cache's default.
type Cache struct {
	Memory int64
	// Path is a folder for a cache on a disk; "" is none. Disk bounds it.
	Path string
	Disk int64
}

// Prices of a store, in US dollars. Get, Put, List and Delete are for 1,000 requests of the kind: Get is a read of a whole
// object or a range, Put a write with or without a condition, Delete one of up to 1,000 keys.
type Prices struct {
	Get, Put, List, Delete float64
	StorageGBMonth         float64 // of 10^9 bytes held for a month
}

// S3Prices are those of S3 Standard in the region us-east-1.
func S3Prices() Prices { return Prices{Get: 0.0004, Put: 0.005, List: 0.005, StorageGBMonth: 0.023} }

const (
	// RandomPort asks the system for a free port.
	RandomPort = -1
	// DefaultPort is NATS's client port.
	DefaultPort = 4222
	// DefaultStoreURL is a directory store beside where the server was started.
	DefaultStoreURL = "dir://./sluice-data"

	maxPrice = 1e6 // dollars: more is a slip of the pen

	// DefaultMaxConsumers per stream, as in nats-server.
	DefaultMaxConsumers = 1000

	defaultHost             = "0.0.0.0"
	defaultMaxConnections   = 64 << 10
	defaultMaxPayload       = 1 << 20
	defaultMaxPending       = 64 << 20
	defaultMaxControlLine   = 4 << 10
	defaultMaxClosedClients = 10_000
	defaultWriteDeadline    = 10 * time.Second
	defaultPingInterval     = 2 * time.Minute
	defaultMaxPingsOut      = 2
	defaultAuthTimeout      = 2 * time.Second
	defaultLameDuck         = 2 * time.Minute
	defaultLameDuckGrace    = 10 * time.Second
)

// SetDefaults fills in every field that is zero and has a default. Calling it again changes nothing.
func (o *Options) SetDefaults() {
	setDefault(&o.Host, defaultHost)
	setDefault(&o.Port, DefaultPort)
	setDefault(&o.ServerName, NodeName(o.Port))
	setDefault(&o.HTTPHost, o.Host)
	setDefault(&o.MaxConnections, defaultMaxConnections)
	setDefault(&o.MaxPayload, defaultMaxPayload)
	setDefault(&o.MaxPending, defaultMaxPending)
	setDefault(&o.MaxControlLine, defaultMaxControlLine)
	setDefault(&o.MaxClosedClients, defaultMaxClosedClients)
	setDefault(&o.WriteDeadline, defaultWriteDeadline)
	setDefault(&o.PingInterval, defaultPingInterval)
	setDefault(&o.MaxPingsOut, defaultMaxPingsOut)
	setDefault(&o.Auth.SystemAccount, account.SystemName)
	o.TLS.setDefaults()
	o.Websocket.setDefaults()
	if o.TLS != nil {
		setDefault(&o.Auth.Timeout, o.TLS.Timeout+time.Second)
	}
	setDefault(&o.Auth.Timeout, defaultAuthTimeout)
	setDefault(&o.LameDuckDuration, defaultLameDuck)
	setDefault(&o.LameDuckGracePeriod, defaultLameDuckGrace)
	o.JetStream.setDefaults()
	o.Store.setDefaults(o.JetStream.StoreDir)
	o.Broadcast.setDefaults()
}

func (j *JetStream) setDefaults() {
	setDefault(&j.MaxMemory, -1)
	setDefault(&j.MaxStore, -1)
	setDefault(&j.Limits.DefaultMaxConsumers, DefaultMaxConsumers)
}

func (s *Store) setDefaults(dir string) {
	if s.URL == "" && dir != "" {
		s.URL = DirURL(dir)
	}
	setDefault(&s.URL, DefaultStoreURL)
	if s.Prices == nil && strings.HasPrefix(s.URL, "s3:") {
		s.Prices = new(S3Prices())
	}
}

func (p *Prices) clone() *Prices {
	if p == nil {
		return nil
	}
	return new(*p)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Clone returns a copy that shares nothing which SetDefaults or a caller who fills in fields could change.
func (o *Options) Clone() Options {
	c := *o
	c.Tags = slices.Clone(o.Tags)
	c.Metadata = maps.Clone(o.Metadata)
	c.Auth.Accounts = slices.Clone(o.Auth.Accounts)
	c.Auth.Users = slices.Clone(o.Auth.Users)
	c.TLS = o.TLS.clone()
	c.Websocket.TLS = o.Websocket.TLS.clone()
	c.Store.Prices = o.Store.Prices.clone()
	c.ConfigWarnings = slices.Clone(o.ConfigWarnings)
	c.Broadcast = o.Broadcast.clone()
	return c
}
