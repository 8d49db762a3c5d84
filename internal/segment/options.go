package segment

import (
	"errors"
	"fmt"
)

// Options of a segment that is written.
type Options struct {
	Account, Stream string // recorded in the file, for people and tools

	// Key encrypts the whole segment: 16, 24 or 32 bytes. nil leaves it plain.
	Key []byte
	// GroupBytes is where a row group ends: subject, header, data and 16 bytes of each message. 0 means 480 KiB; the
	// least is 1 KiB, the most 64 MiB. A larger message makes a group of its own.
	GroupBytes int
	// Level is the level of zstd, 1 to 22; 0 means 1.
	Level int
}

func (o *Options) setDefaults() {
	if o.GroupBytes == 0 {
		o.GroupBytes = 480 << 10
	}
	if o.Level == 0 {
		o.Level = 1
	}
}

// Validate reports every fault of the options, defaults applied.
func (o Options) Validate() error {
	o.setDefaults()
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("segment: "+format, args...))
		}
	}
	fault(o.Stream == "", "no stream")
	fault(o.Key != nil && !validKey(o.Key), "key of %d bytes, want 16, 24 or 32", len(o.Key))
	fault(o.GroupBytes < 1<<10 || o.GroupBytes > 64<<20, "GroupBytes %d, want 1 KiB to 64 MiB", o.GroupBytes)
	fault(o.Level < 1 || o.Level > 22, "Level %d, want 1 to 22", o.Level)
	return errors.Join(faults...)
}
