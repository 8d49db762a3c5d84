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

// seeds gives how many runs a test makes: SLUICE_SIM_SEED and SLUICE_SIM_SEEDS say so, or else
// they end after a while.
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

// TestAcknowledgedMeansStored runs the seeds; the package's comment has the commands of the long campaign and of a
// single seed.
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

// TestRunsMeetTrouble proves that what the runs are for does happen in them.
func TestRunsMeetTrouble(t *testing.T) {
	met := map[string]int{}
	for seed := uint64(1); seed <= 30; seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := Run(seed)
			met["lives beyond the first"] += r.Lives - 1
			met["objects of the log deleted"] += r.Deleted
			met["creates refused"] += r.Refused
			met["faults of the store"] += r.Injured
			begun := 0
			for _, e := range r.History.Events {
				if e.Kind == LifeBegun {
					begun = e.Life
				}
				count := func(what string, happened bool) {
					if happened {
						met[what]++
					}
				}
				count("publishes acknowledged", e.Kind == Acked)
				count("duplicates acknowledged", e.Kind == Acked && e.Duplicate)
				count("publishes refused", e.Kind == Refused)
				count("publishes to a process that was taken over from", e.Kind == Sent && e.Life < begun)
				count("redeliveries", e.Kind == Delivered && e.Deliveries > 1)
				count("double acknowledgements answered", e.Kind == AckDone)
				count("deletions answered", e.Kind == DeleteDone)
				count("purges answered", e.Kind == PurgeDone)
				count("reads that found none", e.Kind == Gone)
				count("consumers deleted", e.Kind == Unmade)
				count("changes answered", e.Kind == ChangeDone)
			}
		})
	}
	for what, least := range map[string]int{
		"lives beyond the first": 100, "objects of the log deleted": 300, "creates refused": 30, "faults of the store": 500,
		"publishes acknowledged": 2000, "duplicates acknowledged": 50, "publishes refused": 50,
		"publishes to a process that was taken over from": 20, "redeliveries": 100, "double acknowledgements answered": 200,
		// How often the rare ones come depends on the scheduler, which is not seeded.
		"deletions answered": 1, "purges answered": 1, "reads that found none": 1, "consumers deleted": 1, "changes answered": 1,
	} {
		if met[what] < least {
			t.Errorf("%s: %d, want %d or more", what, met[what], least)
		}
	}
	t.Log(met)
}
