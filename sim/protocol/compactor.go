package protocol

import "slices"

// chore is what the housekeeping of an owner does next. It is one goroutine: compaction, truncation and collection do
// not overlap within a process, but with everything else.
type chore uint8

const (
	idle         chore = iota
	segmenting         // puts a segment
	segmentDoubt       // reads it back
	dropping           // deletes what the segment replaces too early: only without DropFirst
	swapping           // swaps the manifest to one that lists it
	swapDoubt          // reads that back
	starting           // moves the starts of the logs
	deleting           // what lies below the starts
	claiming           // puts a version of its own of the manifest, before it collects
	claimDoubt         // reads that back
	proving            // writes its head before it sweeps: only without ListFirst
	sweeping           // deletes segments that nothing lists
	retired            // it has lost the head
	chores
)

// compactorState is the housekeeping of an owner.
type compactorState struct {
	chore   chore
	rounds  uint8 // compactions and collections so far
	written uint8 // segments
	key     uint8 // of the segment that is being made
	upto    uint8 // it reaches up to this sequence
	merges  bool  // it replaces all earlier segments
	listed  segmentSet
}

// committed is what an owner knows to be committed, in order.
func (r *run) committed(p *process) history {
	h := p.recovered
	n := int(p.acked)
	if !r.has(CommittedOnly) {
		n = r.appendsOf(p)
	}
	for i := range n {
		h.add(recordOf(int(p.id)-1, i))
	}
	return h
}

// keepHouse takes the next step of an owner's housekeeping.
func (r *run) keepHouse(p *process) bool {
	switch p.chore {
	case idle:
		switch r.pick(3) {
		case 0:
			return r.compact(p)
		case 1:
			return r.truncate(p)
		}
		return r.collect(p)
	case segmenting:
		r.putSegment(p)
	case segmentDoubt:
		r.readSegmentBack(p)
	case dropping:
		r.drop(p)
	case swapping:
		r.swapManifest(p, r.compacted(p), swapDoubt, starting)
	case swapDoubt:
		r.settleManifest(p, r.compacted(p), swapping, starting)
	case claiming:
		r.swapManifest(p, r.claimed(p), claimDoubt, sweeping)
	case claimDoubt:
		r.settleManifest(p, r.claimed(p), claiming, sweeping)
	case starting:
		r.moveStarts(p)
	case deleting:
		return r.deleteBelow(p)
	case proving:
		r.prove(p)
	case sweeping:
		return r.sweep(p)
	default:
		return false
	}
	return true
}

// compact begins a segment: of what is not in one yet, or of everything, which merges.
func (r *run) compact(p *process) bool {
	if int(p.rounds) >= r.setting.Rounds || p.written >= maxSegments {
		return false
	}
	h := r.committed(p)
	fresh := h.n > p.manifest.through
	merges := p.manifest.n > 0 && r.pick(2) == 1
	if !merges && (!fresh || p.manifest.n == maxSegments) || merges && !fresh && p.manifest.n < 2 && !r.sparse(p) {
		return false
	}
	p.rounds++
	p.written++
	p.key = (p.id-1)*maxSegments + p.written
	if !r.has(FreshSegmentKey) {
		p.key = p.written
	}
	p.upto, p.merges = max(h.n, p.manifest.through), merges
	r.putSegment(p)
	return true
}

// content is what the segment that is being made holds: what is committed and in no segment yet, behind what it replaces.
func (r *run) content(p *process) (s history) {
	h := r.committed(p)
	if p.merges {
		for _, key := range p.manifest.segments[:p.manifest.n] {
			for _, rec := range r.w.ghosts.segments[key].list() { // immutable, and in its cache
				if slices.Contains(h.list(), rec) { // what it does not know it takes for deleted
					s.add(rec)
				}
			}
		}
	}
	for i := p.manifest.through; i < p.upto; i++ {
		s.add(h.records[i])
	}
	return s
}

// sparse reports whether some of what is in segments is deleted as far as an owner knows, so that one segment alone is
// worth rewriting. Nothing is ever deleted here: it is that the owner does not know it.
func (r *run) sparse(p *process) bool {
	n := r.committed(p).n
	return 0 < n && n < p.manifest.through
}

func (r *run) putSegment(p *process) {
	p.chore = segmentDoubt
	q := request{kind: putSegment, condition: ifAbsent, by: p.id, at: p.key, segment: r.content(p)}
	if r.send(q) == done || !r.has(SegmentKnown) {
		r.segmentStored(p)
	}
}

func (r *run) segmentStored(p *process) {
	p.chore = swapping
	if p.merges && !r.has(DropFirst) {
		p.chore = dropping
	}
}

// readSegmentBack settles a doubtful segment. One that is not there is put again, or given up with its key.
func (r *run) readSegmentBack(p *process) {
	now := r.w.disk.segments[p.key]
	r.say("reads segment %s back: %s", segmentName(p.key), now)
	switch {
	case now == r.content(p):
		r.segmentStored(p)
	case now.n == 0 && r.pick(2) == 0:
		p.chore = segmenting
	default:
		r.rest(p)
	}
}

