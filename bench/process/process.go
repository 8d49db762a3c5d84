// Package process runs a server, usually a NATS server, as an external process and measures it from outside: its
// processor time, its memory, whether it lives. It treats every server alike, so that two of them can be compared.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrExited says that the process ended although nobody asked it to.
var ErrExited = errors.New("server process ended")

// Config tells how to start a server.
type Config struct {
	Binary string   // path of the executable
	Args   []string // arguments beside those of Listen
	Env    []string // additions to the environment, KEY=VALUE
	Dir    string   // working directory, which must exist; the process's output goes to a file in it
	Port   int      // port on 127.0.0.1; 0 picks a free one

	// Listen gives the arguments that make the server listen on a port of 127.0.0.1. Default: -a and -p.
	Listen func(port int) []string
	// Ready tells whether the server at the address serves. Default: it sends INFO to whoever connects.
	Ready func(addr string) bool
	// StartTimeout bounds the wait until the server is ready. Default 15 s.
	StartTimeout time.Duration
}

func (c *Config) setDefaults() {
	if c.Listen == nil {
		c.Listen = func(port int) []string { return []string{"-a", "127.0.0.1", "-p", strconv.Itoa(port)} }
	}
	if c.Ready == nil {
		c.Ready = servesInfo
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 15 * time.Second
	}
}

// Server is a running server process. Its methods may be called from several goroutines.
type Server struct {
	cmd     *exec.Cmd
	port    int
	logPath string
	done    chan struct{} // closed once the process has been waited for

	mu      sync.Mutex
	stopped bool // we asked it to end
	waitErr error
}

// Start runs the binary and returns when it is ready. The process dies with this one.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.setDefaults()
	// Between choosing a free port and the server's listen another process may take it: try again with the next.
	attempts := 1
	if cfg.Port == 0 {
		attempts = 5
	}
	var err error
	for range attempts {
		var s *Server
		if s, err = start(ctx, cfg); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
	return nil, err
}

func start(ctx context.Context, cfg Config) (*Server, error) {
	port := cfg.Port
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	logPath := filepath.Join(cfg.Dir, "server.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(cfg.Binary, append(cfg.Listen(port), cfg.Args...)...)
	cmd.Env = append(os.Environ(), cfg.Env...)
	cmd.Dir = cfg.Dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Binary, err)
	}
	s := &Server{cmd: cmd, port: port, logPath: logPath, done: make(chan struct{})}
	go s.wait()
	if err := s.awaitReady(ctx, cfg); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// The kernel sends the death signal when the thread that forked ends, not the process: so one thread that never ends
// does all the forking.
var (
	spawnOnce sync.Once
	spawnRun  chan func()
)

func spawn(cmd *exec.Cmd) error {
	spawnOnce.Do(func() {
		spawnRun = make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range spawnRun {
				f()
			}
		}()
	})
	result := make(chan error, 1)
	spawnRun <- func() { result <- cmd.Start() }
	return <-result
}

func (s *Server) wait() {
	err := s.cmd.Wait()
	s.mu.Lock()
	if err == nil {
		err = errors.New("exit status 0")
	}
	s.waitErr = err
	s.mu.Unlock()
	close(s.done)
}

func (s *Server) awaitReady(ctx context.Context, cfg Config) error {
	deadline := time.Now().Add(cfg.StartTimeout)
	for {
		if err := s.Exited(); err != nil {
			return err
		}
		if cfg.Ready(s.Addr()) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not serve on port %d within %v: %s", s.cmd.Path, s.port, cfg.StartTimeout, s.LogTail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func servesInfo(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetReadDeadline(time.Now().Add(2*time.Second)) != nil {
		return false
	}
	line, err := bufio.NewReaderSize(c, 64<<10).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "INFO ")
}

// Addr is the client address, host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port is the client port.
func (s *Server) Port() int { return s.port }

// URL is the address as clients take it.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// PID is the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Exited is nil while the process runs or after it was asked to end; otherwise it wraps ErrExited and carries the end
// of what the process printed.
func (s *Server) Exited() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	return fmt.Errorf("%w: %s: %w: %s", ErrExited, filepath.Base(s.cmd.Path), s.waitErr, s.LogTail())
}

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop asks the process to end (SIGTERM), waits up to 15 s and then kills it. A process that had to be killed, or had
// ended before, is an error.
func (s *Server) Stop() error {
	if err := s.Exited(); err != nil {
		return err
	}
	s.signal(syscall.SIGTERM)
	select {
	case <-s.done:
		return nil
	case <-time.After(15 * time.Second):
		s.Kill()
		return fmt.Errorf("%s did not end within 15 s of SIGTERM: %s", filepath.Base(s.cmd.Path), s.LogTail())
	}
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
}

// Signal sends a signal without waiting for its effect.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	// The process may have ended a moment ago: then there is nothing to signal.
	_ = s.cmd.Process.Signal(sig)
}

// LogTail is the end, at most 4 KiB, of what the process printed.
func (s *Server) LogTail() string {
	b, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-4096):]))
}
