package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
	"github.com/sluicemq/sluice/internal/segment"
	"github.com/sluicemq/sluice/internal/store"
	"github.com/sluicemq/sluice/internal/stream"
	"github.com/sluicemq/sluice/internal/wal"
)

// Compaction moves messages out of the log into a segment. The order of its steps is what makes it safe:
//
//  1. Only messages that are committed and visible are copied.
//  2. The segment's object is stored, under a key that nobody used before.
//  3. A checkpoint says what is deleted by now, at least all that the segment leaves out.
//  4. The manifest that lists the segment and names the checkpoint is swapped in. A start replays nothing of the stream
//     that lies before it but messages.
//  5. Only then do the owner's books say that these messages do not need the log, so that it may be trimmed.
//
// A crash after 2 leaves an object that nothing refers to, which is collected; a crash after 4, messages that are both
// in the log and in a segment, which a start finds to be the same. What is deleted while the segment is written is in it
// all the same: the log has the deletion, and the next rewriting leaves the message out.

// haulBytes is how much the owner hands over at a time, so that it is not kept from its work for long.
const haulBytes = 4 << 20

// haul is a chunk to be moved, as it was when its owner handed it over.
type haul struct {
	last  uint64
	place place
	bytes int
	data  *[]byte  // nil: it has to be read again from the log
	live  []uint32 // where the records of the messages to move start in data
}

// haulFrom gives committed chunks behind a sequence, oldest first, up to about haulBytes.
func (s *Stream) haulFrom(after uint64) (hauls []haul) {
	bytes := 0
	for _, c := range s.tail.chunks {
		if c.moved || c.live == 0 || c.last() <= after {
			continue
		}
		if !c.placed() || bytes >= haulBytes {
			break // not committed yet, or enough
		}
		h := haul{last: c.last(), place: c.place, bytes: c.bytes, data: c.data.Load(), live: make([]uint32, 0, c.live)}
		for seq := max(c.first, after+1); seq <= c.last(); seq++ {
			if c.has(seq) && s.state.Has(seq) {
				h.live = append(h.live, c.offsets[seq-c.first])
			}
		}
		hauls = append(hauls, h)
		bytes += c.bytes
	}
	return hauls
}

// messageCost is what a message counts beside its bytes, so that tiny ones do not make an index that is too large.
const messageCost = 16

// segmentDraft is a segment that is being written.
type segmentDraft struct {
	unique manifest.ID
	first  uint64
	last   uint64
	raw    int64 // bytes of the messages
	object bytes.Buffer
	writer *segment.Writer
	note   []byte
	// idsFrom is from when on, ns UTC, the dedup window remembers messages.
	idsFrom int64
}

func (e *Engine) newDraft(s *Stream) (*segmentDraft, error) {
	window := s.Config().Duplicates
	d := &segmentDraft{unique: manifest.ID(rand.Uint64()), idsFrom: time.Now().Add(-window).UnixNano()}
	var err error
	d.writer, err = segment.NewWriter(&d.object, segment.Options{Account: s.account.name, Stream: s.name, Key: e.opts.SegmentKey})
	return d, err
}

// add writes a message.
func (d *segmentDraft) add(m *record.StoredMessage) error {
	d.note = stream.AppendNote(d.note[:0], m.Header, m.Time >= d.idsFrom)
	err := d.writer.Add(segment.Message{
		Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: m.Header, Data: m.Data, Note: d.note,
	})
	if err != nil {
		return err
	}
	if d.first == 0 {
		d.first = m.Seq
	}
	d.last = m.Seq
	d.raw += int64(messageCost + len(m.Subject) + len(m.Header) + len(m.Data))
	return nil
}

// store writes the segment's object; the manifest's entry is what it gives.
func (d *segmentDraft) store(ctx context.Context, st store.Store, m *manifest.Manifest) (manifest.Segment, error) {
	info, err := d.writer.Close()
	if err != nil {
		return manifest.Segment{}, err
	}
	seg := manifest.Segment{
		First: d.first, Last: d.last, Unique: d.unique, Messages: info.Messages, Bytes: info.Bytes,
		FirstTime: info.FirstTime, LastTime: info.LastTime, Size: info.Size,
		IndexAt: info.IndexAt, IndexSize: info.IndexSize, DirectorySize: info.DirectorySize, IndexSum: info.IndexChecksum,
	}
	// The key is new, so a refusal can only be the echo of this request: the object that is there is ours.
	if _, err := st.Put(ctx, m.Key(seg), d.object.Bytes(), store.IfAbsent()); err != nil && !errors.Is(err, store.ErrPrecondition) {
		return manifest.Segment{}, fmt.Errorf("storing a segment: %w", err)
	}
	return seg, nil
}

