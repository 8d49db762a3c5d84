package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStoreLies: the store answered a request of the start-up probe wrongly, so that running on it would lose
// acknowledged data.
var ErrStoreLies = errors.New("the store does not keep its promises, it must not be used")

const (
	// probeCreates is the number of concurrent creates of the probe. Enough to show a check-then-write store, few
	// enough to cost nothing.
	probeCreates = 6
	// probeCleanup bounds the removal of the probe's objects once its context has ended.
	probeCleanup = 5 * time.Second
)

// Probe checks at start-up that a store's conditional writes and its reads after writes are what the log's fencing is
// built on. It creates two objects under prefix (which ends in '/' or is empty) with random names, about twenty small
// requests, and removes them.
//
// An error that wraps ErrStoreLies says in words for an operator which promise was broken. Any other error means that
// a check could not be made (no permission, no connection), which may pass.
func Probe(ctx context.Context, s Store, prefix string) error {
	p := probe{store: s, prefix: prefix + rand.Text()}
	p.key, p.raced = p.prefix+"-a", p.prefix+"-b"
	err := p.run(ctx)

	// The objects go even when the caller has given up, and also when a check failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	if cleanupErr := p.cleanup(ctx); err == nil {
		err = cleanupErr
	}
	if err != nil {
		return fmt.Errorf("probe of the store: %w", err)
	}
	return nil
}

type probe struct {
	store      Store
	prefix     string // of both keys
	key, raced string
}

func (p *probe) run(ctx context.Context) error {
	for _, check := range []func(context.Context) error{p.checkCreate, p.checkReplace, p.checkRace, p.checkList} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lie makes the error of a broken promise.
func lie(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStoreLies, fmt.Sprintf(format, args...))
}

// checkCreate creates a key twice.
func (p *probe) checkCreate(ctx context.Context) error {
	first := []byte("first")
	etag, err := p.store.Put(ctx, p.key, first, IfAbsent())
	switch {
	case errors.Is(err, ErrPrecondition):
		return lie("it refused to create a new object as if the key were taken (If-None-Match: *)")
	case err != nil:
		return fmt.Errorf("create an object: %w", err)
	}
	if err := p.expect(ctx, first, etag, "right after it was created"); err != nil {
		return err
	}
	_, err = p.store.Put(ctx, p.key, []byte("second"), IfAbsent())
	if err == nil {
		return lie("it created the same key twice: conditional creates (If-None-Match: *) are ignored")
	}
	if !errors.Is(err, ErrPrecondition) {
		return fmt.Errorf("create the same key again, which must be refused as taken: %w", err)
	}
	return p.expect(ctx, first, etag, "after a second create that it refused")
}

// checkReplace replaces the object that checkCreate left by a right and by a stale version.
func (p *probe) checkReplace(ctx context.Context) error {
	obj, err := p.store.Get(ctx, p.key)
	if err != nil {
		return fmt.Errorf("read the object back: %w", err)
	}
	third := []byte("third")
	etag, err := p.store.Put(ctx, p.key, third, IfMatch(obj.ETag))
	switch {
	case errors.Is(err, ErrPrecondition):
		return lie("it refused to replace an object whose version was named rightly (If-Match)")
	case err != nil:
		return fmt.Errorf("replace the object: %w", err)
	case etag == obj.ETag:
		return lie("two different contents have the same version (ETag %s)", etag)
	}
	if err := p.expect(ctx, third, etag, "right after it was replaced"); err != nil {
		return err
	}
	_, err = p.store.Put(ctx, p.key, []byte("fourth"), IfMatch(obj.ETag))
	if err == nil {
		return lie("it replaced an object although the version named was stale: conditional replacement (If-Match) is ignored")
	}
	if !errors.Is(err, ErrPrecondition) {
		return fmt.Errorf("replace a stale version, which must be refused: %w", err)
	}
	if err := p.expect(ctx, third, etag, "after a stale replacement that it refused"); err != nil {
		return err
	}
	_, err = p.store.Put(ctx, p.raced, []byte("fifth"), IfMatch(etag))
	if err == nil {
		return lie("it replaced an object that does not exist (If-Match on a missing key)")
	}
	if !errors.Is(err, ErrPrecondition) {
		return fmt.Errorf("replace a missing object, which must be refused: %w", err)
	}
	return nil
}

