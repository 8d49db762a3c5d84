package cache

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options.
const (
	DefaultMemoryBytes = 128 << 20
	DefaultFetches     = 16
	DefaultWaiters     = 16384
	DefaultDiskBytes   = 4 << 30
	DefaultDiskFiles   = 65536
	DefaultDiskPause   = 30 * time.Second
)

// minBytes is the least that the bounds of memory and disk may be.
const minBytes = 1 << 20

// share divides a bound: a part that is larger than that piece of it is handed out and not kept.
const share = 8

// Options of a Cache. The zero value works, without a disk.
type Options struct {
	// MemoryBytes bounds what is held in memory: parts, the books about them, and fetches under way. Of it, three eighths
	// may be under way from the store, one eighth from the disk, and two eighths read ahead and not yet asked for; the
	// rest is always there for parts. A part of more than an eighth is not kept. One of more than may be under way is
	// fetched when no other is: only then is more held, by what it is over.
	//
	// Not counted is what callers hold on to, what waits to be written to the disk (at most 16 MiB), the books about
	// files, and what the collector has yet to free, such as the buffer of a run that was cut into parts. 0 means
	// DefaultMemoryBytes; at least 1 MiB.
	MemoryBytes int64
	// Fetches bounds the GETs under way. 0 means DefaultFetches.
	Fetches int
	// Waiters bounds the reads that wait for a fetch; beyond it they fail with ErrBusy. 0 means DefaultWaiters.
	Waiters int

	// Folder for parts on a disk; "" means none. It is made if missing, and belongs to one Cache at a time. Files in it
	// that are not of a cache are left alone.
	Folder string
	// DiskBytes bounds the files, each counted as whole blocks of 4 KiB. 0 means DefaultDiskBytes; at least 1 MiB.
	DiskBytes int64
	// DiskFiles bounds their number. Each takes about 200 bytes of memory beside its key. 0 means DefaultDiskFiles.
	DiskFiles int
	// DiskPause is how long nothing is written after a write failed, such as on a full disk. 0 means DefaultDiskPause.
	DiskPause time.Duration

	// Registerer takes the metrics; nil means that nobody looks at them. Caches on one registerer add up.
	Registerer prometheus.Registerer
	// Logger is told of faults of the disk; nil means no log.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	set := func(n *int64, to int64) {
		if *n == 0 {
			*n = to
		}
	}
	set(&o.MemoryBytes, DefaultMemoryBytes)
	set(&o.DiskBytes, DefaultDiskBytes)
	set((*int64)(&o.DiskPause), int64(DefaultDiskPause))
	if o.Fetches == 0 {
		o.Fetches = DefaultFetches
	}
	if o.Waiters == 0 {
		o.Waiters = DefaultWaiters
	}
	if o.DiskFiles == 0 {
		o.DiskFiles = DefaultDiskFiles
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every fault of the options. Zero stands for a default.
func (o Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("cache: "+format, args...)) }
	bytes := func(name string, n int64) {
		if n != 0 && n < minBytes {
			fault("%s is %d, want at least %d", name, n, minBytes)
		}
	}
	positive := func(name string, n int) {
		if n < 0 {
			fault("%s is %d, want 0 or more", name, n)
		}
	}
	bytes("MemoryBytes", o.MemoryBytes)
	bytes("DiskBytes", o.DiskBytes)
	positive("Fetches", o.Fetches)
	positive("Waiters", o.Waiters)
	positive("DiskFiles", o.DiskFiles)
	if o.DiskPause < 0 {
		fault("DiskPause is %v, want 0 or more", o.DiskPause)
	}
	return errors.Join(faults...)
}