// compactTail moves the oldest messages of a stream that are in the log alone into one segment, at most SegmentBytes of
// them, and reports whether there were any.
func (e *Engine) compactTail(ctx context.Context, s *Stream) (moved bool, err error) {
	d, err := e.newDraft(s)
	if err != nil {
		return false, err
	}
	defer func() { s.manifest.mayHaveStrayed(err) }()
	m := s.manifest.next(e, s)
	after := m.Through()
	for d.raw < int64(e.opts.SegmentBytes) {
		var hauls []haul
		if err := s.do(func() { hauls = s.haulFrom(after) }); err != nil || len(hauls) == 0 {
			if err != nil {
				return false, err
			}
			break
		}
		for _, h := range hauls {
			if err := e.copyHaul(ctx, s, d, h); err != nil {
				return false, err
			}
			after = h.last
		}
	}
	if d.first == 0 {
		return false, nil
	}
	s.objects.Store(true)
	seg, err := d.store(ctx, e.opts.Store, m)
	if err != nil {
		return false, err
	}
	m.Segments = append(m.Segments, seg)
	if err := e.leaveOut(ctx, s, m); err != nil {
		return false, err
	}
	if err := e.swapManifest(ctx, s, m); err != nil {
		return false, err
	}
	return true, e.install(s, func() { s.installed(nil, s.newPast(m, seg)) })
}

// leaveOut writes the checkpoint that a manifest needs whose segments lack messages that were there earlier.
//
// It comes before every swap, also of a manifest that leaves nothing out: that the log takes it shows that nobody had
// taken over when the version that is to be replaced was read. Otherwise an owner that was succeeded, and has not
// noticed, could follow its successor's manifest and have a segment listed that the successor has just collected.
func (e *Engine) leaveOut(ctx context.Context, s *Stream, m *manifest.Manifest) error {
	at, err := s.checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("engine: checkpoint of stream %s: %w", s.name, err)
	}
	m.From = manifest.Place{Node: at.log.Node, Epoch: uint64(at.log.Epoch), Offset: uint64(at.pos.Offset), Byte: at.pos.Byte}
	return nil
}

// install tells the owner what was made. If the stream was deleted meanwhile, that is left behind.
func (e *Engine) install(s *Stream, f func()) error {
	err := s.do(f)
	if err != nil && s.erased.Load() {
		e.bury(grave{account: s.account.name, stream: s.name, id: s.id, at: e.newestMark(), buried: time.Now()})
	}
	return err
}

// copyHaul writes a chunk's messages into a draft.
func (e *Engine) copyHaul(ctx context.Context, s *Stream, d *segmentDraft, h haul) error {
	if len(h.live) == 0 {
		return nil
	}
	data := h.data
	if data == nil {
		b, err := wal.ReadBatch(ctx, e.opts.Store, h.place.log, h.place.pos.Offset)
		if err != nil {
			return fmt.Errorf("engine: reading the log to compact stream %s: %w", s.name, err)
		}
		body, err := h.place.of(b, h.bytes)
		if err != nil {
			return fmt.Errorf("engine: stream %s: %w", s.name, err)
		}
		data = &body
	}
	for _, at := range h.live {
		m, err := messageAt(*data, at)
		if err != nil {
			return fmt.Errorf("engine: stream %s: %w", s.name, err)
		}
		if err := d.add(&m); err != nil {
			return fmt.Errorf("engine: writing a segment of stream %s: %w", s.name, err)
		}
	}
	return nil
}

// newPast is a segment with what of it lives now: all that is there in its range was copied into it, since messages do
// not come into being in the past.
func (s *Stream) newPast(m *manifest.Manifest, seg manifest.Segment) *past {
	p := &past{Segment: seg, key: m.Key(seg)}
	p.live = s.state.Pending(nil, seg.First) - s.state.Pending(nil, seg.Last+1)
	if p.live < p.Messages {
		p.deadSince = s.now
	}
	return p
}

