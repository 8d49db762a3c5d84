//go:build unix

package dir

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// crashWorld is the operating system's file system, watched: beside what is there now it knows what a power loss would
// leave. A file's content is sure once the file was synced, a name once its folder was; anything else may or may not
// survive, each thing for itself.
type crashWorld struct {
	osFileSystem
	root  string
	nodes map[uint64]*crashNode // by inode

	// step is called before and after every operation, but not for operations that it causes itself.
	step   func()
	inStep bool
	// skipSync makes the n-th Sync from now on do nothing, to see that the test would notice; negative for none.
	skipSync int
	syncs    int
}

type crashNode struct {
	folder       bool
	content      []byte // as synced
	synced       bool
	now, durable map[string]*crashNode
}

func newCrashWorld(t *testing.T) *crashWorld {
	return &crashWorld{root: memoryDir(t), nodes: make(map[uint64]*crashNode), skipSync: -1}
}

// memoryDir is a t.TempDir in memory where there is one: these tests make and remove thousands of small files, and
// nothing in them depends on the disk.
func memoryDir(t *testing.T) string {
	const shm = "/dev/shm"
	if st, err := os.Stat(shm); err != nil || !st.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "sluice-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (w *crashWorld) open(t *testing.T, unnamed bool) *Store {
	t.Helper()
	s, err := openWith(w, Options{Path: w.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.step = nil
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.unnamed = s.unnamed && unnamed
	s.spares.spawn = func(fill func()) { fill() } // one thing at a time: every step may be the last
	return s
}

// node gives what is known of an open file or folder.
func (w *crashWorld) node(f *os.File) *crashNode {
	st, err := statFile(f)
	if err != nil {
		panic(err)
	}
	n := w.nodes[st.inode]
	if n == nil {
		n = &crashNode{folder: st.isFolder(), now: make(map[string]*crashNode), durable: make(map[string]*crashNode)}
		w.nodes[st.inode] = n
	}
	return n
}

// forget makes room for a new file with an inode that another had.
func (w *crashWorld) forget(f *os.File) {
	st, err := statFile(f)
	if err != nil {
		panic(err)
	}
	delete(w.nodes, st.inode)
}

func (w *crashWorld) around(op func() error) error {
	call := func() {
		if w.step != nil && !w.inStep {
			w.inStep = true
			w.step()
			w.inStep = false
		}
	}
	call()
	err := op()
	call()
	return err
}

func (w *crashWorld) Create(dir *os.File, name string) (f *os.File, err error) {
	err = w.around(func() error {
		if f, err = w.osFileSystem.Create(dir, name); err != nil {
			return err
		}
		w.forget(f)
		n := w.node(f)
		if name != "" {
			w.node(dir).now[name] = n
		}
		return nil
	})
	return f, err
}

func (w *crashWorld) Mkdir(dir *os.File, name string) error {
	return w.around(func() error {
		if err := w.osFileSystem.Mkdir(dir, name); err != nil {
			return err
		}
		f, err := openFolderAt(dir, name)
		if err != nil {
			return err
		}
		defer f.Close()
		w.forget(f)
		w.node(dir).now[name] = w.node(f)
		return nil
	})
}

func (w *crashWorld) Link(f, dir *os.File, name string) error {
	return w.around(func() error {
		err := w.osFileSystem.Link(f, dir, name)
		if err == nil {
			w.node(dir).now[name] = w.node(f)
		}
		return err
	})
}

func (w *crashWorld) Rename(f, dir *os.File, name string) error {
	return w.around(func() error {
		err := w.osFileSystem.Rename(f, dir, name)
		if err == nil {
			w.node(dir).now[name] = w.node(f)
		}
		return err
	})
}

func (w *crashWorld) Remove(dir *os.File, name string, folder bool) error {
	return w.around(func() error {
		err := w.osFileSystem.Remove(dir, name, folder)
		if err == nil {
			delete(w.node(dir).now, name)
		}
		return err
	})
}

func (w *crashWorld) Sync(f *os.File) error {
	return w.around(func() error {
		n := w.node(f)
		w.syncs++
		if w.syncs-1 == w.skipSync {
			return nil
		}
		if n.folder {
			n.durable = make(map[string]*crashNode)
			for name, child := range n.now {
				n.durable[name] = child
			}
			return nil
		}
		st, err := statFile(f)
		if err != nil {
			return err
		}
		n.content, n.synced = make([]byte, st.size), true
		_, err = f.ReadAt(n.content, 0)
		return err
	})
}

// survivors decides what of the unsynced things is there after a crash.
type survivors struct {
	name string
	keep func() bool
}

func crashVariants(seed uint64) []survivors {
	variants := []survivors{
		{"nothing unsynced survives", func() bool { return false }},
		{"everything survives", func() bool { return true }},
	}
	for i := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, i))
		variants = append(variants, survivors{fmt.Sprintf("some survive (seed %d, %d)", seed, i), func() bool { return rng.IntN(2) == 0 }})
	}
	return variants
}

// crash lays out what is left in a new folder.
func (w *crashWorld) crash(to string, v survivors) error {
	root, err := os.Open(w.root)
	if err != nil {
		return err
	}
	defer root.Close()
	return w.node(root).restore(to, v)
}

func (n *crashNode) restore(to string, v survivors) error {
	names := make(map[string]bool)
	for name := range n.now {
		names[name] = true
	}
	for name := range n.durable {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := n.durable[name]
		if now := n.now[name]; now != child && v.keep() {
			child = now
		}
		if child == nil {
			continue
		}
		path := filepath.Join(to, name)
		if !child.folder {
			content := child.content
			if !child.synced {
				content = []byte("\x00\x00 torn")
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := child.restore(path, v); err != nil {
			return err
		}
	}
	return nil
}

// forgetfulFileSystem spares the time of fsyncs, for checks that play no crash.
type forgetfulFileSystem struct{ osFileSystem }

func (forgetfulFileSystem) Sync(*os.File) error { return nil }
