package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluicemq/sluice/bench/process"
)

// Metric names one figure of a Sample.
type Metric string

// The figures that cases take. A case takes those that mean something for it.
const (
	Rate    Metric = "rate"     // operations per second
	CPU     Metric = "CPU"      // server processor time per operation, microseconds
	LoadCPU Metric = "load CPU" // the generator's own processor time per operation, microseconds
	P50     Metric = "p50"      // median latency, microseconds
	P99     Metric = "p99"      // 99th percentile of latency, microseconds
	Bytes   Metric = "memory"   // resident bytes of the server per connection or subscription
	Seconds Metric = "time"     // duration of the whole, seconds
	Factor  Metric = "factor"   // p99 under disturbance over p99 without
	Control Metric = "control"  // the same factor where the disturbance visits another process than the server
)

// Sample is what one run of a case measured.
type Sample map[Metric]float64

// Result is a Sample and the row of the table that it belongs to. Most cases have one row.
type Result struct {
	Row    string
	Sample Sample
}

// Case is one load. Run puts it on a server that was started for it and returns what it measured; lost or doubled
// messages are an error.
type Case struct {
	Name      string // what -run matches, and the row of the only result
	JetStream bool   // needs JetStream on a file store
	Always    bool   // is also run against the reference with sync_interval: always
	Run       func(ctx context.Context, env *Env) ([]Result, error)
	// Bill has only Sluice run, with the configuration of billConf.
	Bill bool
}

// Env is what a case runs in.
type Env struct {
	Name     string          // of the case
	Server   *process.Server // replaced by Durable
	Duration time.Duration   // how long to measure
	Quick    bool            // take small numbers of everything
	Monitor  string          // address of the monitoring port; only for a Bill

	durable func(ctx context.Context) (*process.Server, error) // nil: the server runs as it shall already
}

// Durable makes the server run with the fsyncs of its variant, by a restart on the same store; connections break. Until
// then a variant that syncs every write runs without, so that loading data is quick. On all others it does nothing.
func (e *Env) Durable(ctx context.Context) error {
	if e.durable == nil {
		return nil
	}
	s, err := e.durable(ctx)
	if err != nil {
		return err
	}
	e.Server, e.durable = s, nil
	return nil
}

// Size is full, or quick in a quick run.
func (e *Env) Size(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// meter takes the difference of clocks over a measured stretch.
type meter struct {
	server   *process.Server
	began    time.Time
	cpu, own time.Duration
}

func (e *Env) startMeter() (*meter, error) {
	m := &meter{server: e.Server}
	var err error
	if m.cpu, err = m.server.CPU(); err != nil {
		return nil, err
	}
	if m.own, err = process.SelfCPU(); err != nil {
		return nil, err
	}
	m.began = time.Now()
	return m, nil
}

// stop returns the rate and the costs of the operations since startMeter.
func (m *meter) stop(operations int64) (Sample, error) {
	elapsed := time.Since(m.began)
	if operations == 0 {
		return nil, fmt.Errorf("no operation within %v", elapsed)
	}
	cpu, err := m.server.CPU()
	if err != nil {
		return nil, err
	}
	own, err := process.SelfCPU()
	if err != nil {
		return nil, err
	}
	n := float64(operations)
	return Sample{
		Rate:    n / elapsed.Seconds(),
		CPU:     microseconds(cpu-m.cpu) / n,
		LoadCPU: microseconds(own-m.own) / n,
	}, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// latencies collects durations of single operations, at most maxLatencies of them.
type latencies []time.Duration

const maxLatencies = 4 << 20

func (l *latencies) add(d time.Duration) {
	if len(*l) < maxLatencies {
		*l = append(*l, d)
	}
}

// percentiles adds the median and the 99th percentile to s.
func (l latencies) percentiles(s Sample) {
	if len(l) == 0 {
		return
	}
	slices.Sort(l)
	s[P50] = microseconds(l[len(l)/2])
	s[P99] = microseconds(l[len(l)*99/100])
}

// variant is one way to run one of the servers.
type variant struct {
	name   string
	binary string
	args   []string
	// reference: takes a configuration file of the NATS syntax, and syncInterval if it is set.
	reference    bool
	syncInterval string
	// conf, for Sluice, is a configuration beside which no argument is given.
	conf string
}

// start runs the server in dir. loading leaves out syncInterval.
func (v variant) start(ctx context.Context, dir string, jetStream, loading bool) (*process.Server, error) {
	args := slices.Clone(v.args)
	store := filepath.Join(dir, "store")
	conf := filepath.Join(dir, "server.conf")
	switch {
	case v.conf != "":
		if err := os.WriteFile(conf, []byte(v.conf), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-c", conf)
	case !jetStream:
	case v.reference:
		text := fmt.Sprintf("jetstream {\n  store_dir: %q\n", store)
		if v.syncInterval != "" && !loading {
			text += fmt.Sprintf("  sync_interval: %s\n", v.syncInterval)
		}
		if err := os.WriteFile(conf, []byte(text+"}\n"), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-c", conf)
	default:
		args = append(args, "-js", "-sd", store)
	}
	return process.Start(ctx, process.Config{Binary: v.binary, Args: args, Dir: dir})
}
