package protocol

import (
	"strings"
	"testing"
)

// Without any one of the safeguards the model finds something that breaks, and the shortest way to it. If it did not,
// either the safeguard would not be needed or the model would not look.
func TestWithoutASafeguard(t *testing.T) {
	const (
		lost    = "was acknowledged as sequence"
		twice   = "twice, or never appended"
		behind  = "had read the log without it"
		owners  = "both own the stream"
		missing = "is listed and missing"
	)
	cases := map[Safeguard]struct {
		setting string
		faults  int
		want    string // in the first line of the counterexample
	}{
		CreateOnly:       {"restart", 0, lost},
		RefusedIsRead:    {"restart", 0, lost},
		RefusedIsNotLost: {"restart", 0, lost},
		DoubtIsRead:      {"restart", 1, lost},
		DoubtIsNotLost:   {"restart", 1, lost},
		InOrder:          {"restart", 0, lost},
		FreshEpoch:       {"restart", 0, twice},
		HeadIfMatch:      {"restart", 0, owners},
		FenceFirst:       {"adopt", 0, behind},
		FindFence:        {"restart", 0, "holds a fence, within the log"},
		FenceStays:       {"compact", 0, behind},
		EndAtFence:       {"restart", 0, "where sequence 1 is due"},
		MarkFirst:        {"adopt", 0, owners},
		AskTaker:         {"adopt", 0, owners},
		MovesEnd:         {"adopt", 0, owners},
		FreezeFirst:      {"compact", 0, lost},
		StartHonoured:    {"compact", 0, lost},
		CommittedOnly:    {"compact", 0, lost},
		FreshSegmentKey:  {"compact", 0, "held something else before"},
		SegmentKnown:     {"compact", 1, missing},
		ManifestIfMatch:  {"compact", 0, missing},
		FreshSwap:        {"compact", 1, missing},
		Rebase:           {"compact", 0, missing},
		Yield:            {"compact", 0, "is due"},
		SwapKnown:        {"compact", 1, lost},
		StartKnown:       {"compact", 0, lost},
		DropFirst:        {"compact", 0, missing},
		Grace:            {"compact", 0, missing},
		OwnGrace:         {"compact", 0, missing},
		ListFirst:        {"compact", 0, missing},
	}
	for s := range safeguards {
		t.Run(s.String(), func(t *testing.T) {
			c, ok := cases[s]
			if !ok {
				t.Fatal("no case")
			}
			if s == FreshSwap && quickly {
				t.Skip("takes long under the race detector")
			}
			at := setting(t, c.setting)
			at.Faults = c.faults
			res := Explore(at, 0, s)
			found, _, _ := strings.Cut(res.Broken, "\n")
			if !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
			t.Logf("without %s, after %s, %d faults:\n%s", s, res, c.faults, res.Broken)
		})
	}
}
