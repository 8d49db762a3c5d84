package engine

import (
	"testing"

	"github.com/sluicemq/sluice/internal/wal"
)

func at(offset int) mark { return mark{0, wal.Offset(offset)} }

func TestGrowth(t *testing.T) {
	g := &growth{}
	if g.length() != 0 {
		t.Error("an empty log has a length")
	}
	for i := range 100 {
		g.note(at(i), growthStep/2)
	}
	if g.length() != 50*growthStep {
		t.Errorf("length %d", g.length())
	}
	for _, c := range []struct {
		bytes int64
		want  int
		ok    bool
	}{
		{growthStep, 98, true}, {10 * growthStep, 80, true}, {10*growthStep + 1, 78, true},
		{49 * growthStep, 2, true}, {50 * growthStep, 0, false}, {1 << 40, 0, false},
	} {
		if got, ok := g.lastBytes(c.bytes); ok != c.ok || ok && got != at(c.want) {
			t.Errorf("the last %d bytes begin at %v, %v, want %d, %v", c.bytes, got, ok, c.want, c.ok)
		}
	}
	g.trimmed(at(51))
	if g.length() != 25*growthStep {
		t.Errorf("length %d after the front half is gone", g.length())
	}
}

// However long the log, what is remembered of it is bounded, and the newest part is exact.
func TestGrowthIsBounded(t *testing.T) {
	g := &growth{}
	for i := range 20 * maxGrowth {
		g.note(at(i), growthStep)
		if len(g.steps) > maxGrowth {
			t.Fatalf("%d places", len(g.steps))
		}
	}
	if at1, ok := g.lastBytes(256 << 20); !ok || at1 != at(20*maxGrowth-256) {
		t.Errorf("the last 256 MiB begin at %v, %v", at1, ok)
	}
}
