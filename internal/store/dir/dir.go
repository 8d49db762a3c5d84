// Package dir keeps objects as files in a folder of a local file system: durable against power loss at any instant, and
// usable by several processes of one machine at once. The file of key "a/b" is a/b below the root and holds the
// object's bytes, nothing else.
//
// # How an object becomes durable
//
// A Put writes a file that no key names yet, fsyncs it, gives it its name in one atomic step (link for a create, rename
// for a replacement), fsyncs the folder and only then returns. Folders are made from the top down, each fsynced in its
// parent before anything is put into it. So after a crash a key is absent or whole, and present if its Put returned.
//
// Between the name and the folder's fsync another goroutine or process can already see the object, and must not build
// on it: a crash could take it back. So durability is marked in the permission bits, set after the fsync: a settled
// object is read-only, a settled folder has no sticky bit. Who comes upon something unsettled (its writer is about to
// settle it, or died) fsyncs the folder that holds it and settles it before going on. The mark itself need not be
// durable: losing it costs one more fsync.
//
// # Versions
//
// An ETag is inode, size and modification time, so it costs one stat and no hashing. File systems keep times in
// ticks of milliseconds and use inodes again, therefore a writer replaces the nanoseconds of the modification time by a
// random number (the whole seconds stay true). Two versions of a key share an ETag only if they have the same size,
// the same inode, were written in the same second and drew the same of 10^9 numbers.
//
// # Exclusion
//
// Creates need no lock: link fails if the name is taken. Replacements and deletions of one key exclude each other by
// flock on one of the files in @locks, held from the check of the version to the rename, without I/O in between.
//
// Names that begin with '@' cannot be keys: @locks, and @tmp with a folder for each open Store, which holds a flock on
// it, so that the next Open can tell what the dead have left behind.
//
// The folder must lie on a local file system (ext4, XFS, Btrfs, ZFS, APFS and the like) that keeps nanoseconds.
package dir

import (
	"errors"
	"fmt"
)

// DefaultMaxFolders bounds the folders kept open when the options name no bound.
const DefaultMaxFolders = 256

// Options of a store in a folder.
type Options struct {
	// Path of the root folder, which is made if it is missing.
	Path string
	// MaxFolders bounds the folders that are kept open between writes, each a file descriptor. 0 means
	// DefaultMaxFolders.
	MaxFolders int
}

func (o *Options) setDefaults() {
	if o.MaxFolders == 0 {
		o.MaxFolders = DefaultMaxFolders
	}
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var faults []error
	if o.Path == "" {
		faults = append(faults, errors.New("dir: no path is given"))
	}
	if o.MaxFolders < 0 {
		faults = append(faults, fmt.Errorf("dir: MaxFolders is %d, want 0 or more", o.MaxFolders))
	}
	return errors.Join(faults...)
}
