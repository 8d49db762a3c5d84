package conn

import (
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/proto"
)

// Reload takes new options over: limits, intervals, deadlines, connect_urls, tracing. Broker, Directory, identity and
// address stay. It must be called after the directory was swapped, too: clients that are not who they were, or may
// less, are closed or lose subscriptions, as nats-server does it.
func (s *Server) Reload(opts Options) error {
	opts.setDefaults()
	old := s.options()
	opts.Broker, opts.Directory, opts.Metrics = old.Broker, old.Directory, old.Metrics
	opts.Watcher = old.Watcher
	opts.ServerID, opts.ServerName, opts.XKey = old.ServerID, old.ServerName, old.XKey
	opts.Host, opts.Port = old.Host, old.Port
	opts.Websocket = old.Websocket.reloaded(opts.Websocket)
	if err := opts.Validate(); err != nil {
		return fmt.Errorf("conn: reloading: %w", err)
	}
	s.opts.Store(&opts)
	if err := s.users.subscribe(); err != nil {
		return fmt.Errorf("conn: reloading: %w", err)
	}
	conns := s.all()
	for _, c := range conns {
		c.recheck()
	}
	for _, a := range opts.Directory.Accounts() {
		opts.Broker.Space(a.Name).Invalidate()
	}
	s.closeExcess(&opts)
	if !slices.Equal(old.ConnectURLs, opts.ConnectURLs) {
		s.tellClients(false)
	}
	return nil
}

// closeExcess closes connections above a limit that was lowered.
func (s *Server) closeExcess(opts *Options) {
	conns := s.all()
	for _, c := range conns[min(len(conns), max(opts.MaxConnections, 0)):] {
		c.sendErr(proto.TextMaxConnections)
		c.close(MaxConnectionsExceeded)
	}
}

// recheck finds out whether the client may still be here, and what it may do now.
func (c *Conn) recheck() {
	c.mu.Lock()
	port, state := c.port(), c.tls
	c.mu.Unlock()
	if state != nil && port != nil && !pinned(port.Pinned, state) {
		c.close(TLSHandshakeError)
		return
	}
	directory := c.srv.options().Directory
	c.mu.Lock()
	credentials, connected := c.credentials(), c.connected
	c.mu.Unlock()
	old := c.identity.Load()
	if old == nil {
		if !connected && directory.AuthRequired(c.via) && !directory.HasNoAuthUser(c.via) {
			c.authViolation(account.ErrUnauthorized)
		}
		return
	}
	id, err := directory.Recheck(old, credentials)
	switch {
	case err != nil:
		c.authViolation(err)
		return
	case id.Account.Name != old.Account.Name:
		c.close(ClientClosed) // it comes back and finds its new account
		return
	case !c.srv.enter(c, id.Account):
		c.sendErr(proto.TextMaxAccountConns)
		c.close(MaxAccountConnectionsExceeded)
		return
	}
	c.setIdentity(id)
	c.recheckSubscriptions(id.Rights)
}

// recheckSubscriptions takes back what the client may not subscribe to any more.
func (c *Conn) recheckSubscriptions(rights *account.Rights) {
	space := c.srv.options().Broker.Space(c.identity.Load().Account.Name)
	var removed []*broker.Subscription
	c.mu.Lock()
	for key, sub := range c.subs {
		if rights.MaySubscribe(sub.Subject(), sub.Queue()) {
			sub.SetFiltered(rights.NeedsFilter(sub.Subject(), sub.Queue()))
			continue
		}
		removed = append(removed, sub)
		delete(c.subs, key)
	}
	over := c.maxSubs >= 0 && len(c.subs) > c.maxSubs
	c.mu.Unlock()
	for _, sub := range removed {
		space.Unsubscribe(sub)
		text := fmt.Sprintf("Permissions Violation for Subscription to %q (sid %q)", sub.Subject(), sid(sub))
		if sub.Queue() != "" {
			text = fmt.Sprintf("Permissions Violation for Subscription to %q using queue %q (sid %q)", sub.Subject(), sub.Queue(), sid(sub))
		}
		c.sendErr(text)
		c.srv.options().Log.Info(c.label() + " - Removed: " + text)
	}
	if over {
		c.sendErr(proto.TextMaxSubscriptions)
		c.close(MaxSubscriptionsExceeded)
	}
}
