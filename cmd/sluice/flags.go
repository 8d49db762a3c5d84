package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/internal/config"
)

// flags are the command line of serve. They are read with the standard library's package, which nats-server uses too:
// only so do -js, -sd and -DV mean with one dash what they mean there.
type flags struct {
	configFile string
	testReload string // with test: a file that a server with configFile is to reload
	signal     string // command[=pid]
	store      string
	test       bool
	help       bool
	version    bool
	tls        tlsFlags
	// overrides lay the other flags over the options, in their order on the command line.
	overrides []func(*config.Options)
}

// parseFlags returns an error that is about the usage.
func parseFlags(args []string) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet("sluice", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.define(fs)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		f.help = true
		return f, nil
	} else if err != nil {
		return nil, err
	}
	switch rest := fs.Args(); {
	case len(rest) == 0:
	case len(rest) == 1 && rest[0] == "version":
		f.version = true
	case len(rest) == 1 && rest[0] == "help":
		f.help = true
	default:
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	}
	if f.testReload != "" && !f.test {
		return nil, errors.New("--test_reload goes with -t only")
	}
	if f.test && f.configFile == "" {
		return nil, errors.New("-t needs a configuration file: -c FILE")
	}
	return f, nil
}

func (f *flags) define(fs *flag.FlagSet) {
	plain := func(field *string, names ...string) {
		for _, n := range names {
			fs.StringVar(field, n, "", "")
		}
	}
	plain(&f.configFile, "c", "config")
	plain(&f.testReload, "test_reload")
	plain(&f.signal, "sl", "signal")
	plain(&f.store, "store")
	fs.BoolVar(&f.test, "t", false, "")
	fs.BoolVar(&f.version, "v", false, "")
	fs.BoolVar(&f.version, "version", false, "")

	f.tls.define(fs)
	override(f, fs, asText, func(o *config.Options, v string) { o.Host = v }, "a", "addr", "net")
	override(f, fs, strconv.Atoi, func(o *config.Options, v int) { o.Port = v }, "p", "port")
	override(f, fs, strconv.Atoi, func(o *config.Options, v int) { o.HTTPPort = v }, "m", "http_port")
	override(f, fs, strconv.Atoi, func(o *config.Options, v int) { o.HTTPSPort = v }, "ms", "https_port")
	override(f, fs, asText, func(o *config.Options, v string) { o.ServerName = v }, "n", "name", "server_name")
	override(f, fs, asText, func(o *config.Options, v string) { o.ClientAdvertise = v }, "client_advertise")
	override(f, fs, asText, func(o *config.Options, v string) { o.Auth.Username = v }, "user")
	override(f, fs, asText, func(o *config.Options, v string) { o.Auth.Password = v }, "pass")
	override(f, fs, asText, func(o *config.Options, v string) { o.Auth.Token = v }, "auth")
	override(f, fs, asText, func(o *config.Options, v string) { o.PidFile = v }, "P", "pid")
	override(f, fs, asText, func(o *config.Options, v string) { o.PortsFileDir = v }, "ports_file_dir")
	override(f, fs, asText, func(o *config.Options, v string) { o.Log.File = v }, "l", "log")
	override(f, fs, asBytes, func(o *config.Options, v int64) { o.Log.SizeLimit = v }, "log_size_limit")
	override(f, fs, strconv.Atoi, func(o *config.Options, v int) { o.MaxTracedMsgLen = v }, "max_traced_msg_len")
	// A directory on the command line goes before a store in the file; --store goes before both.
	override(f, fs, asText, func(o *config.Options, v string) { o.JetStream.StoreDir, o.Store.URL = v, "" }, "sd", "store_dir")

	f.switches(fs, func(o *config.Options, v bool) { o.JetStream.Enabled = v }, "js", "jetstream")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.Debug = v }, "D", "debug")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.Trace = v }, "V", "trace")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.Trace, o.TraceVerbose = v, v }, "VV")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.Debug, o.Log.Trace = v, v }, "DV")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.Debug, o.Log.Trace, o.TraceVerbose = v, v, v }, "DVV")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.NoTime = !v }, "T", "logtime")
	f.switches(fs, func(o *config.Options, v bool) { o.Log.UTC = v }, "logtime_utc")
}

