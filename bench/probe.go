package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/bench/wire"
)

const (
	// probePause lies between the requests whose latency a storm must not disturb.
	probePause = 200 * time.Microsecond
	// probeNice is the priority of the requester and the responder, where the process may raise it.
	probeNice = -10
)

// playProbe makes requests, with pauses, and answers them. For every line that it reads it prints the median and the
// 99th percentile of the latencies since the line before, in microseconds. Requester and responder are two threads that
// block in the kernel, where no scheduler but the kernel's has a say in when they go on.
func playProbe(addr string) error {
	responder, err := dialRaw(addr)
	if err != nil {
		return err
	}
	requester, err := dialRaw(addr)
	if err != nil {
		return err
	}
	const service, inbox = "bench.service", "_INBOX.bench.probe"
	payload := make([]byte, 16)
	if err := responder.prepare(wire.AppendSub(nil, service, "", "1")); err != nil {
		return err
	}
	if err := requester.prepare(wire.AppendSub(nil, inbox, "", "1")); err != nil {
		return err
	}
	var (
		mu     sync.Mutex
		taken  latencies
		failed = make(chan error, 3)
	)
	go func() {
		in := fmt.Appendf(nil, "MSG %s 1 %s %d\r\n%s\r\n", service, inbox, len(payload), payload)
		failed <- responder.loop(len(in), wire.AppendPub(nil, inbox, "", payload), nil)
	}()
	go func() {
		in := fmt.Appendf(nil, "MSG %s 1 %d\r\n%s\r\n", inbox, len(payload), payload)
		failed <- requester.loop(len(in), wire.AppendPub(nil, service, inbox, payload), func(d time.Duration) {
			mu.Lock()
			taken.add(d)
			mu.Unlock()
		})
	}()
	go func() {
		stdin := bufio.NewScanner(os.Stdin)
		for stdin.Scan() {
			mu.Lock()
			stretch := taken
			taken = make(latencies, 0, 1<<20)
			mu.Unlock()
			s := Sample{}
			stretch.percentiles(s)
			fmt.Println(s[P50], s[P99], len(stretch))
		}
		failed <- stdin.Err()
	}()
	return <-failed
}

// rawConn is a connection whose reads block the thread.
type rawConn struct {
	fd   int
	in   [4096]byte
	have int // bytes of in that were read and not used
}

func socketAddress(addr string) (unix.Sockaddr, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}, nil
}

func dialRaw(addr string) (*rawConn, error) {
	to, err := socketAddress(addr)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if err := unix.Connect(fd, to); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	stall := unix.NsecToTimeval(stallTimeout.Nanoseconds())
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &stall); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &rawConn{fd: fd}, nil
}

// prepare connects as a client, subscribes, and leaves nothing unread.
func (c *rawConn) prepare(sub []byte) error {
	// An INFO follows the first PONG and none the second.
	for _, step := range []struct{ send, await string }{
		{"", "INFO "}, {wire.ConnectLine + "PING\r\n", "PONG\r\n"}, {string(sub) + "PING\r\n", "PONG\r\n"},
	} {
		if _, err := unix.Write(c.fd, []byte(step.send)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		var got []byte
		for b := make([]byte, 4096); !bytes.Contains(got, []byte(step.await)) || !bytes.HasSuffix(got, []byte("\r\n")); {
			n, err := unix.Read(c.fd, b)
			if err != nil {
				return fmt.Errorf("read: %w", err)
			}
			if n == 0 {
				return io.ErrUnexpectedEOF
			}
			got = append(got, b[:n]...)
		}
	}
	return nil
}

// loop writes out for every message of size bytes that it reads. With a record it is the one who begins, and pauses.
func (c *rawConn) loop(size int, out []byte, record func(time.Duration)) error {
	runtime.LockOSThread()
	// Without the right to do so the figures are a little worse, for all servers.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), probeNice)
	pause := unix.NsecToTimespec(probePause.Nanoseconds())
	for {
		var began time.Time
		if record != nil {
			if err := rawCall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0); err != nil && err != unix.EINTR {
				return fmt.Errorf("pause: %w", err)
			}
			began = time.Now()
			if _, err := c.do(unix.SYS_WRITE, out); err != nil {
				return err
			}
		}
		if err := c.message(size); err != nil {
			return err
		}
		if record != nil {
			record(time.Since(began))
		} else if _, err := c.do(unix.SYS_WRITE, out); err != nil {
			return err
		}
	}
}

// message reads one message of size bytes; a PING is answered and an INFO skipped.
func (c *rawConn) message(size int) error {
	for {
		for c.have > 0 && c.in[0] != 'M' {
			line := c.in[:bytes.IndexByte(c.in[:c.have], '\n')+1]
			switch {
			case len(line) == 0 && c.have < len(c.in):
			case bytes.HasPrefix(line, []byte("PING")):
				if _, err := c.do(unix.SYS_WRITE, []byte("PONG\r\n")); err != nil {
					return err
				}
			case !bytes.HasPrefix(line, []byte("INFO")):
				return fmt.Errorf("%w: %q", wire.ErrServer, line)
			}
			if len(line) == 0 {
				break
			}
			c.use(len(line))
		}
		if c.have >= size && c.in[0] == 'M' {
			c.use(size)
			return nil
		}
		n, err := c.do(unix.SYS_READ, c.in[c.have:])
		if err != nil {
			return err
		}
		c.have += n
	}
}

// use drops the first n bytes of the input.
func (c *rawConn) use(n int) { c.have = copy(c.in[:], c.in[n:c.have]) }

// do makes a call that blocks the thread, and the runtime does not know.
func (c *rawConn) do(call uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, fmt.Errorf("request during a storm: %w", errno)
		case n == 0 && call == unix.SYS_READ:
			return 0, io.ErrUnexpectedEOF
		default:
			return int(n), nil
		}
	}
}

func rawCall(call, a, b, c uintptr) error {
	if _, _, errno := syscall.RawSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
