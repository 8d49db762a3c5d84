package account

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"
)

var (
	// ErrUnauthorized: the credentials are wrong, or missing.
	ErrUnauthorized = errors.New("account: unauthorized")
	// ErrJWT: the client showed a user JWT, which needs operator mode; there is none.
	ErrJWT = errors.New("account: authentication by JWT is not supported")
)

// DefaultTimeout is how long a connection may take to authenticate where the settings do not say.
const DefaultTimeout = 2 * time.Second

// Directory knows all accounts and users. All methods may be called concurrently; Swap changes what they answer.
type Directory struct{ current atomic.Pointer[directory] }

// directory is the contents of a Directory, made from one Settings.
type directory struct {
	accounts   map[string]*Account
	system     *Account
	users      map[string]*user // by name
	nkeys      map[string]*user // by public key
	client     edge             // what clients without a user of their own are
	websocket  edge             // the same of clients over WebSocket
	settings   Settings
	required   bool
	advertised bool // whether INFO says that authentication is required
}

// edge is what one way of connecting has for clients that none of the users is.
type edge struct {
	noAuth *user     // who a client without credentials is; nil: refused
	single *Identity // the one user of authorization { user } or { token }
	token  bool      // of single
}

// edge gives what holds for a way of connecting.
func (d *directory) edge(connection string) *edge {
	if connection == ConnectionWebsocket {
		return &d.websocket
	}
	return &d.client
}

// user is a configured user.
type user struct {
	*Identity
	types []string
	dn    distinguishedName // of a name that is one; else nil
}

// NewDirectory makes a directory. The error names every fault of the settings.
func NewDirectory(s Settings) (*Directory, error) {
	d := &Directory{}
	if err := d.Swap(s); err != nil {
		return nil, err
	}
	return d, nil
}

// Swap replaces the settings; at a fault everything stays as it was.
func (d *Directory) Swap(s Settings) error {
	next, err := newDirectory(s)
	if err != nil {
		return err
	}
	d.current.Store(next)
	return nil
}

