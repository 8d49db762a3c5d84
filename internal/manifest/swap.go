package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// Version is a manifest as it lies in the store.
type Version struct {
	Manifest *Manifest // nil: there is none
	ETag     string
}

// tornReads is how often a manifest that does not verify is read before that is believed: what arrived damaged need
// not be stored so.
const tornReads = 3

// Load reads a stream's manifest; none is a Version without a Manifest. It asks once: the caller retries store trouble.
func Load(ctx context.Context, st store.Store, account, stream string, id uint64) (v Version, err error) {
	return LoadKey(ctx, st, key.ManifestKey(account, stream, id), id)
}

// LoadKey is Load for a key that was found in a listing, of the stream with an id.
func LoadKey(ctx context.Context, st store.Store, k string, id uint64) (v Version, err error) {
	for range tornReads {
		var object store.Object
		object, err = st.Get(ctx, k)
		if errors.Is(err, store.ErrNotFound) {
			return Version{}, nil
		}
		if err != nil {
			return Version{}, fmt.Errorf("manifest: reading %s: %w", k, err)
		}
		v.ETag = object.ETag
		if v.Manifest, err = Decode(k, object.Data); err == nil {
			break
		}
		if errors.Is(err, ErrNewerFormat) {
			return Version{}, err
		}
	}
	if err != nil {
		return Version{}, err
	}
	if m := v.Manifest; uint64(m.ID) != id || key.ManifestKey(m.Account, m.Stream, id) != k {
		return Version{}, fmt.Errorf("%w: %s: it is that of stream %s of account %s", ErrCorrupt, k, m.Stream, m.Account)
	}
	return v, nil
}

// ErrChanged: the store holds another version than the one that was to be replaced.
var ErrChanged = errors.New("manifest: changed by another")

// Swap replaces the version old by next, and sets next's Swap and Written. It returns when next is durable, or with
// ErrChanged when it is certain that next was not written and never will be. With any other error it may have been
// written, or may be later: the caller loads the manifest again before it goes on, and compares Swap.
func Swap(ctx context.Context, st store.Store, old Version, next *Manifest) (Version, error) {
	next.Swap = ID(rand.Uint64())
	next.Written = time.Now().UTC()
	data, err := next.Encode()
	if err != nil {
		return Version{}, err
	}
	k := key.ManifestKey(next.Account, next.Stream, uint64(next.ID))
	cond := store.IfAbsent()
	if old.Manifest != nil {
		cond = store.IfMatch(old.ETag)
	}
	etag, err := st.Put(ctx, k, data, cond)
	if err == nil {
		return Version{next, etag}, nil
	}
	if !errors.Is(err, store.ErrPrecondition) && !errors.Is(err, store.ErrUnknownOutcome) {
		return Version{}, fmt.Errorf("manifest: writing %s: %w", k, err)
	}
	// A refusal may be the echo of this very request, repeated on its way.
	object, readErr := st.Get(ctx, k)
	switch {
	case readErr == nil && bytes.Equal(object.Data, data):
		return Version{next, object.ETag}, nil
	case readErr == nil && (old.Manifest == nil || object.ETag != old.ETag):
		// The version that next was to replace is gone for good: contents never repeat.
		return Version{}, fmt.Errorf("%w: %s", ErrChanged, k)
	case readErr != nil && !errors.Is(readErr, store.ErrNotFound):
		return Version{}, fmt.Errorf("manifest: writing %s: %w; reading it back: %w", k, err, readErr)
	}
	return Version{}, fmt.Errorf("manifest: writing %s: %w", k, err)
}
