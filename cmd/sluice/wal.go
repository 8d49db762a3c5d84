package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store/storeurl"
	"github.com/sluicemq/sluice/internal/wal"
)

// walDump prints heads, logs and records of a store. It only reads, so it may run beside servers.
func walDump(env environment, args []string) int {
	flags := flag.NewFlagSet("sluice wal dump", flag.ContinueOnError)
	flags.SetOutput(env.stderr)
	url := flags.String("store", config.DefaultStoreURL, "the store: dir:///path, s3://bucket/prefix, …")
	prefix := flags.String("prefix", "", "only these keys: heads/, wal/NODE/, wal/NODE/EPOCH …; all of them if empty")
	records := flags.Bool("records", false, "print every record, one a line")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if flags.NArg() > 0 {
		return env.usageError(fmt.Errorf("wal dump: unknown argument %q", flags.Arg(0)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	st, err := storeurl.Open(ctx, *url, storeurl.Options{})
	if err != nil {
		return env.fail(err)
	}
	defer st.Close()
	opts := wal.DumpOptions{Prefix: strings.TrimPrefix(*prefix, "/")}
	if *records {
		opts.Describe = describeRecords
	}
	if err := wal.Dump(ctx, st, env.stdout, opts); err != nil {
		return env.fail(err)
	}
	return exitOK
}

// describeRecords prints the records of a batch.
func describeRecords(body []byte, line func(string)) error {
	for len(body) > 0 {
		r, rest, err := record.Next(body)
		if err != nil {
			return err
		}
		line(record.Describe(r))
		body = rest
	}
	return nil
}
