package dir

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// createUnnamed opens a file that vanishes by itself unless it is linked: it spares a name in a folder, which made a
// Put of 1 KiB on ext4 about a sixth faster.
func createUnnamed(dir *os.File) (f *os.File, err error) {
	err = retryEINTR(func() error {
		fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, unsettledFile)
		if err == nil {
			f = os.NewFile(uintptr(fd), "")
		}
		return err
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("create a file without a name: %w", errors.ErrUnsupported)
	}
	return f, pathError("create", dir, "", err)
}

// unnamedPath is a path to an open file that has none.
func unnamedPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

func link(f, dir *os.File, name string) error {
	if f.Name() == "" {
		return unix.Linkat(unix.AT_FDCWD, unnamedPath(f), int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
	}
	return unix.Linkat(unix.AT_FDCWD, f.Name(), int(dir.Fd()), name, 0)
}
