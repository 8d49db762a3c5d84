//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

const (
	// readBatch is the number of names that are read from a folder at once.
	readBatch = 1024
	// timeTick bounds the granularity of a folder's modification time.
	timeTick = 20 * time.Millisecond
)

// List implements store.Store. It reads only folders that can hold keys of the page; of those, it reads all names, and
// looks at the files of the page alone.
func (s *Store) List(ctx context.Context, opts store.ListOptions) (store.Page, error) {
	if err := s.missing(); !errors.Is(err, store.ErrNotFound) {
		return store.Page{}, fmt.Errorf("dir: list %s: %w", opts.Prefix, err)
	}
	w := walk{store: s, opts: opts, limit: opts.PageLimit()}
	start := ""
	if i := strings.LastIndexByte(opts.Prefix, '/'); i >= 0 {
		if store.CheckKey(opts.Prefix[:i]) != nil {
			return store.Page{}, ctx.Err() // no key can match
		}
		start = opts.Prefix[:i+1]
	}
	if err := w.folder(ctx, start); err != nil {
		return store.Page{}, fmt.Errorf("dir: list %s: %w", opts.Prefix, err)
	}
	return w.page, nil
}

// walk gathers one page, depth first in the order of keys.
type walk struct {
	store *Store
	opts  store.ListOptions
	limit int
	page  store.Page
}

// folder walks one folder; base is "" for the root, else it ends in '/'.
func (w *walk) folder(ctx context.Context, base string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := openFolderAt(w.store.root, strings.TrimSuffix("./"+base, "/"))
	if isMissing(err) || base == "lost+found/" && errors.Is(err, unix.EACCES) {
		return nil // removed since its name was read; or a file system's own, which belongs to root
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := w.names(ctx, dir, base)
	if err != nil {
		return err
	}
	var unsettled []foundFile
	for _, name := range names {
		if w.page.More {
			break
		}
		if strings.HasSuffix(name, "/") {
			if err := w.folder(ctx, base+name); err != nil {
				return err
			}
			continue
		}
		found, err := w.file(dir, base+name, name)
		if err != nil {
			return err
		}
		if found.name != "" {
			unsettled = append(unsettled, found)
		}
	}
	return w.settle(dir, unsettled)
}

// foundFile is an object that is not marked as durable.
type foundFile struct {
	name string
	stat fileStat
}

// file adds an object to the page, and gives it back if it is unsettled.
func (w *walk) file(dir *os.File, key, name string) (foundFile, error) {
	st, err := statAt(dir, name)
	if isMissing(err) || err == nil && !st.isFile() {
		return foundFile{}, nil // deleted since its name was read, or never an object
	}
	if err != nil {
		return foundFile{}, err
	}
	if len(w.page.Objects) == w.limit {
		w.page.More = true
		return foundFile{}, nil
	}
	w.page.Objects = append(w.page.Objects, store.Attributes{Key: key, Size: st.size, ETag: st.etag()})
	if st.fileSettled() {
		return foundFile{}, nil
	}
	return foundFile{name, st}, nil
}

// settle makes objects durable that the page shows.
func (w *walk) settle(dir *os.File, unsettled []foundFile) error {
	if len(unsettled) == 0 {
		return nil
	}
	if err := w.store.fs.Sync(dir); err != nil {
		return err
	}
	for _, found := range unsettled {
		f, err := openAt(dir, found.name, unix.O_RDONLY, 0)
		if err != nil {
			continue // deleted since
		}
		// Another version may have the name by now, of which nothing is known.
		if st, err := statFile(f); err == nil && st.inode == found.stat.inode && st.nsec == found.stat.nsec {
			settleFile(f, st.mode)
		}
		_ = f.Close()
	}
	return nil
}

// names gives the names in a folder that the listing may need, in the order of their keys; those of folders end in '/'.
func (w *walk) names(ctx context.Context, dir *os.File, base string) ([]string, error) {
	var names []string
	// A file that is replaced while its folder is being read may be given twice or, on some file systems (Btrfs),
	// not at all. So a folder that changed meanwhile is read once more, and both readings count.
	for range 2 {
		began := time.Now()
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		for {
			entries, err := dir.ReadDir(readBatch)
			for _, entry := range entries {
				if name := w.wanted(dir, base, entry); name != "" {
					names = append(names, name)
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		st, err := statFile(dir)
		if err != nil {
			return nil, err
		}
		if st.nsec < began.Add(-timeTick).UnixNano() {
			break
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// wanted gives the name of an entry if the listing may need it.
func (w *walk) wanted(dir *os.File, base string, entry os.DirEntry) string {
	name := entry.Name()
	if store.CheckKey(name) != nil {
		return "" // @tmp, @locks, or not ours
	}
	kind := entry.Type()
	if kind&os.ModeSymlink != 0 {
		if st, err := statAt(dir, name); err == nil && st.isFolder() {
			kind = os.ModeDir
		} else {
			kind = 0
		}
	}
	switch {
	case kind.IsDir():
		under := base + name + "/"
		inPrefix := strings.HasPrefix(under, w.opts.Prefix) || strings.HasPrefix(w.opts.Prefix, under)
		// A folder whose name sorts before StartAfter, which does not lie in it, holds only keys before it.
		if inPrefix && (under > w.opts.StartAfter || strings.HasPrefix(w.opts.StartAfter, under)) {
			return name + "/"
		}
	case kind.IsRegular():
		if w.opts.Wanted(base + name) {
			return name
		}
	}
	return ""
}
