//go:build !unix

package dir

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/sluicemq/sluice/internal/store"
)

// Store cannot be opened on this system: it lacks flock, and an fsync of folders.
type Store struct{ store.Store }

// Open fails on this system.
func Open(_ context.Context, opts Options) (*Store, error) {
	return nil, fmt.Errorf("dir: a store in a folder is not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Close does nothing.
func (s *Store) Close() error { return nil }
