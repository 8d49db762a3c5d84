// Command runner measures how much of nats.go's own test suite passes against an external server binary. It hosts the
// suite's test framework service (ntf) on a control-plane connection served by a REFERENCE nats-server, and every
// server that a test asks for is a process of the binary under test (see ../shim).
//
// Every top-level test runs in its own process with its own time limit, so a panic or a hang costs one test.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	shim "github.com/nats-io/nats-server/v2/server"
)

type options struct {
	bin, ref        string
	style, extra    string
	repo            string
	packages        string
	modfile, tags   string
	run             string
	list            string
	out, temp       string
	timeout         time.Duration
	retries         int
	workers         int
	portLow         int
	keepLogs        bool
	serveOnly       bool
	verbose         bool
	summarize       string
	baseline, suite string
	check           string
	noPreflight     bool
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.bin, "bin", os.Getenv("NATS_SERVER_BIN"), "server binary under test")
	flag.StringVar(&o.ref, "ref", os.Getenv("REF_NATS_SERVER"), "reference nats-server binary for the control plane")
	flag.StringVar(&o.style, "style", "conf", "conf | flat | flags: how the server under test is configured")
	flag.StringVar(&o.extra, "extra-args", "", "extra arguments for the server under test, space separated")
	flag.StringVar(&o.repo, "repo", "", "checked-out repository of the suite")
	flag.StringVar(&o.packages, "pkgs", "", "packages, comma separated, relative to the repository")
	flag.StringVar(&o.modfile, "modfile", "", "-modfile for go test")
	flag.StringVar(&o.tags, "tags", "", "build tags")
	flag.StringVar(&o.run, "run", "", "only tests matching this regexp")
	flag.StringVar(&o.list, "list", "", "only tests in this file: PKG TEST, separated by a tab")
	flag.StringVar(&o.out, "out", "", "results directory")
	flag.StringVar(&o.temp, "tmp", os.TempDir(), "where the servers' directories go")
	flag.DurationVar(&o.timeout, "timeout", 120*time.Second, "limit for one test")
	flag.IntVar(&o.retries, "retries", 0, "times a failed test is tried again (flaky tests pass if any attempt passes)")
	flag.IntVar(&o.workers, "workers", 1, "tests run at the same time")
	flag.IntVar(&o.portLow, "port-low", 24000, "first port for servers under test; each worker takes 1000")
	flag.BoolVar(&o.keepLogs, "server-logs", false, "keep the logs of the servers under test")
	flag.BoolVar(&o.serveOnly, "serve", false, "only run the tester service, print TESTER_NATS_URL and wait")
	flag.BoolVar(&o.verbose, "v", false, "print every test")
	flag.StringVar(&o.summarize, "summarize", "", "only compare this results.tsv with -baseline and print N of M")
	flag.StringVar(&o.baseline, "baseline", "", "results.tsv of the reference server")
	flag.StringVar(&o.suite, "suite", "suite", "name printed by -summarize")
	flag.StringVar(&o.check, "check", "", "with -summarize: fail if a test of this file (PKG TEST) that was to run did not pass")
	flag.BoolVar(&o.noPreflight, "no-preflight", false, "run even if the server does not start with the default configuration")
	flag.Parse()
	return o
}

func main() {
	if err := run(parseFlags()); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(2)
	}
}

func run(o options) error {
	chosen, err := newSelection(o.run, o.list)
	if err != nil {
		return err
	}
	if o.summarize != "" {
		if err := summarize(os.Stdout, o.suite, o.summarize, o.baseline, chosen); err != nil {
			return err
		}
		if o.check == "" {
			return nil
		}
		return checkRatchet(os.Stdout, o.check, o.summarize, chosen)
	}
	if err := o.prepare(); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(o.temp, "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	crew, err := newCrew(o, temp)
	if err != nil {
		return err
	}
	defer crew.stop()
	if o.serveOnly {
		fmt.Printf("TESTER_NATS_URL=%s\n", crew.workers[0].url())
		select {}
	}
	if !o.noPreflight {
		if err := crew.workers[0].preflight(); err != nil {
			return fmt.Errorf("the server under test does not start with style %s: %w (-no-preflight runs the suite anyway)", o.style, err)
		}
	}
	return crew.runSuite(o, chosen, temp)
}

// prepare checks the options and sets up the shim.
func (o *options) prepare() error {
	if o.bin == "" || o.ref == "" {
		return errors.New("-bin and -ref are required (or NATS_SERVER_BIN and REF_NATS_SERVER)")
	}
	var err error
	if shim.Bin, err = executable(o.bin); err != nil {
		return err
	}
	if o.ref, err = executable(o.ref); err != nil {
		return err
	}
	shim.ConfStyle = shim.Style(o.style)
	shim.ExtraArgs = strings.Fields(o.extra)
	if o.out == "" {
		if o.out, err = os.MkdirTemp("", "conformance-results"); err != nil {
			return err
		}
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.keepLogs {
		shim.LogDir = filepath.Join(o.out, "server-logs")
	}
	if o.serveOnly {
		o.workers = 1
	}
	return os.MkdirAll(filepath.Join(o.out, "server-logs"), 0o755)
}

func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// selection is which tests of a suite to run.
type selection struct {
	match  *regexp.Regexp  // of the name; nil is all
	listed map[string]bool // by package, tab, name; nil is all
}

func newSelection(match, list string) (selection, error) {
	var s selection
	var err error
	if match != "" {
		if s.match, err = regexp.Compile(match); err != nil {
			return s, err
		}
	}
	if list != "" {
		if s.listed, err = readList(list); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s selection) has(pkg, test string) bool {
	return (s.match == nil || s.match.MatchString(test)) && (s.listed == nil || s.listed[pkg+"\t"+test])
}

// readList reads lines of PKG, tab, TEST; anything behind a third column or a # is left out.
func readList(path string) (map[string]bool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) >= 2 {
			out[f[0]+"\t"+f[1]] = true
		}
	}
	return out, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
