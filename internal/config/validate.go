package config

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// largePayload is above what NATS advises.
const largePayload = 8 << 20

// Validate reports every fault of options that have their defaults; see Faults.
func (o *Options) Validate() error { return joinFaults(o.faults()) }

// validator gathers the faults of complete options.
type validator struct{ found []*Fault }

// check records a fault unless ok.
func (v *validator) check(ok bool, setting, format string, args ...any) {
	if !ok {
		v.found = append(v.found, &Fault{Setting: setting, Reason: fmt.Sprintf(format, args...)})
	}
}

func (o *Options) faults() []*Fault {
	v := &validator{}
	v.network(o)
	v.limits(o)
	v.jetStream(&o.JetStream)
	v.store(&o.Store)
	v.broadcast(o)
	v.identity(&o.Auth)
	return v.found
}

func (v *validator) network(o *Options) {
	v.check(!strings.ContainsAny(o.ServerName, " \t\r\n"), "server_name", "a server name cannot contain spaces")
	v.check(len(o.ServerName) <= maxNodeName, "server_name", "a server name has at most %d bytes", maxNodeName)
	v.check(validPort(o.Port), "port", "%d is no port", o.Port)
	v.check(validPort(o.HTTPPort), "http_port", "%d is no port", o.HTTPPort)
	v.check(o.HTTPPort <= 0 || o.HTTPPort != o.Port || o.NoListen, "http_port", "clients are listened for on port %d too", o.Port)
	v.check(validPort(o.HTTPSPort), "https_port", "%d is no port", o.HTTPSPort)
	v.check(o.HTTPPort == 0 || o.HTTPSPort == 0, "https_port", "can't specify both HTTP (%v) and HTTPs (%v) ports", o.HTTPPort, o.HTTPSPort)
	v.check(o.HTTPSPort == 0 || o.TLS != nil, "https_port", "TLS cert and key required for HTTPS")
	v.tls(o.TLS, "tls")
	v.websocket(o)
	v.check(o.HTTPBasePath == BasePath(o.HTTPBasePath), "http_base_path", "%q is no clean path", o.HTTPBasePath)
	if o.ClientAdvertise != "" {
		_, _, err := SplitAdvertise(o.ClientAdvertise, o.Port)
		v.check(err == nil, "client_advertise", "%v", err)
	}
}

func (v *validator) tls(t *TLS, setting string) {
	if t != nil {
		for _, reason := range t.faults() {
			v.check(false, setting, "%s", reason)
		}
	}
}

func validPort(p int) bool { return p >= RandomPort && p <= math.MaxUint16 }

func (v *validator) limits(o *Options) {
	v.check(o.MaxPayload > 0, "max_payload", "%d bytes leave no room for a message", o.MaxPayload)
	v.check(int64(o.MaxPayload) <= o.MaxPending, "max_payload", "%d cannot be higher than max_pending, %d", o.MaxPayload, o.MaxPending)
	v.check(o.MaxControlLine > 0, "max_control_line", "%d bytes leave no room for a line", o.MaxControlLine)
	v.check(o.MaxClosedClients >= 0, "max_closed_clients", "%d is negative", o.MaxClosedClients)
	v.check(o.MaxPingsOut > 0, "ping_max", "%d is not positive", o.MaxPingsOut)
	v.check(o.PingInterval > 0, "ping_interval", "%v is not positive", o.PingInterval)
	v.check(o.WriteDeadline > 0, "write_deadline", "%v is not positive", o.WriteDeadline)
	v.check(o.LameDuckDuration > 0, "lame_duck_duration", "%v is not positive", o.LameDuckDuration)
	v.check(o.LameDuckGracePeriod >= 0, "lame_duck_grace_period", "%v is negative", o.LameDuckGracePeriod)
	v.check(o.LameDuckGracePeriod < o.LameDuckDuration, "lame_duck_grace_period", "%v must be shorter than lame_duck_duration, %v",
		o.LameDuckGracePeriod, o.LameDuckDuration)
	v.check(o.Log.SizeLimit >= 0, "log_size_limit", "%d is negative", o.Log.SizeLimit)
	v.check(o.Log.MaxFiles >= 0, "log_max_num", "%d is negative", o.Log.MaxFiles)
	v.check(o.MaxTracedMsgLen >= 0, "max_traced_msg_len", "%d is negative", o.MaxTracedMsgLen)
}

