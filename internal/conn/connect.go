package conn

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// connect runs CONNECT, which may come more than once.
func (c *Conn) connect(arg []byte) bool {
	c.mu.Lock()
	stop(&c.authTimer)
	if !c.isOpen() {
		c.mu.Unlock()
		return false
	}
	now := time.Now()
	c.rtt = max(now.Sub(c.start), time.Nanosecond)
	c.armFirstPing()
	opts := c.opts
	if err := opts.Merge(arg); err != nil {
		c.mu.Unlock()
		c.parseFailed(fmt.Errorf("CONNECT: %w", err))
		return false
	}
	if c.frames != nil {
		c.frames.cookies.complete(&opts)
	}
	c.opts = opts
	c.headers = !c.srv.options().NoHeaders && opts.Headers
	again := c.connected
	c.connected = true
	c.mu.Unlock()
	c.touch(now, false)

	if again {
		c.dropSubscriptions()
	}
	if !c.authenticate() {
		return false
	}
	if opts.NewAccount || opts.Account != "" {
		// A client cannot choose its account.
		c.authViolation(errors.New("CONNECT names an account"))
		return false
	}
	c.apply(&opts)
	switch {
	case opts.Protocol < proto.ProtocolZero || opts.Protocol > proto.ProtocolInfo:
		c.sendErr(proto.TextBadProtocol)
		c.close(BadClientProtocolVersion)
		return false
	case opts.NoResponders && !c.headers:
		c.sendErr(proto.TextNoRespondersHeaders)
		c.close(NoRespondersRequiresHeaders)
		return false
	}
	if opts.Verbose {
		c.sendOK()
	}
	return true
}

// apply takes the options of a CONNECT over into what the read loop looks at.
func (c *Conn) apply(opts *proto.Connect) {
	c.verbose, c.pedantic, c.quiet = opts.Verbose, opts.Pedantic, !opts.Echo
	c.no503 = !opts.NoResponders
	c.awaiting = false
	c.parser.Headers = c.headers
	c.pub = nil // what it publishes from now on it publishes as somebody else
}

// credentials are what the client showed so far.
func (c *Conn) credentials() account.Credentials {
	port := c.port()
	return account.Credentials{
		User: c.opts.User, Pass: c.opts.Pass, Token: c.opts.Token,
		NKey: c.opts.NKey, Sig: c.opts.Sig, Nonce: []byte(c.nonce), JWT: c.opts.JWT,
		Connection: c.via, Mapped: port != nil && port.Map, Certificate: c.certificate(),
	}
}

// authenticate finds out who the client is, and joins it to its account. False means that the connection is closed.
func (c *Conn) authenticate() bool {
	id, err := c.srv.options().Directory.Authenticate(c.credentials())
	if err != nil {
		c.authViolation(err)
		return false
	}
	return c.join(id)
}

// join makes the connection one of the identity's account.
func (c *Conn) join(id *account.Identity) bool {
	if !c.srv.enter(c, id.Account) {
		c.sendErr(proto.TextMaxAccountConns)
		c.srv.options().Log.Error(c.label() + " - " + proto.TextMaxAccountConns)
		c.close(MaxAccountConnectionsExceeded)
		return false
	}
	space := c.srv.options().Broker.Space(id.Account.Name)
	c.mu.Lock()
	c.space = space
	c.mu.Unlock()
	c.setIdentity(id)
	c.parser.MaxPayload = int(c.maxPayload.Load())
	c.origin = &broker.Origin{
		ID: c.id, Account: id.Account.Name, User: id.User, Host: c.host, Kind: "Client",
		Name: c.opts.Name, Lang: c.opts.Lang, Version: c.opts.Version,
		Start: c.start, RTT: c.roundTrip,
	}
	c.srv.options().Watcher.Connected(id.Account.Name, c.describe)
	return true
}

// setIdentity takes over what the identity may do, and its limits.
func (c *Conn) setIdentity(id *account.Identity) {
	old := c.identity.Swap(id)
	c.mu.Lock()
	if old == nil || old.Rights != id.Rights {
		c.responses = newResponses(id.Rights)
	}
	c.limit(id.Account)
	c.mu.Unlock()
}

// limit takes over the limits of an account, as far as they are below those of the server. mu is held, or nobody else
// knows the connection.
func (c *Conn) limit(a *account.Account) {
	o := c.srv.options()
	c.maxSubs = lower(a.MaxSubscriptions, orNone(o.MaxSubscriptions))
	c.maxPayload.Store(int32(lower(int(a.MaxPayload), int(o.MaxPayload))))
}

// lower gives the lower of two limits, of which a negative one is none.
func lower(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// orNone makes 0 the negative number that means no limit.
func orNone(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// authViolation closes the connection of a client that may not be here.
func (c *Conn) authViolation(err error) {
	c.srv.options().Log.Error(fmt.Sprintf("%s - authentication error - %s: %v", c.label(), c.authLabel(), err))
	c.srv.options().Watcher.Refused(c.describe)
	c.sendErr(proto.TextAuthViolation)
	c.close(AuthenticationViolation)
}

// authLabel names the client by its credentials, without secrets.
func (c *Conn) authLabel() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.opts.NKey != "":
		return fmt.Sprintf("Nkey %q", c.opts.NKey)
	case c.opts.User != "":
		return fmt.Sprintf("User %q", c.opts.User)
	case c.opts.Token != "":
		return `Token "[REDACTED]"`
	}
	return `User "N/A"`
}

// authTimeout is called by the timer.
func (c *Conn) authTimeout() {
	c.sendErr(proto.TextAuthTimeout)
	c.close(AuthenticationTimeout)
}

// firstOperation decides about input before CONNECT where that must come first. With a user for those who do not
// authenticate, any operation may be the first.
func (c *Conn) firstOperation() bool {
	rest := c.parser.Rest()
	if len(rest) == 0 || rest[0] == 'C' || rest[0] == 'c' {
		return true
	}
	if c.srv.options().Directory.HasNoAuthUser(c.via) {
		c.mu.Lock()
		stop(&c.authTimer)
		c.connected = true
		c.mu.Unlock()
		c.awaiting = false
		return c.authenticate()
	}
	c.authViolation(errors.New("no CONNECT"))
	return false
}

// dropSubscriptions is for a second CONNECT, which may lead into another account.
func (c *Conn) dropSubscriptions() {
	c.mu.Lock()
	subs := c.subs
	c.subs = nil
	c.mu.Unlock()
	for _, sub := range subs {
		c.space.Unsubscribe(sub)
	}
}

// peerInfo runs an INFO of the client, which means nothing but must be JSON.
func (c *Conn) peerInfo(arg []byte) bool {
	var info proto.Info
	if err := json.Unmarshal(arg, &info); err != nil {
		c.parseFailed(fmt.Errorf("INFO: %w", err))
		return false
	}
	return true
}
