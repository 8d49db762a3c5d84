package metamorphic

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/bench/process"
	"github.com/sluicemq/sluice/test/rig"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed; 0 takes the time")
	seeds     = flag.Int("seeds", 40, "how many runs")
	length    = flag.Int("length", 80, "operations of a run")
	keepGoing = flag.Int("differences", 1, "stop after so many")
)

// TestMetamorphic looks for differences. For a long run: go test ./metamorphic -run Metamorphic -seeds 2000 -timeout 0
func TestMetamorphic(t *testing.T) {
	search(t, sluiceSide(t), *seeds)
}

// TestReferenceWithItself makes sure that the comparison leaves out what one server does differently each time.
func TestReferenceWithItself(t *testing.T) {
	search(t, referenceSide(t), min(*seeds, 5))
}

func sluiceSide(t *testing.T) *side {
	return startSide(t, "Sluice", rig.SluiceConfig(t, rig.DirStore(t)))
}

func referenceSide(t *testing.T) *side {
	return startSide(t, "nats-server", process.Config{
		Binary: rig.ReferenceBinary(t), Dir: t.TempDir(), Args: []string{"-js", "-n", "node-1", "-sd", filepath.Join(t.TempDir(), "js")},
	})
}

func startSide(t *testing.T, name string, cfg process.Config) *side {
	t.Helper()
	s := newSide(name, cfg)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.nc.Close()
		if err := s.server.Exited(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.server.Kill()
	})
	return s
}

func search(t *testing.T, other *side, seeds int) {
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixMilli() % 1_000_000_000)
	}
	p := &pair{reference: referenceSide(t), sluice: other, settle: 2 * time.Second}
	found, played := 0, 0
	for range seeds {
		ops := generate(seed, *length)
		difference, done, err := p.run(t.Context(), ops)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		played += done
		if difference != "" {
			if text := p.explain(t.Context(), ops[:done], difference); text != "" {
				t.Errorf("seed %d: %s", seed, text)
				found++
			} else {
				t.Logf("seed %d, seen once and never again: %s", seed, difference)
			}
		}
		if found == *keepGoing {
			break
		}
		seed++
	}
	t.Logf("%d operations up to seed %d, %d differences", played, seed-1, found)
}

// explain plays a run that showed a difference again, with fewer and fewer operations, and describes what is left. It
// returns "" when the difference does not show again: nats-server works through some requests on several goroutines, so
// that now and then two swap places.
func (p *pair) explain(ctx context.Context, ops []operation, difference string) string {
	settle := p.settle
	p.settle = min(settle, 500*time.Millisecond)
	defer func() { p.settle = settle }()
	fails := func(ops []operation) bool {
		again, _, err := p.run(ctx, ops)
		if err != nil || again == "" {
			return false
		}
		difference = again
		return true
	}
	if again := fails(ops) || fails(slices.Clone(ops)); !again { // the second chance is for a race
		return ""
	}
	ops = shrink(ops, fails)
	var b strings.Builder
	if !fails(ops) {
		b.WriteString("(a difference that does not always show) ")
	}
	fmt.Fprintf(&b, "after %d operations:\n", len(ops))
	for i, o := range ops {
		fmt.Fprintf(&b, "%3d %s\n", i+1, o)
	}
	b.WriteString(difference)
	return b.String()
}

// TestShrinkKeepsWhatFails shrinks to the two operations that a failure needs.
func TestShrinkKeepsWhatFails(t *testing.T) {
	ops := make([]operation, 57)
	for i := range ops {
		ops[i].pick = i
	}
	needs := func(ops []operation) bool {
		found := 0
		for _, o := range ops {
			if o.pick == 11 || o.pick == 56 {
				found++
			}
		}
		return found == 2
	}
	if left := shrink(ops, needs); len(left) != 2 || !needs(left) {
		t.Errorf("shrunk to %v", left)
	}
}