// installed tells the owner's books of segments that the manifest has.
func (s *Stream) installed(old []*past, now ...*past) {
	s.history.replace(old, now)
	s.tail.remember(s.history.through())
}

// keeper is the housekeeper's view of a stream's manifest. Only the housekeeper uses it.
type keeper struct {
	version manifest.Version
	// swapped says that the manifest in the store is the outcome of a swap of this start of the node that was certain:
	// nothing that was asked for before can change it any more, since it names an older version.
	swapped bool
	// doubtful: a swap had no clear outcome, so the manifest is read again before the next.
	doubtful bool
	// collectAt is when objects of dropped segments may next be deleted.
	collectAt time.Time
	// collected are the dropped segments whose objects are gone; the next swap leaves them out.
	collected map[manifest.ID]bool
	// swept says that objects which nothing refers to were looked for, and that none has been left since.
	swept bool
}

// mayHaveStrayed notes that a segment may have been stored for a manifest that did not come about.
func (k *keeper) mayHaveStrayed(err error) {
	if err != nil {
		k.swept = false
	}
}

// noteCollected notes that the objects of what was dropped before a time are gone.
func (k *keeper) noteCollected(m *manifest.Manifest, before time.Time) {
	if k.collected == nil {
		k.collected = map[manifest.ID]bool{}
	}
	for _, d := range m.Dropped {
		if !d.At.After(before) {
			k.collected[d.Unique] = true
		}
	}
}

// next is a copy of the manifest to be changed and swapped in.
func (k *keeper) next(e *Engine, s *Stream) *manifest.Manifest {
	var m *manifest.Manifest
	if k.version.Manifest != nil {
		m = k.version.Manifest.Clone()
		m.Dropped = slices.DeleteFunc(m.Dropped, func(d manifest.Dropped) bool { return k.collected[d.Unique] })
	} else {
		m = &manifest.Manifest{Account: s.account.name, Stream: s.name, ID: manifest.ID(s.id)}
	}
	id := e.opts.Log.ID()
	m.Node, m.Epoch, m.Window = id.Node, uint64(id.Epoch), int64(s.Config().Duplicates)
	return m
}

// swapManifest makes m the stream's manifest. After an error the stream's next step is to look at what is there.
func (e *Engine) swapManifest(ctx context.Context, s *Stream, m *manifest.Manifest) error {
	v, err := manifest.Swap(ctx, e.opts.Store, s.manifest.version, m)
	if err != nil {
		s.manifest.doubtful = true
		return fmt.Errorf("engine: stream %s: %w", s.name, err)
	}
	s.manifest.version, s.manifest.swapped, s.manifest.collected, s.manifest.collectAt = v, true, nil, time.Time{}
	return nil
}

// settleDoubt reads the manifest again when it is not certain what became of a swap, and has the owner go by it.
func (e *Engine) settleDoubt(ctx context.Context, s *Stream) error {
	if !s.manifest.doubtful {
		return nil
	}
	v, err := manifest.Load(ctx, e.opts.Store, s.account.name, s.name, uint64(s.id))
	if err != nil {
		return fmt.Errorf("engine: stream %s: %w", s.name, err)
	}
	err = s.do(func() { s.takeOver(v.Manifest) })
	if err == nil {
		// A request that is under way still may bring its version about, until another swap succeeds.
		s.manifest.version, s.manifest.doubtful, s.manifest.swapped = v, false, false
	}
	return err
}

// takeOver makes the owner's books follow a manifest that came about without it: one that the node's own request
// brought about after all, or that of an earlier owner, whose request was late. It lists nothing that is not committed.
func (s *Stream) takeOver(m *manifest.Manifest) {
	known := map[string]*past{}
	for _, p := range s.history.past {
		known[p.key] = p
	}
	s.history = history{}
	if m != nil {
		for _, seg := range m.Segments {
			p := known[m.Key(seg)]
			if p == nil {
				p = s.newPast(m, seg)
			}
			s.history.past = append(s.history.past, p)
		}
	}
	s.tail.remember(s.history.through())
}
