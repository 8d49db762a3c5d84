//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	if opts.Path == "" {
		opts.Path = t.TempDir()
	}
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *Store, key, content string, cond store.Condition) string {
	t.Helper()
	etag, err := s.Put(t.Context(), key, []byte(content), cond)
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func TestAcceptance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, Options{}) })
}

// With named temporary files, as on file systems without O_TMPFILE, and with a single open folder.
func TestAcceptanceFallback(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s := open(t, Options{MaxFolders: 1})
		s.unnamed = false
		return s
	})
}

func TestObjectIsPlainFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "made", "by", "open")
	s := open(t, Options{Path: root})
	put(t, s, "a/b", "content", store.IfAbsent())
	path := filepath.Join(root, "a", "b")
	if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o222 != 0 {
		t.Errorf("the file has mode %v, %v, want read-only", info.Mode(), err)
	}
	if age := time.Since(info.ModTime()); age < -time.Second || age > time.Minute {
		t.Errorf("the file's time is %v ago", age)
	}
}

// Files of the same size that use the same inode again, written within one tick of the file system's clock.
func TestETagsDiffer(t *testing.T) {
	s := open(t, Options{})
	seen := make(map[string]bool)
	for range 150 {
		etag := put(t, s, "key", "same", store.Always())
		if seen[etag] {
			t.Fatalf("ETag %s stands for two versions", etag)
		}
		seen[etag] = true
	}
}

// An ETag and the data beside it are of one version, also while the object is being replaced.
func TestETagBelongsToData(t *testing.T) {
	s := open(t, Options{})
	put(t, s, "key", "0", store.Always())
	var written, seen sync.Map // ETag -> content
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 50 {
				content := fmt.Sprintf("%d-%d", w, i)
				etag, err := s.Put(t.Context(), "key", []byte(content), store.Always())
				if err != nil {
					t.Error(err)
				}
				written.Store(etag, content)
				obj, err := s.Get(t.Context(), "key")
				if err != nil {
					t.Error(err)
				}
				seen.Store(obj.ETag, string(obj.Data))
			}
		})
	}
	wg.Wait()
	seen.Range(func(etag, content any) bool {
		if want, _ := written.Load(etag); want != content {
			t.Errorf("Get gave %q with ETag %s, which is that of %q", content, etag, want)
		}
		return true
	})
}

func TestKeyIsNoFolder(t *testing.T) {
	s := open(t, Options{})
	put(t, s, "a/b/c", "x", store.IfAbsent())
	for _, cond := range []store.Condition{store.Always(), store.IfAbsent()} {
		for _, key := range []string{"a", "a/b", "a/b/c/d", "a/b/c/d/e"} {
			if _, err := s.Put(t.Context(), key, nil, cond); !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("Put(%s, %v): %v, want ErrInvalidKey", key, cond, err)
			}
		}
	}
	if _, err := s.Put(t.Context(), "a", nil, store.IfMatch("x")); !errors.Is(err, store.ErrPrecondition) {
		t.Errorf("Put on a folder by version: %v, want ErrPrecondition", err)
	}
	if err := s.Delete(t.Context(), "a", "a/b", "a/b/c/d"); err != nil {
		t.Errorf("Delete of folders: %v", err)
	}
	if _, err := s.Get(t.Context(), "a/b/c"); err != nil {
		t.Errorf("Get after Delete of its folders: %v", err)
	}
}

