//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// Delete implements store.Store. When it returns nil, the absence is durable: one fsync for each folder that held keys.
// Folders that became empty are removed.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := store.CheckKey(key); err != nil {
			return fmt.Errorf("dir: delete: %w", err)
		}
	}
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, func(a, b string) int {
		if c := strings.Compare(path.Dir(a), path.Dir(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for len(sorted) > 0 {
		rel := path.Dir(sorted[0])
		n := 1
		for n < len(sorted) && path.Dir(sorted[n]) == rel {
			n++
		}
		if err := s.deleteIn(ctx, rel, sorted[:n]); err != nil {
			return fmt.Errorf("dir: delete in %s: %w", rel, err)
		}
		sorted = sorted[n:]
	}
	return ctx.Err()
}

// deleteIn removes keys of one folder.
func (s *Store) deleteIn(ctx context.Context, rel string, keys []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := openFolderAt(s.root, rel)
	if isMissing(err) {
		if err := s.missing(); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, key := range keys {
		if err := s.remove(ctx, dir, key); err != nil {
			return err
		}
	}
	// Also when nothing was there: an earlier Delete may have been cut off before its fsync.
	if err := s.fs.Sync(dir); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	s.prune(rel)
	return nil
}

func (s *Store) remove(ctx context.Context, dir *os.File, key string) error {
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	err = s.fs.Remove(dir, path.Base(key), false)
	if err == nil || isMissing(err) {
		return nil
	}
	if st, statErr := statAt(dir, path.Base(key)); statErr == nil && st.isFolder() {
		return nil // EISDIR or EPERM: no object has this key
	}
	return err
}

// prune removes a folder if it is empty, and its parents likewise. It need not be durable, and a Put that is about to
// use the folder makes it again.
func (s *Store) prune(rel string) {
	for ; rel != "."; rel = path.Dir(rel) {
		parent, err := openFolderAt(s.root, path.Dir(rel))
		if err != nil {
			return
		}
		err = s.fs.Remove(parent, path.Base(rel), true)
		_ = parent.Close()
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
		s.folders.dropPath(rel)
	}
}
