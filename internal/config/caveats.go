package config

import (
	"fmt"
	"strings"

	"github.com/sluicemq/sluice/internal/account"
)

// Caveats returns what an operator should know about options that are valid, for the log at start: the remarks of Load
// and those on the whole.
func (o *Options) Caveats() []string {
	remarks := append([]string(nil), o.ConfigWarnings...)
	if o.JetStream.Enabled && strings.HasPrefix(o.Store.URL, "mem:") {
		remarks = append(remarks, "the store is in memory: streams with storage \"file\" are lost when this process ends")
	}
	if o.MaxPayload > largePayload {
		remarks = append(remarks, fmt.Sprintf("a max_payload above %d bytes is discouraged", largePayload))
	}
	if o.Websocket.Port != 0 && o.Websocket.TLS == nil {
		remarks = append(remarks, "websocket has no TLS: what browsers send can be read on the way")
	}
	if hasPlainSecrets(&o.Auth) {
		remarks = append(remarks, "passwords or tokens stand in plain text: use nkeys or bcrypt")
	}
	return remarks
}

// hasPlainSecrets tells whether a password or token is not a bcrypt hash.
func hasPlainSecrets(a *account.Settings) bool {
	plain := func(s string) bool { return s != "" && !strings.HasPrefix(s, "$2") }
	users := a.Users
	for _, acc := range a.Accounts {
		users = append(users[:len(users):len(users)], acc.Users...)
	}
	for _, u := range users {
		if plain(u.Password) {
			return true
		}
	}
	return plain(a.Password) || plain(a.Token) || plain(a.Websocket.Password) || plain(a.Websocket.Token)
}
