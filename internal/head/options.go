package head

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/sluicemq/sluice/internal/wal"
)

// maxNames bounds the candidates for a node's name.
const maxNames = 64

// Options of a claim.
type Options struct {
	// Names are the candidates for the node's name, at most 64. A single one is meant: if it is in use, that is an
	// error. Of several, the first that is free, released or dead is taken.
	Names []string
	// Lease is how long a head must stay unchanged before its node counts as dead; 0 means 3 s. All nodes of a store
	// must have the same.
	Lease time.Duration
	// Interval is the time between heartbeats; 0 means a third of Lease.
	Interval time.Duration
	// NoAdopt leaves the logs of dead nodes alone.
	NoAdopt bool

	// Host, PID and PIDRuns tell whether another process of this host is gone without waiting for its lease; "" and
	// nil mean those of the operating system, as far as they are known.
	Host    string
	PID     int
	PIDRuns func(pid int) bool

	ClientAddress, LinkAddress string // published in the head

	Logger *slog.Logger // nil: silent
	Rand   io.Reader    // source of instance ids; nil means crypto/rand
}

func (o *Options) setDefaults() {
	if o.Lease == 0 {
		o.Lease = 3 * time.Second
	}
	if o.Interval == 0 {
		o.Interval = o.Lease / 3
	}
	if o.Host == "" {
		o.Host = thisHost()
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.PIDRuns == nil {
		o.PIDRuns = pidRuns
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
}

// Validate reports every fault of the options, defaults applied.
func (o Options) Validate() error {
	o.setDefaults()
	var faults []error
	if len(o.Names) < 1 || len(o.Names) > maxNames {
		faults = append(faults, fmt.Errorf("head: %d candidates for the node's name, want 1 to %d", len(o.Names), maxNames))
	}
	for _, name := range o.Names {
		if name == "" || len(name) > wal.MaxNodeBytes {
			faults = append(faults, fmt.Errorf("head: node name of %d bytes, want 1 to %d", len(name), wal.MaxNodeBytes))
		}
	}
	if o.Lease < 0 || o.Interval <= 0 || o.Interval > o.Lease/2 {
		faults = append(faults, fmt.Errorf("head: Interval is %v and Lease %v, want an interval of at most half the lease", o.Interval, o.Lease))
	}
	return errors.Join(faults...)
}
