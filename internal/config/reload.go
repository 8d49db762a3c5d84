package config

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrNeedsRestart is wrapped by Reloadable's errors: the new configuration may be fine, but a running server cannot
// change to it.
var ErrNeedsRestart = errors.New("the change needs a restart")

// Change is one setting in which two configurations differ.
type Change struct {
	Setting string
	// Live says that a running server can take the change over.
	Live bool
}

// liveness of a setting's changes.
type liveness func(old, new any) bool

func always(_, _ any) bool { return true }
func never(_, _ any) bool  { return false }

// raised allows a bound to grow, as nats-server does: what is in use always fits then. No bound (negative) is not left.
func raised(old, new any) bool { return old.(int64) >= 0 && new.(int64) > old.(int64) }

// bothOrNeither allows what a listener reads anew for each connection to change, but neither to begin nor to end.
func bothOrNeither(old, new any) bool { return (old.(*TLS) == nil) == (new.(*TLS) == nil) }

// reloadRules names every field of Options once; a test sees to that.
var reloadRules = []struct {
	setting string
	field   func(*Options) any
	live    liveness
}{
	{"server_name", func(o *Options) any { return o.ServerName }, never},
	{"server_tags", func(o *Options) any { return o.Tags }, always},
	{"server_metadata", func(o *Options) any { return o.Metadata }, always},
	{"host", func(o *Options) any { return o.Host }, never},
	{"port", func(o *Options) any { return o.Port }, never},
	{"listen", func(o *Options) any { return o.NoListen }, never},
	{"client_advertise", func(o *Options) any { return o.ClientAdvertise }, always},
	{"http", func(o *Options) any { return [3]any{o.HTTPHost, o.HTTPPort, o.HTTPSPort} }, never},
	{"tls", func(o *Options) any { return o.TLS }, always},
	{"allow_non_tls", func(o *Options) any { return o.AllowNonTLS }, always},
	{"websocket", func(o *Options) any { return o.Websocket.withoutTLS() }, never},
	{"websocket.tls", func(o *Options) any { return o.Websocket.TLS }, bothOrNeither},
	{"http_base_path", func(o *Options) any { return o.HTTPBasePath }, never},
	{"max_connections", func(o *Options) any { return o.MaxConnections }, always},
	{"max_subscriptions", func(o *Options) any { return o.MaxSubscriptions }, always},
	{"max_sub_tokens", func(o *Options) any { return o.MaxSubTokens }, always},
	{"max_payload", func(o *Options) any { return o.MaxPayload }, always},
	{"max_pending", func(o *Options) any { return o.MaxPending }, always},
	{"max_control_line", func(o *Options) any { return o.MaxControlLine }, always},
	{"max_closed_clients", func(o *Options) any { return o.MaxClosedClients }, never},
	{"write_deadline", func(o *Options) any { return o.WriteDeadline }, always},
	{"ping_interval", func(o *Options) any { return o.PingInterval }, always},
	{"ping_max", func(o *Options) any { return o.MaxPingsOut }, always},
	{"no_header_support", func(o *Options) any { return o.NoHeaders }, never},
	{"no_fast_producer_stall", func(o *Options) any { return o.NoFastProducerStall }, always},
	{"system_account", func(o *Options) any { return o.Auth.SystemAccount }, never},
	{"authorization and accounts", identityOf, always},
	{"jetstream", func(o *Options) any { return o.JetStream.Enabled }, never},
	{"jetstream.max_memory_store", func(o *Options) any { return o.JetStream.MaxMemory }, raised},
	{"jetstream.max_file_store", func(o *Options) any { return o.JetStream.MaxStore }, raised},
	{"jetstream.domain", func(o *Options) any { return o.JetStream.Domain }, never},
	{"jetstream.unique_tag", func(o *Options) any { return o.JetStream.UniqueTag }, always},
	{"jetstream.sync_interval", func(o *Options) any { return [2]any{o.JetStream.SyncInterval, o.JetStream.SyncAlways} }, always},
	{"jetstream.limits", func(o *Options) any { return o.JetStream.Limits }, always},
	{"jetstream.store_dir", func(o *Options) any { return o.JetStream.StoreDir }, never},
	{"store", func(o *Options) any { return o.Store }, never},
	{"broadcast", func(o *Options) any { return o.Broadcast }, never},
	{"logging", func(o *Options) any { return [3]any{o.Log, o.TraceVerbose, o.MaxTracedMsgLen} }, always},
	{"pid_file", func(o *Options) any { return o.PidFile }, always},
	{"ports_file_dir", func(o *Options) any { return o.PortsFileDir }, always},
	{"lame_duck_duration", func(o *Options) any { return o.LameDuckDuration }, always},
	{"lame_duck_grace_period", func(o *Options) any { return o.LameDuckGracePeriod }, always},
}

// identityOf is the identity without the system account, which has a rule of its own.
func identityOf(o *Options) any {
	a := o.Auth
	a.SystemAccount = ""
	return a
}

// Diff returns the settings in which two configurations differ, in a fixed order. Both have their defaults.
func Diff(old, new *Options) []Change {
	var changes []Change
	for _, r := range reloadRules {
		was, is := r.field(old), r.field(new)
		if !reflect.DeepEqual(was, is) {
			changes = append(changes, Change{Setting: r.setting, Live: r.live(was, is)})
		}
	}
	return changes
}

// Reloadable returns the changes that a running server makes to get from old to new, or an error that names every
// setting which it cannot change. Then it changes none.
func Reloadable(old, new *Options) ([]Change, error) {
	changes := Diff(old, new)
	var errs []error
	for _, c := range changes {
		if !c.Live {
			errs = append(errs, fmt.Errorf("%s: %w", c.Setting, ErrNeedsRestart))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return changes, nil
}
