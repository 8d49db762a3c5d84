package protocol

// open reads the manifest, after the head was taken: from then on nobody else moves the start of a log.
func (r *run) open(p *process) {
	p.manifest = r.w.manifest
	r.say("reads the manifest: %s", p.manifest)
	p.phase = replaying
}

// replay reads the segments and then the logs, from the sequence on up to which the segments reach. It is one step:
// whatever it reads is immutable, and that nobody deletes it meanwhile is looked at in every state.
func (r *run) replay(p *process) {
	w := r.w
	var h history
	for _, key := range p.manifest.segments[:p.manifest.n] {
		s := w.disk.segments[key]
		if s.n == 0 {
			if w.manifest.counter != p.manifest.counter {
				r.say("segment %s is gone, but so is that manifest", segmentName(key))
				p.phase = opening // merged away since
				return
			}
			r.missed(p, segmentGone, key, 0)
			return
		}
		for _, rec := range s.list() {
			h.add(rec)
		}
	}
	for _, l := range p.head.ranges() {
		if l.log == logOf(p.node, p.epoch) && r.has(FreshEpoch) {
			continue
		}
		if !r.replayLog(p, l, &h) {
			return
		}
	}
	p.recovered = h
	r.say("has recovered %s", h)
	r.judgeRecovery(p)
	r.serve(p)
}

// replayLog adds the records of a range to what was recovered.
func (r *run) replayLog(p *process, l logRange, h *history) bool {
	from := l.start
	if !r.has(StartHonoured) {
		from = 0
	}
	for at := from; at < maxOffsets; at++ {
		o := r.w.logs[l.log][at]
		switch {
		case l.open && o.kind != batchObject: // not fenced: only without FenceFirst or FreshEpoch
			p.at = at
			return true
		case !l.open && at >= l.end && r.has(EndAtFence):
			return true
		case !l.open && at >= l.end && o.kind != batchObject:
			continue
		case o.kind == nothing:
			return r.missed(p, gap, uint8(l.log), at)
		case o.kind == fenceObject:
			return r.missed(p, fenceInside, uint8(l.log), at)
		case o.seq < p.manifest.through: // it is in a segment
			continue
		case o.seq != h.n:
			return r.fail(misplaced, uint8(o.record), o.seq, h.n)
		case !h.add(o.record):
			r.impossible = true
			return false
		}
	}
	return true
}

// missed ends a recovery that does not find what it needs: it has lost its head and does not know yet, or worse.
func (r *run) missed(p *process, rule rule, a, b uint8) bool {
	if r.w.heads[p.node].instance != p.id && p.id <= maxProcesses {
		r.say("does not find what it is to replay: it was succeeded")
		p.stop()
		return false
	}
	return r.fail(rule, a, b, 0)
}

// serve makes a process the owner of the stream: it appends its records behind what it recovered.
func (r *run) serve(p *process) {
	first := uint8(0)
	if !r.has(FreshEpoch) {
		first = p.at
	}
	p.claimState = claimState{}
	p.phase = serving
	p.beginWriting(first, r.appendsOf(p))
	r.judgeOwner(p)
}
