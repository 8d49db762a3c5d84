package conn

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// Conn is a client's connection. Its read loop owns most of it; what others touch is guarded by mu.
type Conn struct {
	srv   *Server
	nc    net.Conn        // set again by a TLS handshake, with mu
	raw   syscall.RawConn // of nc, if it has one: to wait for input without holding a buffer
	try   tryWriter       // nc, if it is one
	sock  syscall.RawConn // of what is under nc, if it has one
	id    uint64
	host  string
	rport int
	start time.Time
	via   string // how the client is connected: account.ConnectionStandard, …
	nonce string

	// Of TLS, set once by the handshake, with mu; nil without.
	transport *transport
	tls       *tls.ConnectionState
	tlsFirst  bool    // the handshake came before INFO
	frames    *frames // nc, if it is a WebSocket

	// The read loop's own.
	parser     proto.Parser
	in         input
	pub        *broker.Publisher // nil until the first publish
	space      *broker.Space
	origin     *broker.Origin
	verbose    bool
	pedantic   bool
	complained bool      // about the publish that is being read
	violation  time.Time // when one was logged last
	quiet      bool      // echo is off
	no503      bool      // no_responders was not asked for
	awaiting   bool      // CONNECT must come first
	left       Reason    // why it is to be closed when it leaves, unless it is closed

	identity atomic.Pointer[account.Identity] // nil before CONNECT

	maxPayload              atomic.Int32
	inMsgs, inBytes, stalls atomic.Int64
	last                    atomic.Int64 // activity, in Unix nanoseconds
	lastIn                  atomic.Int64 // activity of the client

	mu   sync.Mutex // guards all below
	out  output
	subs map[string]*broker.Subscription // by the client's id
	// opts is CONNECT as it stands; the read loop may read without mu, since only it writes.
	opts      proto.Connect
	headers   bool // agreed on
	maxSubs   int  // negative: no limit
	responses *responses
	authTimer *time.Timer
	pingTimer *time.Timer
	pingsOut  int
	rtt       time.Duration
	pingSent  time.Time
	closed    Reason // 0: open
	stopped   time.Time
	connected bool // a CONNECT came
	ponged    bool // the first PONG went out
	halves    int  // of reading and writing, those that are not through yet

	// Guarded by Server.mu.
	account string // whose number of connections this one is counted in
	counted bool
}

// ID is the connection's number, INFO's client_id.
func (c *Conn) ID() uint64 { return c.id }

func (c *Conn) inProcess() bool { return c.via == account.ConnectionInProcess }

// isOpen must be called with mu held.
func (c *Conn) isOpen() bool { return c.closed == 0 }

// label names the connection in logs, as nats-server does.
func (c *Conn) label() string {
	return addrLabel(c.host, c.rport, c.id)
}

// rights gives what the client may do; nil is everything.
func (c *Conn) rights() *account.Rights {
	if id := c.identity.Load(); id != nil {
		return id.Rights
	}
	return nil
}

// Denies tells whether the client's permissions keep a message from a subscription that they allow.
func (c *Conn) Denies(sub *broker.Subscription, subj []byte) bool {
	return c.rights().DeniesDelivery(subj, sub.Queue())
}
