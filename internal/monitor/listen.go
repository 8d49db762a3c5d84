package monitor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// maxConns bounds the connections to the monitoring port; more wait to be accepted.
	maxConns = 256
	// A client has headerTimeout to ask, and loses an idle connection after idleTimeout. writeTimeout bounds an answer.
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	writeTimeout  = 2 * time.Minute
)

// Server listens for monitoring requests.
type Server struct {
	http     *http.Server
	listener net.Listener
	scheme   string
	served   chan struct{} // closed when Serve has returned
}

// Listen opens the port, -1 for a free one, and serves handler there until Shutdown; with TLS unless secure is nil.
func Listen(ctx context.Context, host string, port int, secure *tls.Config, handler http.Handler, logger *slog.Logger) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(max(port, 0))))
	if err != nil {
		return nil, fmt.Errorf("can't listen to the monitor port: %w", err)
	}
	s := &Server{listener: l, scheme: "http", served: make(chan struct{}), http: &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, WriteTimeout: writeTimeout, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}}
	var accept net.Listener = &boundedListener{Listener: l, slots: make(chan struct{}, maxConns), closed: make(chan struct{})}
	if secure != nil {
		s.scheme = "https"
		accept = tls.NewListener(accept, secure)
	}
	logger.Info("Starting " + s.scheme + " monitor on " + l.Addr().String())
	go func() {
		defer close(s.served)
		if err := s.http.Serve(accept); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("Monitoring has stopped", "error", err)
		}
	}()
	return s, nil
}

// Port is the port that is listened on.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// URL is where a client on this host finds it.
func (s *Server) URL() string {
	addr := s.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.scheme + "://" + net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// Shutdown lets the requests that are under way end until ctx is done, then closes the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.served
	return err
}

// boundedListener accepts only while fewer than its slots are taken.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, slots: l.slots}, nil
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn gives its slot back once.
type boundedConn struct {
	net.Conn
	once  sync.Once
	slots chan struct{}
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
