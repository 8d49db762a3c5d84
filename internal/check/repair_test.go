package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicemq/sluice/internal/check"
	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/fault"
)

// littered is a store at rest with objects that nothing refers to, and the keys of these.
func littered(t *testing.T) (s snapshot, litter []string) {
	w := lived(t, nil)
	w.stop()
	s = take(t, w.store)
	h, err := head.Decode(key.HeadKey("n"), s[key.HeadKey("n")])
	if err != nil {
		t.Fatal(err)
	}
	own := h.Logs[len(h.Logs)-1]
	ms := s.of(key.Manifest)
	p, err := key.Parse(ms[len(ms)-1])
	if err != nil {
		t.Fatal(err)
	}
	lostManifest := (&manifest.Manifest{Account: "A", Stream: "OLD", ID: 5})
	for k, data := range map[string][]byte{
		own.ID().Key(own.Start - 1):          bytes.Repeat([]byte("late"), 30<<10),
		key.LogKey(key.WAL, "n", 1, 0):       []byte("of an earlier epoch"),
		key.SegmentKey("A", "S", p.ID, 7, 9): []byte("never listed"),
		key.SegmentKey("A", "OLD", 5, 1, 1):  []byte("of a stream that is not known"),
		key.ManifestKey("A", "OLD", 5):       nil,
		"probe/x":                            []byte("of a start"),
	} {
		if data == nil {
			if data, err = lostManifest.Encode(); err != nil {
				t.Fatal(err)
			}
		}
		s[k] = data
		litter = append(litter, k)
	}
	slices.Sort(litter)
	return s, litter
}

func repair(t *testing.T, st store.Store) (moved []string, sum check.Summary, err error) {
	t.Helper()
	sum, err = check.Repair(t.Context(), st, check.RepairOptions{Moved: func(m check.Move) {
		if m.Left == "" {
			moved = append(moved, m.Key)
		} else {
			t.Errorf("%s was left: %s", m.Key, m.Left)
		}
	}})
	slices.Sort(moved)
	return moved, sum, err
}

// wantRepaired compares a store with one that was littered.
func wantRepaired(t *testing.T, about string, st store.Store, was snapshot, litter []string) {
	t.Helper()
	now := take(t, st)
	for k, data := range was {
		at := k
		if slices.Contains(litter, k) {
			at = key.QuarantineKey(k)
		}
		if got, there := now[at]; !there || !bytes.Equal(got, data) {
			t.Errorf("%s: %s is not at %s, or is another", about, k, at)
		}
	}
	if len(now) != len(was) {
		t.Errorf("%s: %d objects, want %d", about, len(now), len(was))
	}
}

func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, litter := littered(t)
		st := was.lay(t)
		moved, sum, err := repair(t, st)
		if err != nil || !slices.Equal(moved, litter) || sum.Quarantined.Objects != len(litter) || sum.Errors != 0 {
			t.Errorf("moved %q, %+v, %v\nwant %q", moved, sum, err, litter)
		}
		wantRepaired(t, "repaired", st, was, litter)
		if moved, _, err := repair(t, st); err != nil || len(moved) > 0 {
			t.Errorf("the second time: %q, %v", moved, err)
		}
		if found, _, _ := findings(t, st, check.Options{}); len(found) > 0 {
			t.Errorf("after the repair: %q", found)
		}
		w := &world{t: t, store: st} // and the node goes on
		w.start()
		w.publish("S", 10)
		w.stop()
	})
}

