//go:build unix

package dir

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// folder is an open folder that is durable in its parent, up to the root.
type folder struct {
	*os.File
	rel string // path below the root, "" for the root itself

	// The cache's mu guards the following.
	users int
	place *list.Element // in the cache's order; nil once it has left the cache
}

// folders opens the folders that keys are put into, makes missing ones, and keeps the last used ones open. Another
// process may remove a folder that became empty while it is open here: then mkdir, link and rename in it fail with
// ENOENT, and the user drops it and begins again.
type folders struct {
	fs   fileSystem
	root *folder
	max  int

	// mu guards the following; no I/O happens under it.
	mu    sync.Mutex
	byRel map[string]*folder
	order *list.List // of *folder, the last used first
}

func newFolders(fs fileSystem, root *os.File, limit int) *folders {
	return &folders{
		fs:    fs,
		root:  &folder{File: root},
		max:   limit,
		byRel: make(map[string]*folder),
		order: list.New(),
	}
}

// acquire opens a folder, making it and its parents if they are missing. The caller releases it.
func (c *folders) acquire(rel string) (*folder, error) {
	if rel == "." || rel == "" {
		return c.root, nil
	}
	if f := c.cached(rel); f != nil {
		return f, nil
	}
	parent, err := c.acquire(path.Dir(rel))
	if err != nil {
		return nil, err
	}
	defer c.release(parent)
	file, err := c.open(parent, path.Base(rel))
	if errors.Is(err, unix.ENOENT) {
		c.drop(parent)
	}
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%w: %s is a key, it cannot be a folder", store.ErrInvalidKey, rel)
	}
	if err != nil {
		return nil, err
	}
	return c.add(rel, file), nil
}

// open opens one folder in its parent and makes sure that the parent durably holds it.
func (c *folders) open(parent *folder, name string) (*os.File, error) {
	file, err := openFolderAt(parent.File, name)
	if errors.Is(err, unix.ENOENT) {
		if err := c.fs.Mkdir(parent.File, name); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		file, err = openFolderAt(parent.File, name)
	}
	if err != nil {
		return nil, err
	}
	st, err := statFile(file)
	if err == nil && !st.folderSettled() {
		if err = c.fs.Sync(parent.File); err == nil {
			settleFolder(file, st.mode)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (c *folders) cached(rel string) *folder {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.byRel[rel]
	if f != nil {
		f.users++
		c.order.MoveToFront(f.place)
	}
	return f
}

// add takes an open folder into the cache, unless another goroutine was faster, and gives the cached one to its user.
func (c *folders) add(rel string, file *os.File) *folder {
	c.mu.Lock()
	f := c.byRel[rel]
	var unused []*os.File
	if f == nil {
		f = &folder{File: file, rel: rel}
		f.place = c.order.PushFront(f)
		c.byRel[rel] = f
	} else {
		c.order.MoveToFront(f.place)
		unused = append(unused, file)
	}
	f.users++
	for c.order.Len() > c.max {
		oldest := c.order.Back().Value.(*folder)
		if c.forget(oldest) {
			unused = append(unused, oldest.File)
		}
	}
	c.mu.Unlock()
	for _, file := range unused {
		_ = file.Close() // only read from
	}
	return f
}

// forget takes a folder out of the cache, and reports whether the caller has to close it. The caller holds mu.
func (c *folders) forget(f *folder) (closeIt bool) {
	if f.place == nil {
		return false
	}
	c.order.Remove(f.place)
	f.place = nil
	delete(c.byRel, f.rel)
	return f.users == 0
}

// release ends a use of a folder.
func (c *folders) release(f *folder) {
	if f == c.root {
		return
	}
	c.mu.Lock()
	f.users--
	closeIt := f.users == 0 && f.place == nil
	c.mu.Unlock()
	if closeIt {
		_ = f.Close()
	}
}

// drop makes the cache forget a folder that is gone from the file system. Its users still have to release it.
func (c *folders) drop(f *folder) {
	c.mu.Lock()
	closeIt := c.forget(f)
	c.mu.Unlock()
	if closeIt {
		_ = f.Close()
	}
}

// dropPath is drop for a folder that this process has just removed.
func (c *folders) dropPath(rel string) {
	c.mu.Lock()
	f := c.byRel[rel]
	closeIt := f != nil && c.forget(f)
	c.mu.Unlock()
	if closeIt {
		_ = f.Close()
	}
}

// close closes every folder that nobody uses, the root too.
func (c *folders) close() error {
	c.mu.Lock()
	var unused []*os.File
	for c.order.Len() > 0 {
		if f := c.order.Front().Value.(*folder); c.forget(f) {
			unused = append(unused, f.File)
		}
	}
	c.mu.Unlock()
	errs := []error{c.root.Close()}
	for _, f := range unused {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