func (v *validator) jetStream(j *JetStream) {
	v.check(j.MaxMemory >= -1, "jetstream.max_memory_store", "%d is negative", j.MaxMemory)
	v.check(j.MaxStore >= -1, "jetstream.max_file_store", "%d is negative", j.MaxStore)
	v.check(j.Limits.DuplicateWindow >= 0, "jetstream.limits.duplicate_window", "%v is negative", j.Limits.DuplicateWindow)
	v.check(j.Limits.MaxRequestBatch >= 0, "jetstream.limits.max_request_batch", "%d is negative", j.Limits.MaxRequestBatch)
	b := &j.Limits.Batch
	v.check(b.MaxInflightPerStream >= 0 && b.MaxInflightTotal >= 0 && b.MaxMsgs >= 0 && b.Timeout >= 0, "jetstream.limits.batch", "a limit is negative")
	v.check(!strings.ContainsAny(j.Domain, " \t\r\n\f.*>"), "jetstream.domain", "a domain may not contain spaces, ., * or >")
	switch j.Domain {
	case "ACK", "FC", "SNAPSHOT", "EVENT": // they stand where a domain would in the subjects of JetStream
		v.check(false, "jetstream.domain", "%q is reserved", j.Domain)
	}
}

// minCache and minReplay are what caches and the log need to be of use.
const (
	minCache  = 1 << 20
	minReplay = 1 << 20
	minEvery  = 10 * time.Millisecond
)

func (v *validator) segments(s *Segments) {
	check := func(key, setting string) {
		raw, err := hex.DecodeString(key)
		n := len(raw)
		// The key itself is not told.
		v.check(err == nil && (n == 16 || n == 24 || n == 32), setting, "a key has 32, 48 or 64 hex digits")
	}
	if s.Key != "" {
		check(s.Key, "store.segments.key")
	}
	for _, key := range s.OldKeys {
		check(key, "store.segments.old_keys")
	}
	v.check(s.ReplayBytes == 0 || s.ReplayBytes >= minReplay, "store.segments.replay", "%d bytes are too few, at least %d", s.ReplayBytes, minReplay)
	v.check(s.Grace >= 0, "store.segments.grace", "%v is negative", s.Grace)
	v.check(s.Every == 0 || s.Every >= minEvery, "store.segments.every", "%v is too short, at least %v", s.Every, minEvery)
	v.check(s.DeletedWithin >= 0, "store.segments.deleted_within", "%v is negative", s.DeletedWithin)
}

func (v *validator) store(s *Store) {
	v.check(s.CommitBurst >= 0, "store.commit_burst", "%d is negative", s.CommitBurst)
	v.check(s.BatchBytes >= 0, "store.batch_bytes", "%d is negative", s.BatchBytes)
	v.check(!math.IsNaN(s.CommitRate) && !math.IsInf(s.CommitRate, 0), "store.commit_rate", "%v is no rate", s.CommitRate)
	v.segments(&s.Segments)
	least := func(n int64, setting string) {
		v.check(n == 0 || n >= minCache, setting, "%d bytes are too few, at least %d", n, minCache)
	}
	least(s.Cache.Memory, "store.cache.memory")
	least(s.Cache.Disk, "store.cache.disk")
	v.check(s.Cache.Disk == 0 || s.Cache.Path != "", "store.cache.disk", "there is no path")
	if p := s.Prices; p != nil {
		for _, price := range []struct {
			setting string
			is      float64
		}{{"get", p.Get}, {"put", p.Put}, {"list", p.List}, {"delete", p.Delete}, {"storage_gb_month", p.StorageGBMonth}} {
			v.check(price.is >= 0 && price.is <= maxPrice, "store.prices."+price.setting, "%v is out of the range 0 to %v", price.is, maxPrice)
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		v.check(false, "store.url", "not a URL") // without the URL, which may hold credentials
		return
	}
	switch u.Scheme {
	case "mem":
	case "dir":
		v.check(DirPath(u) != "", "store.url", "a dir store needs a path: dir:///path")
	case "s3":
		v.check(u.Host != "", "store.url", "an s3 store needs a bucket: s3://bucket/prefix")
	default:
		v.check(false, "store.url", "%q is no kind of store; use dir:///path, s3://bucket/prefix or mem://", u.Scheme)
	}
}

// BasePath gives a monitoring path prefix its one form: "" or "/a/b".
func BasePath(p string) string {
	if p = path.Clean("/" + p); p == "/" {
		return ""
	}
	return p
}

// SplitAdvertise reads a client_advertise value: a host, or host:port. Without a port, or with port 0 or -1, it is
// defaultPort.
func SplitAdvertise(s string, defaultPort int) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		// Not wrapped: the common case is a plain host, or an IPv6 address with or without brackets.
		host = s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			host = s[1 : len(s)-1]
		}
		if strings.ContainsAny(host, "[]") || host == "" || strings.Count(host, ":") == 1 {
			return "", 0, fmt.Errorf("expected host or host:port, got %q", s)
		}
		return host, defaultPort, nil
	}
	port, err = strconv.Atoi(strings.TrimSpace(text))
	if err != nil || !validPort(port) {
		return "", 0, fmt.Errorf("%q is no port", text)
	}
	if port <= 0 {
		port = defaultPort
	}
	return strings.TrimSpace(host), port, nil
}
