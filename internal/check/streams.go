package check

import (
	"context"
	"fmt"

	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/manifest"
	"github.com/sluicemq/sluice/internal/record"
)

// streamCheck is the verification of one stream. Its findings are told when it is certain that nothing changed
// meanwhile.
type streamCheck struct {
	*walk
	id       record.StreamID
	group    *streamGroup
	ledger   *ledger // nil: no log has a record of it
	manifest *manifest.Manifest
	loaded   bool // the manifest was looked for
	found    []Finding
	bad      bool // an error was found
	suspect  bool // something that another look could explain
	need     runs // what the newest checkpoint says is there, and was not found yet
	unread   Tally
	strays   []string // segments that nothing refers to
	sum      Summary  // what it adds
}

// verify looks at all that makes a stream.
func (w *walk) verify(ctx context.Context, id record.StreamID, g *streamGroup, l *ledger) error {
	c := &streamCheck{walk: w, id: id, group: g, ledger: l}
	if err := c.run(ctx); err != nil {
		return err
	}
	if c.suspect && !w.last {
		changed, err := c.changed(ctx)
		if err != nil {
			return err
		}
		if changed || !w.sure {
			w.again[id] = g.prefix
			return nil
		}
	}
	c.tell()
	return nil
}

// changed reports whether the manifest is another than the one that was looked at.
func (c *streamCheck) changed(ctx context.Context) (bool, error) {
	k := c.key()
	if k == "" || !c.loaded {
		return false, nil
	}
	v, err := c.loadManifest(ctx, k, uint64(c.id))
	if err != nil {
		return false, ignoreDamage(err)
	}
	return (v.Manifest == nil) != (c.manifest == nil) || v.Manifest != nil && v.Manifest.Swap != c.manifest.Swap, nil
}

// key is the key of the stream's manifest, whether or not there is one; "" of a stream whose name is not known.
func (c *streamCheck) key() string {
	if c.group.prefix == "" {
		return ""
	}
	return c.group.prefix + "manifest"
}

func (c *streamCheck) fault(f Finding) {
	c.bad = c.bad || f.Severity == Error
	c.suspect = c.suspect || f.Severity >= Warning
	if len(c.found) < maxFaults {
		c.found = append(c.found, f)
	} else if len(c.found) == maxFaults {
		c.found = append(c.found, Finding{Severity: Error, Kind: "too-many", Key: f.Key, What: "there are more findings of this stream than are told", Do: "See to those that are told, and check again"})
	}
}

func (c *streamCheck) run(ctx context.Context) error {
	l := c.ledger
	switch {
	case l != nil && l.deleted:
		t := c.group.tally() // its node deletes them
		c.sum.Dropped.Objects += t.Objects
		c.sum.Dropped.Bytes += t.Bytes
		return nil
	case l == nil || !l.created && len(l.logged) == 0 && !l.restoring:
		c.unknown()
		return nil
	case l.restoring && !l.created:
		c.found = append(c.found, Finding{Severity: Note, Kind: "restore-open", Key: l.node.key, What: fmt.Sprintf("the log has messages of a restore, of stream %016x, that is not complete: %v", uint64(c.id), l.logged),
			Means: "It is under way, or was cut off: then they are nothing"})
		return nil
	}
	c.sum.Streams++
	if err := c.load(ctx); err != nil || c.bad {
		return err
	}
	for _, f := range l.faults {
		c.fault(f)
	}
	c.checkFrom()
	if (!l.created || l.unsettled) && !c.bad && !c.survey.broken { // else it follows from what was told
		c.fault(Finding{Severity: Error, Kind: "stream-uncreated", Key: c.name(), What: fmt.Sprintf("the log has messages of stream %016x (%v), and no checkpoint that counts", uint64(c.id), l.logged),
			Means: l.node.key + " cannot start: what creates the stream lay in batches that are lost", Do: doRestore})
	}
	c.need = l.need
	if err := c.segments(ctx); err != nil {
		return err
	}
	c.told()
	return nil
}

// name is what findings about the whole stream are told of.
func (c *streamCheck) name() string {
	if k := c.key(); k != "" {
		return k
	}
	return c.ledger.node.key
}

func (g *streamGroup) tally() (t Tally) {
	for _, size := range g.sizes {
		t.add(size)
	}
	if g.manifest != "" {
		t.Objects++
	}
	return t
}

// load reads the manifest.
func (c *streamCheck) load(ctx context.Context) error {
	k := c.group.manifest
	c.loaded = true
	if k == "" {
		return nil
	}
	v, err := c.loadManifest(ctx, k, uint64(c.id))
	switch damaged(err) {
	case "damaged":
		c.fault(Finding{Severity: Error, Kind: "manifest-damaged", Key: k, What: err.Error(), Objects: len(c.group.order) + 1,
			Means: "Which segments make the stream is not known. A start does not bring the stream up", Do: doRestore})
		return nil
	case "newer":
		c.fault(Finding{Severity: Error, Kind: "manifest-newer", Key: k, What: err.Error(), Means: "Its segments were not checked", Do: doNewer})
		return nil
	}
	if err != nil {
		return err
	}
	c.manifest = v.Manifest
	if seen := c.survey.manifests[c.id]; c.manifest != nil && (seen == nil || seen.swap != c.manifest.Swap) {
		// The logs were read by another version of it.
		c.fault(Finding{Severity: Warning, Kind: "stream-changing", Key: k, What: "the manifest was replaced each time that the stream was looked at", Means: "What else is told of the stream may be wrong", Do: "Check again"})
	}
	return nil
}

