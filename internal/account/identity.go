package account

import "crypto/x509"

// Credentials are what a client shows in CONNECT.
type Credentials struct {
	User, Pass string
	Token      string
	NKey       string // public key
	Sig        string // of Nonce, base64
	Nonce      []byte // that INFO gave
	JWT        string
	Connection string // how the client is connected: ConnectionStandard, …
	// Mapped clients are who their certificate says, and nothing else counts. Without a certificate they are nobody.
	Mapped      bool
	Certificate *x509.Certificate // verified
}

// The types of connection that a user may be limited to.
const (
	ConnectionStandard  = "STANDARD"
	ConnectionWebsocket = "WEBSOCKET"
	ConnectionInProcess = "IN_PROCESS"
	ConnectionLeaf      = "LEAFNODE"
	ConnectionLeafWS    = "LEAFNODE_WS"
	ConnectionMQTT      = "MQTT"
	ConnectionMQTTWS    = "MQTT_WS"
)

// none reports whether the client showed nothing at all.
func (c *Credentials) none() bool {
	return c.User == "" && c.Pass == "" && c.Token == "" && c.NKey == "" && c.JWT == ""
}

// Identity is who a client turned out to be. It is immutable.
type Identity struct {
	Account *Account
	// User is the user's name or public nkey; "" where no user was named.
	User   string
	Rights *Rights // nil: may do everything

	secret string // what its credentials were checked against
}

// Account is an account as it is configured. It is immutable: a reload makes new ones.
type Account struct {
	Name      string
	System    bool
	JetStream *JetStreamLimits // nil: off
	// Limits; negative: none.
	MaxConnections, MaxSubscriptions int
	MaxPayload                       int32
}

func newAccount(s AccountSettings, system string) *Account {
	a := &Account{
		Name:             s.Name,
		System:           s.Name == system,
		JetStream:        s.JetStream,
		MaxConnections:   s.MaxConnections,
		MaxSubscriptions: s.MaxSubscriptions,
		MaxPayload:       s.MaxPayload,
	}
	if a.MaxConnections == 0 {
		a.MaxConnections = -1
	}
	if a.MaxSubscriptions == 0 {
		a.MaxSubscriptions = -1
	}
	if a.MaxPayload == 0 {
		a.MaxPayload = -1
	}
	return a
}
