// Command bench measures a Sluice server beside nats-server: both run as processes of their own, in turn, on the same
// machine and under the same load, and the medians of several rounds stand side by side in a Markdown table.
//
//	go build -o sluice ./cmd/sluice
//	go run ./bench -server ./sluice -reference "$(which nats-server)"
//
// The load generator is a raw-protocol client (package wire) that writes pre-built bytes; the second table shows its own
// processor time beside the server's. Servers listen on 127.0.0.1 and keep their stores in a temporary directory. A
// server that dies, or a message that is lost, doubled or out of order, fails the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sluicemq/sluice/bench/process"
)

type options struct {
	server, reference string
	serverArgs        string
	run               string
	rounds            int
	duration          time.Duration
	quick, list       bool
	temp              string
	billStore         string
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.server, "server", "", "path of the sluice binary; without it only the reference runs")
	flag.StringVar(&o.serverArgs, "server-args", "", "more arguments for sluice, separated by spaces")
	flag.StringVar(&o.reference, "reference", "", "path of the nats-server binary; without it only sluice runs")
	flag.StringVar(&o.run, "run", "", "only cases whose name matches this regular expression")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each server runs each case; medians are printed")
	flag.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long a case is measured, after a quarter of it as warm-up")
	flag.BoolVar(&o.quick, "quick", false, "one short round with small numbers: shows that everything works, measures little")
	flag.BoolVar(&o.list, "list", false, "print the cases and leave")
	flag.StringVar(&o.temp, "temp", os.TempDir(), "where the servers' stores go; use the same disk as in production")
	flag.StringVar(&o.billStore, "bill-store", "mem://", "the store of the bill: with s3://bucket/prefix?endpoint=… requests to it are counted, credentials are taken as by sluice")
	flag.Parse()
	if o.quick {
		o.rounds, o.duration = 1, 250*time.Millisecond
	}
	return o
}

func main() {
	if spec := os.Getenv(stormEnv); spec != "" {
		exit(playRole(spec))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	exit(run(ctx, parseFlags()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	var chosen []Case
	for _, c := range cases() {
		if only.MatchString(c.Name) {
			chosen = append(chosen, c)
		}
	}
	if o.list {
		for _, c := range chosen {
			fmt.Println(c.Name)
		}
		return nil
	}
	variants, err := o.variants()
	if err != nil {
		return err
	}
	// The stores are removed when all is measured: a file system that has just lost thousands of files is slow to make
	// new ones (ext4 looks for inodes that were not in use lately), and only a server that makes files would feel it.
	if o.temp, err = os.MkdirTemp(o.temp, "sluice-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.temp)
	if o.temp, err = filepath.Abs(o.temp); err != nil { // the servers run in folders of their own
		return err
	}
	t := newTable(variants)
	var failures []error
	for _, c := range chosen {
		if err := o.runCase(ctx, c, variants, t); err != nil {
			failures = append(failures, err)
			fmt.Fprintln(os.Stderr, "bench: FAILED", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Println(t.markdown())
	return errors.Join(failures...)
}

// variants are the servers to compare, in the order in which they take turns.
func (o options) variants() ([]variant, error) {
	var out []variant
	if o.server != "" {
		path, err := executable(o.server)
		if err != nil {
			return nil, fmt.Errorf("-server: %w", err)
		}
		out = append(out, variant{name: "sluice", binary: path, args: strings.Fields(o.serverArgs)})
	}
	if o.reference != "" {
		path, err := executable(o.reference)
		if err != nil {
			return nil, fmt.Errorf("-reference: %w", err)
		}
		out = append(out, variant{name: referenceName, binary: path, reference: true},
			variant{name: alwaysName, binary: path, reference: true, syncInterval: "always"})
	}
	if len(out) == 0 {
		return nil, errors.New("neither -server nor -reference is given")
	}
	return out, nil
}

func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// runCase has the servers take turns, round by round.
func (o options) runCase(ctx context.Context, c Case, variants []variant, t *table) error {
	for round := range o.rounds {
		for _, v := range variants {
			if v.syncInterval != "" && !c.Always || c.Bill && v.reference {
				continue
			}
			began := time.Now()
			results, err := o.runOnce(ctx, c, v)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", c.Name, v.name, err)
			}
			for _, r := range results {
				t.add(r, v.name)
			}
			fmt.Fprintf(os.Stderr, "bench: %-24s round %d/%d  %-26s %5.1f s\n", c.Name, round+1, o.rounds, v.name, time.Since(began).Seconds())
		}
	}
	return nil
}

// caseTimeout bounds one run of one case; loading ten million messages on a busy machine takes the longest.
const caseTimeout = 15 * time.Minute

// runOnce starts the server on an empty store, runs the case, and checks that the server still lives and ends well.
func (o options) runOnce(ctx context.Context, c Case, v variant) (results []Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(o.temp, "store-")
	if err != nil {
		return nil, err
	}
	env := &Env{Name: c.Name, Duration: o.duration, Quick: o.quick}
	if c.Bill {
		if env.Monitor, err = freeAddress(); err != nil {
			return nil, err
		}
		v.conf = billConf(o.billStore, env.Monitor)
	}
	s, err := v.start(ctx, dir, c.JetStream, true)
	if err != nil {
		return nil, err
	}
	env.Server = s
	if v.syncInterval != "" {
		env.durable = func(ctx context.Context) (*process.Server, error) {
			if err := s.Stop(); err != nil {
				return nil, err
			}
			return v.start(ctx, dir, c.JetStream, false)
		}
	}
	results, err = c.Run(ctx, env)
	if err != nil {
		// A dead server is the reason, whatever the client noticed of it.
		if died := env.Server.Exited(); died != nil {
			err = fmt.Errorf("the server died: %w (seen as: %w)", died, err)
		}
		env.Server.Kill()
		return nil, err
	}
	return results, env.Server.Stop()
}
