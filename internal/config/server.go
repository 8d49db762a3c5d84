package config

import (
	"math"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// The reasons for refusing what nats-server knows.
const (
	noCluster  = "this version runs alone"
	noOCSP     = "this version neither staples nor asks for OCSP responses"
	noOperator = "accounts and users come from this file, not from an operator's JWTs"
	noSyslog   = "log to standard error or to log_file"
	noProfile  = "there is no profiling port"
)

// serverSettings is the table of the settings outside any block.
func (d *decoder) serverSettings(o *Options) settings {
	s := settings{}
	s.add(d.text(&o.ServerName), "server_name")
	s.add(d.texts(&o.Tags), "server_tags")
	s.add(d.metadata(&o.Metadata), "server_metadata")
	d.networkSettings(s, o)
	d.limitSettings(s, o)
	d.logSettings(s, o)

	s.add(func(v value) { d.authorization(v, &o.Auth) }, "authorization")
	s.add(func(v value) { d.accounts(v, &o.Auth) }, "accounts")
	s.add(d.text(&o.Auth.SystemAccount), "system_account", "system")
	s.add(d.text(&o.Auth.NoAuthUser), "no_auth_user")

	s.add(func(v value) { d.jetStream(v, o) }, "jetstream")
	s.add(d.text(&o.JetStream.StoreDir), "store_dir", "storedir")
	s.add(func(v value) { d.store(v, &o.Store) }, "store")
	s.add(func(v value) { d.broadcast(v, &o.Broadcast) }, "broadcast")

	s.inert(d, "there are no routes, gateways or leaf nodes to report on", "connect_error_reports", "reconnect_error_reports")
	s.inert(d, "there is no cache to turn off", "disable_sublist_cache", "no_sublist_cache")
	d.refusals(s)
	return s
}

func (d *decoder) networkSettings(s settings, o *Options) {
	s.add(d.listen(&o.Host, &o.Port, "host", "port"), "listen")
	s.add(d.text(&o.Host), "host", "net")
	s.add(d.port(&o.Port), "port")
	s.add(d.text(&o.ClientAdvertise), "client_advertise")
	s.add(d.listen(&o.HTTPHost, &o.HTTPPort, "http_host", "http_port"), "http")
	s.add(d.port(&o.HTTPPort), "http_port", "monitor_port")
	s.add(d.listen(&o.HTTPHost, &o.HTTPSPort, "http_host", "https_port"), "https")
	s.add(d.port(&o.HTTPSPort), "https_port")
	s.add(d.tls(&o.TLS), "tls")
	s.add(d.flag(&o.AllowNonTLS), "allow_non_tls")
	s.add(func(v value) { d.websocket(v, o) }, "websocket", "ws")
	s.add(func(v value) {
		if path, ok := d.asText(v); ok {
			o.HTTPBasePath = BasePath(path)
		}
	}, "http_base_path")
	s.add(d.writeTimeout, "write_timeout")
}

func (d *decoder) limitSettings(s settings, o *Options) {
	s.add(func(v value) {
		number(d, &o.MaxConnections, math.MinInt32, math.MaxInt32)(v)
		if v.v == int64(0) {
			o.MaxConnections = -1 // so does nats-server read it: no client at all
		}
	}, "max_connections", "max_conn")
	s.add(number(d, &o.MaxSubscriptions, -1, math.MaxInt32), "max_subscriptions", "max_subs")
	s.add(number(d, &o.MaxSubTokens, 1, math.MaxUint8), "max_sub_tokens", "max_subscription_tokens")
	s.add(number(d, &o.MaxPayload, 0, math.MaxInt32), "max_payload")
	s.add(number(d, &o.MaxPending, 0, math.MaxInt64), "max_pending")
	s.add(number(d, &o.MaxControlLine, 0, math.MaxInt32), "max_control_line")
	s.add(number(d, &o.MaxClosedClients, 0, 1_000_000), "max_closed_clients")
	s.add(number(d, &o.MaxPingsOut, 0, math.MaxInt32), "ping_max")
	s.add(d.durationOrSeconds(&o.PingInterval), "ping_interval")
	s.add(d.durationOrSeconds(&o.WriteDeadline), "write_deadline")
	s.add(d.flag(&o.NoHeaders), "no_header_support")
	s.add(d.flag(&o.NoFastProducerStall), "no_fast_producer_stall")
	s.add(d.durationAtLeast(&o.LameDuckDuration, 30*time.Second), "lame_duck_duration")
	s.add(d.durationAtLeast(&o.LameDuckGracePeriod, 0), "lame_duck_grace_period")
}

func (d *decoder) logSettings(s settings, o *Options) {
	s.add(d.flag(&o.Log.Debug), "debug")
	s.add(d.flag(&o.Log.Trace), "trace")
	s.add(func(v value) {
		if on, ok := d.asBool(v); ok {
			o.TraceVerbose, o.Log.Trace = on, on || o.Log.Trace
		}
	}, "trace_verbose")
	s.add(func(v value) {
		if on, ok := d.asBool(v); ok {
			o.Log.NoTime = !on
		}
	}, "logtime")
	s.add(d.flag(&o.Log.UTC), "logtime_utc")
	s.add(d.text(&o.Log.File), "log_file", "logfile")
	s.add(number(d, &o.Log.SizeLimit, 0, math.MaxInt64), "log_size_limit", "logfile_size_limit")
	s.add(number(d, &o.Log.MaxFiles, 0, math.MaxInt32), "log_max_num", "logfile_max_num")
	s.add(number(d, &o.MaxTracedMsgLen, 0, math.MaxInt32), "max_traced_msg_len")
	s.add(func(v value) { o.Auth.Mappings = d.mappings(v) }, "mappings", "maps")
	s.add(d.text(&o.PidFile), "pid_file", "pidfile")
	s.add(d.text(&o.PortsFileDir), "ports_file_dir")
}

// refusals names every setting of nats-server that is not supported, so that the message can say why.
func (d *decoder) refusals(s settings) {
	s.refuse(d, noCluster, "cluster", "gateway", "leaf", "leafnodes")
	s.refuse(d, "this version speaks the NATS protocol only", "mqtt")
	s.refuse(d, noOCSP, "ocsp", "ocsp_cache")
	s.refuse(d, noOperator, "operator", "operators", "root", "roots", "root_operator", "root_operators", "resolver",
		"account_resolver", "accounts_resolver", "resolver_tls", "resolver_preload", "resolver_pinned_accounts", "trusted",
		"trusted_keys", "default_sentinel")
	s.refuse(d, noSyslog, "syslog", "remote_syslog")
	s.refuse(d, noProfile, "prof_port", "prof_block_rate")
	s.refuse(d, "traces show messages whole", "trace_headers")
	s.refuse(d, "there is always a system account", "no_system_account", "no_system", "no_sys_acc")
	s.refuse(d, "proxies are not told from other clients", "proxies", "proxy_protocol")
	s.refuse(d, "there are no features to switch", "feature_flags")
	s.refuse(d, "an account uses this server's JetStream domain", "default_js_domain")
}

// metadata reads names and their texts; the names keep their case.
func (d *decoder) metadata(field *map[string]string) setter {
	return func(v value) {
		members, _ := d.members(v)
		for _, m := range members {
			if s, ok := d.asText(m.value); ok {
				if *field == nil {
					*field = map[string]string{}
				}
				(*field)[m.key] = s
			}
		}
	}
}

func (d *decoder) durationAtLeast(field *time.Duration, least time.Duration) setter {
	return func(v value) {
		dur, ok := d.asDuration(v)
		switch {
		case ok && dur < least:
			d.fault(v, "%v is too short; at least %v", dur, least)
		case ok:
			*field = dur
		}
	}
}

// writeTimeout accepts what Sluice does with a client that does not take its data: it closes the connection.
func (d *decoder) writeTimeout(v value) {
	s, ok := d.asText(v)
	switch {
	case !ok, s == "default", s == "close":
	case s == "retry":
		d.fault(v, `not supported: "retry"; a client that misses write_deadline is closed`)
	default:
		d.fault(v, `expected "default" or "close", got %q`, s)
	}
}

// defaultAccountLimits are those of an account whose JetStream is on without any.
func defaultAccountLimits() *account.JetStreamLimits {
	return &account.JetStreamLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
		MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}
}
