package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storeurl"
)

// Exit codes of check. What could not be checked is not the same as what is damaged.
const (
	checkClean  = 0
	checkErrors = 1
	checkFailed = 2
)

// checkStore verifies all that lies in a store. Without --repair it only reads, so it may run beside servers.
func checkStore(env environment, args []string) int {
	flags := flag.NewFlagSet("sluice check", flag.ContinueOnError)
	flags.SetOutput(env.stderr)
	url := flags.String("store", config.DefaultStoreURL, "the store: dir:///path, s3://bucket/prefix, …")
	repair := flags.Bool("repair", false, "move what nothing refers to under quarantine/; all nodes must be shut down")
	asJSON := flags.Bool("json", false, "print findings, moves and the summary as JSON, one object a line")
	quick := flags.Bool("quick", false, "do not read the messages of segments, only their indexes")
	var keys [][]byte
	flags.Func("segment-key", "the key of encrypted segments: a file, or 32, 48 or 64 hex digits; once for each key", func(arg string) error {
		key, err := readSegmentKey(arg)
		keys = append(keys, key)
		return err
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return checkFailed
	}
	if flags.NArg() > 0 {
		env.usageError(fmt.Errorf("check: unknown argument %q", flags.Arg(0)))
		return checkFailed
	}
	failed := func(err error) int {
		env.fail(err)
		return checkFailed
	}
	if err := storeIsThere(*url); err != nil {
		return failed(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	st, err := storeurl.Open(ctx, *url, storeurl.Options{})
	if err != nil {
		return failed(err)
	}
	defer st.Close()
	out := checkOutput{env: env, json: *asJSON}
	sum, err := runCheck(ctx, st, out, check.Options{Quick: *quick, SegmentKeys: keys, Report: out.finding}, *repair)
	if err != nil {
		return failed(err)
	}
	out.summary(sum)
	if sum.Errors > 0 {
		return checkErrors
	}
	return checkClean
}

// storeIsThere refuses a folder that does not exist: opened, it would be made, and found to be in order.
func storeIsThere(url string) error {
	target, err := storeurl.Parse(url)
	if err != nil || target.Kind != storeurl.Dir {
		return err
	}
	if _, err := os.Stat(target.Dir.Path); err != nil {
		return fmt.Errorf("there is no store: %w", err)
	}
	return nil
}

func runCheck(ctx context.Context, st store.Store, out checkOutput, opts check.Options, repair bool) (check.Summary, error) {
	if repair {
		return check.Repair(ctx, st, check.RepairOptions{Options: opts, Moved: out.moved})
	}
	return check.Run(ctx, st, opts)
}

// checkOutput prints what a check tells.
type checkOutput struct {
	env  environment
	json bool
}

func (o checkOutput) line(v any, text string) {
	if o.json {
		if data, err := json.Marshal(v); err == nil {
			fmt.Fprintf(o.env.stdout, "%s\n", data)
		}
		return
	}
	fmt.Fprintln(o.env.stdout, text)
}

func (o checkOutput) finding(f check.Finding) { o.line(f, f.String()) }

func (o checkOutput) moved(m check.Move) {
	text := fmt.Sprintf("moved %s to %s, %d bytes", m.Key, m.To, m.Bytes)
	if m.Left != "" {
		text = fmt.Sprintf("left %s: %s", m.Key, m.Left)
	}
	o.line(m, text)
}

func (o checkOutput) summary(s check.Summary) {
	o.line(struct {
		Summary check.Summary `json:"summary"`
	}{s}, s.String())
}

// readSegmentKey reads the key of segments: hex digits, or a file of these or of the bytes themselves.
func readSegmentKey(arg string) ([]byte, error) {
	if key, ok := segmentKeyOf(arg); ok {
		return key, nil
	}
	data, err := os.ReadFile(arg)
	if err != nil {
		return nil, fmt.Errorf("reading the segment key: %w", err)
	}
	if key, ok := segmentKeyOf(strings.TrimSpace(string(data))); ok {
		return key, nil
	}
	if n := len(data); n != 16 && n != 24 && n != 32 {
		return nil, fmt.Errorf("%s is no segment key: want 16, 24 or 32 bytes, or their hex digits", arg)
	}
	return data, nil
}

func segmentKeyOf(text string) ([]byte, bool) {
	key, err := hex.DecodeString(text)
	n := len(key)
	return key, err == nil && (n == 16 || n == 24 || n == 32)
}
