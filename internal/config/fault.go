package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every fault of a configuration.
var ErrInvalid = errors.New("invalid configuration")

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// File and Line say where it stands; "" and 0 when it was not read from a file or is about no one line.
	File    string
	Line    int
	Setting string // the full name, such as "jetstream.limits.max_ack_pending"; may be ""
	Reason  string

	column int // only to order faults: the parser counts differently on the first line
}

func (f *Fault) Error() string {
	var b strings.Builder
	switch {
	case f.File != "" && f.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", f.File, f.Line)
	case f.File != "":
		b.WriteString(f.File + ": ")
	}
	if f.Setting != "" {
		b.WriteString(f.Setting + ": ")
	}
	b.WriteString(f.Reason)
	return b.String()
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (f *Fault) Unwrap() error { return ErrInvalid }

// joinFaults is errors.Join in the order of the places.
func joinFaults(faults []*Fault) error {
	slices.SortStableFunc(faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.column, b.column))
	})
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// Faults returns the single errors of what Load or Validate returned: one line each.
func Faults(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