// rest ends a chore.
func (r *run) rest(p *process) { p.chore, p.key, p.upto, p.merges, p.listed = idle, 0, 0, false, 0 }

// compacted is the manifest that lists the new segment.
func (r *run) compacted(p *process) manifest {
	m := p.manifest
	r.sign(p, &m)
	m.through = p.upto
	if p.merges {
		m.n, m.segments = 0, [maxSegments]uint8{}
	}
	if m.n < maxSegments {
		m.segments[m.n] = p.key
		m.n++
	}
	return m
}

// swapManifest replaces the version that the owner knows.
func (r *run) swapManifest(p *process, next manifest, doubt, then chore) {
	q := request{kind: putManifest, condition: ifMatch, etag: p.manifest.counter, by: p.id, manifest: next}
	if !r.has(ManifestIfMatch) {
		q.condition = always
	}
	a := r.send(q)
	if a == done || a == unknown && !r.has(SwapKnown) {
		p.manifest, p.chore = next, then
		return
	}
	p.chore = doubt
}

// settleManifest reads the manifest back after a swap that was refused or in doubt. One that has not landed is sent
// again or given up, upon which it may land yet.
func (r *run) settleManifest(p *process, next manifest, again, then chore) {
	now := r.w.manifest
	r.say("reads the manifest back: %s", now)
	switch {
	case now == next:
		p.manifest, p.chore = next, then
	case now.counter == p.manifest.counter:
		if p.chore = again; r.pick(2) == 1 {
			r.say("gives the swap up")
			r.rest(p)
		}
	case r.succeeded(p, &now):
		r.rest(p)
		p.chore = retired
	default:
		p.manifest = now
		if r.has(Rebase) || again != swapping || p.merges || now.n == maxSegments {
			r.rest(p)
			return
		}
		p.chore = again
	}
}

// succeeded reports whether a manifest holds what this owner has not committed: then there is a later owner, and what
// this one knows is no base for a version behind that one.
func (r *run) succeeded(p *process, m *manifest) bool {
	if m.through <= r.committed(p).n || !r.has(Yield) {
		return false
	}
	r.say("finds records in the manifest that it does not know: it was succeeded, and compacts no more")
	return true
}

// cut tells up to which offset of its own log an owner finds everything in segments; ok is false when not even the logs
// that it recovered from are.
func (p *process) cut() (own uint8, ok bool) {
	return p.manifest.through - p.recovered.n, p.manifest.through >= p.recovered.n
}

// truncate begins to let go of the logs.
func (r *run) truncate(p *process) bool {
	if _, ok := p.cut(); !ok || p.manifest.n == 0 {
		return false
	}
	if r.trimmed(p) != p.head && r.has(StartKnown) {
		p.chore = starting
		r.moveStarts(p)
		return true
	}
	return r.deleteBelow(p)
}

// trimmed is the own head with the starts where the manifest allows them.
func (r *run) trimmed(p *process) head {
	next := p.head
	own, ok := p.cut()
	if !ok {
		return next
	}
	mine := logOf(p.node, p.epoch)
	next.keep(func(l logRange) bool { return l.log == mine })
	for i := range next.ranges() {
		next.logs[i].start = max(next.logs[i].start, own)
	}
	return next
}

// moveStarts writes the starts into the own head.
func (r *run) moveStarts(p *process) {
	next := r.trimmed(p)
	if next == p.head || !r.has(StartKnown) {
		p.chore = deleting
		if !r.deleteBelow(p) {
			r.rest(p)
		}
		return
	}
	switch r.update(p, next) {
	case won:
		p.chore = deleting
	case changed:
		r.rest(p)
		p.chore = retired
	}
}

// deleteBelow deletes one object of those that the head has let go of, in the logs that this owner wrote or recovered.
func (r *run) deleteBelow(p *process) bool {
	mine := logOf(p.node, p.epoch)
	for log := range r.w.logs {
		id := logID(log)
		below, ok := r.below(p, id)
		if !ok {
			continue
		}
		for at, o := range r.w.logs[log] {
			if o.kind == batchObject && at < int(below) || o.kind == fenceObject && !r.has(FenceStays) && id != mine {
				r.send(request{kind: deleteLog, by: p.id, log: id, at: uint8(at)})
				return true
			}
		}
	}
	r.rest(p)
	return p.chore != idle
}

// below tells under which offset a log may be truncated: its own log under its start, those that it recovered from
// wholly, once the head does not list them any more.
func (r *run) below(p *process, log logID) (offset uint8, ok bool) {
	mine := logOf(p.node, p.epoch)
	if log == mine {
		if !r.has(StartKnown) {
			return p.cut()
		}
		return p.head.logs[p.head.n-1].start, true
	}
	for _, rec := range p.recovered.list() {
		q := &r.w.processes[rec.process()]
		if logOf(q.node, q.epoch) != log {
			continue
		}
		_, ok := p.cut()
		return maxOffsets, ok && (!p.head.lists(log) || !r.has(StartKnown))
	}
	return 0, false
}
