//go:build unix

package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

// expectation maps a key to the contents that it may have; "" stands for absent.
type expectation map[string][]string

// check crashes in every variant and compares what a store then finds.
func (w *crashWorld) check(t *testing.T, seed uint64, want expectation) error {
	for _, v := range crashVariants(seed) {
		to := w.root + "-crashed"
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		if err := w.crash(to, v); err != nil {
			return err
		}
		found := checkStore(t, to, want)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if found != nil {
			return fmt.Errorf("%s: %w", v.name, found)
		}
	}
	return nil
}

func checkStore(t *testing.T, path string, want expectation) error {
	s, err := openWith(forgetfulFileSystem{}, Options{Path: path}) // nothing crashes after the crash
	if err != nil {
		return err
	}
	defer s.Close()
	var found []string
	for key, contents := range want {
		obj, err := s.Get(t.Context(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			found = append(found, key)
		}
		if !slices.Contains(contents, string(obj.Data)) {
			return fmt.Errorf("%s holds %q, want one of %q", key, obj.Data, contents)
		}
	}
	page, err := s.List(t.Context(), store.ListOptions{})
	if err != nil {
		return err
	}
	slices.Sort(found)
	for i, obj := range page.Objects {
		if i >= len(found) || obj.Key != found[i] {
			return fmt.Errorf("List gives %v, but %v are there", page.Objects, found)
		}
	}
	if len(page.Objects) != len(found) {
		return fmt.Errorf("List gives %v, but %v are there", page.Objects, found)
	}
	// A writer goes on from here, whatever empty folders are left.
	for key := range want {
		if !slices.Contains(found, key) {
			if _, err := s.Put(t.Context(), key, []byte("again"), store.IfAbsent()); err != nil {
				return fmt.Errorf("create after the crash: %w", err)
			}
		}
	}
	return nil
}

// checkMarks wants everything that is marked as settled to be durable.
func (w *crashWorld) checkMarks() error {
	root, err := os.Open(w.root)
	if err != nil {
		return err
	}
	defer root.Close()
	durable := map[string]*crashNode{".": w.node(root)}
	return filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.root, path)
		if rel == "." {
			return nil
		}
		if entry.Name()[0] == '@' {
			return fs.SkipDir
		}
		var n *crashNode
		if parent := durable[filepath.Dir(rel)]; parent != nil {
			n = parent.durable[entry.Name()]
		}
		durable[rel] = n
		info, err := entry.Info()
		if err != nil {
			return err
		}
		settled := info.Mode()&0o200 == 0
		if entry.IsDir() {
			settled = info.Mode()&fs.ModeSticky == 0
		}
		if settled && n == nil {
			return fmt.Errorf("%s is marked as settled, but a crash would lose it", rel)
		}
		return nil
	})
}

const old, fresh = "old content", "fresh content"