// What has errors is not touched.
func TestRepairLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, litter := littered(t)
		ms := was.of(key.Manifest)
		theManifest := ms[len(ms)-1]
		segment := slices.IndexFunc(litter, func(k string) bool { return strings.HasPrefix(k, "streams/A/S/") })
		rewrite := func(s snapshot, f func(m *manifest.Manifest)) {
			m, err := manifest.Decode(theManifest, s[theManifest])
			if err != nil {
				t.Fatal(err)
			}
			f(m)
			if s[theManifest], err = m.Encode(); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			damage func(s snapshot)
			want   []string
		}{
			"a batch":          {func(s snapshot) { ks := s.of(key.WAL); flip(s, ks[len(ks)-3]) }, nil},
			"a manifest":       {func(s snapshot) { flip(s, theManifest) }, slices.Delete(slices.Clone(litter), segment, segment+1)},
			"its manifest":     {func(s snapshot) { delete(s, theManifest) }, slices.Delete(slices.Clone(litter), segment, segment+1)},
			"an earlier start": {func(s snapshot) { rewrite(s, func(m *manifest.Manifest) { m.Epoch-- }) }, slices.Delete(slices.Clone(litter), segment, segment+1)},
			"dropped": {func(s snapshot) {
				rewrite(s, func(m *manifest.Manifest) { m.Dropped = []manifest.Dropped{{First: 7, Unique: 9}} })
			}, slices.Delete(slices.Clone(litter), segment, segment+1)},
			"a fence gone": {func(s snapshot) { delete(s, s.of(key.WAL)[1]) }, nil},
		} {
			s := snapshot{}
			for k, v := range was {
				s[k] = v
			}
			c.damage(s)
			st := s.lay(t)
			moved, _, err := repair(t, st)
			if err != nil || !slices.Equal(moved, c.want) {
				t.Errorf("%s: moved %q, %v\nwant %q", name, moved, err, c.want)
			}
			wantRepaired(t, name, st, s, c.want)
		}
	})
}

func TestRepairRefusesALiveStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t, nil)
		before := len(keys(t, w.store, "quarantine/"))
		if _, _, err := repair(t, w.store); !errors.Is(err, check.ErrLive) || !strings.Contains(err.Error(), "is running") {
			t.Errorf("a running node: %v", err)
		}
		killed := take(t, w.store)
		w.stop()
		if _, _, err := repair(t, killed.lay(t)); !errors.Is(err, check.ErrLive) || !strings.Contains(err.Error(), "not shut down cleanly") {
			t.Errorf("a node that was killed: %v", err)
		}
		broken := take(t, w.store)
		broken[key.HeadKey("n")] = []byte("{")
		if _, _, err := repair(t, broken.lay(t)); !errors.Is(err, check.ErrLive) {
			t.Errorf("a head that cannot be read: %v", err)
		}
		if n := len(keys(t, w.store, "quarantine/")); n != before {
			t.Errorf("%d objects in quarantine", n)
		}
	})
}

// A node that starts ends the repair.
func TestRepairEndsWhenANodeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, _ := littered(t)
		st := was.lay(t)
		moves := 0
		_, err := check.Repair(t.Context(), st, check.RepairOptions{Moved: func(check.Move) {
			if moves++; moves == 2 {
				w := &world{t: t, store: st}
				w.start()
				w.stop()
			}
		}})
		if !errors.Is(err, check.ErrLive) || moves != 2 {
			t.Errorf("%d moves, %v", moves, err)
		}
	})
}

// errCut is what every request gets after the process was killed.
var errCut = fmt.Errorf("cut off: %w", store.ErrNoBucket)

// cut is a store that a process reaches for a number of requests.
type cut struct {
	store.Store
	left int
	// answered: the last request is carried out, only its answer is lost.
	carried bool
}

func (c *cut) gone() (now, after bool) {
	c.left--
	return c.left < 0, c.left == 0 && c.carried
}

// Put implements store.Store.
func (c *cut) Put(ctx context.Context, k string, data []byte, cond store.Condition) (string, error) {
	now, after := c.gone()
	if now {
		return "", errCut
	}
	etag, err := c.Store.Put(ctx, k, data, cond)
	if after {
		return "", errCut
	}
	return etag, err
}

// Get implements store.Store.
func (c *cut) Get(ctx context.Context, k string) (store.Object, error) {
	if now, _ := c.gone(); now {
		return store.Object{}, errCut
	}
	return c.Store.Get(ctx, k)
}

