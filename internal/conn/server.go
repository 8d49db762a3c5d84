package conn

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/proto"
)

// ErrClosed: the server has been shut down, or is in lame duck mode.
var ErrClosed = errors.New("conn: server is closed")

// Server accepts and serves client connections. All methods may be called concurrently.
type Server struct {
	opts   atomic.Pointer[Options]
	stats  counters
	nextID atomic.Uint64
	loops  sync.WaitGroup // connections and accept loops
	done   chan struct{}  // closed by Shutdown
	door   *turnstile     // for those who come and go
	users  *userInfo
	// handshakes bounds those of TLS.
	handshakes rate

	mu        sync.Mutex // guards all below
	listeners map[net.Listener]struct{}
	conns     map[uint64]*Conn
	accounts  map[string]int // connections by account
	lame      bool           // lame duck mode: nobody new is let in
	stopped   bool
	past      ring
	departed  map[string]AccountStats // what closed connections leave behind, by account
}

// New makes a server. It accepts nobody until Serve or InProcessConn is called.
func New(opts Options) (*Server, error) {
	opts.setDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("conn: %w", err)
	}
	s := &Server{
		done:      make(chan struct{}),
		door:      newTurnstile(runtime.GOMAXPROCS(0) / 2),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[uint64]*Conn),
		accounts:  make(map[string]int),
		departed:  make(map[string]AccountStats),
		past:      ring{size: max(opts.MaxClosed, 0)},
	}
	s.opts.Store(&opts)
	if opts.Metrics != nil {
		if err := s.register(opts.Metrics); err != nil {
			return nil, fmt.Errorf("conn: metrics: %w", err)
		}
	}
	s.users = newUserInfo(s)
	if err := s.users.subscribe(); err != nil {
		return nil, fmt.Errorf("conn: %w", err)
	}
	return s, nil
}

// options gives the options as of the last Reload.
func (s *Server) options() *Options { return s.opts.Load() }

// Serve accepts connections from l until Shutdown or LameDuck, and then returns ErrClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if !s.listen(l) {
		return ErrClosed
	}
	defer s.loops.Done()
	defer l.Close()
	const minDelay, maxDelay = 10 * time.Millisecond, time.Second
	delay := minDelay
	for {
		nc, err := l.Accept()
		if err == nil {
			delay = minDelay
			s.door.turn()
			s.start(nc, account.ConnectionStandard)
			s.door.turnOver()
			continue
		}
		s.mu.Lock()
		_, open := s.listeners[l]
		s.mu.Unlock()
		if !open {
			return ErrClosed
		}
		if !temporary(err) {
			return fmt.Errorf("conn: accepting: %w", err)
		}
		s.options().Log.Error("accepting client connections", "error", err, "retry_in", delay)
		select {
		case <-time.After(delay):
			delay = min(2*delay, maxDelay)
		case <-s.done:
		}
	}
}

// listen takes a listener that is to be closed by Shutdown and LameDuck. False means that it is too late, and closed.
// Otherwise the caller is one of s.loops.
func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.lame {
		l.Close()
		return false
	}
	s.listeners[l] = struct{}{}
	s.loops.Add(1)
	return true
}

// temporary reports whether accepting may work again later: too many open files, a client that is gone already.
func temporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// InProcessConn gives the client's end of a connection that needs no network.
func (s *Server) InProcessConn() (net.Conn, error) {
	server, client := newPipe()
	if !s.start(server, account.ConnectionInProcess) {
		client.Close()
		return nil, ErrClosed
	}
	return client, nil
}

// start serves a new connection; false means that it was refused for good.
func (s *Server) start(nc net.Conn, via string) bool {
	c := s.newConn(nc, via)
	s.mu.Lock()
	if s.stopped || s.lame {
		s.mu.Unlock()
		nc.Close()
		return false
	}
	full := s.options().MaxConnections < 0 || len(s.conns) >= s.options().MaxConnections
	if !full {
		s.conns[c.id] = c
		s.accounts[account.DefaultName]++
	}
	s.loops.Add(1)
	s.mu.Unlock()
	s.stats.total.Add(1)
	go c.serve(full)
	return true
}

func (s *Server) newConn(nc net.Conn, via string) *Conn {
	now := time.Now()
	c := &Conn{
		srv:      s,
		nc:       nc,
		id:       s.nextID.Add(1),
		start:    now,
		via:      via,
		space:    s.options().Broker.Space(account.DefaultName),
		opts:     proto.DefaultConnect(),
		verbose:  true,
		pedantic: true,
		no503:    true,
		left:     ClientClosed,
		halves:   2,
	}
	c.awaiting = s.options().Directory.AuthRequired(via)
	if s.options().Directory.NonceRequired() {
		c.nonce = newNonce()
	}
	c.account = account.DefaultName
	c.counted = true
	c.limit(s.options().Directory.Default())
	c.parser.MaxControlLine = int(s.options().MaxControlLine)
	c.touch(now, false)
	c.try, _ = nc.(tryWriter)
	if addr := nc.RemoteAddr(); addr != nil {
		if host, port, err := net.SplitHostPort(addr.String()); err == nil {
			c.host = host
			c.rport, _ = strconv.Atoi(port)
		}
	}
	if f, ok := nc.(*frames); ok {
		c.frames, c.transport, c.tls, c.sock = f, f.transport, f.tls, f.sock()
	}
	if sc, ok := nc.(syscall.Conn); ok && rawIO {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw, c.sock = raw, raw
			c.in.ready, c.out.ready = c.tryRead, c.writeReady
		}
	}
	return c
}

