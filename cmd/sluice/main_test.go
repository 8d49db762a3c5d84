//go:build !windows

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/logging"
)

// fakeServer records what it is asked and answers what the test says.
type fakeServer struct {
	calls    chan string
	done     chan struct{}
	startErr error
	hold     chan struct{} // Start waits for it, or for the context
	ldmHold  chan struct{} // LameDuck waits for it

	mu       sync.Mutex
	reloaded []config.Options
}

func newFake() *fakeServer {
	return &fakeServer{calls: make(chan string, 16), done: make(chan struct{})}
}

func (s *fakeServer) Start(ctx context.Context) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.calls <- "start"
	return s.startErr
}
func (s *fakeServer) Shutdown(context.Context) error {
	s.calls <- "shutdown"
	return nil
}
func (s *fakeServer) LameDuck(ctx context.Context) error {
	s.calls <- "lame duck"
	if s.ldmHold != nil {
		select {
		case <-s.ldmHold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
func (s *fakeServer) Reload(o config.Options) error {
	s.mu.Lock()
	s.reloaded = append(s.reloaded, o)
	s.mu.Unlock()
	s.calls <- "reload"
	return nil
}
func (s *fakeServer) Done() <-chan struct{} { return s.done }
func (s *fakeServer) Err() error            { return errors.New("the log is lost") }
func (s *fakeServer) ClientURL() string     { return "nats://127.0.0.1:1234" }
func (s *fakeServer) StoreURL() string      { return "mem://" }
func (s *fakeServer) MonitorURL() string    { return "http://127.0.0.1:99" }

// output is a stream that a test follows while it is written.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{} // one element when something was written since the last look
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// session is a run in the background.
type session struct {
	t              *testing.T
	stdout, stderr *output
	signals        chan os.Signal
	options        config.Options
	exit           chan int
}

func start(t *testing.T, fake *fakeServer, args ...string) *session {
	t.Helper()
	s := &session{t: t, signals: make(chan os.Signal, 4), exit: make(chan int, 1), stdout: newOutput(), stderr: newOutput()}
	env := environment{stdout: s.stdout, stderr: s.stderr, signals: s.signals,
		newServer: func(o config.Options, _ *slog.Logger, _ *prometheus.Registry) (server, error) {
			s.options = o
			return fake, nil
		}}
	go func() { s.exit <- run(env, args) }()
	return s
}

func (s *session) want(fake *fakeServer, call string) {
	s.t.Helper()
	select {
	case got := <-fake.calls:
		if got != call {
			s.t.Fatalf("call %q, want %q", got, call)
		}
	case <-time.After(10 * time.Second):
		s.t.Fatalf("no call %q\n%s", call, s.stderr.String())
	}
}

func (s *session) wantExit(code int) {
	s.t.Helper()
	select {
	case got := <-s.exit:
		if got != code {
			s.t.Fatalf("exit %d, want %d\n%s", got, code, s.stderr.String())
		}
	case <-time.After(10 * time.Second):
		s.t.Fatal("no exit")
	}
}

// wantLog waits until the text stands n times in the log.
func (s *session) wantLog(text string, n int) {
	s.t.Helper()
	s.wantOutput(s.stderr, text, n)
}

func (s *session) wantOutput(o *output, text string, n int) {
	s.t.Helper()
	late := time.After(10 * time.Second)
	for strings.Count(o.String(), text) < n {
		select {
		case <-o.wrote:
		case <-late:
			s.t.Fatalf("%q is not %d times in\n%s", text, n, o.String())
		}
	}
}

func TestStartAndStop(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		fake := newFake()
		dir := t.TempDir()
		s := start(t, fake, "-p", "5000", "-P", filepath.Join(dir, "pid"), "--ports_file_dir", dir)
		s.want(fake, "start")
		s.wantLog("[INF] Server is ready", 1)
		if got, want := s.stdout.String(), "Listens: nats://127.0.0.1:1234\nStores:  mem://\nTry:     nats --server nats://127.0.0.1:1234 kv add demo\n"; got != want {
			t.Errorf("banner\n%s", got)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "pid")); string(b) != fmt.Sprint(os.Getpid()) {
			t.Errorf("pid file %q", b)
		}
		ports, _ := filepath.Glob(filepath.Join(dir, "*.ports"))
		if len(ports) != 1 {
			t.Fatalf("ports files %v", ports)
		}
		if b, _ := os.ReadFile(ports[0]); string(b) != `{"nats":["nats://127.0.0.1:1234"],"monitoring":["http://127.0.0.1:99"]}` {
			t.Errorf("ports file %s", b)
		}
		s.signals <- sig
		s.want(fake, "shutdown")
		s.wantExit(exitOK)
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
		if !s.options.JetStream.Enabled || s.options.Port != 5000 || s.options.Store.URL != config.DefaultStoreURL {
			t.Errorf("options %+v", s.options)
		}
	}
}

func TestStopWhileStarting(t *testing.T) {
	fake := newFake()
	fake.hold = make(chan struct{})
	s := start(t, fake)
	s.signals <- syscall.SIGTERM
	s.want(fake, "shutdown")
	s.wantExit(exitOK)
}

func TestFailureToStart(t *testing.T) {
	fake := newFake()
	fake.startErr = errors.New("the port is taken")
	close(fake.done) // as a node whose start failed does
	s := start(t, fake)
	s.want(fake, "start")
	s.wantExit(exitFailure)
	s.wantLog("[FTL] cannot start: the port is taken", 1)
}

func TestServerThatEndsByItself(t *testing.T) {
	fake := newFake()
	s := start(t, fake)
	s.want(fake, "start")
	s.wantLog("Server is ready", 1)
	close(fake.done)
	s.wantExit(exitFailure)
	s.wantLog("[FTL] the server has ended: the log is lost", 1)
}

func TestInterruptEndsLameDuck(t *testing.T) {
	fake := newFake()
	fake.ldmHold = make(chan struct{})
	s := start(t, fake)
	s.want(fake, "start")
	s.wantLog("Server is ready", 1)
	s.signals <- syscall.SIGUSR2
	s.want(fake, "lame duck")
	s.signals <- syscall.SIGINT
	s.want(fake, "shutdown")
	s.wantExit(exitOK)
}

func TestLameDuck(t *testing.T) {
	fake := newFake()
	fake.ldmHold = make(chan struct{})
	s := start(t, fake)
	s.want(fake, "start")
	s.wantLog("Server is ready", 1)
	s.signals <- syscall.SIGUSR2
	s.want(fake, "lame duck")
	s.signals <- syscall.SIGTERM // ignored, as by nats-server
	s.wantLog("signal=terminated", 1)
	close(fake.ldmHold)
	s.want(fake, "shutdown")
	s.wantExit(exitOK)
}

func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.conf")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("max_payload: 1000\nport: 4000")
	fake := newFake()
	fake.hold = make(chan struct{})
	s := start(t, fake, "-c", file, "-p", "5000")
	s.signals <- syscall.SIGHUP // before the start is complete
	s.wantLog("is reloaded once it has started", 1)
	put("max_payload: 2000\nport: 4000")
	close(fake.hold)
	s.want(fake, "start")
	s.want(fake, "reload")
	s.wantLog("[INF] Reloaded server configuration", 1)
	if got := fake.reloaded[0]; got.MaxPayload != 2000 || got.Port != 5000 || got.JetStream.Enabled {
		t.Errorf("reloaded %+v", got)
	}
	put("max_payload: 2000\nport: 4001\nserver_name: other")
	s.signals <- syscall.SIGHUP
	s.wantLog("[ERR] Failed to reload server configuration: server_name: the change needs a restart", 1)
	put("nonsense: 1\ntls {}")
	s.signals <- syscall.SIGHUP
	s.wantLog(": nonsense: unknown setting; ", 1)
	put("debug: true\nmax_payload: 3000")
	s.signals <- syscall.SIGHUP
	s.want(fake, "reload")
	s.wantLog("Reloaded server configuration", 2)
	s.signals <- syscall.SIGTERM
	s.want(fake, "shutdown")
	s.wantExit(exitOK)
	if len(fake.reloaded) != 2 || fake.reloaded[1].MaxPayload != 3000 {
		t.Errorf("%d reloads reached the server", len(fake.reloaded))
	}
}

