//go:build unix

package dir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// spareFiles makes spares of files in a folder, filled within take, and counts what they make.
func spareFiles(t *testing.T) (p *spares, made *int, fail *error) {
	dir := t.TempDir()
	made, fail = new(int), new(error)
	p = newSpares(func() (*os.File, error) {
		if *fail != nil {
			return nil, *fail
		}
		*made++
		return os.Create(filepath.Join(dir, strconv.Itoa(*made)))
	})
	p.spawn = func(fill func()) { fill() }
	return p, made, fail
}

func TestSparesAreBounded(t *testing.T) {
	p, made, _ := spareFiles(t)
	seen := map[string]bool{}
	for range 10 {
		f, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[f.Name()] {
			t.Errorf("%s was given twice", f.Name())
		}
		seen[f.Name()] = true
		f.Close()
		if len(p.ready) != maxSpares {
			t.Errorf("%d files are ready, want %d", len(p.ready), maxSpares)
		}
	}
	if *made != 10+maxSpares {
		t.Errorf("10 files were taken and %d made", *made)
	}
	left := p.ready
	p.close()
	for _, f := range left {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s was left open", f.Name())
		}
	}
}

// A file that could not be made ahead costs nobody anything; who needs one hears why there is none, and it is tried again.
func TestSparesFail(t *testing.T) {
	p, _, fail := spareFiles(t)
	full := errors.New("disk full")
	*fail = full
	if _, err := p.take(); !errors.Is(err, full) {
		t.Errorf("take: %v, want %v", err, full)
	}
	*fail = nil
	for range 2 {
		f, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	*fail = full
	for range maxSpares {
		f, err := p.take()
		if err != nil {
			t.Fatalf("with %d files ready: %v", len(p.ready), err)
		}
		f.Close()
	}
	if _, err := p.take(); !errors.Is(err, full) {
		t.Errorf("take without a spare: %v, want %v", err, full)
	}
	p.close()
}
