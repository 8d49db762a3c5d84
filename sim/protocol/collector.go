package protocol

// segmentSet is a set of segments' keys.
type segmentSet uint16

func (s segmentSet) has(key uint8) bool { return s&(1<<key) != 0 }

// stored lists the segments that there are.
func (d *disk) stored() (all segmentSet) {
	for key, s := range d.segments {
		if s.n > 0 {
			all |= 1 << key
		}
	}
	return all
}

// claimed is the version of the manifest that a collector puts. It changes nothing but the version: behind it no swap
// can land that was meant to replace an earlier one.
func (r *run) claimed(p *process) manifest {
	m := p.manifest
	r.sign(p, &m)
	return m
}

// sign makes a manifest the next version, by a process, in a swap that nobody can take for another: not even the
// process itself, which may have given up the same one before.
func (r *run) sign(p *process, m *manifest) {
	m.counter++
	m.by, m.swap = p.id, p.rounds
	if !r.has(FreshSwap) {
		m.swap = 0
	}
}

// collect begins to delete segments that nothing lists. First it lists what there is, then it swaps the manifest, then
// it deletes what it had listed and the version that it swapped in does not name. A segment is named by a swap of a
// version that was read before the segment was put, by no other; so once that swap has landed, the segment is in the
// manifest, and once another has, it never will be. That holds for the segments of any process, dead, succeeded or
// yet to come, and for a collector that was itself succeeded. No clock, and no knowledge of who owns the stream.
func (r *run) collect(p *process) bool {
	if int(p.rounds) >= r.setting.Rounds {
		return false
	}
	p.listed = r.w.stored()
	if r.orphan(p) == 0 {
		p.listed = 0
		return false
	}
	r.say("lists the segments: %s", p.listed)
	p.rounds++
	if !r.has(ListFirst) && p.manifest.by == p.id { // the version is its own already, by a swap that is settled
		p.chore = proving
		return true
	}
	if !r.has(Grace) || !r.has(OwnGrace) && p.manifest.by == p.id {
		p.chore = sweeping
		return r.sweep(p)
	}
	p.chore = claiming
	r.swapManifest(p, r.claimed(p), claimDoubt, sweeping)
	return true
}

// prove writes the owner's head, which shows that it had not been succeeded when it listed the segments.
func (r *run) prove(p *process) {
	next := p.head
	switch r.update(p, next) {
	case won:
		p.chore = sweeping
	case changed:
		r.rest(p)
		p.chore = retired
	}
}

// orphan finds a segment that was listed and that the manifest does not name.
func (r *run) orphan(p *process) uint8 {
	for key := uint8(1); key < segmentKeys; key++ {
		if r.w.disk.segments[key].n > 0 && p.listed.has(key) && !p.manifest.lists(key) {
			return key
		}
	}
	return 0
}

// sweep deletes one orphan.
func (r *run) sweep(p *process) bool {
	key := r.orphan(p)
	if key == 0 {
		r.rest(p)
		return true
	}
	r.send(request{kind: deleteSegment, by: p.id, at: key})
	return true
}

// drop deletes a segment that the one which is being made replaces.
func (r *run) drop(p *process) {
	for _, key := range p.manifest.segments[:p.manifest.n] {
		if r.w.disk.segments[key].n > 0 {
			r.send(request{kind: deleteSegment, by: p.id, at: key})
			return
		}
	}
	p.chore = swapping
	r.swapManifest(p, r.compacted(p), swapDoubt, starting)
}
