package wal

import (
	"fmt"
	"time"
)

// AppendGroup accepts entries that are committed together or not at all: it puts them behind each other into one batch,
// and so into one object. They are in the order in which they are given, behind everything that was accepted before;
// their sinks hear of them as of any other entry. Otherwise it is as Append: it never waits, takes the data without
// copying it, and on an error none of the entries was taken. Together they may have the bytes of one entry
// (MaxEntryBytes).
func (l *Log) AppendGroup(entries ...*Entry) error {
	total := 0
	for _, e := range entries {
		if len(e.Data) == 0 || e.Records < 1 {
			return fmt.Errorf("%w: %d records in %d bytes", ErrEntry, e.Records, len(e.Data))
		}
		total += len(e.Data)
	}
	if total == 0 || total > l.opts.MaxEntryBytes {
		return fmt.Errorf("%w: a group of %d bytes, want 1 to %d", ErrEntry, total, l.opts.MaxEntryBytes)
	}
	l.mu.Lock()
	wake, err := l.m.appendGroup(entries, total, time.Now)
	l.mu.Unlock()
	if wake {
		l.signal()
	}
	return err
}

// appendGroup accepts entries of so many bytes together into one batch, or says why not: a batch is never split.
func (m *machine) appendGroup(entries []*Entry, total int, now func() time.Time) (wake bool, err error) {
	if err := m.takes(); err != nil {
		return false, err
	}
	b := m.form(total, now)
	for _, e := range entries {
		if m.add(b, e, now) {
			wake = true
		}
	}
	return wake, nil
}
