package check

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment verifies one segment that the manifest lists, and takes what it holds off what is needed.
func (c *streamCheck) segment(ctx context.Context, k string, seg manifest.Segment) error {
	c.sum.Segments++
	c.sum.SegmentMessages += seg.Messages
	size, there := c.group.sizes[k]
	if !there {
		c.fault(Finding{Severity: Error, Kind: "segment-missing", Key: k, What: "the manifest lists it, and there is no object", Bytes: seg.Size,
			Means: fmt.Sprintf("%d messages from sequence %d to %d are lost, unless the log has them still", seg.Messages, seg.First, seg.Last), Do: doRestore})
		return nil
	}
	if size != seg.Size {
		c.fault(Finding{Severity: Error, Kind: "segment-size", Key: k, What: fmt.Sprintf("the object has %d bytes, the manifest says %d", size, seg.Size), Bytes: size,
			Means: "It is cut off, or another object lies there", Do: doRestore})
		return nil
	}
	var err error
	for range 2 { // what arrived damaged need not be stored so
		err = c.verifySegment(ctx, k, seg)
		if damaged(err) != "damaged" {
			break
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound):
		c.fault(Finding{Severity: Error, Kind: "segment-missing", Key: k, What: "it was there, and is missing", Means: "Something deletes segments that are needed", Do: doRestore})
	case damaged(err) == "newer":
		c.fault(Finding{Severity: Error, Kind: "segment-newer", Key: k, What: err.Error(), Means: "Its messages were not checked", Do: doNewer})
	case damaged(err) == "key":
		c.unread.add(size)
		c.cover(seg)
	case damaged(err) == "damaged":
		c.fault(Finding{Severity: Error, Kind: "segment-damaged", Key: k, What: err.Error(), Bytes: size,
			Means: fmt.Sprintf("Some of the %d messages from sequence %d to %d cannot be read", seg.Messages, seg.First, seg.Last), Do: doRestore})
	default:
		return fmt.Errorf("check: %s: %w", k, err)
	}
	return nil
}

// cover takes a segment of which only the bounds are known off what is needed.
func (c *streamCheck) cover(seg manifest.Segment) {
	c.need = c.need.minus(runs{{seg.First, seg.Last}})
}

// verifySegment reads the index, and, unless the check is a quick one, everything else.
func (c *streamCheck) verifySegment(ctx context.Context, k string, seg manifest.Segment) error {
	var raw []byte
	err := persist(ctx, func() (err error) {
		raw, err = c.store.GetRange(ctx, k, seg.IndexAt, seg.IndexSize)
		if err == nil && int64(len(raw)) < seg.IndexSize {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if err != nil {
		return err
	}
	if sum := crc32.Checksum(raw, castagnoli); sum != seg.IndexSum {
		c.cover(seg) // its messages are there; what is wrong is told once
		return fmt.Errorf("%w: the checksum of the index is %08x, the manifest says %08x", segment.ErrCorrupt, sum, seg.IndexSum)
	}
	index, cipher, err := c.open(raw)
	if err != nil {
		if damaged(err) == "damaged" {
			c.cover(seg)
		}
		return fmt.Errorf("index: %w", err)
	}
	var rows runs
	for row := range index.Rows(0) {
		rows.add(row.Seq, row.Seq)
	}
	c.need = c.need.minus(rows)
	info := index.Info()
	if !c.opts.Quick {
		if info, err = segment.Verify(&object{ctx: ctx, store: c.store, key: k, size: seg.Size}, seg.Size, cipher); err != nil {
			return err
		}
	}
	if err := agree(info, seg, !c.opts.Quick); err != nil {
		return err
	}
	if !c.opts.Quick {
		c.sum.Verified++
	}
	return nil
}

// open parses an index with whichever key opens it; a plain one needs none.
func (c *streamCheck) open(raw []byte) (index *segment.Index, cipher []byte, err error) {
	index, err = segment.ParseIndex(raw, nil)
	for _, cipher = range c.opts.SegmentKeys {
		if !errors.Is(err, segment.ErrKey) {
			return index, nil, err
		}
		if index, err = segment.ParseIndex(raw, cipher); !errors.Is(err, segment.ErrKey) {
			return index, cipher, err
		}
	}
	return index, nil, err
}

// agree compares what a segment says of itself with what the manifest says of it.
func agree(info segment.Info, seg manifest.Segment, whole bool) error {
	has := manifest.Segment{
		First: info.First, Last: info.Last, Unique: seg.Unique, Messages: info.Messages, Bytes: info.Bytes,
		FirstTime: info.FirstTime, LastTime: info.LastTime, Size: seg.Size,
		IndexAt: info.IndexAt, IndexSize: info.IndexSize, DirectorySize: info.DirectorySize, IndexSum: info.IndexChecksum,
	}
	if whole {
		has.Size = info.Size
	}
	if has != seg {
		return fmt.Errorf("%w: the manifest says %+v, the segment %+v", segment.ErrCorrupt, seg, has)
	}
	return nil
}

// windowBytes is how much of an object is read at a time.
const windowBytes = 4 << 20

// object reads an object through a window.
type object struct {
	ctx    context.Context // of the one verification that it serves
	store  store.Store
	key    string
	size   int64
	at     int64
	window []byte
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		if from := at + int64(n); from < o.at || from >= o.at+int64(len(o.window)) {
			if from >= o.size {
				return n, io.EOF
			}
			if err := o.fetch(from, int64(len(b)-n)); err != nil {
				return n, err
			}
		}
		n += copy(b[n:], o.window[at+int64(n)-o.at:])
	}
	return n, nil
}

// fetch moves the window.
func (o *object) fetch(at, length int64) error {
	length = min(max(length, windowBytes), o.size-at)
	return persist(o.ctx, func() error {
		data, err := o.store.GetRange(o.ctx, o.key, at, length)
		if err == nil && int64(len(data)) < length {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		o.at, o.window = at, data
		return nil
	})
}
