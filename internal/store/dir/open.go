//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// Store is a store.Store in a folder. Beside the goroutines that its callers bring, there is at times one that makes
// files ahead.
type Store struct {
	fs      fileSystem
	root    *os.File
	folders *folders
	locks   *locks
	temp    *tempFolder
	unnamed bool // the file system takes files without a name
	spares  *spares
}

var _ store.Store = (*Store)(nil)

// Open opens the store in opts.Path, making the folder if it is missing, and removes what processes that died in the
// middle of a write have left. Other processes may have the same folder open.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return openWith(osFileSystem{}, opts)
}

func openWith(fs fileSystem, opts Options) (_ *Store, err error) {
	opts.setDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	root, err := openRoot(fs, opts.Path)
	if err != nil {
		return nil, fmt.Errorf("dir: open %s: %w", opts.Path, noSpace(err))
	}
	s := &Store{fs: fs, root: root, folders: newFolders(fs, root, opts.MaxFolders)}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("dir: open %s: %w", opts.Path, err), s.Close())
	}
	return s, nil
}

func (s *Store) prepare() (err error) {
	if s.locks, err = newLocks(s.root); err != nil {
		return err
	}
	if s.temp, err = newTempFolder(s.root); err != nil {
		return err
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	s.unnamed = s.checkUnnamed()
	fs, temp := s.fs, s.temp.File
	s.spares = newSpares(func() (*os.File, error) { return fs.Create(temp, "") })
	return nil
}

// Close releases the store's files. No method may be running or called later.
func (s *Store) Close() error {
	if s.spares != nil {
		s.spares.close()
	}
	errs := []error{s.folders.close()}
	if s.locks != nil {
		errs = append(errs, s.locks.close())
	}
	if s.temp != nil {
		errs = append(errs, s.temp.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("dir: close: %w", err)
	}
	return nil
}

// openRoot opens the root folder. It makes it and its parents as needed, each durably.
func openRoot(fs fileSystem, root string) (*os.File, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var missing []string
	for at := root; ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		missing = append(missing, at)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := os.Mkdir(missing[i], 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if err := syncPath(fs, filepath.Dir(missing[i])); err != nil {
			return nil, err
		}
	}
	// The process that made an existing root may have died before its fsync. A parent that we may not read was not
	// ours to make.
	if err := syncPath(fs, filepath.Dir(root)); err != nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	return os.NewFile(uintptr(fd), root), nil
}

func syncPath(fs fileSystem, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(fs.Sync(f), f.Close())
}

// checkTimes refuses a file system that does not keep the nanoseconds that tell versions apart.
func (s *Store) checkTimes() error {
	f, err := openAt(s.temp.File, s.temp.newName(), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, unsettledFile)
	if err != nil {
		return noSpace(err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	for range 4 { // one random number may by chance be a whole tick
		if err := stamp(f); err != nil {
			return err
		}
		st, err := statFile(f)
		if err != nil {
			return err
		}
		if st.nsec%1000 != 0 {
			return nil
		}
	}
	return errors.New("the file system does not keep nanoseconds in modification times, by which versions are told apart")
}

// checkUnnamed reports whether files can be created without a name and linked later, which takes the file system's
// support and a mounted /proc.
func (s *Store) checkUnnamed() bool {
	f, err := createUnnamed(s.temp.File)
	if err != nil {
		return false
	}
	name := s.temp.newName()
	err = errors.Join(stamp(f), link(f, s.temp.File, name))
	_ = f.Close()
	_ = unix.Unlinkat(int(s.temp.Fd()), name, 0)
	return err == nil
}
