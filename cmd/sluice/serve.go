package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/logging"
	"github.com/sluicemq/sluice/internal/version"
)

// shutdownTimeout bounds a clean shutdown: whatever is not handed over by then, others take over.
const shutdownTimeout = 30 * time.Second

// serve runs the server until it is told to stop.
func serve(env environment, args []string) int {
	f, err := parseFlags(args)
	switch {
	case err != nil:
		return env.usageError(err)
	case f.help:
		return run(env, []string{"help"})
	case f.version:
		return run(env, []string{"version"})
	case f.signal != "":
		if err := sendSignal(f.signal); err != nil {
			return env.fail(err)
		}
		return exitOK
	}
	o, err := f.options()
	if err != nil {
		return env.fail(err)
	}
	if f.test {
		return env.test(f, &o)
	}
	log, err := logging.Open(o.Log, env.stderr)
	if err != nil {
		return env.fail(err)
	}
	defer log.Close()
	p := &process{env: env, flags: f, options: o, log: log, logger: log.Logger()}
	if err := p.run(); err != nil {
		p.logger.Log(context.Background(), logging.LevelFatal, err.Error())
		if o.Log.File != "" {
			return env.fail(err) // the log is elsewhere
		}
		return exitFailure
	}
	return exitOK
}

// test says whether the configuration is valid (else options failed) and whether another could be reloaded over it.
func (env environment) test(f *flags, o *config.Options) int {
	fmt.Fprintf(env.stderr, "sluice: configuration file %s is valid (%s)\n", f.configFile, o.ConfigDigest)
	for _, c := range o.Caveats() {
		fmt.Fprintln(env.stderr, "sluice: warning:", c)
	}
	if f.testReload == "" {
		return exitOK
	}
	next := *f
	next.configFile = f.testReload
	n, err := next.options()
	if err != nil {
		return env.fail(err)
	}
	if _, err := config.Reloadable(o, &n); err != nil {
		env.fail(err)
		return exitNeedsRestart
	}
	fmt.Fprintf(env.stderr, "sluice: configuration file %s can be reloaded\n", f.testReload)
	return exitOK
}

// process is one run of the server. One goroutine, run, owns it.
type process struct {
	env     environment
	flags   *flags
	options config.Options
	log     *logging.Log
	logger  *slog.Logger
	server  server
	files   stateFiles

	started bool
	// reload asks for a reload as soon as the server has started.
	reload bool
	// ending carries the outcome of the shutdown; nil before one has begun.
	ending chan error
	// hurry ends lame duck mode at once; nil outside it.
	hurry context.CancelFunc
}

// run starts the server and follows the signals until the server has ended.
func (p *process) run() error {
	p.logStart()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if p.server, err = p.env.newServer(p.options, p.logger, registry); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go returnMemory(ctx)
	asked := p.takeReloads(ctx)
	starting := make(chan error, 1)
	go func() { starting <- p.server.Start(ctx) }()
	defer p.files.remove(p.logger)
	for {
		select {
		case err := <-starting:
			if p.ending != nil {
				continue // the shutdown that cancelled it tells the outcome
			}
			if err != nil {
				return fmt.Errorf("cannot start: %w", err)
			}
			if err := p.ready(); err != nil {
				return errors.Join(err, p.shutdown())
			}
		case s := <-p.env.signals:
			p.signal(s, cancel)
		case answer := <-asked:
			answer <- p.reloadConfiguration()
		case err := <-p.ending:
			p.logger.Info("Server has ended")
			return err
		case <-p.unasked():
			return fmt.Errorf("the server has ended: %w", p.server.Err())
		}
	}
}