// checkFrom looks whether the checkpoint is there that the manifest names.
func (c *streamCheck) checkFrom() {
	l := c.ledger
	if c.manifest == nil || l.from || c.survey.broken {
		return
	}
	m := c.manifest.From
	log, at := l.node.place(m.Node, m.Epoch, m.Offset)
	if log < 0 || at < l.node.ranges[log].Start {
		return // trimmed: a later one counts, or the stream is not created
	}
	c.fault(Finding{Severity: Error, Kind: "checkpoint-missing", Key: c.key(), What: fmt.Sprintf("the manifest begins with a checkpoint of epoch %d of node %s, offset %x, byte %d, and none is there", m.Epoch, m.Node, m.Offset, m.Byte),
		Means: "What was deleted before may come back, or the node cannot start", Do: "Bring older versions of the manifest back"})
}

// segments verifies what the manifest lists, and what else lies there.
func (c *streamCheck) segments(ctx context.Context) error {
	known := map[string]bool{}
	if m := c.manifest; m != nil {
		for k := range dropped(m) {
			known[k] = true
			if size, there := c.group.sizes[k]; there {
				c.sum.Dropped.add(size)
			}
		}
		for _, seg := range m.Segments {
			known[m.Key(seg)] = true
			if err := c.segment(ctx, m.Key(seg), seg); err != nil {
				return err
			}
		}
	}
	for _, k := range c.group.order {
		if !known[k] {
			c.strays = append(c.strays, k)
		}
	}
	return nil
}

// told makes findings of what was gathered.
func (c *streamCheck) told() {
	if len(c.need) > 0 {
		means := "They were acknowledged, and the newest checkpoint says that they are there. A start does not bring the stream up without them"
		what := fmt.Sprintf("%d messages are in no batch and no segment: %v", c.need.count(), c.need)
		if c.manifest == nil {
			what = "there is no manifest, and " + what
		}
		c.fault(Finding{Severity: Error, Kind: "messages-missing", Key: c.name(), What: what, Means: means, Do: doRestore})
	}
	if c.unread.Objects > 0 {
		c.found = append(c.found, Finding{Severity: Warning, Kind: "segment-encrypted", Key: c.key(), What: fmt.Sprintf("%d segments are encrypted, and the key is missing or another", c.unread.Objects), Objects: c.unread.Objects, Bytes: c.unread.Bytes,
			Means: "Their sizes and the checksums of their indexes were verified, their messages and footers were not, nor which sequences they leave out", Do: "Check with --segment-key"})
	}
	if len(c.strays) == 0 {
		return
	}
	var t Tally
	for _, k := range c.strays {
		t.add(c.group.sizes[k])
	}
	f := Finding{Severity: Warning, Kind: "segment-orphan", Key: c.strays[0], What: fmt.Sprintf("%d segments that the manifest does not list", t.Objects), Objects: t.Objects, Bytes: t.Bytes,
		Means: "A compaction was cut off before its manifest was written: the messages are in the log. The node that owns the stream deletes them in time", Do: "Leave them, or move them with --repair"}
	switch {
	case c.bad:
		f.Do = "Leave them until the stream's errors are resolved: its messages may be in them"
	case c.survey.live:
		f.Severity = Note
		f.Means = "A compaction may be about to list them, or was cut off: the messages are in the log. The node that owns the stream deletes them in time"
	}
	c.fault(f)
	c.suspect = true
}

// unknown judges a stream that no log knows.
func (c *streamCheck) unknown() {
	t := c.group.tally()
	if t.Objects == 0 {
		return
	}
	f := Finding{Severity: Warning, Kind: "stream-orphan", Key: c.group.prefix, What: fmt.Sprintf("%d objects of a stream that no log knows", t.Objects), Objects: t.Objects, Bytes: t.Bytes,
		Means: "The stream was deleted, and these came late or were left", Do: "Leave them, or move them with --repair"}
	if c.survey.broken {
		f.Means, f.Do = "Heads or logs have errors: the stream may be lost with them, and these be what is left", "See to those errors first"
	}
	c.fault(f)
}

// tell reports what was found, and what a repair may move.
func (c *streamCheck) tell() {
	for _, f := range c.found {
		c.report(f)
	}
	total := &c.checker.sum
	total.Streams += c.sum.Streams
	total.Segments += c.sum.Segments
	total.Verified += c.sum.Verified
	total.SegmentMessages += c.sum.SegmentMessages
	total.Dropped.Objects += c.sum.Dropped.Objects
	total.Dropped.Bytes += c.sum.Dropped.Bytes
	if c.bad || c.survey.broken {
		return
	}
	if c.ledger == nil || !c.ledger.created && len(c.ledger.logged) == 0 && !c.ledger.restoring {
		for _, k := range c.group.order {
			c.movable(k, "")
		}
		if c.group.manifest != "" {
			c.movable(c.group.manifest, "") // last, so that what is cut off is found again as this
		}
		return
	}
	// A process that sleeps could wake and list a segment that it had stored, in the place of the manifest that it knows.
	// It cannot if that has been replaced by a later start, whose process has released its head itself.
	n := c.ledger.node
	if m := c.manifest; m != nil && n.closedByItself() && m.Node == n.head.Node && m.Epoch == uint64(n.head.Epoch) {
		for _, k := range c.strays {
			c.movable(k, key.ManifestKey(m.Account, m.Stream, uint64(m.ID)))
		}
	}
}
