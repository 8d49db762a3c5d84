// Package account knows who a client is and what it may do: accounts, users, permissions and limits.
package account

import "time"

// DefaultName is the account of clients where no accounts are configured, as in NATS.
const DefaultName = "$G"

// SystemName is the system account's name where the configuration names no other.
const SystemName = "$SYS"

// Settings is the whole identity part of a configuration, as plain data.
type Settings struct {
	Accounts []AccountSettings // without DefaultName and SystemName unless they are configured
	// Users of the block authorization { }: they belong to DefaultName.
	Users []UserSettings
	// Username, Password and Token are the single credentials of authorization { user, password, token } and of the
	// flags --user, --pass and --auth. At most one of Username and Token is set. Passwords and tokens may be bcrypt hashes.
	Username, Password, Token string
	// DefaultPermissions holds for users that have none of their own; nil allows everything.
	DefaultPermissions *Permissions
	// Mappings are those of the default account.
	Mappings      []Mapping
	SystemAccount string // "" is SystemName
	// NoAuthUser is the user that a client without credentials becomes; "" refuses such clients where users exist.
	NoAuthUser string
	// Timeout is how long a connection may take to authenticate; 0 is 2 s.
	Timeout time.Duration
	// Websocket, where it names anybody, stands in place of Username, Password, Token and NoAuthUser for clients that come
	// over WebSocket.
	Websocket WebsocketSettings
}

// WebsocketSettings are the credentials of the block websocket { }.
type WebsocketSettings struct {
	Username, Password, Token string
	NoAuthUser                string
	Timeout                   time.Duration // 0: that of the others
}

// override reports whether they stand in place of the others.
func (w *WebsocketSettings) override() bool {
	return w.Username != "" || w.Token != "" || w.NoAuthUser != ""
}

// AccountSettings is one account.
type AccountSettings struct {
	Name      string
	Users     []UserSettings
	JetStream *JetStreamLimits // nil: JetStream is off in this account
	// Limits; 0 and -1 mean none.
	MaxConnections, MaxSubscriptions int
	MaxPayload                       int32
	Exports                          []Export
	Imports                          []Import
	Mappings                         []Mapping
}

// JetStreamLimits bound an account's JetStream use; -1 means no limit.
type JetStreamLimits struct {
	MaxMemory, MaxStore      int64 // bytes
	MaxStreams, MaxConsumers int
	MaxAckPending            int
	MemoryMaxStreamBytes     int64
	StoreMaxStreamBytes      int64
	MaxBytesRequired         bool
}

// UserSettings is one user: by name and password, or by public nkey.
type UserSettings struct {
	Name, Password string
	NKey           string
	Permissions    *Permissions // nil: the default permissions
	// ConnectionTypes allowed (STANDARD, WEBSOCKET, IN_PROCESS …); empty allows all.
	ConnectionTypes []string
}

// Permissions of a user, with NATS's meaning: an empty Allow allows everything, Deny wins.
type Permissions struct {
	Publish, Subscribe SubjectPermissions // entries of Subscribe may be "subject queue"
	// Responses, when set, lets the user publish to the reply subjects of messages that it received.
	Responses *ResponsePermission
}

// SubjectPermissions lists patterns.
type SubjectPermissions struct{ Allow, Deny []string }

// ResponsePermission bounds the dynamic permission to answer.
type ResponsePermission struct {
	MaxMsgs int           // answers per request; negative: no limit
	Expires time.Duration // after the request; negative: never
}
