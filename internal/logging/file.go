package logging

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// filePerm lets the owner's group read logs, which may name users and subjects; nobody else.
const filePerm = 0o640

// backupStamp is the form of the time in the name of a log file that was set aside, as nats-server writes it: it sorts
// by time. The fraction is appended apart, since a layout cannot have a dot before digits that are no fraction.
const backupStamp = "2006.01.02.15.04.05"

// file is an append-only log file that knows its size. Not safe for concurrent use.
type file struct {
	path string
	f    *os.File
	size int64
}

func openFile(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, filePerm)
	if err != nil {
		return nil, fmt.Errorf("opening the log file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the log file: %w", err), f.Close())
	}
	return &file{path: path, f: f, size: info.Size()}, nil
}

func (f *file) write(b []byte) error {
	n, err := f.f.Write(b)
	f.size += int64(n)
	return err
}

func (f *file) close() error { return f.f.Close() }

// rotate sets the file aside and begins another, then deletes the oldest of those set aside so that at most maxFiles
// remain with the current one (0: all remain). The old file stays in use when the new one cannot be opened.
func (f *file) rotate(maxFiles int) error {
	now := time.Now()
	backup := fmt.Sprintf("%s.%s.%09d", f.path, now.Format(backupStamp), now.Nanosecond())
	if err := os.Rename(f.path, backup); err != nil {
		return err
	}
	next, err := openFile(f.path)
	if err != nil {
		return errors.Join(err, os.Rename(backup, f.path))
	}
	err = f.close()
	*f = *next
	if maxFiles > 0 {
		err = errors.Join(err, f.purge(maxFiles-1))
	}
	return err
}

// purge deletes the oldest files that rotate set aside, all but keep of them.
func (f *file) purge(keep int) error {
	entries, err := os.ReadDir(filepath.Dir(f.path)) // sorted by name, and so by time
	if err != nil {
		return err
	}
	var backups []string
	for _, e := range entries {
		if !e.IsDir() && isBackup(e.Name(), filepath.Base(f.path)) {
			backups = append(backups, filepath.Join(filepath.Dir(f.path), e.Name()))
		}
	}
	var errs []error
	for _, b := range backups[:max(0, len(backups)-keep)] {
		errs = append(errs, os.Remove(b))
	}
	return errors.Join(errs...)
}

// isBackup recognises only names that rotate made: a purge must never delete anything else.
func isBackup(name, base string) bool {
	stamp, ok := strings.CutPrefix(name, base+".")
	if !ok || len(stamp) != len(backupStamp)+len(".000000000") {
		return false
	}
	at, nanos := stamp[:len(backupStamp)], stamp[len(backupStamp)+1:]
	_, err := time.Parse(backupStamp, at)
	return err == nil && stamp[len(backupStamp)] == '.' && strings.Trim(nanos, "0123456789") == ""
}