var crashScenarios = []struct {
	name   string
	before map[string]string // objects that are durably there
	key    string
	act    func(t *testing.T, s *Store) error
	during []string // contents that the key may have while act runs
	after  []string // and once it has returned
}{
	{"create in new folders", map[string]string{"other/x": old}, "a/b/c", create("a/b/c"), []string{"", fresh}, []string{fresh}},
	{"create in the root", nil, "a", create("a"), []string{"", fresh}, []string{fresh}},
	{"create beside others", map[string]string{"a/b/x": old, "a/b/y": old}, "a/b/c", create("a/b/c"), []string{"", fresh}, []string{fresh}},
	{"lost create", map[string]string{"a/b/c": old}, "a/b/c", func(t *testing.T, s *Store) error {
		if err := create("a/b/c")(t, s); !errors.Is(err, store.ErrPrecondition) {
			return fmt.Errorf("second create: %w", err)
		}
		return nil
	}, []string{old}, []string{old}},
	{"replace", map[string]string{"a/b/c": old}, "a/b/c", func(t *testing.T, s *Store) error {
		_, err := s.Put(t.Context(), "a/b/c", []byte(fresh), store.Always())
		return err
	}, []string{old, fresh}, []string{fresh}},
	{"write a new key", nil, "a/b/c", func(t *testing.T, s *Store) error {
		_, err := s.Put(t.Context(), "a/b/c", []byte(fresh), store.Always())
		return err
	}, []string{"", fresh}, []string{fresh}},
	{"replace a version", map[string]string{"a/b/c": old, "a/b/d": old}, "a/b/c", func(t *testing.T, s *Store) error {
		obj, err := s.Get(t.Context(), "a/b/c")
		if err != nil {
			return err
		}
		_, err = s.Put(t.Context(), "a/b/c", []byte(fresh), store.IfMatch(obj.ETag))
		return err
	}, []string{old, fresh}, []string{fresh}},
	{"delete", map[string]string{"a/b/c": old, "a/d": old}, "a/b/c", func(t *testing.T, s *Store) error {
		return s.Delete(t.Context(), "a/b/c")
	}, []string{old, ""}, []string{""}},
	{"delete and create", map[string]string{"a/b/c": old}, "a/b/c", func(t *testing.T, s *Store) error {
		if err := s.Delete(t.Context(), "a/b/c"); err != nil {
			return err
		}
		return create("a/b/c")(t, s)
	}, []string{old, "", fresh}, []string{fresh}},
}

func create(key string) func(t *testing.T, s *Store) error {
	return func(t *testing.T, s *Store) error {
		_, err := s.Put(t.Context(), key, []byte(fresh), store.IfAbsent())
		return err
	}
}

func TestCrashAtEveryStep(t *testing.T) {
	for _, sc := range crashScenarios {
		for _, unnamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/unnamed=%v", sc.name, unnamed), func(t *testing.T) {
				w := newCrashWorld(t)
				s := w.open(t, unnamed)
				want := prepareCrash(t, s, sc.before)

				seed, steps := uint64(1), 0
				want[sc.key] = sc.during
				w.step = func() {
					steps++
					if err := errors.Join(w.check(t, seed+uint64(steps), want), w.checkMarks()); err != nil {
						t.Errorf("crash at step %d: %v", steps, err)
					}
				}
				if err := sc.act(t, s); err != nil {
					t.Fatal(err)
				}
				w.step = nil
				want[sc.key] = sc.after
				if err := errors.Join(w.check(t, seed, want), w.checkMarks()); err != nil {
					t.Errorf("crash after it returned: %v", err)
				}
				if err := checkStore(t, w.root, want); err != nil {
					t.Errorf("without a crash: %v", err)
				}
			})
		}
	}
}