// override defines a flag with a value that is laid over the options.
func override[T any](f *flags, fs *flag.FlagSet, read func(string) (T, error), set func(*config.Options, T), names ...string) {
	for _, n := range names {
		fs.Func(n, "", func(s string) error {
			v, err := read(s)
			if err != nil {
				return errors.New("not a number") // the flag package names the flag and the value
			}
			f.overrides = append(f.overrides, func(o *config.Options) { set(o, v) })
			return nil
		})
	}
}

func asText(s string) (string, error) { return s, nil }
func asBytes(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// switches defines a flag that is on when it stands alone and takes =true or =false.
func (f *flags) switches(fs *flag.FlagSet, set func(*config.Options, bool), names ...string) {
	for _, n := range names {
		fs.BoolFunc(n, "", func(s string) error {
			v, err := strconv.ParseBool(s)
			if err != nil {
				return errors.New("neither true nor false")
			}
			f.overrides = append(f.overrides, func(o *config.Options) { set(o, v) })
			return nil
		})
	}
}

// options reads the configuration file, if one is named, and lays the flags over it. A reload calls it again.
//
// Without a file JetStream is on, whatever other flags there are; with one it is as the file says. -js and -js=false
// go before both.
func (f *flags) options() (config.Options, error) {
	o := config.Options{JetStream: config.JetStream{Enabled: true}}
	if f.configFile != "" {
		var err error
		if o, err = config.Load(f.configFile); err != nil {
			return config.Options{}, err
		}
	}
	for _, set := range f.overrides {
		set(&o)
	}
	if err := f.tls.lay(&o); err != nil {
		return config.Options{}, err
	}
	if f.store != "" {
		o.Store.URL = f.store
	}
	o.SetDefaults()
	return o, o.Validate()
}

func usage() string {
	var b strings.Builder
	b.WriteString("Usage: sluice [command] [flags]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.summary)
	}
	b.WriteString(flagsHelp)
	return b.String()
}

const flagsHelp = `
Without a configuration file JetStream is on, and the store is the directory ./sluice-data.

Server:
  -a, --addr, --net HOST           address to listen on (0.0.0.0)
  -p, --port PORT                  port for clients (4222; -1 takes a free one)
  -n, --name, --server_name NAME   name of the server, which also names its log in the store (the host's name)
      --client_advertise HOST:PORT address that clients are told
  -m, --http_port PORT             port for monitoring: /healthz /varz /connz /subsz /jsz /metrics
  -ms, --https_port PORT           the same port with TLS
  -c, --config FILE                configuration file in the NATS syntax
  -t                               test the configuration file and exit
      --test_reload FILE           with -t: test whether FILE could be reloaded (exit code 3: it needs a restart)
  -P, --pid FILE                   file for the process id
      --ports_file_dir DIR         directory for the file sluice_<pid>.ports with the addresses
  -sl, --signal COMMAND=PID        send a running server stop, quit, term, reopen, reload or ldm; PID may name a pid file

Storage:
  -js, --jetstream                 turn JetStream on (off: -js=false)
      --store URL                  dir:///path, s3://bucket/prefix?region=…&endpoint=…&path_style=true or mem://
  -sd, --store_dir DIR             the same as a directory store at DIR

Log (to standard error):
  -l, --log FILE                   write to a file
      --log_size_limit BYTES       set the file aside when it has grown so large
  -T, --logtime                    with the time (off: -T=false)
      --logtime_utc                in UTC
  -D, --debug                      debug lines too
  -V, --trace                      trace the client protocol
  -VV, -DV, -DVV                   trace the system account as well; debug and trace; both
      --max_traced_msg_len BYTES   payload bytes in a trace line (0: all)

Authorization:
      --user USER, --pass PASSWORD the one user and password
      --auth TOKEN                 the one token

TLS:
      --tls                        with TLS (off: --tls=false)
      --tlscert FILE, --tlskey FILE  certificate and key of the server
      --tlsverify                  ask clients for certificates (or: --tlsverify=optional)
      --tlscacert FILE             who signs them

  -v, --version                    print the version
  -h, --help                       print this help

Signals: SIGTERM and SIGINT shut down, SIGUSR2 lets clients go first (lame duck), SIGHUP reloads the configuration
file, SIGUSR1 opens the log file again.
`
