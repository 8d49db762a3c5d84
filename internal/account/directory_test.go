package account

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"
)

func mustDirectory(t *testing.T, s Settings) *Directory {
	t.Helper()
	d, err := NewDirectory(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSettingsAreChecked(t *testing.T) {
	tests := []struct {
		name string
		s    Settings
		want []string // in the error
	}{
		{"user and token", Settings{Username: "u", Token: "t"}, []string{"both a user and a token"}},
		{"user twice", Settings{Users: []UserSettings{{Name: "u"}}, Accounts: []AccountSettings{{Name: "A", Users: []UserSettings{{Name: "u"}}}}},
			[]string{`user "u" stands twice`}},
		{"account twice", Settings{Accounts: []AccountSettings{{Name: "A"}, {Name: "A"}}}, []string{`account "A" stands twice`}},
		{"nameless account", Settings{Accounts: []AccountSettings{{Name: ""}}}, []string{"empty"}},
		{"bad nkey", Settings{Users: []UserSettings{{NKey: "UX"}}}, []string{`"UX" is no public nkey`}},
		{"no_auth_user", Settings{Users: []UserSettings{{Name: "u"}}, NoAuthUser: "x"}, []string{`no_auth_user "x"`}},
		{"system account", Settings{SystemAccount: "S"}, []string{`system account "S"`}},
		{"connection type", Settings{Users: []UserSettings{{Name: "u", ConnectionTypes: []string{"PIGEON"}}}}, []string{"PIGEON"}},
		{"every fault", Settings{
			NoAuthUser: "x",
			Users: []UserSettings{{Name: "u", Permissions: &Permissions{
				Publish:   SubjectPermissions{Allow: []string{"a..b"}, Deny: []string{"a q"}},
				Subscribe: SubjectPermissions{Allow: []string{"a b c"}, Deny: []string{""}},
			}}},
		}, []string{"no_auth_user", `"a..b"`, `"a q"`, `"a b c"`, `""`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewDirectory(tt.s)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is missing in %q", w, err)
				}
			}
		})
	}
}

func TestSwapKeepsTheOldAtAFault(t *testing.T) {
	d := mustDirectory(t, Settings{Token: "t"})
	if err := d.Swap(Settings{SystemAccount: "S"}); err == nil {
		t.Fatal("no error")
	}
	if _, err := d.Authenticate(Credentials{Token: "t"}); err != nil {
		t.Errorf("the token is not good any more: %v", err)
	}
}

