package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/wal"
)

// walk goes through all objects of a bucket, in the order of their keys, and compares them with a survey.
type walk struct {
	*checker
	survey *survey
	last   bool // there is no other look
	sure   bool // what is found now may be told: no node runs, or it was found before
	// again are the streams to be looked at again, with the prefixes of their keys.
	again map[record.StreamID]string

	log    *logGroup
	stream *streamGroup
	seen   map[record.StreamID]bool // streams that have objects
}

// clusterFormat is the newest format of the cluster's object that this version knows.
const clusterFormat = 1

// bucket walks through everything.
func (w *walk) bucket(ctx context.Context) error {
	w.seen = map[record.StreamID]bool{}
	// The logs come first: what the streams' objects are depends on whether all logs are known.
	err := w.logs(ctx)
	if err != nil {
		return err
	}
	probes := group{}
	err = w.list(ctx, "", func(o store.Attributes) error {
		p, err := key.Parse(o.Key)
		if err != nil {
			w.tally("foreign", o.Size)
			w.report(Finding{Severity: Note, Kind: "foreign", Key: o.Key, What: fmt.Sprintf("not a key of Sluice, %d bytes", o.Size), Means: "It is left alone"})
			return nil
		}
		w.tally(p.Family.String(), o.Size)
		switch p.Family {
		case key.Cluster:
			return w.cluster(ctx)
		case key.Broadcast:
			return w.broadcast(ctx, o.Key, p)
		case key.Manifest, key.StreamSegment:
			return w.streamObject(ctx, o, p)
		case key.Probe:
			probes.add(o, w.gathering)
		}
		return nil
	})
	if err == nil {
		err = w.endStream(ctx)
	}
	if err != nil {
		return err
	}
	if probes.Objects > 0 {
		w.report(Finding{Severity: Note, Kind: "probe-leftover", Key: probes.first, What: fmt.Sprintf("%d objects of start-up probes", probes.Objects),
			Objects: probes.Objects, Bytes: probes.Bytes, Means: "Harmless: a start was cut off"})
		for _, k := range probes.keys {
			w.movable(k, "")
		}
	}
	// The streams that have no objects but in the log.
	for id, l := range w.survey.ledgers {
		if !w.seen[id] {
			if err := w.bare(ctx, id, l); err != nil {
				return err
			}
		}
	}
	return w.positions(ctx)
}

// tally counts an object of the bucket.
func (w *walk) tally(family string, bytes int64) {
	t := w.sum.Families[family]
	t.add(bytes)
	w.sum.Families[family] = t
}

// cluster looks at the cluster's object.
func (w *walk) cluster(ctx context.Context) error {
	var body struct {
		Format int `json:"format"`
	}
	var parseErr error
	for range 2 {
		o, found, err := get(ctx, w.store, key.ClusterKey)
		if err != nil || !found {
			return err
		}
		if parseErr = json.Unmarshal(o.Data, &body); parseErr == nil {
			break
		}
	}
	switch {
	case parseErr != nil:
		w.report(Finding{Severity: Error, Kind: "cluster-damaged", Key: key.ClusterKey, What: parseErr.Error(), Means: "It is written once, and needed by every node", Do: doRestore})
	case body.Format > clusterFormat:
		w.report(Finding{Severity: Error, Kind: "cluster-newer", Key: key.ClusterKey, What: fmt.Sprintf("format %d, this version knows %d", body.Format, clusterFormat), Do: doNewer})
	}
	return nil
}

// positions looks whether the broadcast batches that heads name are there.
func (w *walk) positions(ctx context.Context) error {
	for _, n := range w.survey.heads {
		if n.head == nil || n.head.Broadcast == nil {
			continue
		}
		id := wal.LogID{Kind: wal.Broadcast, Node: n.head.Node, Epoch: n.head.Broadcast.Epoch}
		_, err := wal.ReadBatch(ctx, w.store, id, n.head.Broadcast.Offset)
		if errors.Is(err, store.ErrNotFound) {
			w.report(Finding{Severity: Warning, Kind: "broadcast-missing", Key: id.Key(n.head.Broadcast.Offset), What: n.key + " names it as the newest batch, and it is missing",
				Means: "Right if it is older than broadcasts are kept"})
		} else if err != nil && damaged(err) == "" && !errors.Is(err, wal.ErrFenced) {
			return fmt.Errorf("check: %w", err)
		}
	}
	return nil
}