// takeReloads has the server's system account ask for reloads, where there is a file to read. run answers them.
func (p *process) takeReloads(ctx context.Context) <-chan chan error {
	asked := make(chan chan error)
	s, ok := p.server.(interface{ OnReload(reread func() error) })
	if !ok || p.flags.configFile == "" {
		return asked
	}
	s.OnReload(func() error {
		answer := make(chan error, 1)
		select {
		case asked <- answer:
			return <-answer
		case <-time.After(reloadPatience):
			return errors.New("the server is busy with its start or its end")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return asked
}

// reloadPatience is how long the system account's request for a reload waits to be taken up.
const reloadPatience = 10 * time.Second

// unasked is closed when the server has ended by itself. It is nil while the start or a shutdown is under way: they tell
// their own outcome.
func (p *process) unasked() <-chan struct{} {
	if !p.started || p.ending != nil {
		return nil
	}
	return p.server.Done()
}

func (p *process) logStart() {
	p.logger.Info("Starting sluice", "version", version.String(), "nats", version.NATS, "commit", version.Commit(), "name", p.options.ServerName)
	if p.options.ConfigFile != "" {
		p.logger.Info("Using configuration file: " + p.options.ConfigFile + " (" + p.options.ConfigDigest + ")")
	}
	for _, c := range p.options.Caveats() {
		p.logger.Warn(c)
	}
}

// ready is the moment from which clients can connect.
func (p *process) ready() error {
	p.started = true
	if err := p.files.write(&p.options, p.server); err != nil {
		return err
	}
	fmt.Fprint(p.env.stdout, banner(p.server.ClientURL(), p.server.StoreURL()))
	p.logger.Info("Server is ready")
	if p.reload {
		p.reloadConfiguration()
	}
	return nil
}

// banner says in three lines where the server listens, where it stores, and what to try.
func banner(client, store string) string {
	listens, stores, try := client, store, "kv add demo"
	if store == "" {
		stores, try = "nothing (JetStream is off)", "pub hello world"
	}
	if client == "" {
		listens, client = "nowhere (in-process connections only)", "nats://127.0.0.1:4222"
	}
	return fmt.Sprintf("Listens: %s\nStores:  %s\nTry:     nats --server %s %s\n", listens, stores, client, try)
}

// begin starts the shutdown beside run, which goes on following signals. It is called once.
func (p *process) begin(how func() error) {
	p.ending = make(chan error, 1)
	go func() { p.ending <- how() }()
}

func (p *process) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// beginLameDuck starts the shutdown that lets clients go first. The configured durations bound it.
func (p *process) beginLameDuck() {
	ctx, cancel := context.WithTimeout(context.Background(), p.options.LameDuckDuration+p.options.LameDuckGracePeriod+shutdownTimeout)
	p.hurry = cancel
	p.begin(func() error {
		defer cancel()
		err := p.server.LameDuck(ctx)
		if err != nil && ctx.Err() == nil {
			return errors.Join(fmt.Errorf("lame duck mode: %w", err), p.shutdown())
		}
		return p.shutdown()
	})
}

// reloadConfiguration takes the file's changes over. Tools wait for the texts that it logs, which are nats-server's.
func (p *process) reloadConfiguration() error {
	p.reload = false
	if err := p.tryReload(); err != nil {
		p.logger.Error("Failed to reload server configuration: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		return err
	}
	p.logger.Info("Reloaded server configuration")
	return nil
}

func (p *process) tryReload() error {
	if p.flags.configFile == "" {
		return errors.New("there is no configuration file")
	}
	next, err := p.flags.options()
	if err != nil {
		return err
	}
	changes, err := config.Reloadable(&p.options, &next)
	if err != nil {
		return err
	}
	if err := p.server.Reload(next); err != nil {
		return err
	}
	if err := p.log.Reconfigure(next.Log); err != nil {
		return err
	}
	if err := p.files.write(&next, p.server); err != nil {
		return err
	}
	p.options = next
	for _, c := range next.ConfigWarnings {
		p.logger.Warn(c)
	}
	for _, c := range changes {
		p.logger.Info("Reloaded: " + c.Setting)
	}
	return nil
}

// reopen opens the log file again, for a tool that has moved it.
func (p *process) reopen() {
	isFile, err := p.log.Reopen()
	switch {
	case err != nil:
		p.logger.Error("Cannot open the log file again", "error", err)
	case isFile:
		p.logger.Info("File log re-opened")
	default:
		p.logger.Info("File log re-open ignored, not a file logger")
	}
}

func (p *process) trapped(s os.Signal) { p.logger.Info("Trapped signal", "signal", s.String()) }