// checkRace creates one key from several goroutines at once.
func (p *probe) checkRace(ctx context.Context) error {
	errs := make([]error, probeCreates)
	start := make(chan struct{})
	var creates sync.WaitGroup
	for i := range errs {
		creates.Go(func() {
			<-start
			_, errs[i] = p.store.Put(ctx, p.raced, raceContent(i), IfAbsent())
		})
	}
	close(start)
	creates.Wait()

	winners, doubts := 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			winners++
		case errors.Is(err, ErrUnknownOutcome):
			doubts++ // some servers cut the connection of one who lost: what is read below decides
		case !errors.Is(err, ErrPrecondition):
			return fmt.Errorf("create one key concurrently: %w", err)
		}
	}
	if winners > 1 {
		return lie("%d of %d concurrent creates of one key succeeded: conditional creates (If-None-Match: *) do not exclude each other", winners, len(errs))
	}
	if winners+doubts == 0 {
		return lie("all of %d concurrent creates of one key were refused as if it were taken", len(errs))
	}
	obj, err := p.store.Get(ctx, p.raced)
	if errors.Is(err, ErrNotFound) && winners > 0 {
		return lie("an object is missing right after it was created")
	}
	if err != nil {
		return fmt.Errorf("read the object that was created concurrently: %w", err)
	}
	for i, err := range errs {
		if mine := bytes.Equal(obj.Data, raceContent(i)); mine && errors.Is(err, ErrPrecondition) {
			return lie("of concurrent creates of one key, one was refused and yet its content is there")
		} else if !mine && err == nil {
			return lie("of concurrent creates of one key, one succeeded and yet another content is there")
		}
	}
	return nil
}

func raceContent(i int) []byte { return fmt.Appendf(nil, "racer %d", i) }

// checkList wants both objects in a listing, in order.
func (p *probe) checkList(ctx context.Context) error {
	page, err := p.store.List(ctx, ListOptions{Prefix: p.prefix})
	if err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	if len(page.Objects) != 2 || page.Objects[0].Key != p.key || page.Objects[1].Key != p.raced {
		return lie("two objects were written, but a listing right after it gives %v", page.Objects)
	}
	obj, err := p.store.Get(ctx, p.key)
	if err != nil {
		return fmt.Errorf("read the object back: %w", err)
	}
	if page.Objects[0].ETag != obj.ETag {
		return lie("a listing gives version %s for an object, a read %s", page.Objects[0].ETag, obj.ETag)
	}
	after, err := p.store.List(ctx, ListOptions{Prefix: p.prefix, StartAfter: p.key})
	if err != nil {
		return fmt.Errorf("list the objects after a key: %w", err)
	}
	if len(after.Objects) != 1 || after.Objects[0].Key != p.raced {
		return lie("a listing that starts after the first of two keys gives %v", after.Objects)
	}
	return nil
}

// expect reads the first key back.
func (p *probe) expect(ctx context.Context, data []byte, etag, when string) error {
	obj, err := p.store.Get(ctx, p.key)
	switch {
	case errors.Is(err, ErrNotFound):
		return lie("an object is missing %s", when)
	case err != nil:
		return fmt.Errorf("read the object back: %w", err)
	case !bytes.Equal(obj.Data, data):
		return lie("an object holds %q %s, want %q", obj.Data, when, data)
	case obj.ETag != etag:
		return lie("an object has version %s %s, but the write was answered with %s", obj.ETag, when, etag)
	}
	return nil
}

func (p *probe) cleanup(ctx context.Context) error {
	if err := p.store.Delete(ctx, p.key, p.raced); err != nil {
		return fmt.Errorf("delete the objects: %w", err)
	}
	_, err := p.store.Get(ctx, p.key)
	switch {
	case err == nil:
		return lie("an object is still there right after it was deleted")
	case !errors.Is(err, ErrNotFound):
		return fmt.Errorf("read a deleted object: %w", err)
	}
	return nil
}
