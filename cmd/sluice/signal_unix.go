//go:build !windows

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// processSignals delivers the signals that a server follows. A burst beyond the buffer is one signal of each kind at
// least, since the kernel merges them.
func processSignals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	return c
}

// signal follows one signal. A shutdown that has begun takes its bounded time: who cannot wait kills, which loses
// nothing that was acknowledged.
func (p *process) signal(s os.Signal, cancelStart context.CancelFunc) {
	p.trapped(s)
	switch s {
	case syscall.SIGINT, syscall.SIGTERM:
		switch {
		case p.ending == nil:
			cancelStart()
			p.begin(p.shutdown)
		case p.hurry != nil && s == syscall.SIGINT:
			// SIGTERM lets lame duck mode finish, as for nats-server: Kubernetes sends it after a hook has asked for that.
			p.hurry()
		}
	case syscall.SIGUSR1:
		p.reopen()
	case syscall.SIGUSR2:
		if p.ending == nil && p.started {
			p.beginLameDuck()
		}
	case syscall.SIGHUP:
		switch {
		case p.ending != nil:
		case p.started:
			p.reloadConfiguration()
		default:
			p.logger.Info("Server is still starting, the configuration is reloaded once it has started")
			p.reload = true
		}
	}
}

// signalCommands are the words of --signal, which are nats-server's.
var signalCommands = map[string]syscall.Signal{
	"stop":   syscall.SIGKILL,
	"quit":   syscall.SIGINT,
	"term":   syscall.SIGTERM,
	"reopen": syscall.SIGUSR1,
	"reload": syscall.SIGHUP,
	"ldm":    syscall.SIGUSR2,
}

// sendSignal carries out --signal command=pid. The pid may be the path of a pid file.
func sendSignal(spec string) error {
	name, target, ok := strings.Cut(spec, "=")
	s, known := signalCommands[name]
	if !known {
		return fmt.Errorf("unknown signal %q; use stop, quit, term, reopen, reload or ldm", name)
	}
	if !ok || target == "" {
		return fmt.Errorf("name a process: --signal %s=PID, or a pid file", name)
	}
	text := target
	if b, err := os.ReadFile(target); err == nil {
		text = strings.TrimSpace(string(b))
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 1 { // 0, 1 and below are groups, init and everything
		return fmt.Errorf("%q is neither a pid nor a pid file", target)
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("signal %s to process %d: %w", name, pid, err)
	}
	return nil
}
