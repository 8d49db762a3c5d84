package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/subject"
)

// connectionTypes are the kinds of connection that NATS knows, whether or not this server takes them: a user may be
// bound to one that another server takes.
var connectionTypes = []string{"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}

// identity checks the accounts and users against each other.
func (v *validator) identity(a *account.Settings) {
	single := a.Username != "" || a.Password != ""
	v.check(!single || a.Token == "", "authorization", "a user and password cannot stand beside a token")
	v.check(a.Password == "" || a.Username != "", "authorization.password", "a password needs a user")
	v.check(a.Timeout >= 0, "authorization.timeout", "%v is negative", a.Timeout)

	users := map[string]string{} // name or nkey to where it is
	v.users(a.Users, "authorization.users", users)
	names := map[string]bool{}
	for _, acc := range a.Accounts {
		setting := "accounts." + acc.Name
		v.check(acc.Name != "" && !strings.ContainsAny(acc.Name, " \t\r\n"), setting, "an account name cannot be empty or contain spaces")
		v.check(acc.Name != account.DefaultName, setting, "the name of the default account is reserved")
		v.check(!names[acc.Name], setting, "the account is there twice")
		v.check(acc.JetStream == nil || acc.Name != a.SystemAccount, setting+".jetstream", "the system account has no JetStream")
		names[acc.Name] = true
		v.users(acc.Users, setting+".users", users)
	}
	for _, f := range a.SharingFaults() {
		setting := fmt.Sprintf("%s[%d]", f.List, f.Index)
		if f.Account != "" {
			setting = "accounts." + f.Account + "." + setting
		}
		v.check(false, setting, "%v", f.Err)
	}
	if len(users) > 0 {
		v.check(!single, "authorization", "a single user cannot stand beside lists of users")
		v.check(a.Token == "", "authorization", "a token cannot stand beside lists of users")
	}
	if a.NoAuthUser != "" {
		_, known := users[a.NoAuthUser]
		v.check(known, "no_auth_user", "%q is no user of the authorization block or of an account", a.NoAuthUser)
	}
	v.websocketIdentity(&a.Websocket, users)
	v.check(a.SystemAccount != account.DefaultName, "system_account", "the default account cannot be the system account")
	v.check(names[a.SystemAccount] || a.SystemAccount == account.SystemName, "system_account", "there is no account %q", a.SystemAccount)
}

func (v *validator) websocketIdentity(w *account.WebsocketSettings, users map[string]string) {
	if w.NoAuthUser != "" {
		_, known := users[w.NoAuthUser]
		v.check(known, "websocket.no_auth_user", "%q is no user of the authorization block or of an account", w.NoAuthUser)
	}
	v.check(w.Username == "" || w.Token == "", "websocket.authorization", "a user and password cannot stand beside a token")
	v.check(w.Password == "" || w.Username != "", "websocket.authorization.password", "a password needs a user")
	if len(users) > 0 {
		v.check(w.Username == "", "websocket.authorization", "websocket authentication username not compatible with presence of users/nkeys")
		v.check(w.Token == "", "websocket.authorization", "websocket authentication token not compatible with presence of users/nkeys")
	}
}

func (v *validator) users(users []account.UserSettings, setting string, seen map[string]string) {
	for i, u := range users {
		at := fmt.Sprintf("%s[%d]", setting, i)
		id := u.Name
		switch {
		case u.NKey != "":
			id = u.NKey
			v.check(nkeys.IsValidPublicUserKey(u.NKey), at+".nkey", "not a public nkey of a user")
			v.check(u.Name == "" && u.Password == "", at, "a user with an nkey takes no name and password")
		default:
			v.check(u.Name != "", at, "a user needs a name or an nkey")
		}
		if first, ok := seen[id]; ok && id != "" {
			v.check(false, at, "user %q is there twice; first as %s", id, first)
		}
		seen[id] = at
		for _, t := range u.ConnectionTypes {
			v.check(slices.Contains(connectionTypes, strings.ToUpper(t)), at+".allowed_connection_types", "%q is no connection type", t)
		}
		v.permissions(u.Permissions, at+".permissions")
	}
}

func (v *validator) permissions(p *account.Permissions, setting string) {
	if p == nil {
		return
	}
	v.patterns(p.Publish.Allow, setting+".publish.allow", false)
	v.patterns(p.Publish.Deny, setting+".publish.deny", false)
	v.patterns(p.Subscribe.Allow, setting+".subscribe.allow", true)
	v.patterns(p.Subscribe.Deny, setting+".subscribe.deny", true)
}

// patterns checks subjects with wildcards; where queue is true each may be followed by a queue group.
func (v *validator) patterns(patterns []string, setting string, queue bool) {
	for _, p := range patterns {
		fields := strings.Fields(p)
		switch {
		case subject.Valid(p):
		case queue && len(fields) == 2:
			v.check(subject.Valid(fields[0]), setting, "%q is no subject", fields[0])
			v.check(subject.Valid(fields[1]), setting, "%q is no queue group", fields[1])
		default:
			v.check(false, setting, "%q is no subject", p)
		}
	}
}
