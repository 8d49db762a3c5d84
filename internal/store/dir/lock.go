//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockShards is the number of lock files, each at most one open file of the process.
	lockShards = 64
	// A lock is held for microseconds, so who finds it taken by another process tries again soon.
	lockRetryMin = 50 * time.Microsecond
	lockRetryMax = 5 * time.Millisecond
)

// locks exclude processes and goroutines from each other, key by key: keys share a lock where their hashes meet.
type locks struct {
	dir    *os.File
	shards [lockShards]lockShard
}

type lockShard struct {
	// turn holds a token while a goroutine of this process has the shard or tries to: flock belongs to the open file,
	// and would let a second goroutine in.
	turn chan struct{}
	file *os.File // opened at first use; owned by who has the turn
}

func newLocks(root *os.File) (*locks, error) {
	dir, err := openOwn(root, "@locks")
	if err != nil {
		return nil, err
	}
	l := &locks{dir: dir}
	for i := range l.shards {
		l.shards[i].turn = make(chan struct{}, 1)
	}
	return l, nil
}

// lock excludes every other holder of the key's lock, in any process, until unlock.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	n := crc32.ChecksumIEEE([]byte(key)) % lockShards // the same in every process
	shard := &l.shards[n]
	select {
	case shard.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := shard.flock(ctx, l.dir, fmt.Sprintf("%02x", n)); err != nil {
		<-shard.turn
		return nil, err
	}
	return func() {
		_ = unix.Flock(int(shard.file.Fd()), unix.LOCK_UN)
		<-shard.turn
	}, nil
}

// flock waits for the shard's file by trying, since a blocking flock would not heed ctx.
func (s *lockShard) flock(ctx context.Context, dir *os.File, name string) (err error) {
	if s.file == nil {
		if s.file, err = openAt(dir, name, unix.O_CREAT|unix.O_RDWR, 0o644); err != nil {
			return err
		}
	}
	for wait := lockRetryMin; ; wait = min(2*wait, lockRetryMax) {
		locked, err := tryFlock(s.file)
		if locked || err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func tryFlock(f *os.File) (locked bool, err error) {
	err = retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// close closes the files. Nobody may hold a lock or wait for one.
func (l *locks) close() error {
	errs := []error{l.dir.Close()}
	for i := range l.shards {
		if f := l.shards[i].file; f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// openOwn opens one of the folders that are not for keys, making it if it is missing. What they hold need not be
// durable.
func openOwn(parent *os.File, name string) (*os.File, error) {
	err := retryEINTR(func() error { return unix.Mkdirat(int(parent.Fd()), name, 0o755) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, noSpace(pathError("mkdir", parent, name, err))
	}
	return openFolderAt(parent, name)
}
