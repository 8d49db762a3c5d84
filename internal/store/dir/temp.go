//go:build unix

package dir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tempFolder is where this Store's files begin that are to replace others. A flock on it tells that its owner lives:
// process ids would not, across containers that share the file system.
type tempFolder struct {
	*os.File
	parent *os.File
	name   string
	last   atomic.Uint64 // number of the last file's name
}

// tempTries bounds how often a new temp folder is taken for a dead one by another process that opens at that moment.
const tempTries = 10

// newTempFolder removes what dead processes left in @tmp and makes a folder for this one.
func newTempFolder(root *os.File) (*tempFolder, error) {
	parent, err := openOwn(root, "@tmp")
	if err != nil {
		return nil, err
	}
	if err := removeStale(parent); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	for range tempTries {
		name := rand.Text()
		dir, err := openOwn(parent, name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, parent.Close())
		}
		mine, err := tryFlock(dir)
		if err == nil && mine {
			// Between mkdir and flock a cleaner may have locked, removed and unlocked it.
			var st fileStat
			if st, err = statFile(dir); err == nil && st.links > 0 && sameFile(parent, name, st) {
				return &tempFolder{File: dir, parent: parent, name: name}, nil
			}
		}
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, errors.Join(err, parent.Close())
		}
	}
	return nil, errors.Join(fmt.Errorf("no folder for temporary files could be made in %s", parent.Name()), parent.Close())
}

func sameFile(dir *os.File, name string, st fileStat) bool {
	now, err := statAt(dir, name)
	return err == nil && now.inode == st.inode
}

// removeStale removes the temp folders whose owners are dead.
func removeStale(parent *os.File) error {
	entries, err := os.ReadDir(parent.Name())
	if err != nil {
		return fmt.Errorf("look for temporary files of the dead: %w", err)
	}
	for _, entry := range entries {
		dir, err := openFolderAt(parent, entry.Name())
		if err != nil {
			continue // gone, or nothing of ours
		}
		dead, err := tryFlock(dir)
		if err == nil && dead {
			err = removeAll(parent, dir, entry.Name())
		}
		if err := errors.Join(err, dir.Close()); err != nil {
			return fmt.Errorf("remove temporary files of the dead: %w", err)
		}
	}
	return nil
}

// removeAll removes a temp folder that the caller has locked.
func removeAll(parent, dir *os.File, name string) error {
	files, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := unix.Unlinkat(int(dir.Fd()), file, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return pathError("remove", dir, file, err)
		}
	}
	if err := unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return pathError("remove", parent, name, err)
	}
	return nil
}

// newName gives a name that no file in the folder has or had.
func (t *tempFolder) newName() string { return strconv.FormatUint(t.last.Add(1), 36) }

// close removes the folder and its lock. Nobody may be writing.
func (t *tempFolder) close() error {
	return errors.Join(removeAll(t.parent, t.File, t.name), t.File.Close(), t.parent.Close())
}
