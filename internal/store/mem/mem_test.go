package mem

import (
	"errors"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/storetest"
)

func open(t *testing.T, opts Options) *Store {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAcceptance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, Options{}) })
}

func TestKeyIsNoFolder(t *testing.T) {
	s := open(t, Options{})
	for _, step := range []struct {
		key string
		err error
	}{
		{"a/b/c", nil},
		{"a", store.ErrInvalidKey},
		{"a/b", store.ErrInvalidKey},
		{"a/b/c/d", store.ErrInvalidKey},
		{"a/b/c/d/e", store.ErrInvalidKey},
		{"a/b/c-d", nil},
		{"a/b-", nil},
		{"a/b/c", nil},
	} {
		if _, err := s.Put(t.Context(), step.key, nil, store.Always()); !errors.Is(err, step.err) {
			t.Errorf("Put(%s): %v, want %v", step.key, err, step.err)
		}
	}
}

func TestFull(t *testing.T) {
	s := open(t, Options{MaxBytes: 10})
	put := func(key string, n int) error {
		_, err := s.Put(t.Context(), key, make([]byte, n), store.Always())
		return err
	}
	if err := put("a", 6); err != nil {
		t.Fatal(err)
	}
	if err := put("b", 5); !errors.Is(err, store.ErrFull) {
		t.Errorf("Put beyond the bound: %v, want ErrFull", err)
	}
	if err := put("a", 10); err != nil {
		t.Errorf("Put that replaces within the bound: %v", err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := put("b", 10); err != nil {
		t.Errorf("Put after Delete: %v", err)
	}
	if _, err := New(Options{MaxBytes: -1}); err == nil {
		t.Error("New with a negative bound: no error")
	}
}
