package cache

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// again closes a cache and opens one on the same folder.
func (w *world) again(c *Cache, opts Options) *Cache {
	w.t.Helper()
	if err := c.Close(); err != nil {
		w.t.Fatal(err)
	}
	return w.cache(opts)
}

// onDisk gives the files of parts in a folder, by path below it.
func onDisk(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && entry.Name() != lockName {
			files[strings.TrimPrefix(path, folder+"/")] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDiskSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	long := "streams/" + strings.Repeat("a", 200) + "/" + strings.Repeat("b", 200) + "/" + strings.Repeat("c", 200) + "/1"
	objects := map[string][]byte{"segments/a": w.object("segments/a", mib), "b": w.object("b", mib), long: w.object(long, mib)}
	opts := Options{Folder: filepath.Join(t.TempDir(), "made", "by it")}
	c := w.cache(opts)
	parts := pages(mib, 100*kib)
	all := func(c *Cache) {
		t.Helper()
		for key, object := range objects {
			for _, p := range parts {
				want(t, c, key, p, object)
			}
		}
	}
	all(c)
	w.seen()
	for range 2 {
		c = w.again(c, opts)
		all(c)
	}
	if gets := w.seen(); len(gets) > 0 {
		t.Errorf("%d GETs after a restart", len(gets))
	}
	c.Forget("b")
	c = w.again(c, opts)
	all(c)
	if gets := w.seen(); len(gets) != len(parts) {
		t.Errorf("%d GETs for an object that was forgotten before a restart, want %d", len(gets), len(parts))
	}
}

func TestBadFilesAreFetchedAgain(t *testing.T) {
	damage := map[string]func(path string, data []byte) error{
		"short":        func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)-1], 0o600) },
		"empty":        func(path string, data []byte) error { return os.WriteFile(path, nil, 0o600) },
		"long":         func(path string, data []byte) error { return os.WriteFile(path, append(data, 0), 0o600) },
		"gone":         func(path string, _ []byte) error { return os.Remove(path) },
		"zeros":        func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o600) },
		"a folder":     func(path string, _ []byte) error { _ = os.Remove(path); return os.Mkdir(path, 0o700) },
		"another's":    func(path string, data []byte) error { return os.WriteFile(path, foreign(data), 0o600) },
		"changed bit":  func(path string, data []byte) error { data[len(data)/2] ^= 4; return os.WriteFile(path, data, 0o600) },
		"changed head": func(path string, data []byte) error { data[5] ^= 1; return os.WriteFile(path, data, 0o600) },
	}
	for name, f := range damage {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					object := w.object("a", 1000)
					opts := Options{Folder: t.TempDir()}
					c := w.cache(opts)
					want(t, c, "a", Part{0, 1000}, object)
					synctest.Wait()
					path := c.disk.path("a", Part{0, 1000})
					data, err := os.ReadFile(path)
					if err == nil {
						err = f(path, data)
					}
					if err != nil {
						t.Fatal(err)
					}
					forgetInMemory(c, "a", Part{0, 1000})
					if restart {
						c = w.again(c, opts)
					}
					w.seen()
					want(t, c, "a", Part{0, 1000}, object)
					if gets := w.seen(); len(gets) != 1 {
						t.Errorf("%d GETs, want 1", len(gets))
					}
					synctest.Wait()
					audit(t, c)
					if name == "a folder" {
						return // stays in the way; the part is not on the disk
					}
					forgetInMemory(c, "a", Part{0, 1000})
					want(t, c, "a", Part{0, 1000}, object)
					if gets := w.seen(); len(gets) != 0 {
						t.Error("the file was not replaced")
					}
				})
			})
		}
	}
}

// foreign is a sound file of another part, as case-insensitive file systems may put it in one's place.
func foreign(data []byte) []byte {
	other := append([]byte(fileMagic), 0, 0, 0, 0)
	sum := checksum("A", Part{0, int64(len(data) - headerBytes)}, data[headerBytes:])
	for i := range 4 {
		other[4+i] = byte(sum >> (8 * i))
	}
	return append(other, data[headerBytes:]...)
}

func TestDiskIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, opts := range map[string]Options{
			"bytes": {DiskBytes: mib},
			"files": {DiskFiles: 20},
			"both":  {DiskBytes: mib, DiskFiles: 30},
		} {
			w := newWorld(t)
			object := w.object("a/b", 16*mib)
			opts.Folder = t.TempDir()
			opts.MemoryBytes = mib
			c := w.cache(opts)
			for _, length := range []int64{100, 5000, 30 * kib, 128 * kib, 129 * kib} {
				for _, p := range pages(length*40, length) {
					want(t, c, "a/b", p, object)
					synctest.Wait()
					audit(t, c)
				}
				checkFiles(t, c, name)
			}
			// Narrower bounds hold from the start, and the ones used last stay.
			opts.DiskFiles = 3
			kept := pages(30*kib*40, 30*kib)[30:33]
			for _, p := range kept {
				time.Sleep(time.Hour)
				want(t, c, "a/b", p, object)
				synctest.Wait()
				forgetInMemory(c, "a/b", p)
				want(t, c, "a/b", p, object) // from the disk
			}
			c = w.again(c, opts)
			audit(t, c)
			checkFiles(t, c, name)
			w.seen()
			for _, p := range kept {
				want(t, c, "a/b", p, object)
			}
			if gets := w.seen(); len(gets) != 0 {
				t.Errorf("%s: %d of the parts used last did not stay", name, len(gets))
			}
			c.Forget("a/b")
			if entries, err := os.ReadDir(opts.Folder); err != nil || len(entries) != 2 {
				t.Errorf("%s: %v, %v; want @lock and @tmp only", name, entries, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func checkFiles(t *testing.T, c *Cache, name string) {
	t.Helper()
	files := onDisk(t, c.disk.folder)
	bytes := int64(0)
	for _, size := range files {
		bytes += (size + blockBytes - 1) / blockBytes * blockBytes
	}
	if bytes > c.disk.max || len(files) > c.disk.maxFiles || bytes != c.disk.bytes || len(files) == 0 {
		t.Errorf("%s: %d files of %d bytes; the books say %d of %d, the bounds are %d and %d",
			name, len(files), bytes, c.disk.order.Len(), c.disk.bytes, c.disk.maxFiles, c.disk.max)
	}
}

func TestFullDiskNeverFailsARead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		object := w.object("a", mib)
		registry := prometheus.NewRegistry()
		c := w.cache(Options{Folder: t.TempDir(), Registerer: registry})
		parts := pages(mib, 10*kib)
		want(t, c, "a", parts[0], object)
		synctest.Wait()
		// Nothing can be created any more.
		temp := filepath.Join(c.disk.folder, tempFolder)
		if err := os.Remove(temp); err != nil {
			t.Fatal(err)
		}
		faults := func(n float64) {
			t.Helper()
			if v := value(t, registry, "sluice_cache_disk_faults_total", "write"); v != n {
				t.Errorf("%v writes failed, want %v", v, n)
			}
		}
		for _, p := range parts[1:20] {
			want(t, c, "a", p, object)
			synctest.Wait()
		}
		faults(1) // then it pauses
		time.Sleep(DefaultDiskPause)
		want(t, c, "a", parts[20], object)
		synctest.Wait()
		faults(2)
		forgetInMemory(c, "a", parts[0])
		w.seen()
		want(t, c, "a", parts[0], object) // what is there is read meanwhile
		if gets := w.seen(); len(gets) != 0 {
			t.Errorf("%d GETs for what is on the disk", len(gets))
		}
		if err := os.Mkdir(temp, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(DefaultDiskPause)
		want(t, c, "a", parts[21], object)
		synctest.Wait()
		faults(2)
		if files := onDisk(t, c.disk.folder); len(files) != 2 {
			t.Errorf("files %v, want 2", files)
		}
		audit(t, c)
	})
}

func TestFolderIsForOneCache(t *testing.T) {
	w := newWorld(t)
	opts := Options{Folder: t.TempDir()}
	c := w.cache(opts)
	if _, err := New(w, opts); err == nil || !strings.Contains(err.Error(), "another cache") {
		t.Errorf("%v, want that another cache uses the folder", err)
	}
	w.again(c, opts)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(w, Options{Folder: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error that names %s", err, file)
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	object := w.object("a/b", 1000)
	folder := t.TempDir()
	names := []string{"README", "a/notes", "a/@0-", "a/@x-1", "a/@00-1", "a/@-1-5", "a b/@0-1", "@0-1"}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("precious!"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, tempFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, tempFolder, "part"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Folder: folder}
	c := w.cache(opts)
	want(t, c, "a/b", Part{0, 1000}, object)
	c = w.again(c, opts)
	want(t, c, "a/b", Part{0, 1000}, object)
	c.ForgetPrefix("")
	files := onDisk(t, folder)
	for _, name := range names {
		if files[name] != int64(len("precious!")) {
			t.Errorf("%s is gone", name)
		}
	}
	if len(files) != len(names) {
		t.Errorf("files %v, want only what is not the cache's", files)
	}
}

// What is forgotten while it waits to be written does not come back.
func TestForgottenWhileItIsWritten(t *testing.T) {
	w := newWorld(t)
	w.object("a", mib)
	opts := Options{Folder: t.TempDir()}
	c := w.cache(opts)
	for i := range 100 {
		if _, err := c.Read(t.Context(), "a", int64(i)*100, 100*kib); err != nil {
			t.Fatal(err)
		}
	}
	c.Forget("a")
	c = w.again(c, opts)
	if files := onDisk(t, opts.Folder); len(files) != 0 || c.disk.order.Len() != 0 {
		t.Errorf("files %v of an object that was forgotten", files)
	}
}

func FuzzParseName(f *testing.F) {
	for _, name := range []string{"@0-1", "@ff-7fffffffffffffff", "@0-", "@-1-1", "", "@"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if p, ok := parseName(name); ok && (fileName(p) != name || !p.valid()) {
			t.Errorf("%q is read as %v", name, p)
		}
	})
}
