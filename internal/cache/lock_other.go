//go:build !unix

package cache

import (
	"os"
	"path/filepath"
)

// lockFolder makes a folder if it is missing. Nothing keeps two caches apart here.
func lockFolder(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE, 0o600)
}
