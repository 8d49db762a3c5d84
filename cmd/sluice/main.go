// Command sluice is the server. See `sluice --help`.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/version"
)

// Exit codes. needsRestart is the answer of -t --test_reload, as for nats-server.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitNeedsRestart
)

// server is what this command needs of a node.
type server interface {
	lifecycle
	// ClientURL is a URL that a client on this host can connect to, StoreURL the store without secrets; "" for none.
	ClientURL() string
	StoreURL() string
}

type lifecycle interface {
	// Start returns once clients can connect. Cancelling ctx gives up.
	Start(ctx context.Context) error
	// Shutdown hands over and closes everything; LameDuck first lets clients go, spread over the configured time.
	Shutdown(ctx context.Context) error
	LameDuck(ctx context.Context) error
	// Reload takes over what config.Reloadable allows, or nothing.
	Reload(config.Options) error
	// Done is closed when the server has ended, asked to or not; Err then says why it ended by itself.
	Done() <-chan struct{}
	Err() error
}

// environment is what a run touches of its process, so that a test can stand in.
type environment struct {
	stdout, stderr io.Writer
	signals        <-chan os.Signal
	newServer      func(config.Options, *slog.Logger, *prometheus.Registry) (server, error)
}

// command is a subcommand. Its name may be of two words.
type command struct {
	name, summary string
	run           func(env environment, args []string) int
}

// commands in the order of the help. The first is also what runs when none is named.
func commands() []command {
	return []command{
		{"serve", "run the server (the default)", serve},
		{"wal dump", "print what lies in a store's logs; see sluice wal dump --help", walDump},
		{"check", "verify all that lies in a store; see sluice check --help", checkStore},
		{"version", "print the version", func(env environment, _ []string) int {
			fmt.Fprintln(env.stdout, version.Line())
			return exitOK
		}},
		{"help", "print this help", func(env environment, _ []string) int {
			fmt.Fprint(env.stdout, usage())
			return exitOK
		}},
	}
}

func main() {
	os.Exit(run(environment{stdout: os.Stdout, stderr: os.Stderr, signals: processSignals(), newServer: newNode}, os.Args[1:]))
}

// run finds the subcommand and returns its exit code.
func run(env environment, args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return serve(env, args)
	}
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return c.run(env, args[len(words):])
		}
	}
	return env.usageError(fmt.Errorf("unknown command %q", args[0]))
}

// fail prints what went wrong, one line for each thing.
func (env environment) fail(err error) int {
	for line := range strings.Lines(err.Error() + "\n") {
		fmt.Fprint(env.stderr, "sluice: ", line)
	}
	return exitFailure
}

func (env environment) usageError(err error) int {
	fmt.Fprintf(env.stderr, "sluice: %v\nsluice --help shows the commands and flags\n", err)
	return exitUsage
}
