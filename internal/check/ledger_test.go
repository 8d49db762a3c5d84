package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/record"
)

// Every kind of record that there is is known here, too: else a sound log would be called one of a newer version.
func TestEveryKindIsKnown(t *testing.T) {
	known := 0
	for kind := record.Kind(1); kind != 0; kind++ {
		if strings.Contains(record.Describe(record.Record{Kind: kind}), "unknown kind") {
			continue
		}
		known++
		switch kind {
		case record.Message, record.StreamConfig, record.StreamState, record.StreamDelete, record.StreamRestore:
			continue // the ledger keeps something of these
		}
		if err := parseRest(record.Record{Kind: kind}); errors.Is(err, errUnknownRecord) {
			t.Errorf("kind %d is not known", kind)
		}
	}
	if known < 14 {
		t.Errorf("%d kinds", known)
	}
	if err := parseRest(record.Record{Kind: 255}); !errors.Is(err, errUnknownRecord) {
		t.Errorf("a kind of the future: %v", err)
	}
	one := append(append([]byte{1}, make([]byte, 16)...), 1, 1)
	for n := range len(one) {
		if parseIDs(one[:n]) == nil {
			t.Errorf("ids cut off at %d are read", n)
		}
	}
	if err := parseIDs(one); err != nil || parseIDs(append(one, 0)) == nil {
		t.Errorf("one id: %v", err)
	}
}
