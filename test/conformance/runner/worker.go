package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	shim "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/ntf"
)

// crew is the workers that run tests at the same time.
type crew struct {
	workers []*worker
	crashes *os.File
}

// worker runs one test at a time: it has a control plane, and a range of ports for servers under test.
type worker struct {
	id      int
	root    string // every server's directory lives under here
	control *exec.Cmd
	port    int
	nc      *nats.Conn
	service *ntf.Service
	log     *os.File

	mu       sync.Mutex // above what the running test's servers do
	features map[string]bool
	starts   map[string]int
	total    int
	crashed  []string
}

// newCrew starts the workers' control planes and joins the shim's events to them.
func newCrew(o options, temp string) (*crew, error) {
	c := &crew{}
	var err error
	if c.crashes, err = os.OpenFile(filepath.Join(o.out, "crashes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	for i := range o.workers {
		w := &worker{id: i, root: filepath.Join(temp, fmt.Sprintf("w%d", i))}
		if err := os.MkdirAll(w.root, 0o700); err != nil {
			return nil, err
		}
		w.begin()
		if o.keepLogs {
			if w.log, err = os.Create(filepath.Join(o.out, fmt.Sprintf("tester-%d.log", i))); err != nil {
				return nil, err
			}
		}
		c.workers = append(c.workers, w)
	}
	shim.OnStart = func(path string, features []string) { c.of(path).started(path, features) }
	shim.OnReload = func(path string) { c.of(path).reloaded() }
	shim.OnCrash = func(name, path string, err error, tail string) {
		c.of(path).crash(fmt.Sprintf("%s: %v\n%s", name, err, tail))
		fmt.Fprintf(c.crashes, "### %s %s: %v\n%s\n", time.Now().Format(time.TimeOnly), name, err, tail)
	}
	for _, w := range c.workers {
		if err := w.start(o); err != nil {
			c.stop()
			return nil, fmt.Errorf("start the tester: %w", err)
		}
	}
	return c, nil
}

// of finds the worker whose test started the server with this configuration file.
func (c *crew) of(path string) *worker {
	for _, w := range c.workers {
		if strings.HasPrefix(path, w.root+"/") {
			return w
		}
	}
	return c.workers[0]
}

func (c *crew) stop() {
	for _, w := range c.workers {
		w.stop()
	}
	c.crashes.Close()
}

func (w *worker) url() string { return fmt.Sprintf("nats://localhost:%d", w.port) }

func (w *worker) start(o options) error {
	var err error
	if w.port, err = freePort(); err != nil {
		return err
	}
	cmd := exec.Command(o.ref, "-a", "127.0.0.1", "-p", strconv.Itoa(w.port), "-n", fmt.Sprintf("control-%d", w.id))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := shim.Spawn(cmd); err != nil {
		return err
	}
	w.control = cmd
	for range 100 {
		if w.nc, err = nats.Connect(w.url(), nats.MaxReconnects(-1)); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if w.log != nil {
		log = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	low := o.portLow + 1000*w.id
	w.service, err = ntf.New(context.Background(), ntf.Options{
		Conn: w.nc, Dir: w.root, AdvertiseHost: "localhost", Logger: log,
		PortRange: ntf.PortRange{Low: low, High: low + 999},
	})
	return err
}

func (w *worker) stop() {
	if w.service != nil {
		w.service.Close()
	}
	if w.nc != nil {
		w.nc.Close()
	}
	if w.control != nil {
		// The control plane has nothing to lose: how it ends does not matter.
		_ = w.control.Process.Signal(syscall.SIGTERM)
		_ = w.control.Wait()
	}
}

// preflight starts one server with the default template: if it does not come up, every test would fail slowly.
func (w *worker) preflight() error {
	w.begin()
	m, err := w.nc.Request("tester.create.server", []byte(`{"jetstream":true,"description":"preflight"}`), 40*time.Second)
	if err == nil && m.Header.Get("Nats-Service-Error") != "" {
		err = errors.New(m.Header.Get("Nats-Service-Error"))
	}
	return errors.Join(err, w.service.Reset())
}

func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.features, w.starts, w.total, w.crashed = map[string]bool{}, map[string]int{}, 0, nil
}

func (w *worker) started(path string, features []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total++
	w.starts[path]++
	if w.starts[path] > 1 {
		w.features["restart"] = true
	}
	if len(w.starts) > 1 {
		w.features["multi-server"] = true
	}
	for _, f := range features {
		w.features[f] = true
	}
}

func (w *worker) reloaded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.features["reload"] = true
}

func (w *worker) crash(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crashed = append(w.crashed, what)
}

// runTest runs one top-level test in its own process.
func (w *worker) runTest(bin, dir, pkg, test string, timeout time.Duration) (result, []byte) {
	w.begin()
	r := result{pkg: pkg, test: test, status: statusFail}
	cmd := exec.Command(bin, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", timeout.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TESTER_NATS_URL="+w.url())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := shim.Spawn(cmd); err != nil {
		return r, []byte(err.Error())
	}
	// The test's own limit fires first, unless it hangs where it cannot.
	hard := time.AfterFunc(timeout+20*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	hard.Stop()
	r.seconds = time.Since(began).Seconds()
	r.judge(out.Bytes(), err, timeout)
	if err := w.service.Reset(); err != nil {
		fmt.Fprintln(&out, "runner: reset:", err)
	}
	w.report(&r, &out)
	return r, out.Bytes()
}

// report adds what the test's servers did to its result and output.
func (w *worker) report(r *result, out io.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.starts = w.total
	for f := range w.features {
		r.features = append(r.features, f)
	}
	sort.Strings(r.features)
	for _, c := range w.crashed {
		fmt.Fprintln(out, "runner: server process:", c)
	}
}

var doneLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

// judge sets the status and counts the subtests from a test's output.
func (r *result) judge(out []byte, err error, timeout time.Duration) {
	top := ""
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(make([]byte, 1<<20), 16<<20)
	for lines.Scan() {
		m := doneLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if m[2] == r.test {
			top = m[1]
			continue
		}
		r.subtests++
		if m[1] != "FAIL" {
			r.subtestsPassed++
		}
	}
	switch {
	case err == nil && top == "SKIP":
		r.status = statusSkip
	case err == nil && top == "PASS":
		r.status = statusPass
	case bytes.Contains(out, []byte("panic: test timed out")) || r.seconds > timeout.Seconds():
		r.status = statusTimeout
	}
}