// GetRange implements store.Store.
func (c *cut) GetRange(ctx context.Context, k string, offset, length int64) ([]byte, error) {
	if now, _ := c.gone(); now {
		return nil, errCut
	}
	return c.Store.GetRange(ctx, k, offset, length)
}

// List implements store.Store.
func (c *cut) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	if now, _ := c.gone(); now {
		return store.Page{}, errCut
	}
	return c.Store.List(ctx, opts)
}

// Delete implements store.Store.
func (c *cut) Delete(ctx context.Context, ks ...string) error {
	now, after := c.gone()
	if now {
		return errCut
	}
	err := c.Store.Delete(ctx, ks...)
	if after {
		return errCut
	}
	return err
}

// A repair is killed before, and after, each of its requests: every object is whole at one of its two keys, and the next
// repair finishes the work.
func TestRepairIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, litter := littered(t)
		for n := 0; ; n++ {
			done := false
			for _, carried := range []bool{false, true} {
				st := was.lay(t)
				_, _, err := repair(t, &cut{Store: st, left: n, carried: carried})
				done = err == nil
				now := take(t, st)
				for k, data := range was {
					original, there := now[k]
					copied, kept := now[key.QuarantineKey(k)]
					switch {
					case there && !bytes.Equal(original, data), kept && !bytes.Equal(copied, data), !there && !kept:
						t.Fatalf("cut off at %d: %s is damaged or lost", n, k)
					case kept && !slices.Contains(litter, k):
						t.Fatalf("cut off at %d: %s was moved", n, k)
					}
				}
				if _, _, err := repair(t, st); err != nil {
					t.Fatalf("after the cut at %d: %v", n, err)
				}
				wantRepaired(t, fmt.Sprint("cut off at ", n), st, was, litter)
			}
			if done {
				break
			}
		}
	})
}

// The store answers as stores do on bad days.
func TestRepairOnAFaultyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, litter := littered(t)
		for _, rules := range [][]string{
			{"create quarantine/* lost p=0.5"}, {"create quarantine/* delayed times=1"}, {"create quarantine/* duplicate"},
			{"create quarantine/* own-retry"}, {"create quarantine/* conflict times=2"}, {"create quarantine/* throttled times=2"},
			{"get quarantine/* broken times=2"}, {"get quarantine/* torn times=1"}, {"delete * timeout times=2"}, {"delete * lost times=1"},
			{"delete * throttled times=3"}, {"get * broken p=0.05"}, {"get * torn p=0.02"}, {"* * throttled p=0.1"}, {"list * timeout times=3"},
		} {
			for seed := range uint64(4) {
				under := was.lay(t)
				var all []fault.Rule
				for _, text := range rules {
					r, err := fault.Parse(text)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r...)
				}
				st, err := fault.New(under, fault.Options{Seed: seed, Rules: all})
				if err != nil {
					t.Fatal(err)
				}
				_, sum, err := repair(t, st)
				if sum.Errors > 0 {
					t.Errorf("%q: %d errors were found", rules, sum.Errors)
				}
				st.Close()
				if _, _, again := repair(t, under); again != nil {
					t.Errorf("%q: %v, then %v", rules, err, again)
				}
				wantRepaired(t, fmt.Sprint(rules), under, was, litter)
			}
		}
	})
}

// Another object under the same key in quarantine is not overwritten, and the original stays.
func TestRepairFindsTheKeyTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was, litter := littered(t)
		was[key.QuarantineKey(litter[0])] = []byte("from another time")
		st := was.lay(t)
		left := ""
		_, err := check.Repair(t.Context(), st, check.RepairOptions{Moved: func(m check.Move) {
			if m.Left != "" {
				left += m.Key
			}
		}})
		if err != nil || left != litter[0] {
			t.Errorf("left %q, %v", left, err)
		}
		wantRepaired(t, "taken", st, was, litter[1:])
	})
}