// serve is the connection's goroutine: it greets the client and then reads.
func (c *Conn) serve(full bool) {
	if !c.greet(full) {
		c.cleanup()
		return
	}
	c.readLoop()
}

// greet sends INFO, after or before a TLS handshake where the port has one. False means that the connection is closed.
func (c *Conn) greet(full bool) bool {
	s := c.srv
	o := s.options()
	t := o.TLS
	if c.via == account.ConnectionWebsocket {
		t = nil // that is done
	}
	if t != nil && !full {
		if !c.greetTLS(t) {
			return false
		}
		c.begin(o)
		return true
	}
	s.door.turn()
	defer s.door.turnOver()
	info := s.infoFor(c)
	info.Nonce = c.nonce
	line := info.Append(nil)
	if !full {
		c.answer(line)
		c.begin(o)
		return true
	}
	if t != nil && t.First {
		line = nil
	}
	o.Log.Error(c.label() + " - " + proto.TextMaxConnections)
	c.answer(proto.AppendErr(line, proto.TextMaxConnections))
	c.close(MaxConnectionsExceeded)
	return true
}

// begin sets the timers of a connection that has been greeted.
func (c *Conn) begin(o *Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isOpen() {
		return
	}
	if c.awaiting {
		c.authTimer = time.AfterFunc(o.Directory.Timeout(c.via), c.authTimeout)
	}
	c.armPing()
}

// newNonce makes what a client signs: 11 random bytes in base64, as nats-server does.
func newNonce() string {
	var raw [11]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// infoFor gives the INFO of a connection.
func (s *Server) infoFor(c *Conn) *proto.Info {
	o := s.options()
	info := &proto.Info{
		ServerID: o.ServerID, XKey: o.XKey, ServerName: o.ServerName,
		Version: proto.Version, Proto: proto.ProtocolInfo, GitCommit: o.GitCommit, Go: o.GoVersion,
		Host: o.Host, Port: o.Port,
		Headers: !o.NoHeaders, AuthReq: o.Directory.AuthAdvertised(c.via),
		MaxPayload: c.maxPayload.Load(), JetStream: o.JetStream,
		ClientID: c.id, ClientIP: c.host,
		Domain: o.Domain, ConnectURLs: o.ConnectURLs, APILevel: o.APILevel,
		Sluice: o.Version,
		TLSReq: o.TLS.required(), TLSVerify: o.TLS.verifies(),
	}
	info.TLSAvail = o.TLS != nil && !info.TLSReq
	switch {
	case c.frames != nil:
		w := o.Websocket
		info.TLSReq, info.TLSAvail = w.TLS != nil, w.TLS != nil
		info.Host, info.Port, info.ConnectURLs = w.Host, w.Port, w.ConnectURLs
	case c.inProcess() && info.TLSReq:
		info.TLSReq, info.TLSAvail = false, true
	}
	return info
}

// enter counts a connection into another account; false means that the account is full.
func (s *Server) enter(c *Conn, a *account.Account) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.counted {
		s.leaveLocked(c)
	}
	if a.MaxConnections >= 0 && s.accounts[a.Name] >= a.MaxConnections {
		return false
	}
	s.accounts[a.Name]++
	c.account, c.counted = a.Name, true
	return true
}

// leaveLocked takes a connection out of its account's count.
func (s *Server) leaveLocked(c *Conn) {
	if s.accounts[c.account]--; s.accounts[c.account] <= 0 {
		delete(s.accounts, c.account)
	}
	c.counted = false
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *Conn) {
	gone := c.snapshot(c.worthKeeping())
	if gone.TLS != nil {
		// Without the certificates, which are large, and many connections are remembered.
		gone.TLS = &tls.ConnectionState{Version: gone.TLS.Version, CipherSuite: gone.TLS.CipherSuite, HandshakeComplete: true}
	}
	s.forget(c, &gone)
	s.options().Watcher.Disconnected(&gone)
}

// maxPastSubs and maxPastBytes bound the subscriptions that are remembered of a closed connection: of one that has more,
// or more bytes of subjects, none are.
const (
	maxPastSubs  = 32
	maxPastBytes = 2 << 10
)

// worthKeeping reports whether a connection's subscriptions are few enough to be remembered.
func (c *Conn) worthKeeping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subs) > maxPastSubs {
		return false
	}
	bytes := 0
	for _, sub := range c.subs {
		bytes += len(sub.Subject()) + len(sub.Queue()) + len(sub.Tag())
	}
	return bytes <= maxPastBytes
}

// forget takes a connection out of those that are open, and keeps what is to be remembered of it.
func (s *Server) forget(c *Conn, gone *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[c.id] == c {
		delete(s.conns, c.id)
		if c.counted {
			s.leaveLocked(c)
		}
	}
	s.past.add(*gone)
	count(s.departed, gone)
}

// all gives the connections that there are.
func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Shutdown closes all listeners and connections. It waits until nothing of them is left, or until ctx ends: then it
// returns the context's error, and the rest ends by itself.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.done)
	}
	s.closeListeners()
	s.mu.Unlock()
	for _, c := range s.all() {
		c.close(ServerShutdown)
	}
	ended := make(chan struct{})
	go func() {
		s.loops.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		s.door.close()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("conn: shutting down: %w", ctx.Err())
	}
}

func (s *Server) closeListeners() {
	for l := range s.listeners {
		l.Close()
		delete(s.listeners, l)
	}
}

func addrLabel(host string, port int, id uint64) string {
	addr := "pipe"
	if host != "" {
		addr = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return addr + " - cid:" + strconv.FormatUint(id, 10)
}
