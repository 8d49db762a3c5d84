package protocol

import (
	"flag"
	"testing"
	"time"
)

var (
	depth   = flag.Int("depth", -1, "explore every setting with so many faults")
	only    = flag.String("setting", "", "explore this setting alone")
	limit   = flag.Int("states", 0, "end an exploration at so many states; 0: never")
	quickly = false
)

// settings are what is explored. Together they bring all that the protocol does together with a fault in every place;
// that three processes compact at once is too much for faults, save in a campaign.
var settings = []Setting{
	{Name: "restart", Starts: []Start{{Appends: 3}, {Appends: 1}, {Appends: 1}}, Faults: 1, Pipeline: 2},
	{Name: "adopt", Starts: []Start{{Appends: 2}, {Node: 1, Adopts: true, Appends: 1}, {Appends: 1}},
		GiveUp: true, Faults: 1, Pipeline: 2},
	{Name: "adopt twice",
		Starts: []Start{{Appends: 1}, {Node: 1, Adopts: true, Appends: 1}, {Node: 1, Adopts: true, Appends: 1}},
		GiveUp: true, Faults: 1, Pipeline: 2},
	{Name: "adopt each other", Starts: []Start{{Appends: 1}, {Node: 1, Adopts: true, Appends: 1}, {Adopts: true, Appends: 1}},
		GiveUp: true, Faults: 1, Pipeline: 2},
	{Name: "compact", Starts: []Start{{Appends: 2}, {Appends: 1}}, Rounds: 2, Faults: 1, Pipeline: 2},
	{Name: "compact adopted", Starts: []Start{{Appends: 2}, {Node: 1, Adopts: true, Appends: 1}},
		Rounds: 2, Faults: 1, Pipeline: 2},
	{Name: "compact by three", Starts: []Start{{Appends: 1}, {Appends: 1}, {Appends: 1}}, Rounds: 1, Pipeline: 1},
}

// setting gives a setting by its name.
func setting(t *testing.T, name string) Setting {
	for _, s := range settings {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no setting %q", name)
	return Setting{}
}

// TestExplore visits every state of every setting. It also looks whether all that the model can do was done: an
// exploration that misses half of it proves nothing.
func TestExplore(t *testing.T) {
	var all Result
	for _, s := range settings {
		if *only != "" && s.Name != *only {
			continue
		}
		if *depth >= 0 {
			s.Faults = *depth
		}
		most := *limit
		if quickly {
			most = 20_000
		}
		t.Run(s.Name, func(t *testing.T) {
			began := time.Now()
			res := Explore(s, most)
			t.Logf("%d faults: %s; %v", s.Faults, res, time.Since(began).Round(time.Millisecond))
			if res.Broken != "" {
				t.Error(res.Broken)
			}
			for i, reached := range res.phases {
				all.phases[i] = all.phases[i] || reached
			}
			for i, reached := range res.chores {
				all.chores[i] = all.chores[i] || reached
			}
			all.Partial = all.Partial || res.Partial
		})
	}
	if *only != "" || all.Partial {
		return
	}
	for p := range phases {
		if !all.phases[p] && p != reading {
			t.Errorf("no process was ever in phase %d", p)
		}
	}
	for c := range chores {
		if !all.chores[c] && c != dropping && c != proving {
			t.Errorf("no owner was ever at chore %d", c)
		}
	}
}

// Every combination of choices is tried once, also when how many there are depends on earlier ones.
func TestChoices(t *testing.T) {
	var c choices
	seen := map[[3]int]bool{}
	for {
		a := c.pick(3)
		way := [3]int{a, c.pick(a + 1), -1}
		if a == 1 {
			way[2] = c.pick(2)
		}
		if seen[way] {
			t.Errorf("%v is tried twice", way)
		}
		seen[way] = true
		if !c.next() {
			break
		}
	}
	if len(seen) != 1+2*2+3 {
		t.Errorf("%d ways: %v", len(seen), seen)
	}
}

func TestSet(t *testing.T) {
	var s set
	for i := range uint64(10_000) {
		if !s.add(i*i+2) || s.add(i*i+2) {
			t.Fatalf("%d is new once", i*i+2)
		}
	}
	if s.n != 10_000 {
		t.Errorf("%d in the set", s.n)
	}
}
