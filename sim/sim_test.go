package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// seeds gives how many runs a test makes: SLUICE_SIM_SEEDS says so, or else they end after a while.
func seeds() (first, count uint64, bounded bool) {
	if s, err := strconv.ParseUint(os.Getenv("SLUICE_SIM_SEED"), 10, 64); err == nil {
		return s, 1, false
	}
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_SIM_SEEDS"), 10, 64); err == nil {
		first, _ = strconv.ParseUint(os.Getenv("SLUICE_SIM_FROM"), 10, 64)
		return max(first, 1), n, false
	}
	return 1, 200, true
}

// TestAcknowledgedMeansStored runs the seeds. The long campaign is
//
//	SLUICE_SIM_SEEDS=10000 go test ./sim -run TestAcknowledgedMeansStored -timeout 0
//
// and SLUICE_SIM_SEED=n runs one seed and shows its whole history.
func TestAcknowledgedMeansStored(t *testing.T) {
	first, count, bounded := seeds()
	begun := time.Now()
	for seed := first; seed < first+count; seed++ {
		if bounded && time.Since(begun) > time.Minute {
			t.Logf("time is up after %d seeds", seed-first)
			return
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runSeed(t, seed, options{}) })
	}
}

func runSeed(t *testing.T, seed uint64, opts options) {
	if os.Getenv("SLUICE_SIM_TRACE") != "" {
		fmt.Fprintln(os.Stderr, "seed", seed) // a panic would not name it
	}
	opts.keep = os.Getenv("SLUICE_SIM_SEED") != ""
	synctest.Test(t, func(t *testing.T) {
		r := run(seed, opts)
		if opts.keep {
			var log strings.Builder
			if err := r.Dump(&log); err != nil {
				t.Log(err)
			}
			t.Logf("the log:\n%s", log.String())
			t.Logf("%d lives, %d objects; the history:\n%s", r.Lives, r.Objects, r.History.Tail("", len(r.History.Events)))
		}
		for i, f := range r.Faults {
			if i == 10 {
				t.Errorf("… and %d more", len(r.Faults)-i)
				break
			}
			t.Errorf("seed %d: %s", seed, f)
		}
		if len(r.Faults) > 0 {
			t.Logf("the end of the history of seed %d (SLUICE_SIM_SEED=%d shows all):\n%s", seed, seed, r.History.Tail("", 40))
		}
	})
}
