package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/bench/wire"
)

// stormEnv makes the program connect a crowd to a server instead of measuring: its value is "ADDRESS CONNECTIONS".
const stormEnv = "SLUICE_BENCH_STORM"

// probePause lies between the requests whose latency a storm must not disturb.
const probePause = 200 * time.Microsecond

// storm measures somebody else's request and reply while many connections appear at once and half of them vanish.
// The crowd is a process of its own with a lower priority, so that on a small machine it takes the processor from
// neither the server nor the requester.
func storm(ctx context.Context, env *Env) ([]Result, error) {
	n := env.Size(10_000, 1000)
	responder, err := startResponder(ctx, env, "bench.service")
	if err != nil {
		return nil, err
	}
	defer responder.close()
	c, err := newCaller(ctx, env, "_INBOX.bench.probe", "bench.service", make([]byte, 16))
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	calm, err := probe(c, time.After(env.Duration), nil)
	if err != nil {
		return nil, err
	}
	crowd, err := startCrowd(ctx, env.Server.Addr(), n)
	if err != nil {
		return nil, err
	}
	defer crowd.end()
	disturbed, err := probe(c, time.After(2*time.Minute), crowd.passed)
	if err != nil {
		return nil, responder.explain(err)
	}
	if err := crowd.result(); err != nil {
		return nil, err
	}
	quiet, s := Sample{}, Sample{}
	calm.percentiles(quiet)
	disturbed.percentiles(s)
	s[Factor] = s[P99] / quiet[P99]
	s[Seconds] = crowd.took.Seconds()
	return []Result{{env.Name, s}}, nil
}

// probe makes requests, with pauses, until either channel says stop; the first one is a failure if the second is set.
func probe(c *caller, timeout <-chan time.Time, stop <-chan struct{}) (latencies, error) {
	var l latencies
	for {
		select {
		case <-timeout:
			if stop != nil {
				return nil, errors.New("the crowd did not connect in time")
			}
			return l, nil
		case <-stop:
			return l, nil
		case <-time.After(probePause):
		}
		c.conn.SetReadTimeout(stallTimeout)
		took, err := c.call(c.request, func(m wire.Message) error { return nil })
		if err != nil {
			return nil, fmt.Errorf("request during a storm: %w", err)
		}
		l.add(took)
	}
}

// crowd is the process that runs connectCrowd.
type crowd struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	passed chan struct{} // closed once the storm is over or has failed
	err    error         // set before passed is closed
	took   time.Duration // set before passed is closed
}

func startCrowd(ctx context.Context, addr string, n int) (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", stormEnv, addr, n), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &crowd{cmd: cmd, stdin: stdin, passed: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(c.passed)
		line, err := bufio.NewReader(stdout).ReadString('\n')
		c.took = time.Since(began)
		if err != nil || line != "passed\n" {
			c.err = fmt.Errorf("the crowd failed: %q %w", line, err)
		}
	}()
	return c, nil
}

// result waits for the end of the storm.
func (c *crowd) result() error {
	<-c.passed
	return c.err
}

// end lets the process go, connections and all.
func (c *crowd) end() {
	c.stdin.Close()
	<-c.passed
	// Its exit status says nothing that the line it printed did not.
	_ = c.cmd.Wait()
}

// connectCrowd is the other process: it connects all, drops every second one, says so, and stays until its standard
// input ends.
func connectCrowd(spec string) error {
	addr, count, _ := strings.Cut(spec, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return fmt.Errorf("%s: %w", stormEnv, err)
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conns := make([]*wire.Conn, n)
	err = all(dialers*4, func(d int) error {
		for i := d; i < n; i += dialers * 4 {
			c, err := wire.Dial(ctx, addr, wire.Options{ReadBuffer: 4 << 10})
			if err != nil {
				return fmt.Errorf("connection %d of %d: %w", i, n, err)
			}
			conns[i] = c
			if err := c.Write(wire.AppendSub(nil, fmt.Sprintf("crowd.%07d.inbox", i), "", "1")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; i < n; i += 2 {
		conns[i].Close()
	}
	// The others must be served after the fall.
	for i := 1; i < n; i += 2 {
		conns[i].SetReadTimeout(30 * time.Second)
		if err := conns[i].Flush(); err != nil {
			return fmt.Errorf("connection %d after the others vanished: %w", i, err)
		}
	}
	fmt.Println("passed")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
