package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/stream"
)

// A start puts a stream's history in front of what the log has of it. The log's first message of the stream says where
// the history ends that only segments have; from there on it is replayed as it was lived, also where segments have the
// same messages: what was deleted, and when, is in the log alone.

const (
	// manifestReads is how many manifests a start reads at the same time.
	manifestReads = 32
	// storeTries is how often a start asks a store that gives no useful answer, with storePause before the second and
	// twice that before each further time.
	storeTries = 8
	storePause = 100 * time.Millisecond
)

// persist calls op until it succeeds, or fails for good, or has failed storeTries times.
func persist(ctx context.Context, op func() error) error {
	pause := storePause
	for try := 1; ; try++ {
		err := op()
		if err == nil || try == storeTries || lasting(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

// lasting reports whether another attempt would end in the same way.
func lasting(err error) bool {
	for _, e := range []error{
		store.ErrNotFound, store.ErrInvalidRange, store.ErrNoBucket, manifest.ErrCorrupt, manifest.ErrNewerFormat,
		segment.ErrCorrupt, segment.ErrNewerFormat, segment.ErrKey, context.Canceled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// foundManifest is a manifest in the store, or why it cannot be read.
type foundManifest struct {
	version manifest.Version
	err     error
	// stray names a stream that has objects and no manifest that can be read: the process ended before it made one, or
	// it is damaged.
	stray streamName
}

// findManifests reads all manifests there are. One that cannot be read is an error only for those who need it.
func (e *Engine) findManifests(ctx context.Context) (map[record.StreamID]foundManifest, error) {
	var keys []string
	names := map[record.StreamID]streamName{} // of streams that have objects
	after := ""
	for {
		var page store.Page
		err := persist(ctx, func() (err error) {
			page, err = e.opts.Store.List(ctx, store.ListOptions{Prefix: key.Manifest.Prefix(), StartAfter: after})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("engine: listing the manifests: %w", err)
		}
		for _, o := range page.Objects {
			after = o.Key
			p, err := key.Parse(o.Key)
			if err != nil {
				continue
			}
			names[record.StreamID(p.ID)] = streamName{p.Account, p.Stream}
			if p.Family == key.Manifest {
				keys = append(keys, o.Key)
			}
		}
		if !page.More {
			break
		}
	}
	found, err := e.readManifests(ctx, keys)
	if err != nil {
		return nil, err
	}
	for id, name := range names {
		if f := found[id]; f.version.Manifest == nil {
			f.stray = name
			found[id] = f
		}
	}
	return found, nil
}

func (e *Engine) readManifests(ctx context.Context, keys []string) (map[record.StreamID]foundManifest, error) {
	found := map[record.StreamID]foundManifest{}
	var mu sync.Mutex // guards found
	var readers sync.WaitGroup
	tokens := make(chan struct{}, manifestReads)
	for _, k := range keys {
		p, err := key.Parse(k)
		if err != nil {
			return nil, err
		}
		tokens <- struct{}{}
		readers.Go(func() {
			var f foundManifest
			f.err = persist(ctx, func() (err error) {
				f.version, err = manifest.LoadKey(ctx, e.opts.Store, k, p.ID)
				return err
			})
			<-tokens
			mu.Lock()
			defer mu.Unlock()
			found[record.StreamID(p.ID)] = f
		})
	}
	readers.Wait()
	return found, ctx.Err()
}

// indexReads is how often an index that does not verify is read before that is believed: what arrived damaged need not be
// stored so.
const indexReads = 3

// loadIndex reads the index of a segment.
func (e *Engine) loadIndex(ctx context.Context, p *past) (index *segment.Index, err error) {
	err = persist(ctx, func() (err error) {
		for range indexReads {
			index, err = e.readIndex(ctx, p)
			if !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrKey) {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("engine: reading the index of %s: %w", p.key, err)
	}
	return index, nil
}

func (e *Engine) readIndex(ctx context.Context, p *past) (index *segment.Index, err error) {
	data, err := e.opts.Store.GetRange(ctx, p.key, p.IndexAt, p.IndexSize)
	if err != nil {
		return nil, err
	}
	err = e.opts.withKey(func(key []byte) (err error) {
		index, err = segment.ParseIndex(data, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sum := index.Info().IndexChecksum; sum != p.IndexSum {
		return nil, fmt.Errorf("%w: the checksum of the index is %08x, want %08x", segment.ErrCorrupt, sum, p.IndexSum)
	}
	return index, nil
}

// recall enters the messages below a sequence that the log does not have.
func (r *recovery) recall(f *fragment, before uint64) error {
	for f.recalled < len(f.past) && f.past[f.recalled].First < before {
		p := f.past[f.recalled]
		if p.Last > f.state.LastSeq() {
			if f.index == nil {
				index, err := r.loadIndex(p)
				if err != nil {
					return err
				}
				f.index = index
			}
			if err := f.recallRows(f.index, before, r.now.UnixNano()-f.version.Manifest.Window); err != nil {
				return fmt.Errorf("%s: %w", p.key, err)
			}
		}
		if p.Last >= before {
			return nil // the rest of it may be needed later
		}
		f.recalled++
		f.index = nil
	}
	return nil
}

// recallRows enters the rows of one index that come next. Ids that are older than the dedup window are left out, or the
// state would remember them all: it does not know its window yet.
func (f *fragment) recallRows(index *segment.Index, before uint64, idsFrom int64) error {
	from := f.state.LastSeq() + 1
	load, err := f.state.Load()
	if err != nil {
		return err
	}
	defer load.Close()
	load.Dictionary()
	for s := range index.Subjects(nil) {
		if _, err := load.Subject(s.Name); err != nil {
			return err
		}
	}
	for row := range index.Rows(from) {
		if row.Seq >= before {
			return nil
		}
		header, data := 0, int(row.Size)
		if row.Header {
			header, data = 1, data-1
		}
		note := row.Note
		if len(note) > 0 && row.Time < idsFrom {
			note = stream.AppendNote(nil, note, false)
		}
		if err := load.Message(row.Seq, row.Time, stream.StoredSize(0, header, data), row.Subject, note); err != nil {
			return err
		}
	}
	return nil
}

// adopt gives a stream that was replayed its history.
func (s *Stream) adopt(f *fragment, found foundManifest) {
	if found.stray.name != "" {
		s.objects.Store(true)
	}
	if f.version.Manifest == nil {
		return
	}
	s.manifest.version = f.version
	s.objects.Store(true)
	s.takeOver(f.version.Manifest)
	s.engine.wantsCare(s)
}
