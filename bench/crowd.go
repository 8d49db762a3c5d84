package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/bench/wire"
)

// crowdTimeout bounds each of a crowd's stages.
const crowdTimeout = 60 * time.Second

// member is one connection of the crowd.
type member struct {
	fd      int
	stage   stage
	pending []byte // a line whose end has not come
}

// stage is what a member waits for.
type stage uint8

const (
	awaitsInfo  stage = iota // then it sends CONNECT and PING
	awaitsPong               // then it sends SUB and PING
	awaitsReady              // then it is connected
	rests
)

// crowd is connections that one thread serves, without waiting for any of them.
type crowd struct {
	epoll    int
	addr     unix.Sockaddr
	members  []member
	resting  int // how many rest
	waiting  int // how many wait for INFO
	scratch  []byte
	events   []unix.EpollEvent
	greeting []byte
}

// playCrowd connects all as fast as it can, closes every second one at once, sees that the others are still served, says
// "passed", and stays until its standard input ends.
func playCrowd(addr string, n int) error {
	runtime.LockOSThread()
	c := &crowd{
		members: make([]member, n), scratch: make([]byte, 64<<10), events: make([]unix.EpollEvent, 256),
		greeting: append([]byte(wire.ConnectLine), "PING\r\n"...),
	}
	var err error
	if c.addr, err = socketAddress(addr); err != nil {
		return err
	}
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	stdin := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := stdin.ReadString('\n'); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if err := yieldToAll(); err != nil {
		return err
	}
	if err := c.storm(); err != nil {
		return err
	}
	fmt.Println("passed")
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// backlog bounds how many wait to be accepted. The kernel keeps as many for a listener of Go's on Linux as
// /proc/sys/net/core/somaxconn says, 4096 by default, and lets others try again after seconds, which would measure the
// kernel's patience.
const backlog = 4000

func (c *crowd) storm() error {
	for i := range c.members {
		if err := c.connect(i); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		for c.waiting++; c.waiting >= backlog; {
			if err := c.poll(); err != nil {
				return err
			}
		}
	}
	if err := c.serve(len(c.members)); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	for i := 0; i < len(c.members); i += 2 {
		// At once: unsent bytes are dropped, the server sees a reset, and no port stays behind waiting.
		_ = unix.SetsockoptLinger(c.members[i].fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		if err := unix.Close(c.members[i].fd); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	for i := 1; i < len(c.members); i += 2 {
		m := &c.members[i]
		m.stage = awaitsReady
		c.resting--
		if err := m.write([]byte("PING\r\n")); err != nil {
			return fmt.Errorf("connection %d after the others vanished: %w", i, err)
		}
	}
	if err := c.serve(len(c.members)); err != nil {
		return fmt.Errorf("after half vanished: %w", err)
	}
	return nil
}

// connect begins a connection.
func (c *crowd) connect(i int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c.members[i].fd = fd
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := unix.Connect(fd, c.addr); err != nil && err != unix.EINPROGRESS {
		return err
	}
	return unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
}

// serve reads and answers until so many members rest.
func (c *crowd) serve(all int) error {
	for until := time.Now().Add(crowdTimeout); c.resting < all; {
		if time.Now().After(until) {
			return fmt.Errorf("%d of %d were served within %v", c.resting, all, crowdTimeout)
		}
		if err := c.poll(); err != nil {
			return err
		}
	}
	return nil
}

// poll reads and answers what has come, or comes within a second.
func (c *crowd) poll() error {
	n, err := unix.EpollWait(c.epoll, c.events, 1000)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, e := range c.events[:max(n, 0)] {
		if err := c.read(int(e.Fd)); err != nil {
			return fmt.Errorf("connection %d: %w", e.Fd, err)
		}
	}
	return nil
}

// read takes what a member was sent, line by line.
func (c *crowd) read(i int) error {
	m := &c.members[i]
	n, err := unix.Read(m.fd, c.scratch)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return err
	case n == 0:
		return io.ErrUnexpectedEOF
	}
	in := c.scratch[:n]
	if len(m.pending) > 0 {
		in = append(m.pending, in...)
	}
	for {
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			break
		}
		if err := c.line(i, in[:end+1]); err != nil {
			return err
		}
		in = in[end+1:]
	}
	m.pending = append([]byte(nil), in...)
	return nil
}

func (c *crowd) line(i int, line []byte) error {
	m := &c.members[i]
	switch {
	case bytes.HasPrefix(line, []byte("-ERR")):
		return fmt.Errorf("%w: %s", wire.ErrServer, bytes.TrimSpace(line))
	case bytes.HasPrefix(line, []byte("PING")):
		return m.write([]byte("PONG\r\n"))
	case bytes.HasPrefix(line, []byte("INFO")) && m.stage == awaitsInfo:
		m.stage = awaitsPong
		c.waiting--
		return m.write(c.greeting)
	case bytes.HasPrefix(line, []byte("PONG")) && m.stage == awaitsPong:
		m.stage = awaitsReady
		return m.write(append(wire.AppendSub(nil, fmt.Sprintf("crowd.%07d.inbox", i), "", "1"), "PING\r\n"...))
	case bytes.HasPrefix(line, []byte("PONG")) && m.stage == awaitsReady:
		m.stage = rests
		c.resting++
	}
	return nil
}

// write sends the little that a socket always takes.
func (m *member) write(b []byte) error {
	n, err := unix.Write(m.fd, b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// playAcceptor accepts whoever comes and gives the answers that a crowd waits for, and nothing else. It prints its
// address, and ends with its standard input.
func playAcceptor() error {
	served := make(chan error, 1)
	addr := make(chan string, 1)
	go func() { served <- acceptAll(addr) }()
	select {
	case err := <-served:
		return err
	case a := <-addr:
		fmt.Println(a)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		closed <- err
	}()
	select {
	case err := <-served:
		return err
	case err := <-closed:
		return err
	}
}

func acceptAll(addr chan<- string) error {
	runtime.LockOSThread()
	if err := yieldToAll(); err != nil {
		return err
	}
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("acceptor: %w", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	err = errors.Join(err, unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, backlog),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, l, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l)}))
	if err != nil {
		return fmt.Errorf("acceptor: %w", err)
	}
	bound, err := unix.Getsockname(l)
	if err != nil {
		return fmt.Errorf("acceptor: %w", err)
	}
	addr <- fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
	events, scratch := make([]unix.EpollEvent, 256), make([]byte, 64<<10)
	info, pong := fmt.Appendf(nil, "INFO {%q:%q}\r\n", "server_id", bytes.Repeat([]byte("N"), 400)), []byte("PONG\r\n")
	for {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("acceptor: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if fd == l {
				fd, _, err := unix.Accept4(l, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
				if err != nil {
					continue
				}
				if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
					return fmt.Errorf("acceptor: %w", err)
				}
				// Whether it arrives is the crowd's to find out.
				_, _ = unix.Write(fd, info)
				continue
			}
			got, err := unix.Read(fd, scratch)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
			case err != nil || got == 0:
				_ = unix.Close(fd)
			case bytes.Contains(scratch[:got], []byte("PING\r\n")):
				_, _ = unix.Write(fd, pong)
			}
		}
	}
}
