//go:build unix

package dir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// fileSystem is every step that a power loss can undo or tear, so that a test can play one at any point. Names are
// single, relative to an open folder.
type fileSystem interface {
	// Create opens a new file for writing. Without a name it is unnamed until Link, or errors.ErrUnsupported.
	Create(dir *os.File, name string) (*os.File, error)
	Mkdir(dir *os.File, name string) error
	// Link gives a file that Create made a further name, or fails if that is taken.
	Link(f, dir *os.File, name string) error
	// Rename moves a file that Create made under a name, replacing what is there.
	Rename(f, dir *os.File, name string) error
	// Remove takes the name of a file away, or an empty folder.
	Remove(dir *os.File, name string, folder bool) error
	// Sync makes a file's content, or a folder's names, durable.
	Sync(f *os.File) error
}

// osFileSystem is the operating system's. Files keep their whole path as their name; unnamed ones have none.
type osFileSystem struct{}

func (osFileSystem) Create(dir *os.File, name string) (*os.File, error) {
	if name == "" {
		return createUnnamed(dir)
	}
	return openAt(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, unsettledFile)
}

func (osFileSystem) Mkdir(dir *os.File, name string) error {
	err := retryEINTR(func() error { return unix.Mkdirat(int(dir.Fd()), name, unsettledFolder) })
	return pathError("mkdir", dir, name, err)
}

func (osFileSystem) Link(f, dir *os.File, name string) error {
	return pathError("link", dir, name, retryEINTR(func() error { return link(f, dir, name) }))
}

func (osFileSystem) Rename(f, dir *os.File, name string) error {
	err := retryEINTR(func() error { return unix.Renameat(unix.AT_FDCWD, f.Name(), int(dir.Fd()), name) })
	return pathError("rename", dir, name, err)
}

func (osFileSystem) Remove(dir *os.File, name string, folder bool) error {
	flags := 0
	if folder {
		flags = unix.AT_REMOVEDIR
	}
	err := retryEINTR(func() error { return unix.Unlinkat(int(dir.Fd()), name, flags) })
	return pathError("remove", dir, name, err)
}

func (osFileSystem) Sync(f *os.File) error { return f.Sync() }

// Permission bits before the umask. The write bits of an object and the sticky bit of a folder are taken away when they
// are settled.
const (
	unsettledFile   = 0o644
	unsettledFolder = unix.S_ISVTX | 0o755
)

// settleFile marks an object as durable under its name. Failing is harmless: see the package's comment.
func settleFile(f *os.File, mode uint32) {
	_ = unix.Fchmod(int(f.Fd()), mode&0o7777&^0o222)
}

func settleFolder(f *os.File, mode uint32) {
	_ = unix.Fchmod(int(f.Fd()), mode&0o7777&^unix.S_ISVTX)
}

// fileStat is what the store wants to know of a name.
type fileStat struct {
	mode  uint32
	inode uint64
	size  int64
	nsec  int64 // modification time since 1970
	links uint64
}

func (st fileStat) isFolder() bool      { return st.mode&unix.S_IFMT == unix.S_IFDIR }
func (st fileStat) isFile() bool        { return st.mode&unix.S_IFMT == unix.S_IFREG }
func (st fileStat) fileSettled() bool   { return st.mode&unix.S_IWUSR == 0 }
func (st fileStat) folderSettled() bool { return st.mode&unix.S_ISVTX == 0 }

// etag is the version of an object, see the package's comment.
func (st fileStat) etag() string {
	var buf [64]byte
	b := strconv.AppendUint(buf[:0], st.inode, 36)
	b = strconv.AppendInt(append(b, '-'), st.nsec, 36)
	b = strconv.AppendInt(append(b, '-'), st.size, 36)
	return string(b)
}

func newFileStat(st *unix.Stat_t) fileStat {
	return fileStat{
		mode:  uint32(st.Mode), //nolint:unconvert // the width depends on the system
		inode: st.Ino,
		size:  st.Size,
		nsec:  st.Mtim.Nano(),
		links: uint64(st.Nlink), //nolint:unconvert
	}
}

func statFile(f *os.File) (fileStat, error) {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return fileStat{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return newFileStat(&st), nil
}

// statAt looks at a path below an open folder.
func statAt(dir *os.File, name string) (fileStat, error) {
	var st unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstatat(int(dir.Fd()), name, &st, 0) })
	return newFileStat(&st), pathError("stat", dir, name, err)
}

// openAt opens a path below an open folder.
func openAt(dir *os.File, name string, flags int, perm uint32) (f *os.File, err error) {
	err = retryEINTR(func() error {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC, perm)
		if err == nil {
			f = os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name))
		}
		return err
	})
	return f, pathError("open", dir, name, err)
}

func openFolderAt(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// stamp gives a file its modification time: now, with random nanoseconds.
func stamp(f *os.File) error {
	sec := time.Now().Unix()
	when := unix.NsecToTimespec(sec*int64(time.Second) + rand.Int64N(int64(time.Second)))
	path := f.Name()
	if path == "" {
		path = unnamedPath(f)
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{when, when}, 0); err != nil {
		return fmt.Errorf("set the times of %s: %w", path, err)
	}
	return nil
}

// noSpace turns the errors of a full disk or quota into store.ErrFull. Only for steps after which nothing is written.
func noSpace(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

func pathError(op string, dir *os.File, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: filepath.Join(dir.Name(), name), Err: err}
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
