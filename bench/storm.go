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
	"time"

	"golang.org/x/sys/unix"
)

// storm measures somebody else's request and reply while many connections appear at once and half of them vanish.
//
// What shares a small machine with the server must not be what disturbs, so everything else is a process of its own:
//   - the crowd is one thread of the idle scheduling class with prepared bytes, which the kernel interrupts for anybody;
//   - the requester and the responder are two threads of a raised priority that block in the kernel (see probe.go);
//   - as a control, the same crowd first visits an acceptor that does next to nothing, also of the idle class, while the
//     requests go to the server. What that costs is the kernel's and the crowd's own doing.
func storm(ctx context.Context, env *Env) ([]Result, error) {
	n := env.Size(10_000, 1000)
	requester, err := startRole(ctx, "probe", env.Server.Addr())
	if err != nil {
		return nil, err
	}
	defer requester.end()
	calm, err := requester.during(func() error { return pause(ctx, env.Duration) })
	if err != nil {
		return nil, err
	}
	acceptor, err := startRole(ctx, "accept")
	if err != nil {
		return nil, err
	}
	defer acceptor.end()
	addr, err := acceptor.line()
	if err != nil {
		return nil, err
	}
	control, _, err := requester.duringStorm(ctx, addr, n)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	acceptor.end()
	// Ten thousand sockets take the kernel a moment to forget.
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	disturbed, took, err := requester.duringStorm(ctx, env.Server.Addr(), n)
	if err != nil {
		return nil, err
	}
	return []Result{{env.Name, Sample{
		P50: disturbed.p50, P99: disturbed.p99,
		Factor: disturbed.p99 / calm.p99, Control: control.p99 / calm.p99,
		Seconds: took.Seconds(),
	}}}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stormEnv makes the program play a role in a storm instead of measuring: its value is the role and its arguments.
const stormEnv = "SLUICE_BENCH_STORM"

// playRole is the whole of a process that startRole started.
func playRole(spec string) error {
	args := strings.Fields(spec)
	switch {
	case len(args) == 3 && args[0] == "crowd":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return fmt.Errorf("%s: %w", stormEnv, err)
		}
		return playCrowd(args[1], n)
	case len(args) == 1 && args[0] == "accept":
		return playAcceptor()
	case len(args) == 2 && args[0] == "probe":
		return playProbe(args[1])
	}
	return fmt.Errorf("%s: no role %q", stormEnv, spec)
}

// role is a process that plays a part. It ends when its standard input does.
type role struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  bool
}

func startRole(ctx context.Context, args ...string) (*role, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	// Nothing of the runtime's shall interrupt the threads that do the work.
	cmd.Env = append(os.Environ(), stormEnv+"="+strings.Join(args, " "), "GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=4")
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
	return &role{name: args[0], cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}, nil
}

// line reads what the role prints next.
func (r *role) line() (string, error) {
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the %s ended: %w", r.name, err)
	}
	return strings.TrimSpace(line), nil
}

// end lets the process go, connections and all. Its exit status says nothing that the lines it printed did not.
func (r *role) end() {
	if !r.ended {
		r.ended = true
		r.stdin.Close()
		_ = r.cmd.Wait()
	}
}

// figures of a stretch of requests, in microseconds.
type figures struct{ p50, p99 float64 }

// during gives the latencies of the probe's requests while do runs.
func (r *role) during(do func() error) (f figures, err error) {
	if _, err := r.mark(); err != nil {
		return f, err
	}
	failed := do()
	line, err := r.mark()
	if err := errors.Join(failed, err); err != nil {
		return f, err
	}
	if _, err := fmt.Sscan(line, &f.p50, &f.p99); err != nil {
		return f, fmt.Errorf("the probe said %q: %w", line, err)
	}
	return f, nil
}

// mark ends a stretch of the probe's requests and begins the next.
func (r *role) mark() (string, error) {
	if _, err := io.WriteString(r.stdin, "mark\n"); err != nil {
		return "", fmt.Errorf("the %s ended: %w", r.name, err)
	}
	return r.line()
}

// duringStorm is during for a crowd that visits a server, and how long that took.
func (r *role) duringStorm(ctx context.Context, addr string, n int) (f figures, took time.Duration, err error) {
	crowd, err := startRole(ctx, "crowd", addr, strconv.Itoa(n))
	if err != nil {
		return f, 0, err
	}
	defer crowd.end()
	if _, err := crowd.line(); err != nil { // it is ready
		return f, 0, err
	}
	began := time.Now()
	f, err = r.during(func() error {
		if _, err := io.WriteString(crowd.stdin, "go\n"); err != nil {
			return err
		}
		line, err := crowd.line()
		took = time.Since(began)
		if err == nil && line != "passed" {
			err = fmt.Errorf("the crowd said %q", line)
		}
		return err
	})
	return f, took, err
}

// yieldToAll puts the calling thread, to which its goroutine must be locked, into the idle scheduling class.
func yieldToAll() error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("take the idle scheduling class: %w", err)
	}
	return nil
}