func newDirectory(s Settings) (*directory, error) {
	if s.SystemAccount == "" {
		s.SystemAccount = SystemName
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	d := &directory{
		accounts: make(map[string]*Account),
		users:    make(map[string]*user),
		nkeys:    make(map[string]*user),
		settings: s,
	}
	errs := d.addAccounts(s)
	users := len(d.users)+len(d.nkeys) > 0
	errs = append(errs, d.setSingle(&d.client, s.Username, s.Password, s.Token))
	d.required = users || d.client.single != nil
	d.advertised = d.required
	errs = append(errs, d.setNoAuthUser(s))
	for _, f := range s.SharingFaults() {
		errs = append(errs, f)
	}
	d.websocket = d.client
	if w := &s.Websocket; w.override() {
		d.websocket = edge{}
		if err := d.setSingle(&d.websocket, w.Username, w.Password, w.Token); err != nil {
			errs = append(errs, fmt.Errorf("websocket: %w", err))
		}
		if w.NoAuthUser != "" {
			if d.websocket.noAuth = d.find(w.NoAuthUser); d.websocket.noAuth == nil {
				errs = append(errs, fmt.Errorf("websocket: no_auth_user %q is no user", w.NoAuthUser))
			}
		}
	}
	return d, errors.Join(errs...)
}

// setSingle enters the one user or token that an edge has in place of a list of users.
func (d *directory) setSingle(e *edge, name, password, token string) error {
	switch {
	case name == "" && token == "":
		return nil
	case name != "" && token != "":
		return errors.New("authorization has both a user and a token")
	case len(d.users)+len(d.nkeys) > 0:
		return errors.New("authorization has users, and a single user or token as well")
	}
	rights, err := newRights(d.settings.DefaultPermissions)
	e.single = &Identity{Account: d.accounts[DefaultName], User: name, Rights: rights, secret: password + token}
	e.token = token != ""
	return err
}

// addAccounts adds the accounts with their users, and those two that are always there.
func (d *directory) addAccounts(s Settings) (errs []error) {
	for _, a := range s.Accounts {
		if a.Name == "" || strings.ContainsAny(a.Name, " \t\r\n") {
			errs = append(errs, fmt.Errorf("account name %q is empty or has blanks", a.Name))
			continue
		}
		if d.accounts[a.Name] != nil {
			errs = append(errs, fmt.Errorf("account %q stands twice", a.Name))
			continue
		}
		d.accounts[a.Name] = newAccount(a, s.SystemAccount)
		for _, u := range a.Users {
			errs = append(errs, d.addUser(u, d.accounts[a.Name], s.DefaultPermissions))
		}
	}
	if s.SystemAccount != SystemName && d.accounts[s.SystemAccount] == nil {
		errs = append(errs, fmt.Errorf("system account %q is not among the accounts", s.SystemAccount))
	}
	for _, name := range []string{DefaultName, s.SystemAccount} {
		if d.accounts[name] == nil {
			d.accounts[name] = newAccount(AccountSettings{Name: name}, s.SystemAccount)
		}
	}
	d.system = d.accounts[s.SystemAccount]
	for _, u := range s.Users {
		errs = append(errs, d.addUser(u, d.accounts[DefaultName], s.DefaultPermissions))
	}
	return errs
}

func (d *directory) addUser(s UserSettings, a *Account, defaults *Permissions) error {
	perms := s.Permissions
	if perms == nil {
		perms = defaults
	}
	rights, err := newRights(perms)
	if err != nil {
		return fmt.Errorf("user %q: %w", s.Name+s.NKey, err)
	}
	u := &user{types: make([]string, len(s.ConnectionTypes))}
	for i, t := range s.ConnectionTypes {
		u.types[i] = strings.ToUpper(t)
		if !slices.Contains(connectionTypes, u.types[i]) {
			return fmt.Errorf("user %q: unknown connection type %q", s.Name+s.NKey, t)
		}
	}
	if s.NKey != "" {
		if s.Name != "" || s.Password != "" {
			return fmt.Errorf("user with nkey %q has a name or password too", s.NKey)
		}
		if !nkeys.IsValidPublicUserKey(s.NKey) {
			return fmt.Errorf("%q is no public nkey of a user", s.NKey)
		}
		if d.nkeys[s.NKey] != nil {
			return fmt.Errorf("nkey %q stands twice", s.NKey)
		}
		u.Identity = &Identity{Account: a, User: s.NKey, Rights: rights, secret: s.NKey}
		d.nkeys[s.NKey] = u
		return nil
	}
	if s.Name == "" {
		return errors.New("a user has neither name nor nkey")
	}
	if d.users[s.Name] != nil {
		return fmt.Errorf("user %q stands twice", s.Name)
	}
	u.Identity = &Identity{Account: a, User: s.Name, Rights: rights, secret: s.Password}
	u.dn, _ = parseDN(s.Name) // most names are none
	d.users[s.Name] = u
	return nil
}

var connectionTypes = []string{
	ConnectionStandard, ConnectionWebsocket, ConnectionInProcess, ConnectionLeaf, ConnectionLeafWS, ConnectionMQTT, ConnectionMQTTWS,
}

// find gives a user by name or public nkey, or nil.
func (d *directory) find(name string) *user {
	if u := d.users[name]; u != nil {
		return u
	}
	return d.nkeys[name]
}

// setNoAuthUser finds who a client without credentials is.
func (d *directory) setNoAuthUser(s Settings) error {
	if s.NoAuthUser != "" {
		if d.client.noAuth = d.find(s.NoAuthUser); d.client.noAuth == nil {
			return fmt.Errorf("no_auth_user %q is no user", s.NoAuthUser)
		}
		d.advertised = false
		return nil
	}
	if d.client.single != nil || !d.required {
		return nil
	}
	for u := range chain(maps.Values(d.users), maps.Values(d.nkeys)) {
		if u.Account != d.system {
			return nil
		}
	}
	// Users of the system account alone do not shut everybody else out.
	d.client.noAuth = &user{Identity: &Identity{Account: d.accounts[DefaultName]}}
	return nil
}

func chain[T any](seqs ...func(yield func(T) bool)) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for _, seq := range seqs {
			for v := range seq {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// AuthRequired reports whether a client that connects in this way must authenticate (or be taken for the user for those
// who do not).
func (d *Directory) AuthRequired(connection string) bool {
	return d.current.Load().requiredOver(connection)
}

func (d *directory) requiredOver(connection string) bool {
	return d.required || connection == ConnectionWebsocket && d.settings.Websocket.override()
}

// AuthAdvertised is auth_required of INFO: whether a client without credentials would be refused.
func (d *Directory) AuthAdvertised(connection string) bool {
	now := d.current.Load()
	return now.advertised || connection == ConnectionWebsocket && now.settings.Websocket.override()
}

// NonceRequired reports whether INFO must carry a nonce to sign.
func (d *Directory) NonceRequired() bool { return len(d.current.Load().nkeys) > 0 }

// Timeout is how long a connection may take to authenticate.
func (d *Directory) Timeout(connection string) time.Duration {
	s := &d.current.Load().settings
	if connection == ConnectionWebsocket && s.Websocket.Timeout != 0 {
		return s.Websocket.Timeout
	}
	return s.Timeout
}

// Account gives an account by name, or nil.
func (d *Directory) Account(name string) *Account { return d.current.Load().accounts[name] }

// Default is the account of clients where nothing else is said.
func (d *Directory) Default() *Account { return d.current.Load().accounts[DefaultName] }

// System is the system account.
func (d *Directory) System() *Account { return d.current.Load().system }

// Accounts gives all accounts, sorted by name.
func (d *Directory) Accounts() []*Account {
	all := slices.Collect(maps.Values(d.current.Load().accounts))
	slices.SortFunc(all, func(a, b *Account) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// HasNoAuthUser reports whether a client without CONNECT or credentials is let in as somebody.
func (d *Directory) HasNoAuthUser(connection string) bool {
	return d.current.Load().edge(connection).noAuth != nil
}

// Authenticate finds out who a client is. The error wraps ErrUnauthorized or ErrJWT, and says more for the log than a
// client should hear. With hashed passwords it takes as long as the hash was made to take.
func (d *Directory) Authenticate(c Credentials) (*Identity, error) {
	return d.current.Load().authenticate(&c)
}

func (d *directory) authenticate(c *Credentials) (*Identity, error) {
	e := d.edge(c.Connection)
	switch {
	case !d.requiredOver(c.Connection):
		return &Identity{Account: d.accounts[DefaultName], User: c.User + c.NKey}, nil
	case c.Mapped && c.NKey == "" && len(d.users) > 0:
		return d.byCertificate(c)
	case c.none() && e.noAuth != nil && e.noAuth.allows(c.Connection):
		return e.noAuth.Identity, nil
	case c.NKey != "" && len(d.nkeys) > 0:
		return d.byNKey(c)
	case c.User != "" && len(d.users) > 0:
		return d.byName(c)
	case e.single != nil:
		shown := c.Pass
		if e.token {
			shown = c.Token
		} else if c.User != e.single.User {
			return nil, fmt.Errorf("%w: unknown user %q", ErrUnauthorized, c.User)
		}
		if !secretMatches(e.single.secret, shown) {
			return nil, fmt.Errorf("%w: wrong password or token", ErrUnauthorized)
		}
		return e.single, nil
	case c.JWT != "":
		return nil, ErrJWT
	}
	return nil, fmt.Errorf("%w: no usable credentials", ErrUnauthorized)
}

func (d *directory) byNKey(c *Credentials) (*Identity, error) {
	u := d.nkeys[c.NKey]
	if u == nil || !u.allows(c.Connection) {
		return nil, fmt.Errorf("%w: nkey %q", ErrUnauthorized, c.NKey)
	}
	if !signatureMatches(c.NKey, c.Sig, c.Nonce) {
		return nil, fmt.Errorf("%w: signature of nkey %q", ErrUnauthorized, c.NKey)
	}
	return u.Identity, nil
}

func (d *directory) byName(c *Credentials) (*Identity, error) {
	u := d.users[c.User]
	if u == nil || !u.allows(c.Connection) {
		return nil, fmt.Errorf("%w: user %q", ErrUnauthorized, c.User)
	}
	if !secretMatches(u.secret, c.Pass) {
		return nil, fmt.Errorf("%w: password of user %q", ErrUnauthorized, c.User)
	}
	return u.Identity, nil
}

// allows reports whether the user may connect in this way.
func (u *user) allows(connection string) bool {
	return len(u.types) == 0 || slices.Contains(u.types, connection)
}

// Recheck finds out who a client is that was let in as id before the last Swap. It spares the hashing where the
// user's secret has not changed.
func (d *Directory) Recheck(id *Identity, c Credentials) (*Identity, error) {
	now := d.current.Load()
	var u *user
	switch {
	case c.Mapped:
	case c.NKey != "" && id.secret == c.NKey:
		u = now.nkeys[c.NKey]
	case c.User != "" && id.User == c.User:
		u = now.users[c.User]
	}
	if u != nil && id.secret != "" && u.secret == id.secret && u.allows(c.Connection) {
		return u.Identity, nil
	}
	return now.authenticate(&c)
}