func TestEmptyFolders(t *testing.T) {
	root := t.TempDir()
	s := open(t, Options{Path: root})
	put(t, s, "a/b/c/d", "x", store.IfAbsent())
	put(t, s, "a/x", "x", store.IfAbsent())
	if err := s.Delete(t.Context(), "a/b/c/d"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "a", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder a/b is still there: %v", err)
	}
	// A crash may leave an empty folder where a key is to be.
	if err := os.MkdirAll(filepath.Join(root, "k"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "x", store.IfAbsent())
	if err := os.MkdirAll(filepath.Join(root, "l"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, s, "l", "x", store.Always())
}

// Two processes make and remove the same folders under each other's hands.
func TestFoldersComeAndGo(t *testing.T) {
	root := t.TempDir()
	stores := []*Store{open(t, Options{Path: root}), open(t, Options{Path: root})}
	var wg sync.WaitGroup
	for i, s := range stores {
		for w := range 2 {
			wg.Go(func() {
				for n := range 60 {
					key := fmt.Sprintf("a/b/%d-%d-%d", i, w, n)
					cond := store.IfAbsent()
					if n%2 == 0 {
						cond = store.Always()
					}
					if _, err := s.Put(t.Context(), key, []byte(key), cond); err != nil {
						t.Error(err)
					}
					if obj, err := s.Get(t.Context(), key); err != nil || string(obj.Data) != key {
						t.Errorf("Get(%s) = %q, %v", key, obj.Data, err)
					}
					if err := s.Delete(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestTemporaryFilesOfTheDead(t *testing.T) {
	root := t.TempDir()
	s := open(t, Options{Path: root})
	// What a process leaves that is killed between create and rename: a folder that nobody has locked.
	dead := filepath.Join(root, "@tmp", "DEAD")
	if err := os.Mkdir(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "1"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	// And what belongs to one that lives.
	f, err := s.fs.Create(s.temp.File, "living")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	open(t, Options{Path: root})
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary files of a dead process are still there: %v", err)
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Errorf("a temporary file of a living process is gone: %v", err)
	}
	page, err := s.List(t.Context(), store.ListOptions{})
	if err != nil || len(page.Objects) != 0 {
		t.Errorf("List shows %v, %v, want nothing", page.Objects, err)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	root := t.TempDir()
	s, err := Open(t.Context(), Options{Path: root})
	if err != nil {
		t.Fatal(err)
	}
	etag := put(t, s, "a", "x", store.IfAbsent())
	put(t, s, "a", "x", store.IfMatch(etag))
	_, err = s.Put(t.Context(), "a", nil, store.IfMatch(etag))
	if !errors.Is(err, store.ErrPrecondition) {
		t.Error(err)
	}
	if names, err := os.ReadDir(s.temp.Name()); err != nil || len(names) != 0 {
		t.Errorf("temporary files are left: %v, %v", names, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(filepath.Join(root, "@tmp")); err != nil || len(names) != 0 {
		t.Errorf("the temporary folder is left: %v, %v", names, err)
	}
}

func TestRootRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	s, err := Open(t.Context(), Options{Path: root})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a/b", "x", store.IfAbsent())
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, getErr := s.Get(ctx, "a/b")
	_, listErr := s.List(ctx, store.ListOptions{})
	_, createErr := s.Put(ctx, "a/c", nil, store.IfAbsent())
	_, matchErr := s.Put(ctx, "a/b", nil, store.IfMatch("x"))
	for what, err := range map[string]error{
		"Get": getErr, "List": listErr, "create": createErr, "if-match": matchErr, "Delete": s.Delete(ctx, "a/b"),
	} {
		if !errors.Is(err, store.ErrNoBucket) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s without the root folder: %v, want ErrNoBucket", what, err)
		}
	}
	_ = s.Close() // the temp folder is gone
}

// faultyFileSystem fails one kind of step.
type faultyFileSystem struct {
	osFileSystem
	link, rename, syncFile, syncFolder error
}

func (f *faultyFileSystem) Link(file, dir *os.File, name string) error {
	if f.link != nil {
		return f.link
	}
	return f.osFileSystem.Link(file, dir, name)
}

func (f *faultyFileSystem) Rename(file, dir *os.File, name string) error {
	if f.rename != nil {
		return f.rename
	}
	return f.osFileSystem.Rename(file, dir, name)
}

func (f *faultyFileSystem) Sync(file *os.File) error {
	st, err := statFile(file)
	if err != nil {
		return err
	}
	if err := map[bool]error{true: f.syncFolder, false: f.syncFile}[st.isFolder()]; err != nil {
		return err
	}
	return f.osFileSystem.Sync(file)
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults faultyFileSystem
		want   error
	}{
		{"disk full at link", faultyFileSystem{link: unix.ENOSPC, rename: unix.ENOSPC}, store.ErrFull},
		{"quota at link", faultyFileSystem{link: unix.EDQUOT, rename: unix.EDQUOT}, store.ErrFull},
		{"disk full at fsync", faultyFileSystem{syncFile: unix.ENOSPC}, store.ErrFull},
		{"broken disk at fsync", faultyFileSystem{syncFile: unix.EIO}, unix.EIO},
		{"broken disk at fsync of the folder", faultyFileSystem{syncFolder: unix.EIO}, store.ErrUnknownOutcome},
		{"full disk at fsync of the folder", faultyFileSystem{syncFolder: unix.ENOSPC}, store.ErrUnknownOutcome},
		{"folder always gone", faultyFileSystem{link: unix.ENOENT, rename: unix.ENOENT}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, cond := range []store.Condition{store.IfAbsent(), store.Always()} {
				faults := tt.faults
				s, err := openWith(&faultyFileSystem{}, Options{Path: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				put(t, s, "a/other", "x", store.IfAbsent()) // the folder is there
				s.fs = &faults
				_, err = s.Put(t.Context(), "a/key", []byte("x"), cond)
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("%v: %v, want %v", cond, err, tt.want)
				}
				if !errors.Is(err, store.ErrUnknownOutcome) {
					faults.syncFolder = nil
					if _, err := s.Get(t.Context(), "a/key"); !errors.Is(err, store.ErrNotFound) {
						t.Errorf("%v: Get after a failed Put: %v, want ErrNotFound", cond, err)
					}
				}
				if names, err := os.ReadDir(s.temp.Name()); err != nil || len(names) != 0 {
					t.Errorf("%v: temporary files are left: %v, %v", cond, names, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A folder that the listing must not read holds a trap: a symbolic link that leads to itself is an error to look at.
func TestListPrunesFolders(t *testing.T) {
	root := t.TempDir()
	s := open(t, Options{Path: root})
	for _, key := range []string{"a/1/x", "a/2/x", "a/3/x", "b/1/x", "b/2/x", "b/3/x", "c/1/x"} {
		put(t, s, key, key, store.IfAbsent())
	}
	for _, tt := range []struct {
		opts  store.ListOptions
		traps []string
		want  []string
	}{
		{store.ListOptions{StartAfter: "b/2/a"}, []string{"a", "a/1", "a/3", "b/1"}, []string{"b/2/x", "b/3/x", "c/1/x"}},
		{store.ListOptions{StartAfter: "b/2/x"}, []string{"a", "a/1", "b/1"}, []string{"b/3/x", "c/1/x"}},
		{store.ListOptions{Prefix: "b/"}, []string{"a", "c", ""}, []string{"b/1/x", "b/2/x", "b/3/x"}},
		{store.ListOptions{Prefix: "b/2"}, []string{"a", "c", "b/1", "b/3"}, []string{"b/2/x"}},
		{store.ListOptions{Prefix: "b/2/"}, []string{"a", "", "b", "b/1", "b/3"}, []string{"b/2/x"}},
		{store.ListOptions{Prefix: "b/", StartAfter: "b/2"}, []string{"a", "b/1", "c"}, []string{"b/2/x", "b/3/x"}},
		// One key beyond the page has to be seen, to know whether there are more.
		{store.ListOptions{Limit: 2}, []string{"a/3/", "b/1", "c"}, []string{"a/1/x", "a/2/x"}},
	} {
		var links []string
		for _, folder := range tt.traps {
			link := filepath.Join(root, folder, "zzz")
			if err := os.Symlink(link, link); err != nil {
				t.Fatal(err)
			}
			links = append(links, link)
		}
		page, err := s.List(t.Context(), tt.opts)
		var got []string
		for _, obj := range page.Objects {
			got = append(got, obj.Key)
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("List(%+v) = %v, %v, want %v", tt.opts, got, err, tt.want)
		}
		for _, link := range links {
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The trap works.
	if err := os.Symlink(filepath.Join(root, "trap"), filepath.Join(root, "trap")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), store.ListOptions{}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("List over a symbolic link to itself: %v, want ELOOP", err)
	}
}

func TestListIgnoresWhatIsNotOurs(t *testing.T) {
	root := t.TempDir()
	s := open(t, Options{Path: root})
	put(t, s, "a/b", "x", store.IfAbsent())
	for _, name := range []string{"@x", "a/has space", "a/" + strings.Repeat("x", store.MaxSegmentBytes+1), "a/~"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "a", "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), store.ListOptions{})
	if err != nil || len(page.Objects) != 1 || page.Objects[0].Key != "a/b" {
		t.Errorf("List = %v, %v, want a/b alone", page.Objects, err)
	}
}

func TestLockHeedsContext(t *testing.T) {
	root := t.TempDir()
	a, b := open(t, Options{Path: root}), open(t, Options{Path: root})
	put(t, a, "key", "x", store.IfAbsent())
	unlock, err := a.locks.lock(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"same process": a, "other process": b} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = s.Put(ctx, "key", []byte("y"), store.Always())
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%s: Put while the key is locked: %v, want that the time is over", name, err)
		}
		cancel()
	}
	unlock()
	put(t, b, "key", "z", store.Always())
}

func TestFolderCacheIsBounded(t *testing.T) {
	s := open(t, Options{MaxFolders: 3})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for n := range 3 {
				if _, err := s.Put(t.Context(), fmt.Sprintf("a/%d/%d", (i*7+n)%10, i*10+n), nil, store.IfAbsent()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.folders.order.Len(); n > 3 || n != len(s.folders.byRel) {
		t.Errorf("%d folders are open, %d known, want at most 3", n, len(s.folders.byRel))
	}
	for rel, f := range s.folders.byRel {
		if f.users != 0 {
			t.Errorf("%s has %d users left", rel, f.users)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, opts := range map[string]Options{
		"no path":          {},
		"negative folders": {Path: t.TempDir(), MaxFolders: -1},
		"not a folder":     {Path: os.Args[0]},
		"below a file":     {Path: filepath.Join(os.Args[0], "x")},
	} {
		if s, err := Open(t.Context(), opts); err == nil {
			t.Errorf("%s: no error", name)
			_ = s.Close()
		}
	}
}
