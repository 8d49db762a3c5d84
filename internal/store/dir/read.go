//go:build unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sluicemq/sluice/internal/store"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	f, st, err := s.open(ctx, key)
	if err != nil {
		return store.Object{}, fmt.Errorf("dir: get %s: %w", key, err)
	}
	defer f.Close()
	data := make([]byte, st.size)
	if _, err := io.ReadFull(f, data); err != nil {
		return store.Object{}, fmt.Errorf("dir: get %s: %w", key, err)
	}
	return store.Object{Data: data, ETag: st.etag()}, nil
}

// GetRange implements store.Store.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := store.CheckRange(offset, length); err != nil {
		return nil, fmt.Errorf("dir: get range of %s: %w", key, err)
	}
	f, st, err := s.open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("dir: get range of %s: %w", key, err)
	}
	defer f.Close()
	if offset >= st.size {
		return nil, fmt.Errorf("dir: get range of %s: %w: offset %d, size %d", key, store.ErrInvalidRange, offset, st.size)
	}
	data := make([]byte, min(length, st.size-offset))
	if _, err := io.ReadFull(io.NewSectionReader(f, offset, int64(len(data))), data); err != nil {
		return nil, fmt.Errorf("dir: get range of %s: %w", key, err)
	}
	return data, nil
}

// open opens the file of an object that is durable.
func (s *Store) open(ctx context.Context, key string) (*os.File, fileStat, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, fileStat{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fileStat{}, err
	}
	f, err := openAt(s.root, key, unix.O_RDONLY, 0)
	if isMissing(err) {
		return nil, fileStat{}, s.missing()
	}
	if err != nil {
		return nil, fileStat{}, err
	}
	st, err := statFile(f)
	if err == nil && !st.isFile() {
		err = store.ErrNotFound
	}
	if err == nil && !st.fileSettled() {
		err = s.settle(f, st, key)
	}
	if err != nil {
		_ = f.Close()
		return nil, fileStat{}, err
	}
	return f, st, nil
}

// settle makes an object that was found under its key durable there.
func (s *Store) settle(f *os.File, st fileStat, key string) error {
	dir, err := openFolderAt(s.root, path.Dir(key))
	if isMissing(err) {
		return nil // deleted since, with its folder
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.fs.Sync(dir); err != nil {
		return err
	}
	settleFile(f, st.mode)
	return nil
}

// isMissing tells the errors of a path that leads nowhere.
func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// missing is the error for a file that is not there: a whole store that vanished is not one without objects.
func (s *Store) missing() error {
	st, err := statFile(s.root)
	if err != nil {
		return err
	}
	if st.links == 0 {
		return fmt.Errorf("%w: the folder %s was removed", store.ErrNoBucket, s.root.Name())
	}
	return store.ErrNotFound
}
