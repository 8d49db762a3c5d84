// Package cli_test drives the built server with the real nats CLI, as a newcomer would, on every kind of store.
package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

// cli runs the nats command against one server.
type cli struct {
	binary, url, home string
}

func newCLI(t testing.TB, server *process.Server) cli {
	t.Helper()
	return cli{rig.CLIBinary(t), server.URL(), t.TempDir()}
}

// command builds an invocation. The CLI keeps contexts in its home, which must not be the developer's.
func (c cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"--server", c.url, "--timeout", "20s"}, args...)...)
	cmd.Env = []string{"HOME=" + c.home, "XDG_CONFIG_HOME=" + c.home, "PATH=/usr/bin:/bin", "NO_COLOR=1"}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

const patience = 60 * time.Second

// run returns what the command printed, and fails the test if the command failed.
func (c cli) run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.try(t, args...)
	if err != nil {
		t.Fatalf("nats %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c cli) try(t testing.TB, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := c.command(ctx, args...).CombinedOutput()
	return string(out), err
}

// json runs a command that prints JSON on its standard output.
func (c cli) json(t testing.TB, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nats %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("nats %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

// output gathers what a command in the background prints.
type output struct {
	cmd   *exec.Cmd
	lines chan string
	all   []string
}

// start runs a command in the background until the test ends, and returns when the server has its subscription.
func (c cli) start(t testing.TB, args ...string) *output {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &output{cmd: c.command(ctx, args...), lines: make(chan string, 1000)}
	w := lineWriter{lines: o.lines}
	o.cmd.Stdout, o.cmd.Stderr = &w, &w
	if err := o.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = o.cmd.Wait() // killed, so it has an error
	})
	return o
}

// await waits for a line that contains text.
func (o *output) await(t testing.TB, text string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line := <-o.lines:
			o.all = append(o.all, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			t.Fatalf("no %q within %v in:\n%s", text, patience, strings.Join(o.all, "\n"))
		}
	}
}

// lineWriter hands over whole lines. os/exec writes from one goroutine, since both streams are the same writer.
type lineWriter struct {
	rest  []byte
	lines chan<- string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		select {
		case w.lines <- string(line):
		default: // nobody waits for so many lines
		}
		w.rest = rest
	}
}

// on runs a test on each kind of store.
func on(t *testing.T, test func(t *testing.T, c cli, server *process.Server)) {
	for _, store := range rig.Stores(t) {
		t.Run(store.Name, func(t *testing.T) {
			server := rig.StartSluice(t, store)
			test(t, newCLI(t, server), server)
		})
	}
}

func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}