func TestLogFile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "s.log")
	fake := newFake()
	s := start(t, fake, "-l", log)
	s.want(fake, "start")
	s.wantOutput(s.stdout, "Try:", 1)
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	s.signals <- syscall.SIGUSR1
	s.signals <- syscall.SIGHUP
	s.signals <- syscall.SIGTERM
	s.want(fake, "shutdown")
	s.wantExit(exitOK)
	before, err := os.ReadFile(log + ".1")
	if err != nil || !strings.Contains(string(before), "Starting sluice") {
		t.Errorf("before: %q %v", before, err)
	}
	after, err := os.ReadFile(log)
	for _, want := range []string{"File log re-opened", "Failed to reload server configuration: there is no configuration file", "Server has ended"} {
		if err != nil || !strings.Contains(string(after), want) {
			t.Errorf("no %q after the file was opened again: %q %v", want, after, err)
		}
	}
	if s.stderr.String() != "" {
		t.Errorf("stderr %q", s.stderr.String())
	}

	failing := newFake()
	failing.startErr = errors.New("the port is taken")
	s = start(t, failing, "-l", log)
	s.want(failing, "start")
	s.wantExit(exitFailure)
	if got := s.stderr.String(); got != "sluice: cannot start: the port is taken\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestOptionsFromFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.conf")
	text := "port: 4001\njetstream { store_dir: /from/file }\ndebug: true\nhttp: 8222\nstore: \"s3://b/p\""
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, args string
		check      func(o config.Options) bool
	}{
		{"nothing", "", func(o config.Options) bool {
			return o.JetStream.Enabled && o.Port == 4222 && o.Host == "0.0.0.0" && o.Store.URL == "dir://./sluice-data" && o.Log == logging.Options{}
		}},
		{"a port only", "-p 5000", func(o config.Options) bool { return o.JetStream.Enabled && o.Port == 5000 }},
		{"jetstream off", "-js=false", func(o config.Options) bool { return !o.JetStream.Enabled }},
		{"conformance style", "-a 127.0.0.1 -p 5000 -n srv --client_advertise 127.0.0.1:5000 -js -sd /d", func(o config.Options) bool {
			return o.Host == "127.0.0.1" && o.ServerName == "srv" && o.ClientAdvertise == "127.0.0.1:5000" && o.JetStream.Enabled && o.Store.URL == "dir:///d"
		}},
		{"long names, two dashes", "--addr h --port 1 --http_port 2 --server_name n --jetstream --store_dir /x --debug --trace --log f --pid q", func(o config.Options) bool {
			return o.Host == "h" && o.Port == 1 && o.HTTPPort == 2 && o.HTTPHost == "h" && o.ServerName == "n" && o.Store.URL == "dir:///x" && o.Log.Debug && o.Log.Trace && o.Log.File == "f" && o.PidFile == "q"
		}},
		{"debug and trace", "-DV", func(o config.Options) bool { return o.Log.Debug && o.Log.Trace && !o.TraceVerbose }},
		{"verbose trace", "-VV", func(o config.Options) bool { return !o.Log.Debug && o.Log.Trace && o.TraceVerbose }},
		{"all of it", "-DVV -T=false --logtime_utc --log_size_limit 10 --max_traced_msg_len 5", func(o config.Options) bool {
			return o.Log == logging.Options{Debug: true, Trace: true, NoTime: true, UTC: true, SizeLimit: 10} && o.TraceVerbose && o.MaxTracedMsgLen == 5
		}},
		{"user", "--user u --pass p", func(o config.Options) bool { return o.Auth.Username == "u" && o.Auth.Password == "p" }},
		{"token", "-auth t", func(o config.Options) bool { return o.Auth.Token == "t" }},
		{"store before store_dir", "-sd /d --store mem://", func(o config.Options) bool { return o.Store.URL == "mem://" }},
		{"the file", "-c FILE", func(o config.Options) bool {
			return o.Port == 4001 && o.Log.Debug && o.HTTPPort == 8222 && o.Store.URL == "s3://b/p" && o.JetStream.Enabled
		}},
		{"flags over the file", "-p 5 -D=false -m 6 -js=false --config FILE", func(o config.Options) bool {
			return o.Port == 5 && !o.Log.Debug && o.HTTPPort == 6 && !o.JetStream.Enabled
		}},
		{"a directory over the file's store", "-c FILE -sd /d", func(o config.Options) bool { return o.Store.URL == "dir:///d" }},
		{"store over the file's store", "-c FILE --store mem://", func(o config.Options) bool { return o.Store.URL == "mem://" }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f, err := parseFlags(strings.Fields(strings.ReplaceAll(tc.args, "FILE", file)))
			if err != nil {
				t.Fatal(err)
			}
			o, err := f.options()
			if err != nil {
				t.Fatal(err)
			}
			if !tc.check(o) {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	conf := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := conf("good.conf", "port: 4001"), conf("bad.conf", "port: 1\n\ncluster {\n name: x\n}\nmqtt {}")
	other, moved := conf("other.conf", "port: 4001\nmax_payload: 5"), conf("moved.conf", "port: 4002")
	tests := []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--version", exitOK, "sluice: v", ""},
		{"-v", exitOK, "(NATS 2.15.3)\n", ""},
		{"version", exitOK, "sluice: v", ""},
		{"serve --help", exitOK, "--signal COMMAND=PID", ""},
		{"help", exitOK, "Usage: sluice", ""},
		{"-h", exitOK, "Commands:", ""},
		{"bench", exitUsage, "", `unknown command "bench"`},
		{"-p 1 x", exitUsage, "", `unexpected argument "x"`},
		{"--routes x", exitUsage, "", "flag provided but not defined: -routes"},
		{"-p nine", exitUsage, "", `invalid value "nine" for flag -p: not a number`},
		{"-js=maybe", exitUsage, "", "neither true nor false"},
		{"-t", exitUsage, "", "-t needs a configuration file"},
		{"--test_reload x", exitUsage, "", "goes with -t only"},
		{"-t -c " + good, exitOK, "", good + " is valid (sha256:"},
		{"-t -c " + good + " --test_reload " + other, exitOK, "", other + " can be reloaded"},
		{"-t -c " + good + " --test_reload " + moved, exitNeedsRestart, "", "port: the change needs a restart"},
		{"-c " + bad, exitFailure, "", "sluice: " + bad + ":3: cluster: not supported"},
		{"-c " + bad, exitFailure, "", "sluice: " + bad + ":6: mqtt: not supported"},
		{"-c " + dir + "/none", exitFailure, "", "no such file"},
		{"-p 70000", exitFailure, "", "sluice: port: 70000 is no port"},
		{"--store ftp://x", exitFailure, "", "store.url: \"ftp\" is no kind of store"},
		{"-l " + dir + "/no/dir/log", exitFailure, "", "opening the log file"},
		{"--user a --auth b", exitFailure, "", "cannot stand beside a token"},
		{"-sl reload", exitFailure, "", "name a process"},
		{"-sl dance=1", exitFailure, "", `unknown signal "dance"`},
		{"-sl term=1", exitFailure, "", `"1" is neither a pid nor a pid file`},
		{"-sl term=-5", exitFailure, "", "neither a pid nor a pid file"},
	}
	for _, tc := range tests {
		t.Run(tc.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			env := environment{stdout: &stdout, stderr: &stderr, newServer: func(config.Options, *slog.Logger, *prometheus.Registry) (server, error) {
				t.Error("a server was made")
				return nil, errors.New("no")
			}}
			if code := run(env, strings.Fields(tc.args)); code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
			if !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("stdout %q\nstderr %q", stdout.String(), stderr.String())
			}
			if tc.code != exitOK && stdout.Len() > 0 {
				t.Errorf("an error went to stdout: %q", stdout.String())
			}
		})
	}
}

func TestSignalByPidFile(t *testing.T) {
	got := processSignals()
	path := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sendSignal("reload=" + path); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-got:
		if s != syscall.SIGHUP {
			t.Errorf("got %v", s)
		}
	case <-time.After(10 * time.Second):
		t.Error("no signal came")
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	(&flags{}).define(fs)
	words := strings.FieldsFunc(flagsHelp, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(words, "-"+f.Name) && !slices.Contains(words, "--"+f.Name) {
			t.Errorf("the help does not name -%s", f.Name)
		}
	})
}