func TestAuthenticate(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := key.PublicKey()
	nonce := []byte("nonce")
	sig, _ := key.Sign(nonce)
	many := Settings{
		Accounts: []AccountSettings{{Name: "A", Users: []UserSettings{
			{Name: "plain", Password: "p"}, {Name: "hashed", Password: string(hash)}, {NKey: public},
			{Name: "local", Password: "p", ConnectionTypes: []string{"in_process"}},
		}}},
	}
	withNobody := many
	withNobody.NoAuthUser = "plain"
	tests := []struct {
		name string
		s    Settings
		c    Credentials
		user string // "!" is refused
		in   string
	}{
		{"open", Settings{}, Credentials{}, "", DefaultName},
		{"open, with a name", Settings{}, Credentials{User: "x"}, "x", DefaultName},
		{"open, with a jwt", Settings{}, Credentials{JWT: "x"}, "", DefaultName},
		{"single user", Settings{Username: "u", Password: "p"}, Credentials{User: "u", Pass: "p"}, "u", DefaultName},
		{"single user, wrong", Settings{Username: "u", Password: "p"}, Credentials{User: "u", Pass: "x"}, "!", ""},
		{"single user, other", Settings{Username: "u", Password: "p"}, Credentials{User: "v", Pass: "p"}, "!", ""},
		{"token", Settings{Token: "t"}, Credentials{Token: "t"}, "", DefaultName},
		{"token, wrong", Settings{Token: "t"}, Credentials{Token: "x"}, "!", ""},
		{"token, missing", Settings{Token: "t"}, Credentials{}, "!", ""},
		{"plain", many, Credentials{User: "plain", Pass: "p"}, "plain", "A"},
		{"plain, wrong", many, Credentials{User: "plain", Pass: "x"}, "!", ""},
		{"plain, none", many, Credentials{User: "plain"}, "!", ""},
		{"hashed", many, Credentials{User: "hashed", Pass: "secret"}, "hashed", "A"},
		{"hashed, wrong", many, Credentials{User: "hashed", Pass: "x"}, "!", ""},
		{"nkey", many, Credentials{NKey: public, Sig: b64(sig), Nonce: nonce}, public, "A"},
		{"nkey, other nonce", many, Credentials{NKey: public, Sig: b64(sig), Nonce: []byte("other")}, "!", ""},
		{"nkey, no signature", many, Credentials{NKey: public, Nonce: nonce}, "!", ""},
		{"nkey, garbage", many, Credentials{NKey: public, Sig: "%%%", Nonce: nonce}, "!", ""},
		{"unknown nkey", many, Credentials{NKey: "UX", Sig: b64(sig), Nonce: nonce}, "!", ""},
		{"connection type", many, Credentials{User: "local", Pass: "p", Connection: ConnectionInProcess}, "local", "A"},
		{"wrong connection type", many, Credentials{User: "local", Pass: "p", Connection: ConnectionStandard}, "!", ""},
		{"nobody", many, Credentials{}, "!", ""},
		{"nobody's user", withNobody, Credentials{}, "plain", "A"},
		{"nobody's user is not for the wrong", withNobody, Credentials{User: "hashed", Pass: "x"}, "!", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := mustDirectory(t, tt.s).Authenticate(tt.c)
			if tt.user == "!" {
				if !errors.Is(err, ErrUnauthorized) {
					t.Fatalf("%+v, %v", id, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if id.User != tt.user || id.Account.Name != tt.in {
				t.Errorf("%q in %q, want %q in %q", id.User, id.Account.Name, tt.user, tt.in)
			}
		})
	}
	if _, err := mustDirectory(t, many).Authenticate(Credentials{JWT: "x"}); !errors.Is(err, ErrJWT) {
		t.Errorf("a JWT: %v", err)
	}
}

func TestRecheck(t *testing.T) {
	s := Settings{Users: []UserSettings{{Name: "u", Password: "p"}}}
	d := mustDirectory(t, s)
	c := Credentials{User: "u", Pass: "p"}
	old, err := d.Authenticate(c)
	if err != nil {
		t.Fatal(err)
	}
	s.Users[0].Permissions = &Permissions{Publish: SubjectPermissions{Deny: []string{"a"}}}
	if err := d.Swap(s); err != nil {
		t.Fatal(err)
	}
	id, err := d.Recheck(old, c)
	if err != nil || id.Rights.MayPublish([]byte("a")) {
		t.Errorf("%+v, %v", id, err)
	}
	s.Users[0].Password = "q"
	if err := d.Swap(s); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Recheck(id, c); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("after a change of the password: %v", err)
	}
}

func TestAdvertised(t *testing.T) {
	user := []UserSettings{{Name: "u", Password: "p"}}
	tests := []struct {
		name                 string
		s                    Settings
		required, advertised bool
		nobody               bool
	}{
		{"open", Settings{}, false, false, false},
		{"users", Settings{Users: user}, true, true, false},
		{"no_auth_user", Settings{Users: user, NoAuthUser: "u"}, true, false, true},
		{"system users", Settings{Accounts: []AccountSettings{{Name: SystemName, Users: user}}}, true, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := mustDirectory(t, tt.s)
			if d.AuthRequired(ConnectionStandard) != tt.required || d.AuthAdvertised(ConnectionStandard) != tt.advertised || d.HasNoAuthUser(ConnectionStandard) != tt.nobody {
				t.Errorf("required %v, advertised %v, nobody %v", d.AuthRequired(ConnectionStandard), d.AuthAdvertised(ConnectionStandard), d.HasNoAuthUser(ConnectionStandard))
			}
		})
	}
}

func TestAccounts(t *testing.T) {
	d := mustDirectory(t, Settings{Accounts: []AccountSettings{{Name: "Z", MaxConnections: 3}, {Name: "S"}}, SystemAccount: "S"})
	var names []string
	for _, a := range d.Accounts() {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "$G S Z" {
		t.Errorf("accounts %q", got)
	}
	if !d.System().System || d.System().Name != "S" || d.Default().Name != DefaultName || d.Account("nobody") != nil {
		t.Error("system or default account")
	}
	if z := d.Account("Z"); z.MaxConnections != 3 || z.MaxSubscriptions != -1 || z.MaxPayload != -1 {
		t.Errorf("limits %+v", z)
	}
}
