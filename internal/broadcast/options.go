package broadcast

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/internal/broker"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/subject"
)

// Bounds of the options.
const (
	MinBatch = 64 << 10
	MaxBatch = 64 << 20
)

// Options of a Service.
type Options struct {
	Store store.Store
	Head  Head
	// Space gives an account's subject space, nil where there is no such account.
	Space func(account string) *broker.Space
	// Subjects are the broadcast subjects by account; those of one account do not overlap. None: the node only listens.
	Subjects map[string][]string
	// Answers reports whether somebody else acknowledges what is published to a subject: a stream. nil: never.
	Answers func(account, subject string) bool
	// System is where advisories go, under $SYS.SERVER.<ServerID>; nil: nowhere.
	System   *broker.Space
	ServerID string

	// Window is how long a batch gathers; 0 means 100 ms.
	Window time.Duration
	// Poll is the time between two looks at the heads while there is news, 0 means 250 ms; without news it grows up to
	// IdlePoll, 0 means 2 s.
	Poll, IdlePoll time.Duration
	// Retention is how long batches are kept; 0 means 1 h.
	Retention time.Duration
	// MaxBatch is where a batch is full, in bytes, and so bounds a message; 0 means 4 MiB.
	MaxBatch int
	// Compress packs batches with zstd where that makes them smaller.
	Compress bool
	// MaxPending bounds the bytes that wait to be written, each message counting 256 more; 0 means 32 MiB.
	MaxPending int
	// MaxPublishers bounds the nodes that are followed; 0 means 4,096.
	MaxPublishers int
	// MaxFetches bounds the nodes whose batches are read at a time; each holds at most 6 batches. 0 means 4.
	MaxFetches int

	Registerer prometheus.Registerer // nil: no metrics
	Logger     *slog.Logger          // nil: silent
}

func (o *Options) setDefaults() {
	setDefault(&o.Window, 100*time.Millisecond)
	setDefault(&o.Poll, 250*time.Millisecond)
	setDefault(&o.IdlePoll, max(2*time.Second, o.Poll))
	setDefault(&o.Retention, time.Hour)
	setDefault(&o.MaxBatch, 4<<20)
	setDefault(&o.MaxPending, max(32<<20, 2*o.MaxBatch))
	setDefault(&o.MaxPublishers, 4096)
	setDefault(&o.MaxFetches, 4)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
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
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("broadcast: "+format, args...))
		}
	}
	fault(o.Store == nil, "Store is nil")
	fault(o.Head == nil, "Head is nil")
	fault(o.Space == nil, "Space is nil")
	fault(o.Window < time.Millisecond, "Window is %v, want 1ms or more", o.Window)
	fault(o.Poll < 10*time.Millisecond, "Poll is %v, want 10ms or more", o.Poll)
	fault(o.IdlePoll < o.Poll, "IdlePoll is %v, want Poll, %v, or more", o.IdlePoll, o.Poll)
	fault(o.Retention < 2*o.IdlePoll || o.Retention < time.Second, "Retention is %v, want 1s and twice IdlePoll, %v, or more", o.Retention, o.IdlePoll)
	fault(o.MaxBatch < MinBatch || o.MaxBatch > MaxBatch, "MaxBatch is %d, want %d to %d", o.MaxBatch, MinBatch, MaxBatch)
	fault(o.MaxPending < o.MaxBatch, "MaxPending is %d, want MaxBatch, %d, or more", o.MaxPending, o.MaxBatch)
	fault(o.MaxPublishers < 1, "MaxPublishers is %d, want 1 or more", o.MaxPublishers)
	fault(o.MaxFetches < 1, "MaxFetches is %d, want 1 or more", o.MaxFetches)
	for account, subjects := range o.Subjects {
		for _, err := range checkSubjects(subjects) {
			faults = append(faults, fmt.Errorf("broadcast: account %q: %w", account, err))
		}
	}
	return errors.Join(faults...)
}

// checkSubjects gives the faults of the broadcast subjects of one account.
func checkSubjects(subjects []string) (faults []error) {
	for i, s := range subjects {
		if !subject.Valid(s) {
			faults = append(faults, fmt.Errorf("%q is no subject", s))
			continue
		}
		if first := subject.Token(s, 0); first == "*" || first == ">" || strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_") {
			faults = append(faults, fmt.Errorf("%q: the first token must be a word that does not begin with $ or _: requests to the server and answers are not broadcast", s))
		}
		for _, other := range subjects[:i] {
			if subject.Valid(other) && subject.Overlap(s, other) {
				faults = append(faults, fmt.Errorf("%q and %q overlap", other, s))
			}
		}
	}
	return faults
}
