package config

import (
	"math"
	"strings"

	"github.com/sluicemq/sluice/internal/account"
)

const (
	noStoreFile  = "durable objects lie in the store, not in files of this server; encryption is the store's own"
	noRaft       = "there are no Raft groups"
	fixedByStore = "its size follows from the store and the memory budget"
)

// switched reads the forms of JetStream's switch: a boolean, "enabled" or "disabled". Anything else is a block.
func (d *decoder) switched(v value) (on, isSwitch bool) {
	switch s := v.v.(type) {
	case bool:
		return s, true
	case string:
		switch strings.ToLower(s) {
		case "enabled", "enable":
			return true, true
		case "disabled", "disable":
			return false, true
		}
		d.fault(v, `expected "enabled", "disabled" or a block, got %q`, s)
		return false, true
	default:
		return false, false
	}
}

// jetStream reads the server's jetstream setting.
func (d *decoder) jetStream(v value, o *Options) {
	if on, ok := d.switched(v); ok {
		o.JetStream.Enabled = on
		return
	}
	js := &o.JetStream
	js.Enabled = true
	s := settings{}
	s.add(d.flag(&js.Enabled), "enabled", "enable")
	s.add(func(v value) {
		if dir, ok := d.asText(v); ok && d.claim("store_dir", v, dir) {
			js.StoreDir = dir
		}
	}, "store_dir", "storedir", "store")
	s.add(d.storage(&js.MaxMemory), "max_memory_store", "max_mem_store", "max_mem")
	s.add(d.storage(&js.MaxStore), "max_file_store", "max_file")
	s.add(d.sync(js), "sync_interval", "sync")
	s.add(d.text(&js.Domain), "domain")
	s.add(func(v value) {
		if tag, ok := d.asText(v); ok {
			js.UniqueTag = strings.ToLower(strings.TrimSpace(tag))
		}
	}, "unique_tag")
	s.add(func(v value) { d.jetStreamLimits(v, &js.Limits) }, "limits")

	s.refuse(d, noStoreFile, "key", "ek", "encryption_key", "prev_key", "prev_ek", "prev_encryption_key", "cipher", "tpm")
	s.refuse(d, noRaft, "extension_hint", "max_outstanding_catchup", "meta_compact", "meta_compact_size", "meta_compact_sync")
	s.refuse(d, fixedByStore, "max_buffered_size", "max_buffered_msgs", "request_queue_limit", "info_queue_limit", "max_concurrent_io")
	s.refuse(d, "requests are read as nats-server reads them by default", "strict")
	d.block(v, s)
}

func (d *decoder) sync(js *JetStream) setter {
	return func(v value) {
		if s, ok := v.v.(string); ok && strings.EqualFold(s, "always") {
			js.SyncAlways = true
			return
		}
		d.durationOrSeconds(&js.SyncInterval)(v)
	}
}

func (d *decoder) jetStreamLimits(v value, l *JetStreamLimits) {
	s := settings{}
	s.add(number(d, &l.MaxAckPending, -1, math.MaxInt32), "max_ack_pending")
	s.add(number(d, &l.MaxRequestBatch, 0, math.MaxInt32), "max_request_batch")
	s.add(number(d, &l.DefaultMaxConsumers, -1, math.MaxInt32), "default_max_consumers")
	s.add(d.durationAtLeast(&l.DuplicateWindow, 0), "duplicate_window")
	s.refuse(d, noRaft, "max_ha_assets")
	s.add(func(v value) { d.batchLimits(v, &l.Batch) }, "batch")
	d.block(v, s)
}

func (d *decoder) batchLimits(v value, l *BatchLimits) {
	s := settings{}
	s.add(number(d, &l.MaxInflightPerStream, 0, math.MaxInt32), "max_inflight_per_stream")
	s.add(number(d, &l.MaxInflightTotal, 0, math.MaxInt32), "max_inflight_total")
	s.add(number(d, &l.MaxMsgs, 0, math.MaxInt32), "max_msgs")
	s.add(d.durationAtLeast(&l.Timeout, 0), "timeout")
	d.block(v, s)
}

