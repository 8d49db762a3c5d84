//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// folderTries bounds how often a Put begins again because others removed its folder, empty, under its hands.
const folderTries = 20

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	etag, err := s.put(ctx, key, data, cond)
	if err != nil {
		return "", fmt.Errorf("dir: put %s (%v): %w", key, cond, err)
	}
	return etag, nil
}

func (s *Store) put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	// Who has lost already need not write anything.
	if !cond.IsAlways() {
		if err := s.check(ctx, key, cond); err != nil {
			return "", err
		}
	}
	w := writer{store: s, key: key, cond: cond}
	defer w.close()
	if err := w.write(data); err != nil {
		return "", noSpace(err)
	}
	for range folderTries {
		err := w.publish(ctx)
		if !errors.Is(err, unix.ENOENT) {
			return w.stat.etag(), err
		}
	}
	return "", fmt.Errorf("the folder was removed %d times while writing", folderTries)
}

// check compares a condition with what is there.
func (s *Store) check(ctx context.Context, key string, cond store.Condition) error {
	if etag, ok := cond.Match(); ok {
		return s.checkVersion(key, etag)
	}
	return s.checkFree(ctx, key)
}

func (s *Store) checkVersion(key, etag string) error {
	st, err := statAt(s.root, key)
	if isMissing(err) {
		if err = s.missing(); errors.Is(err, store.ErrNotFound) {
			return store.ErrPrecondition
		}
	}
	if err == nil && (!st.isFile() || st.etag() != etag) {
		return store.ErrPrecondition
	}
	return err
}

// checkFree wants a key without an object. One that it finds is durable from then on: a create that lost has lost for
// ever.
func (s *Store) checkFree(ctx context.Context, key string) error {
	f, _, err := s.open(ctx, key)
	if err == nil {
		_ = f.Close()
		return store.ErrPrecondition
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if st, err := statAt(s.root, key); err == nil && st.isFolder() {
		return s.refuseFolder(key)
	}
	return nil
}

// refuseFolder is the error for a key that is the folder of others. A folder that a crash left empty is removed.
func (s *Store) refuseFolder(key string) error {
	if err := s.fs.Remove(s.root, key, true); err == nil || errors.Is(err, unix.ENOENT) {
		s.folders.dropPath(key)
		return nil
	}
	return fmt.Errorf("%w: it is the folder of other keys", store.ErrInvalidKey)
}

// writer carries one Put from an unnamed or temporary file to a durable key.
type writer struct {
	store  *Store
	key    string
	cond   store.Condition
	folder *folder
	file   *os.File // holds the object, durable but for its name
	stat   fileStat
	gone   bool // the file has no temporary name, or no longer
}

// write makes the file and its content durable.
func (w *writer) write(data []byte) (err error) {
	if err := w.acquire(); err != nil {
		return err
	}
	// In the temp folder also when unnamed, since the key's own may be removed at any time.
	if w.cond.IsAbsent() && w.store.unnamed {
		w.gone = true
		w.file, err = w.store.spares.take()
	} else {
		w.file, err = w.store.fs.Create(w.store.temp.File, w.store.temp.newName())
	}
	if err != nil {
		return err
	}
	if _, err := w.file.Write(data); err != nil {
		return err
	}
	if err := stamp(w.file); err != nil {
		return err
	}
	if err := w.store.fs.Sync(w.file); err != nil {
		return err
	}
	w.stat, err = statFile(w.file)
	return err
}

// acquire opens the key's folder, beginning again when others remove it, empty, in between.
func (w *writer) acquire() (err error) {
	for range folderTries {
		w.folder, err = w.store.folders.acquire(path.Dir(w.key))
		if !errors.Is(err, unix.ENOENT) {
			break
		}
		if err := w.store.missing(); !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return err
}

// publish gives the file its key. ENOENT means that the folder was removed, and that nothing happened.
func (w *writer) publish(ctx context.Context) error {
	if w.folder == nil {
		if err := w.acquire(); err != nil {
			return noSpace(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if w.cond.IsAbsent() {
		err = w.link(ctx)
	} else {
		err = w.replace(ctx)
	}
	if errors.Is(err, unix.ENOENT) {
		w.store.folders.drop(w.folder)
		w.store.folders.release(w.folder)
		w.folder = nil
	}
	if err != nil {
		return noSpace(err)
	}
	if err := w.store.fs.Sync(w.folder.File); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	settleFile(w.file, w.stat.mode)
	return nil
}

func (w *writer) link(ctx context.Context) error {
	for range 2 {
		err := w.store.fs.Link(w.file, w.folder.File, path.Base(w.key))
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		// Taken: durably so, or by a folder that is empty, or free again.
		if err := w.store.check(ctx, w.key, w.cond); err != nil {
			return err
		}
	}
	return store.ErrPrecondition
}

func (w *writer) replace(ctx context.Context) error {
	unlock, err := w.store.locks.lock(ctx, w.key)
	if err != nil {
		return err
	}
	defer unlock()
	if !w.cond.IsAlways() {
		if err := w.store.check(ctx, w.key, w.cond); err != nil {
			return err
		}
	}
	err = w.store.fs.Rename(w.file, w.folder.File, path.Base(w.key))
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = w.store.refuseFolder(w.key); err == nil {
			err = w.store.fs.Rename(w.file, w.folder.File, path.Base(w.key))
		}
	}
	w.gone = err == nil
	return err
}

// close releases what the writer holds; a file without a key vanishes.
func (w *writer) close() {
	if w.file != nil {
		if !w.gone {
			_ = w.store.fs.Remove(w.store.temp.File, path.Base(w.file.Name()), false)
		}
		_ = w.file.Close()
	}
	if w.folder != nil {
		w.store.folders.release(w.folder)
	}
}