func prepareCrash(t *testing.T, s *Store, before map[string]string) expectation {
	t.Helper()
	want := make(expectation)
	for key, content := range before {
		if _, err := s.Put(t.Context(), key, []byte(content), store.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		want[key] = []string{content}
	}
	return want
}

// TestCrashNeedsEverySync leaves each fsync out in turn: the checks above must notice every one, so that they are worth
// something, and no Put makes one too many.
func TestCrashNeedsEverySync(t *testing.T) {
	for _, sc := range crashScenarios {
		if sc.name == "lost create" {
			continue // it needs none
		}
		w := newCrashWorld(t)
		s := w.open(t, true)
		prepareCrash(t, s, sc.before)
		w.syncs = 0
		if err := sc.act(t, s); err != nil {
			t.Fatal(err)
		}
		syncs := w.syncs
		t.Logf("%s: %d syncs", sc.name, syncs)
		for skip := range syncs {
			w := newCrashWorld(t)
			s := w.open(t, true)
			want := prepareCrash(t, s, sc.before)
			w.syncs, w.skipSync = 0, skip
			want[sc.key] = sc.during
			var noticed error
			steps := uint64(0)
			w.step = func() {
				if steps++; noticed == nil {
					noticed = errors.Join(w.check(t, steps, want), w.checkMarks())
				}
			}
			if err := sc.act(t, s); err != nil {
				t.Fatal(err)
			}
			w.step = nil
			want[sc.key] = sc.after
			noticed = errors.Join(noticed, w.check(t, steps, want), w.checkMarks())
			if noticed == nil && sc.name != "delete and create" { // there, the create's fsyncs cover the deletion
				t.Errorf("%s: nobody notices that sync %d of %d is left out", sc.name, skip+1, syncs)
			}
		}
	}
}

// TestSeenIsDurable lets another process look at a key at every step of a Put: what it has seen, a crash must not take
// back. And what that process writes into folders that the first has only just made must be as durable.
func TestSeenIsDurable(t *testing.T) {
	looks := map[string]func(t *testing.T, other *Store) (seen bool){
		"get": func(t *testing.T, other *Store) bool {
			obj, err := other.Get(t.Context(), "a/b/c")
			return err == nil && string(obj.Data) == fresh
		},
		"get range": func(t *testing.T, other *Store) bool {
			data, err := other.GetRange(t.Context(), "a/b/c", 0, 100)
			return err == nil && string(data) == fresh
		},
		"list": func(t *testing.T, other *Store) bool {
			page, err := other.List(t.Context(), store.ListOptions{})
			return err == nil && len(page.Objects) == 1 && page.Objects[0].Size == int64(len(fresh))
		},
		"lose a create": func(t *testing.T, other *Store) bool {
			if _, err := other.Get(t.Context(), "a/b/c"); err != nil {
				return false // not to write it ourselves
			}
			_, err := other.Put(t.Context(), "a/b/c", []byte("mine"), store.IfAbsent())
			return errors.Is(err, store.ErrPrecondition)
		},
	}
	for _, cond := range []store.Condition{store.IfAbsent(), store.Always()} {
		for name, look := range looks {
			sightings := 0
			for at := 1; ; at++ {
				w := newCrashWorld(t)
				s, other := w.open(t, true), w.open(t, true)
				steps := 0
				w.step = func() {
					if steps++; steps != at {
						return
					}
					if look(t, other) {
						sightings++
						if err := w.check(t, 1, expectation{"a/b/c": {fresh}}); err != nil {
							t.Errorf("%v: crash at step %d after %s: %v", cond, at, name, err)
						}
					}
					if err := w.checkMarks(); err != nil {
						t.Errorf("%v: at step %d after %s: %v", cond, at, name, err)
					}
					if _, err := other.Put(t.Context(), "a/b/d", []byte(old), store.IfAbsent()); err != nil {
						t.Error(err)
					}
					if err := w.check(t, 1, expectation{"a/b/c": {"", fresh}, "a/b/d": {old}}); err != nil {
						t.Errorf("%v: crash at step %d after a second writer: %v", cond, at, err)
					}
				}
				if _, err := s.Put(t.Context(), "a/b/c", []byte(fresh), cond); err != nil {
					t.Fatal(err)
				}
				w.step = nil
				if at > steps {
					break
				}
			}
			if sightings < 2 {
				t.Errorf("%v: %s saw the object at %d steps only", cond, name, sightings)
			}
		}
	}
}

func TestCrashModelTears(t *testing.T) {
	// The model itself: an unsynced file is torn, an unsynced name is gone.
	w := newCrashWorld(t)
	s := w.open(t, true)
	f, err := w.Create(s.root, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(storetest.Pattern(1, 100)); err != nil {
		t.Fatal(err)
	}
	read := func(v survivors) []byte {
		to := t.TempDir()
		if err := w.crash(to, v); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(to, "x"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return data
	}
	variants := crashVariants(1)
	if got := read(variants[0]); got != nil {
		t.Errorf("an unsynced name survived with %q", got)
	}
	if got := read(variants[1]); len(got) == 100 {
		t.Error("unsynced content survived")
	}
	if err := errors.Join(w.Sync(f), w.Sync(s.root)); err != nil {
		t.Fatal(err)
	}
	if got := read(variants[0]); !bytes.Equal(got, storetest.Pattern(1, 100)) {
		t.Errorf("synced content did not survive: %q", got)
	}
}
