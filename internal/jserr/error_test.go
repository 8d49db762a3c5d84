package jserr

import (
	"errors"
	"testing"
)

func TestNewFillsThePlaceholders(t *testing.T) {
	for _, c := range []struct {
		err    *Error
		status int
		text   string
	}{
		{New(StreamNotFound), 404, "stream not found"},
		{New(StreamWrongLastSequence, "seq", 7), 400, "wrong last sequence: 7"},
		{New(StreamExternalDelPrefixOverlaps, "prefix", "a", "subject", "b"), 400, "stream external delivery prefix a overlaps with stream subject b"},
	} {
		if c.err.Status != c.status || c.err.Description != c.text {
			t.Errorf("got %d %q, want %d %q", c.err.Status, c.err.Description, c.status, c.text)
		}
	}
	if !errors.Is(New(StreamWrongLastSequence, "seq", 1), New(StreamWrongLastSequence)) {
		t.Error("errors of one code differ")
	}
}