// logGroup is what lies of one log, which the walk comes by.
type logGroup struct {
	prefix string
	parsed key.Parsed // of the first object
	group
	small []small // those among the last that may be fences
}

type small struct {
	key  string
	at   wal.Offset
	size int64
}

// logs looks for logs that no head lists.
func (w *walk) logs(ctx context.Context) error {
	err := w.list(ctx, key.WAL.Prefix(), func(o store.Attributes) error {
		p, err := key.Parse(o.Key)
		if err != nil {
			return nil
		}
		return w.logObject(ctx, o, p)
	})
	if err == nil {
		err = w.endLog(ctx)
	}
	return err
}

// logObject adds an object to its log.
func (w *walk) logObject(ctx context.Context, o store.Attributes, p key.Parsed) error {
	const offsetDigits = 16
	prefix := o.Key[:len(o.Key)-offsetDigits]
	if w.log == nil || w.log.prefix != prefix {
		if err := w.endLog(ctx); err != nil {
			return err
		}
		w.log = &logGroup{prefix: prefix, parsed: p}
	}
	w.log.add(o, w.gathering)
	if o.Size <= wal.MaxFenceBytes {
		w.log.small = append(w.log.small, small{o.Key, wal.Offset(p.Offset), o.Size})
	}
	// A fence is among the last that are there: see wal's invariant 4.
	for len(w.log.small) > 0 && wal.Offset(p.Offset)-w.log.small[0].at >= wal.MaxPipeline {
		w.log.small = w.log.small[1:]
	}
	return nil
}

