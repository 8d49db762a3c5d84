package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/store"
)

// MaxPipeline bounds MaxInFlight. It is part of the format: see invariant 4 of the package.
const MaxPipeline = 16

// Options of a log that is written.
type Options struct {
	Store store.Store
	// ID names the log. Its epoch must be one that nobody has written in before.
	ID LogID

	// Rate is the commit budget: how many commits a second may be started in the long run. 0 is no budget.
	Rate float64
	// Burst is how many commits the budget gathers while they are not used; 0 means 100.
	Burst int
	// MaxBatchBytes is where a batch is full; it goes then whatever the budget says. 0 means 8 MiB. Entries are not
	// split, a larger one makes a batch of its own.
	MaxBatchBytes int
	// MaxEntryBytes bounds one entry; 0 means 72 MiB, the most is 256 MiB.
	MaxEntryBytes int
	// MaxPendingBytes is where Append refuses with ErrFull: the memory of entries that are not committed, which so
	// stays below MaxPendingBytes + MaxEntryBytes. Each entry counts its data and 128 bytes. 0 means 64 MiB.
	MaxPendingBytes int64
	// MaxInFlight bounds the objects being written at once; 0 means 4, the most is MaxPipeline.
	MaxInFlight int
	// Gather is how long a batch waits for the records that publishers are expected to send in answer to the last commit,
	// as a part of the time that that commit took, from 0 (no wait) to 1, and for 10 ms at most. It suits stores where a
	// commit costs about as much time as the publishers' answer.
	Gather float64
	// LazyWindow is how long lazy entries may wait for others to ride with; 0 means 1 s.
	LazyWindow time.Duration
	// ResolveTimeout is how long one batch may be in trouble before the log gives up and dies: see [Log]. 0 means
	// 2 min, less than 0 never.
	ResolveTimeout time.Duration
	// Compress packs bodies with zstd where that makes them smaller.
	Compress bool

	Registerer prometheus.Registerer // nil: no metrics
	Logger     *slog.Logger          // nil: silent
	Rand       io.Reader             // source of put ids; nil means crypto/rand
}

func (o *Options) setDefaults() {
	setDefault(&o.Burst, 100)
	setDefault(&o.MaxBatchBytes, 8<<20)
	setDefault(&o.MaxEntryBytes, 72<<20)
	setDefault(&o.MaxPendingBytes, 64<<20)
	setDefault(&o.MaxInFlight, 4)
	setDefault(&o.LazyWindow, time.Second)
	setDefault(&o.ResolveTimeout, 2*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault of the options, defaults applied.
func (o Options) Validate() error {
	o.setDefaults()
	faults := []error{o.ID.Validate()}
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("wal: "+format, args...))
		}
	}
	fault(o.Store == nil, "Store is nil")
	fault(!(o.Rate >= 0), "Rate is %v, want 0 or more", o.Rate)
	fault(o.Burst < 1, "Burst is %d, want 1 or more", o.Burst)
	fault(o.MaxBatchBytes < 1 || o.MaxBatchBytes > maxBodyBytes, "MaxBatchBytes is %d, want 1 to %d", o.MaxBatchBytes, maxBodyBytes)
	fault(o.MaxEntryBytes < 1 || o.MaxEntryBytes > maxBodyBytes, "MaxEntryBytes is %d, want 1 to %d", o.MaxEntryBytes, maxBodyBytes)
	fault(o.MaxPendingBytes < 1, "MaxPendingBytes is %d, want 1 or more", o.MaxPendingBytes)
	fault(o.MaxInFlight < 1 || o.MaxInFlight > MaxPipeline, "MaxInFlight is %d, want 1 to %d", o.MaxInFlight, MaxPipeline)
	fault(!(o.Gather >= 0 && o.Gather <= 1), "Gather is %v, want 0 to 1", o.Gather)
	fault(o.LazyWindow < 0, "LazyWindow is %v, want 0 or more", o.LazyWindow)
	return errors.Join(faults...)
}
