package config

import (
	"math"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// longAuthTimeout is where a timeout looks like a mistake, such as an unquoted 1m (which is read as a million seconds).
const longAuthTimeout = time.Minute

// authorization reads the block of that name: the users of the default account.
func (d *decoder) authorization(v value, a *account.Settings) {
	var defaults *account.Permissions
	s := settings{}
	s.add(d.text(&a.Username), "user", "username")
	s.add(d.text(&a.Password), "password", "pass")
	s.add(d.text(&a.Token), "token")
	s.add(d.authTimeout(&a.Timeout), "timeout")
	s.add(func(v value) { a.Users = d.users(v) }, "users")
	s.add(func(v value) { defaults = d.permissions(v) }, "default_permissions", "default_permission", "permissions")
	s.refuse(d, "users are checked by this server only", "auth_callout", "auth_hook")
	s.refuse(d, "proxies are not told from other clients", "proxy_required")
	d.block(v, s)
	if defaults != nil && len(a.Users) == 0 {
		d.fault(d.places[v.path+".default_permissions"], "there are no users in this block that they could apply to")
	}
	applyDefaults(a.Users, defaults)
}

// authTimeout reads seconds, with or without a fraction, or a duration.
func (d *decoder) authTimeout(field *time.Duration) setter {
	return func(v value) {
		var timeout time.Duration
		if _, ok := v.v.(string); ok {
			d.duration(&timeout)(v)
		} else {
			var seconds float64
			d.real(&seconds)(v)
			if seconds > float64(maxSeconds) {
				d.fault(v, "%v seconds are too many", v.v)
				return
			}
			timeout = time.Duration(seconds * float64(time.Second))
		}
		if timeout < 0 {
			d.fault(v, "a timeout cannot be negative")
			return
		}
		if timeout > longAuthTimeout {
			d.warn(v, `%v is long; write durations as "2s"`, timeout)
		}
		*field = timeout
	}
}

// accounts reads a block of accounts, or a list of the names of empty ones.
func (d *decoder) accounts(v value, a *account.Settings) {
	if _, ok := v.v.([]any); ok {
		for _, item := range v.list() {
			name, ok := d.asText(item)
			if ok && d.accountName(item, name) && d.claim("accounts."+name, item, name) {
				a.Accounts = append(a.Accounts, account.AccountSettings{Name: name})
			}
		}
		return
	}
	members, _ := d.members(v)
	for _, m := range members {
		if m.variable {
			continue // written there only to be referred to
		}
		if d.accountName(m.value, m.key) {
			d.places["accounts."+m.key] = m.value
			a.Accounts = append(a.Accounts, d.account(m.value, m.key))
		}
	}
}

func (d *decoder) accountName(v value, name string) bool {
	if name == account.DefaultName {
		d.fault(v, "the name of the default account is reserved")
		return false
	}
	return true
}

func (d *decoder) account(v value, name string) account.AccountSettings {
	a := account.AccountSettings{Name: name}
	var defaults *account.Permissions
	s := settings{}
	s.add(func(v value) { a.Users = d.users(v) }, "users")
	s.add(func(v value) { defaults = d.permissions(v) }, "default_permissions")
	s.add(func(v value) { a.JetStream = d.accountJetStream(v) }, "jetstream")
	s.add(func(v value) { d.accountLimits(v, &a) }, "limits")
	s.add(func(v value) { a.Exports = d.exports(v) }, "exports")
	s.add(func(v value) { a.Imports = d.imports(v) }, "imports")
	s.add(func(v value) { a.Mappings = d.mappings(v) }, "mappings", "maps")
	s.refuse(d, "this version does not trace messages to a subject", "msg_trace", "trace_dest")
	s.refuse(d, noOperator, "nkey")
	d.block(v, s)
	applyDefaults(a.Users, defaults)
	return a
}

func (d *decoder) accountLimits(v value, a *account.AccountSettings) {
	s := settings{}
	s.add(number(d, &a.MaxConnections, -1, math.MaxInt32), "max_connections", "max_conn")
	s.add(number(d, &a.MaxSubscriptions, -1, math.MaxInt32), "max_subscriptions", "max_subs")
	s.add(number(d, &a.MaxPayload, -1, math.MaxInt32), "max_payload", "max_pay")
	s.refuse(d, "this version takes no leaf nodes", "max_leafnodes", "max_leafs")
	d.block(v, s)
}

// applyDefaults gives permissions to the users that have none of their own. They share them: nobody changes them later.
func applyDefaults(users []account.UserSettings, defaults *account.Permissions) {
	for i := range users {
		if users[i].Permissions == nil {
			users[i].Permissions = defaults
		}
	}
}

func (d *decoder) users(v value) []account.UserSettings {
	if _, ok := v.v.([]any); !ok {
		d.fault(v, "expected a list of users, got %s", describe(v.v))
		return nil
	}
	var users []account.UserSettings
	for _, item := range v.list() {
		users = append(users, d.user(item))
	}
	return users
}

func (d *decoder) user(v value) account.UserSettings {
	var u account.UserSettings
	s := settings{}
	s.add(d.text(&u.Name), "user", "username")
	s.add(d.text(&u.Password), "password", "pass")
	s.add(d.text(&u.NKey), "nkey")
	s.add(func(v value) { u.Permissions = d.permissions(v) }, "permissions", "permission", "authorization")
	s.add(d.texts(&u.ConnectionTypes), "allowed_connection_types", "connection_types", "clients")
	s.refuse(d, "proxies are not told from other clients", "proxy_required")
	d.places[v.path] = v
	d.block(v, s)
	return u
}

func (d *decoder) permissions(v value) *account.Permissions {
	p := &account.Permissions{}
	s := settings{}
	s.add(func(v value) { d.subjectPermissions(v, &p.Publish) }, "publish", "pub", "import")
	s.add(func(v value) { d.subjectPermissions(v, &p.Subscribe) }, "subscribe", "sub", "export")
	s.add(func(v value) { p.Responses = d.responses(v) }, "allow_responses", "publish_allow_responses")
	d.block(v, s)
	return p
}

// subjectPermissions reads a subject, a list of them (both: what is allowed), or a block with allow and deny.
func (d *decoder) subjectPermissions(v value, p *account.SubjectPermissions) {
	if _, ok := v.v.(map[string]any); !ok {
		d.texts(&p.Allow)(v)
		return
	}
	s := settings{}
	s.add(d.texts(&p.Allow), "allow")
	s.add(d.texts(&p.Deny), "deny")
	d.block(v, s)
}

// Bounds of allow_responses: true, as in nats-server.
const (
	defaultResponses       = 1
	defaultResponseExpires = 2 * time.Minute
)

func (d *decoder) responses(v value) *account.ResponsePermission {
	r := &account.ResponsePermission{MaxMsgs: defaultResponses, Expires: defaultResponseExpires}
	if on, ok := v.v.(bool); ok {
		if !on {
			return nil
		}
		return r
	}
	s := settings{}
	s.add(number(d, &r.MaxMsgs, -1, math.MaxInt32), "max", "max_msgs", "max_messages", "max_responses")
	s.add(d.duration(&r.Expires), "expires", "expiration", "ttl")
	d.block(v, s)
	setDefault(&r.MaxMsgs, defaultResponses)
	setDefault(&r.Expires, defaultResponseExpires)
	return r
}
