//go:build unix && !linux

package dir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func createUnnamed(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func unnamedPath(f *os.File) string { return f.Name() }

func link(f, dir *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, f.Name(), int(dir.Fd()), name, 0)
}
