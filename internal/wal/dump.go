package wal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

// DumpOptions choose what Dump prints.
type DumpOptions struct {
	// Prefix chooses the keys: "wal/", "wal/<node>/", "wal/<node>/<epoch>", "heads/" and so on; "" is all heads and logs.
	Prefix string
	// Describe prints the records of a batch's body, one line each; nil: records are counted only.
	Describe func(body []byte, line func(string)) error
}

// Dump prints heads, logs and what lies in them, for people: offsets, put ids, counts, whether checksums hold, fences,
// and what is not part of a log although it is there. Objects that cannot be read are printed as such, and make Dump
// end with an error that counts them. It only reads.
func Dump(ctx context.Context, s store.Store, w io.Writer, opts DumpOptions) error {
	d := &dump{store: s, w: w, opts: opts}
	for _, family := range []key.Family{key.Head, key.WAL, key.Broadcast} {
		prefix, root := opts.Prefix, family.Prefix()
		switch {
		case strings.HasPrefix(root, prefix):
			prefix = root
		case !strings.HasPrefix(prefix, root):
			continue
		}
		if err := d.list(ctx, prefix); err != nil {
			return err
		}
	}
	if d.err != nil {
		return fmt.Errorf("dump: %w", d.err)
	}
	if d.unreadable > 0 {
		return fmt.Errorf("dump: %w: %d of %d objects", ErrCorrupt, d.unreadable, d.objects)
	}
	return nil
}

type dump struct {
	store      store.Store
	w          io.Writer
	opts       DumpOptions
	objects    int
	unreadable int
	err        error // of w

	// The log that is being printed.
	log   string // key without the offset
	next  Offset
	ended string // why what follows is not part of the log
}

func (d *dump) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format+"\n", args...)
	}
}

// list prints the objects under a prefix.
func (d *dump) list(ctx context.Context, prefix string) error {
	opts := store.ListOptions{Prefix: prefix}
	for {
		var page store.Page
		err := patiently(ctx, callTimeout, func(ctx context.Context) (err error) {
			page, err = d.store.List(ctx, opts)
			return err
		})
		if err != nil {
			return fmt.Errorf("dump: list %q: %w", prefix, err)
		}
		for _, attributes := range page.Objects {
			opts.StartAfter = attributes.Key
			if err := d.object(ctx, attributes); err != nil {
				return fmt.Errorf("dump: %w", err)
			}
		}
		if !page.More || len(page.Objects) == 0 {
			return nil
		}
	}
}

// object prints one object; the error is one of the store.
func (d *dump) object(ctx context.Context, attributes store.Attributes) error {
	d.objects++
	parsed, err := key.Parse(attributes.Key)
	if err != nil {
		d.unreadable++
		d.printf("%s  NOT A KEY OF SLUICE, %d bytes", attributes.Key, attributes.Size)
		return nil
	}
	var object store.Object
	err = patiently(ctx, readTimeout, func(ctx context.Context) (err error) {
		object, err = d.store.Get(ctx, attributes.Key)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", attributes.Key, err)
	}
	if parsed.Family == key.Head {
		d.head(attributes.Key, object.Data)
		return nil
	}
	d.logObject(attributes.Key, Offset(parsed.Offset), object.Data)
	return nil
}

func (d *dump) head(k string, data []byte) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		d.unreadable++
		d.printf("%s  CORRUPT: %v", k, err)
		return
	}
	d.printf("%s\n  %s", k, compact.Bytes())
}

// logObject prints a batch or a fence.
func (d *dump) logObject(k string, at Offset, data []byte) {
	log := k[:strings.LastIndexByte(k, '/')]
	if log != d.log {
		d.log, d.next, d.ended = log, at, ""
		d.printf("%s", log)
		if at > 0 {
			d.printf("  %016x  first object; the heads tell where the log starts", at)
		}
	}
	if at != d.next && d.ended == "" {
		d.ended = fmt.Sprintf("beyond the missing offset %x", d.next)
	}
	d.next = at + 1

	// The object says which log it belongs to; that this is the log of its key is part of its being sound.
	h, err := decodeHeader(data)
	var b *Batch
	if err == nil {
		if h.id.Key(h.offset) != k {
			err = h.expect(LogID{}, 0)
		} else {
			b, err = decodeBatch(data, h.id, h.offset)
		}
	}
	note := ""
	if d.ended != "" {
		note = "  NOT PART OF THE LOG: " + d.ended
	}
	var fenced *FenceError
	switch {
	case errors.As(err, &fenced):
		f := fenced.Fence
		d.printf("  %016x  fence  put %s  %s  by %q in epoch %d, heirs %q%s", at, f.PutID, stamp(f.Created), f.Node, f.Epoch, f.Heirs, note)
		if d.ended == "" {
			d.ended = fmt.Sprintf("beyond the fence at %x", at)
		}
	case err != nil:
		d.unreadable++
		d.printf("  %016x  %d bytes  UNREADABLE: %v%s", at, len(data), err, note)
	default:
		packed := ""
		if h.flags&flagZstd != 0 {
			packed = ", zstd"
		}
		d.printf("  %016x  batch  put %s  %s  %d records in %d bytes, object of %d%s, checksums hold%s",
			at, b.PutID, stamp(b.Created), b.Records, len(b.Body), b.Stored, packed, note)
		d.records(b)
	}
}

func (d *dump) records(b *Batch) {
	if d.opts.Describe == nil {
		return
	}
	n := 0
	err := d.opts.Describe(b.Body, func(line string) {
		n++
		d.printf("    %s", line)
	})
	if err == nil && n != b.Records {
		err = fmt.Errorf("%d records, the header says %d", n, b.Records)
	}
	if err != nil {
		d.unreadable++
		d.printf("    UNREADABLE: %v", err)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
