package node

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/sluicemq/sluice/internal/config"
	"github.com/sluicemq/sluice/internal/engine"
	"github.com/sluicemq/sluice/internal/store/storeurl"
	"github.com/sluicemq/sluice/internal/stream"
)

// engineLimits are the bounds of single streams and consumers.
func engineLimits(o *config.Options) engine.Limits {
	l := &o.JetStream.Limits
	b := &l.Batch
	return engine.Limits{
		MaxAckPending: l.MaxAckPending, MaxRequestBatch: l.MaxRequestBatch,
		DuplicateWindow: l.DuplicateWindow, MaxConsumers: max(l.DefaultMaxConsumers, 0),
		Batches: stream.BatchLimits{
			PerStream: b.MaxInflightPerStream, FastPerStream: b.MaxInflightPerStream,
			Total: b.MaxInflightTotal, FastTotal: b.MaxInflightTotal, Size: b.MaxMsgs, Timeout: b.Timeout,
		},
	}
}

// checkAccountLimits refuses accounts that are promised more storage than the server has, as nats-server does.
func checkAccountLimits(o *config.Options) error {
	if !o.JetStream.Enabled {
		return nil
	}
	var memory, store int64
	for _, a := range o.Auth.Accounts {
		if a.JetStream != nil {
			memory += max(a.JetStream.MaxMemory, 0)
			store += max(a.JetStream.MaxStore, 0)
		}
	}
	check := func(promised, has int64, setting string) error {
		if has >= 0 && promised > has {
			return fmt.Errorf("jetstream: the accounts' limits add up to %d bytes, more than %s, %d", promised, setting, has)
		}
		return nil
	}
	return errors.Join(check(memory, o.JetStream.MaxMemory, "max_memory_store"), check(store, o.JetStream.MaxStore, "max_file_store"))
}

// safeStoreURL is the store's URL for people: without secrets, and with an absolute path where it is a directory.
func safeStoreURL(o *config.Options) (string, error) {
	if !o.JetStream.Enabled {
		return "", nil
	}
	target, err := storeurl.Parse(o.Store.URL)
	if err != nil {
		return "", err
	}
	switch target.Kind {
	case storeurl.Dir:
		return config.DirURL(target.Dir.Path), nil
	case storeurl.S3:
		u := url.URL{Scheme: "s3", Host: target.S3.Bucket}
		if target.S3.Prefix != "" {
			u.Path = "/" + target.S3.Prefix
		}
		q := url.Values{}
		if target.S3.Region != "" {
			q.Set("region", target.S3.Region)
		}
		if endpoint, err := url.Parse(target.S3.Endpoint); err == nil && target.S3.Endpoint != "" {
			endpoint.User = nil
			endpoint.RawQuery = ""
			q.Set("endpoint", endpoint.String())
		}
		u.RawQuery = q.Encode()
		return u.String(), nil
	default:
		return string(target.Kind) + "://", nil
	}
}
