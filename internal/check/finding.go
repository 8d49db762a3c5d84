package check

import (
	"fmt"
	"strings"

	"github.com/sluicemq/sluice/internal/key"
)

// Severity says how bad a finding is.
type Severity uint8

// The severities. Only an Error means that something acknowledged is missing, damaged, or in danger of being passed over.
const (
	Note    Severity = iota + 1 // harmless
	Warning                     // to be looked at
	Error
)

var severityNames = [...]string{"", "note", "warning", "error"}

// String gives the severity as it is printed.
func (s Severity) String() string { return severityNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	// Kind is a short fixed name; docs/operations.md has the list.
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	What  string `json:"what"`
	Means string `json:"means,omitempty"`
	Do    string `json:"do,omitempty"`
	// Objects and Bytes are what the finding covers, where it covers other than the one object at Key.
	Objects int   `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

// String gives the finding as one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s: %s", f.Severity, f.Kind, f.Key, f.What)
	if f.Means != "" {
		fmt.Fprintf(&b, ". %s", f.Means)
	}
	if f.Do != "" {
		fmt.Fprintf(&b, ". %s", f.Do)
	}
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// Tally counts objects.
type Tally struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (t *Tally) add(bytes int64) {
	t.Objects++
	t.Bytes += bytes
}

// Summary is what a check went through.
type Summary struct {
	// Families has what lies in the bucket, by the first segment of the keys; "foreign" are keys that are not Sluice's.
	Families map[string]Tally `json:"families"`
	Nodes    int              `json:"nodes"`
	// Live: some node may be running, so a check sees a bucket that changes.
	Live        bool   `json:"live"`
	Batches     uint64 `json:"batches"` // of listed logs, read and verified
	Records     uint64 `json:"records"`
	LogMessages uint64 `json:"log_messages"`
	Streams     int    `json:"streams"`
	Segments    int    `json:"segments"` // listed by manifests
	// Verified are the segments that were read as a whole.
	Verified        int    `json:"segments_verified"`
	SegmentMessages uint64 `json:"segment_messages"`
	// Dropped are segments that wait for their deletion, as the manifests say.
	Dropped     Tally `json:"dropped"`
	Errors      int   `json:"errors"`
	Warnings    int   `json:"warnings"`
	Notes       int   `json:"notes"`
	Quarantined Tally `json:"quarantined"` // by this run
}

// String gives the summary as one line.
func (s Summary) String() string {
	var all Tally
	for _, t := range s.Families {
		all.Objects += t.Objects
		all.Bytes += t.Bytes
	}
	text := fmt.Sprintf("%d objects, %d bytes; %d heads; %d batches with %d records, %d of them messages; %d streams; %d segments with %d messages, %d of them read whole; %d errors, %d warnings, %d notes",
		all.Objects, all.Bytes, s.Nodes, s.Batches, s.Records, s.LogMessages, s.Streams, s.Segments, s.SegmentMessages, s.Verified,
		s.Errors, s.Warnings, s.Notes)
	if s.Live {
		text += "; a node may be running"
	}
	if t := s.Families[key.Quarantine.String()]; t.Objects > 0 {
		text += fmt.Sprintf("; %d objects of %d bytes lay in quarantine", t.Objects, t.Bytes)
	}
	if s.Dropped.Objects > 0 {
		text += fmt.Sprintf("; %d dropped segments of %d bytes wait for their deletion", s.Dropped.Objects, s.Dropped.Bytes)
	}
	if s.Quarantined.Objects > 0 {
		text += fmt.Sprintf("; %d objects of %d bytes moved into quarantine", s.Quarantined.Objects, s.Quarantined.Bytes)
	}
	return text
}
