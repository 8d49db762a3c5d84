package manifest

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/store/mem"
)

// deaf is a store whose next Put lands without an answer, or is lost.
type deaf struct {
	store.Store
	land, lose bool
	answer     error
}

func (d *deaf) Put(ctx context.Context, key string, data []byte, cond store.Condition) (string, error) {
	if !d.land && !d.lose {
		return d.Store.Put(ctx, key, data, cond)
	}
	if d.land {
		if _, err := d.Store.Put(ctx, key, data, cond); err != nil {
			return "", err
		}
	}
	d.land, d.lose = false, false
	return "", d.answer
}

func TestSwap(t *testing.T) {
	ctx := context.Background()
	inner, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := &deaf{Store: inner}
	load := func() Version {
		t.Helper()
		v, err := Load(ctx, st, "$G", "ORDERS", 7)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := load(); v.Manifest != nil {
		t.Fatalf("a manifest before the first: %+v", v)
	}
	first, err := Swap(ctx, st, Version{}, sample())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Swap(ctx, st, Version{}, sample()); !errors.Is(err, ErrChanged) {
		t.Errorf("a second creation: %v", err)
	}
	second, err := Swap(ctx, st, first, first.Manifest.Clone())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Swap(ctx, st, first, first.Manifest.Clone()); !errors.Is(err, ErrChanged) {
		t.Errorf("a swap of an older version: %v", err)
	}
	if v := load(); v.ETag != second.ETag || v.Manifest.Swap != second.Manifest.Swap {
		t.Errorf("loaded %+v, want the second", v.Manifest)
	}

	// An answer that was lost, and a repetition that was refused because the first had landed, are our own success.
	for _, answer := range []error{store.ErrUnknownOutcome, store.ErrPrecondition} {
		st.land, st.answer = true, answer
		if second, err = Swap(ctx, st, second, second.Manifest.Clone()); err != nil {
			t.Errorf("landed, answered %v: %v", answer, err)
		}
	}
	// A request that did not land may do so later: that is neither success nor ErrChanged.
	st.lose, st.answer = true, store.ErrUnknownOutcome
	if _, err := Swap(ctx, st, second, second.Manifest.Clone()); err == nil || errors.Is(err, ErrChanged) {
		t.Errorf("lost: %v", err)
	}
}

func TestLoadCorrupt(t *testing.T) {
	ctx := context.Background()
	st, err := mem.New(mem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Swap(ctx, st, Version{}, sample())
	if err != nil {
		t.Fatal(err)
	}
	// A manifest at another stream's key is none of that stream's.
	data, _ := v.Manifest.Encode()
	if _, err := st.Put(ctx, "streams/$G/OTHER/0000000000000007/manifest", data, store.Always()); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(ctx, st, "$G", "OTHER", 7); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another's manifest: %v", err)
	}
}