// accountJetStream reads an account's jetstream setting; nil is off.
func (d *decoder) accountJetStream(v value) *account.JetStreamLimits {
	l := defaultAccountLimits()
	if on, ok := d.switched(v); ok {
		if !on {
			return nil
		}
		return l
	}
	s := settings{}
	s.add(number(d, &l.MaxMemory, -1, math.MaxInt64), "max_memory", "max_mem", "mem", "memory")
	s.add(number(d, &l.MaxStore, -1, math.MaxInt64), "max_store", "max_file", "max_disk", "store", "disk")
	s.add(number(d, &l.MaxStreams, -1, math.MaxInt32), "max_streams", "streams")
	s.add(number(d, &l.MaxConsumers, -1, math.MaxInt32), "max_consumers", "consumers")
	s.add(number(d, &l.MaxAckPending, -1, math.MaxInt32), "max_ack_pending")
	s.add(number(d, &l.MemoryMaxStreamBytes, -1, math.MaxInt64), "memory_max_stream_bytes", "mem_max_stream_bytes")
	s.add(number(d, &l.StoreMaxStreamBytes, -1, math.MaxInt64), "store_max_stream_bytes", "disk_max_stream_bytes")
	s.add(d.flag(&l.MaxBytesRequired), "max_bytes_required", "max_stream_bytes", "max_bytes")
	s.refuse(d, noRaft, "cluster_traffic")
	d.block(v, s)
	return l
}

// store reads Sluice's own setting: a URL, or a block with it.
func (d *decoder) store(v value, st *Store) {
	if _, ok := v.v.(string); ok {
		d.text(&st.URL)(v)
		return
	}
	s := settings{}
	s.add(d.text(&st.URL), "url")
	s.add(d.real(&st.CommitRate), "commit_rate")
	s.add(number(d, &st.CommitBurst, 0, math.MaxInt32), "commit_burst")
	s.add(number(d, &st.BatchBytes, 0, 1<<30), "batch_bytes")
	s.add(func(v value) { d.prices(v, st) }, "prices")
	s.add(func(v value) { d.segments(v, &st.Segments) }, "segments")
	s.add(func(v value) { d.cache(v, &st.Cache) }, "cache")
	d.block(v, s)
	if st.URL == "" {
		d.warn(v, "no url: the default store is used")
	}
}

func (d *decoder) segments(v value, o *Segments) {
	s := settings{}
	s.add(d.text(&o.Key), "key")
	s.add(d.texts(&o.OldKeys), "old_keys")
	s.add(d.storage(&o.ReplayBytes), "replay")
	s.add(d.durationAtLeast(&o.Grace, 0), "grace")
	s.add(d.durationAtLeast(&o.DeletedWithin, 0), "deleted_within")
	s.add(d.durationAtLeast(&o.Every, 0), "every")
	d.block(v, s)
}

func (d *decoder) cache(v value, o *Cache) {
	s := settings{}
	s.add(d.storage(&o.Memory), "memory")
	s.add(d.text(&o.Path), "path")
	s.add(d.storage(&o.Disk), "disk")
	d.block(v, s)
}

// prices reads what the provider of the store asks. What is not named costs what it does on S3.
func (d *decoder) prices(v value, st *Store) {
	p := S3Prices()
	s := settings{}
	s.add(d.price(&p.Get), "get")
	s.add(d.price(&p.Put), "put")
	s.add(d.price(&p.List), "list")
	s.add(d.price(&p.Delete), "delete")
	s.add(d.price(&p.StorageGBMonth), "storage_gb_month")
	d.block(v, s)
	st.Prices = &p
}

// price reads an amount of money, of any unit.
func (d *decoder) price(field *float64) setter {
	return func(v value) {
		var amount float64
		switch n := v.v.(type) {
		case int64:
			amount = float64(n)
		case float64:
			amount = n
		default:
			d.fault(v, "expected a price such as 0.005, got %s", describe(v.v))
			return
		}
		if !(amount >= 0 && amount <= maxPrice) {
			d.fault(v, "%v is out of the range 0 to %v", amount, maxPrice)
			return
		}
		*field = amount
	}
}