// broadcast verifies one object of a broadcast log.
func (w *walk) broadcast(ctx context.Context, k string, p key.Parsed) error {
	id, known := w.survey.logID(p)
	if !known || w.opts.Quick {
		return nil
	}
	_, err := wal.ReadBatch(ctx, w.store, id, wal.Offset(p.Offset))
	switch {
	case err == nil, errors.Is(err, wal.ErrFenced), errors.Is(err, store.ErrNotFound):
		return nil
	case damaged(err) == "damaged":
		w.report(Finding{Severity: Error, Kind: "batch-damaged", Key: k, What: err.Error(), Means: "Its broadcasts cannot be read", Do: doRestore})
	case damaged(err) == "newer":
		w.report(Finding{Severity: Error, Kind: "batch-newer", Key: k, What: err.Error(), Do: doNewer})
	default:
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// endLog judges the log that the walk leaves behind.
func (w *walk) endLog(ctx context.Context) error {
	g := w.log
	w.log = nil
	if g == nil {
		return nil
	}
	id, known := w.survey.logID(g.parsed)
	if known && w.survey.listed[id] {
		return nil // it was read
	}
	n := w.survey.bySegment[g.parsed.Node]
	headKey := key.Head.Prefix() + g.parsed.Node
	if n == nil || n.head != nil && uint64(n.head.Epoch) < g.parsed.Epoch {
		// It may have been made since.
		now, err := w.readHead(ctx, headKey)
		if err != nil && damaged(err) == "" {
			return err
		}
		if now.head != nil && uint64(now.head.Epoch) >= g.parsed.Epoch {
			return nil
		}
		n = now
	}
	switch {
	case n.head == nil && n.etag == "":
		w.survey.broken = true
		if w.headless != headKey {
			w.headless = headKey
			w.report(Finding{Severity: Error, Kind: "head-missing", Key: headKey, What: "there is no such head, and logs of the node: " + g.prefix, Objects: g.Objects, Bytes: g.Bytes,
				Means: "Heads are never deleted. What the node acknowledged and is not in segments is not recovered by anybody", Do: doRestore})
		}
		return nil
	case n.head == nil:
		return nil // told of
	case uint64(n.head.Epoch) < g.parsed.Epoch:
		w.survey.broken = true
		w.report(Finding{Severity: Error, Kind: "log-unlisted", Key: g.first, What: fmt.Sprintf("a log of the epoch %d, and %s is at %d", g.parsed.Epoch, n.key, n.head.Epoch), Objects: g.Objects, Bytes: g.Bytes,
			Means: "The head is older than the log. What was acknowledged with the log is not recovered", Do: "Bring the newest version of the head back"})
		return nil
	}
	return w.unlisted(ctx, g, id, n)
}

// unlisted judges a log of an earlier epoch that no head lists: all of it is in segments, or was nothing.
func (w *walk) unlisted(ctx context.Context, g *logGroup, id wal.LogID, n *node) error {
	var fence small
	for _, o := range g.small {
		_, err := wal.ReadBatch(ctx, w.store, id, o.at)
		if errors.Is(err, wal.ErrFenced) {
			fence = o
			break
		}
		if err != nil && damaged(err) == "" && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("check: %w", err)
		}
	}
	switch {
	case fence.key == "":
		now, err := w.readHead(ctx, n.key)
		if err != nil && damaged(err) == "" {
			return err
		}
		if now.head != nil && now.lists(id) {
			return nil // moving from head to head
		}
		w.survey.broken = true
		w.report(Finding{Severity: Error, Kind: "log-unlisted", Key: g.first, What: fmt.Sprintf("a log of %d objects without a fence, which no head lists", g.Objects), Objects: g.Objects, Bytes: g.Bytes,
			Means: "A log leaves the heads only when it is fenced and empty. What was acknowledged with it may not be recovered", Do: "Compare " + n.key + " with older versions of it"})
	case g.Objects > 1:
		w.report(Finding{Severity: Note, Kind: "log-orphan", Key: g.first, What: fmt.Sprintf("%d objects of a log that no head lists, besides its fence", g.Objects-1), Objects: g.Objects - 1, Bytes: g.Bytes - fence.size,
			Means: "Harmless: all of it is in segments, or was never acknowledged", Do: "Leave them, or move them with --repair"})
		for _, k := range g.keys {
			if k != fence.key {
				w.movable(k, "")
			}
		}
	}
	return nil
}

// streams looks at some streams again.
func (w *walk) streams(ctx context.Context, only map[record.StreamID]string) error {
	w.seen = map[record.StreamID]bool{}
	for id, prefix := range only {
		if prefix != "" {
			err := w.list(ctx, prefix, func(o store.Attributes) error {
				p, err := key.Parse(o.Key)
				if err != nil {
					return nil
				}
				return w.streamObject(ctx, o, p)
			})
			if err == nil {
				err = w.endStream(ctx)
			}
			if err != nil {
				return err
			}
		}
		if l := w.survey.ledgers[id]; l != nil && !w.seen[id] {
			if err := w.bare(ctx, id, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// streamGroup is what lies of one stream.
type streamGroup struct {
	prefix   string
	parsed   key.Parsed
	manifest string           // its key; "": there is none
	sizes    map[string]int64 // of the segments' objects, by key
	order    []string         // their keys
}

// streamObject adds an object to its stream.
func (w *walk) streamObject(ctx context.Context, o store.Attributes, p key.Parsed) error {
	prefix := streamPrefix(p)
	if w.stream == nil || w.stream.prefix != prefix {
		if err := w.endStream(ctx); err != nil {
			return err
		}
		w.stream = &streamGroup{prefix: prefix, parsed: p, sizes: map[string]int64{}}
	}
	if p.Family == key.Manifest {
		w.stream.manifest = o.Key
		return nil
	}
	w.stream.sizes[o.Key] = o.Size
	w.stream.order = append(w.stream.order, o.Key)
	return nil
}

// streamPrefix is what the keys of a stream start with; names stay escaped.
func streamPrefix(p key.Parsed) string {
	return fmt.Sprintf("%s%s/%s/%016x/", key.Manifest.Prefix(), p.Account, p.Stream, p.ID)
}

// endStream verifies the stream that the walk leaves behind.
func (w *walk) endStream(ctx context.Context) error {
	g := w.stream
	w.stream = nil
	if g == nil {
		return nil
	}
	id := record.StreamID(g.parsed.ID)
	w.seen[id] = true
	return w.verify(ctx, id, g, w.survey.ledgers[id])
}

// bare verifies a stream of which there are no objects but in the log.
func (w *walk) bare(ctx context.Context, id record.StreamID, l *ledger) error {
	g := &streamGroup{}
	if l.name != "" {
		g.prefix = key.StreamPrefix(l.account, l.name, uint64(id))
	}
	return w.verify(ctx, id, g, l)
}

// dropped gives the keys of a manifest's dropped segments.
func dropped(m *manifest.Manifest) map[string]bool {
	keys := map[string]bool{}
	for _, d := range m.Dropped {
		keys[m.DroppedKey(d)] = true
	}
	return keys
}
