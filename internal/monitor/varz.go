package monitor

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/version"
)

// Varz is the answer of /varz: the general state of the server. The names are nats-server's, and fields that are about
// features which Sluice does not have are there as nats-server shows them when they are off.
type Varz struct {
	ID          string `json:"server_id"`
	Name        string `json:"server_name"`
	Version     string `json:"version"` // the NATS version that the server is compatible with
	Sluice      string `json:"sluice_version"`
	Proto       int    `json:"proto"`
	GitCommit   string `json:"git_commit,omitempty"`
	GoVersion   string `json:"go"`
	Host        string `json:"host"`
	Port        int    `json:"port"` // that is listened on
	AuthNeeded  bool   `json:"auth_required,omitempty"`
	TLSRequired bool   `json:"tls_required,omitempty"`
	TLSVerify   bool   `json:"tls_verify,omitempty"`

	ConnectURLs []string `json:"connect_urls,omitempty"`

	MaxConnections   int           `json:"max_connections"`
	MaxSubscriptions int           `json:"max_subscriptions,omitempty"`
	PingInterval     time.Duration `json:"ping_interval"` // ns
	MaxPingsOut      int           `json:"ping_max"`
	HTTPHost         string        `json:"http_host"`
	HTTPPort         int           `json:"http_port"`
	HTTPBasePath     string        `json:"http_base_path"`
	HTTPSPort        int           `json:"https_port"`
	AuthTimeout      float64       `json:"auth_timeout"` // s
	MaxControlLine   int32         `json:"max_control_line"`
	MaxPayload       int32         `json:"max_payload"`
	MaxPending       int64         `json:"max_pending"`

	Cluster   struct{}      `json:"cluster"`
	Gateway   struct{}      `json:"gateway"`
	Leaf      struct{}      `json:"leaf"`
	MQTT      struct{}      `json:"mqtt"`
	Websocket WebsocketVarz `json:"websocket"`

	JetStream JetStreamVarz `json:"jetstream"`
	Storage   *StorageVarz  `json:"sluice_storage,omitempty"`

	TLSTimeout    float64       `json:"tls_timeout"`    // s
	WriteDeadline time.Duration `json:"write_deadline"` // ns

	Start    time.Time `json:"start"`
	Now      time.Time `json:"now"`
	Uptime   string    `json:"uptime"`
	Mem      int64     `json:"mem"` // resident bytes
	Cores    int       `json:"cores"`
	MaxProcs int       `json:"gomaxprocs"`
	MemLimit int64     `json:"gomemlimit,omitempty"`
	CPU      float64   `json:"cpu"` // percent of one core

	Connections      int    `json:"connections"`
	TotalConnections uint64 `json:"total_connections"`
	Routes           int    `json:"routes"`
	Remotes          int    `json:"remotes"`
	LeafNodes        int    `json:"leafnodes"`

	InMsgs         int64 `json:"in_msgs"`
	InBytes        int64 `json:"in_bytes"`
	InClientMsgs   int64 `json:"in_client_msgs"`
	InClientBytes  int64 `json:"in_client_bytes"`
	OutMsgs        int64 `json:"out_msgs"`
	OutBytes       int64 `json:"out_bytes"`
	OutClientMsgs  int64 `json:"out_client_msgs"`
	OutClientBytes int64 `json:"out_client_bytes"`

	SlowConsumers    int64  `json:"slow_consumers"`
	StaleConnections int64  `json:"stale_connections"`
	StalledClients   int64  `json:"stalled_clients"` // times that a publisher was slowed
	Subscriptions    uint32 `json:"subscriptions"`

	HTTPRequests   map[string]uint64 `json:"http_req_stats"`
	ConfigLoadTime time.Time         `json:"config_load_time"`
	ConfigDigest   string            `json:"config_digest"`
	Tags           []string          `json:"tags,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	SystemAccount  string            `json:"system_account,omitempty"`
	// TLSCertNotAfter is when the certificate of the client port ends.
	TLSCertNotAfter time.Time `json:"tls_cert_not_after,omitzero"`

	SlowConsumerStats    ByKind `json:"slow_consumer_stats"`
	StaleConnectionStats ByKind `json:"stale_connection_stats"`
}

// WebsocketVarz is what the options say of the WebSocket port; all zero while there is none.
type WebsocketVarz struct {
	Host             string        `json:"host,omitempty"`
	Port             int           `json:"port,omitempty"` // that is listened on
	Advertise        string        `json:"advertise,omitempty"`
	NoAuthUser       string        `json:"no_auth_user,omitempty"`
	HandshakeTimeout time.Duration `json:"handshake_timeout,omitempty"` // ns
	AuthTimeout      float64       `json:"auth_timeout,omitempty"`      // s
	NoTLS            bool          `json:"no_tls,omitempty"`
	TLSMap           bool          `json:"tls_map,omitempty"`
	TLSPinnedCerts   []string      `json:"tls_pinned_certs,omitempty"`
	SameOrigin       bool          `json:"same_origin,omitempty"`
	AllowedOrigins   []string      `json:"allowed_origins,omitempty"`
	Compression      bool          `json:"compression,omitempty"`
	TLSCertNotAfter  time.Time     `json:"tls_cert_not_after,omitzero"`
}

func configWebsocket(o *config.Options) (v WebsocketVarz) {
	w, a := &o.Websocket, &o.Auth.Websocket
	if w.Port == 0 {
		return v
	}
	v = WebsocketVarz{Host: w.Host, Port: w.Port, Advertise: w.Advertise, NoAuthUser: a.NoAuthUser, HandshakeTimeout: w.HandshakeTimeout,
		AuthTimeout: a.Timeout.Seconds(), NoTLS: w.NoTLS, SameOrigin: w.SameOrigin, AllowedOrigins: w.AllowedOrigins, Compression: w.Compression}
	if w.TLS != nil {
		v.TLSMap, v.TLSPinnedCerts = w.TLS.Map, w.TLS.PinnedCerts
	}
	return v
}

// ByKind counts connections by their kind; all but clients are always 0.
type ByKind struct {
	Clients  uint64 `json:"clients"`
	Routes   uint64 `json:"routes"`
	Gateways uint64 `json:"gateways"`
	Leafs    uint64 `json:"leafs"`
}

// JetStreamVarz is JetStream's part of /varz; all nil while it is off.
type JetStreamVarz struct {
	Config *JetStreamConfig `json:"config,omitempty"`
	Stats  *JetStreamStats  `json:"stats,omitempty"`
	Limits *JetStreamLimits `json:"limits,omitempty"`
}

// StorageVarz tells of what JetStream stands on here and nowhere else: the store, and the node's place and log in it. Nil
// while JetStream is off or not open yet.
type StorageVarz struct {
	URL   string `json:"url"`  // of the store, without secrets
	Node  string `json:"node"` // the name that heads the keys of the log
	Epoch uint64 `json:"epoch"`
	// HeadAge is the time since the node last showed in the store that it lives, in ns.
	HeadAge time.Duration `json:"head_age"`
	// PendingBytes are accepted and not in the store yet.
	PendingBytes int64 `json:"log_pending_bytes"`
	// Stalled is for how long the store has failed to take the oldest part of the log, in ns; 0 when all is well.
	Stalled time.Duration `json:"log_stalled"`
}

// ConfigVarz returns a Varz with all that the options say. The source adds what they cannot know: the id, the ports and
// URLs that are listened on, the times of the start and of the last configuration, whether clients must authenticate,
// JetStream's statistics, and the counters.
func ConfigVarz(o *config.Options) *Varz {
	v := &Varz{
		Name: o.ServerName, Host: o.Host, Port: o.Port,
		MaxConnections: o.MaxConnections, MaxSubscriptions: max(o.MaxSubscriptions, 0),
		PingInterval: o.PingInterval, MaxPingsOut: o.MaxPingsOut,
		HTTPHost: o.HTTPHost, HTTPPort: o.HTTPPort, HTTPBasePath: o.HTTPBasePath,
		AuthTimeout: o.Auth.Timeout.Seconds(), MaxControlLine: o.MaxControlLine, MaxPayload: o.MaxPayload, MaxPending: o.MaxPending,
		TLSTimeout: 2, WriteDeadline: o.WriteDeadline,
		ConfigDigest: o.ConfigDigest, Tags: o.Tags, Metadata: o.Metadata, SystemAccount: o.Auth.SystemAccount,
	}
	v.Websocket = configWebsocket(o)
	if o.TLS != nil {
		v.TLSTimeout = o.TLS.Timeout.Seconds()
	}
	if o.JetStream.Enabled {
		v.JetStream.Config = ConfigJetStream(o)
		v.JetStream.Limits = ConfigJetStreamLimits(o)
	}
	return v
}

func (h *Handler) varz(w http.ResponseWriter, r *http.Request) {
	v := h.Varz()
	v.HTTPRequests = h.requestCounts()
	h.answer(w, r, v)
}

// Varz reports on the server as a whole. HTTPRequests is left empty.
func (r *Reporter) Varz() *Varz {
	v := r.source.Varz()
	v.ID = r.source.ServerID()
	v.Version, v.Sluice, v.GitCommit, v.GoVersion, v.Proto = version.NATS, version.String(), version.Commit(), runtime.Version(), 1
	v.Now = r.now().UTC()
	v.Start, v.ConfigLoadTime = v.Start.UTC(), v.ConfigLoadTime.UTC()
	v.Uptime = uptime(v.Now.Sub(v.Start))
	v.Cores, v.MaxProcs = runtime.NumCPU(), runtime.GOMAXPROCS(0)
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		v.MemLimit = limit
	}
	v.Mem, v.CPU = residentBytes(), r.cpu.percent(v.Now)
	v.SlowConsumerStats = ByKind{Clients: uint64(max(v.SlowConsumers, 0))}
	v.StaleConnectionStats = ByKind{Clients: uint64(max(v.StaleConnections, 0))}
	v.HTTPRequests = map[string]uint64{}
	return v
}

// uptime is nats-server's short form of a duration, such as 1y2d3h4m5s, in whole seconds.
func uptime(d time.Duration) string {
	s := int64(d / time.Second)
	m, hours, days, years := s/60, s/3600, s/86400, s/86400/365
	switch {
	case years > 0:
		return fmt.Sprintf("%dy%dd%dh%dm%ds", years, days%365, hours%24, m%60, s%60)
	case days > 0:
		return fmt.Sprintf("%dd%dh%dm%ds", days, hours%24, m%60, s%60)
	case hours > 0:
		return fmt.Sprintf("%dh%dm%ds", hours, m%60, s%60)
	case m > 0:
		return fmt.Sprintf("%dm%ds", m, s%60)
	default:
		return fmt.Sprintf("%ds", s)
	}
}
