package protocol

// nextOpen finds the next range to fence: open, not the own one, and without an end yet. When there is none but some
// have ends, those are to be noted.
func (p *process) nextOpen() bool {
	for i, l := range p.head.ranges() {
		if l.open && l.log != logOf(p.node, p.epoch) && p.ends[i] == 0 {
			p.fence = uint8(i)
			return true
		}
	}
	return false
}

// listLog finds the fence of a log, or the first free offset.
func (r *run) listLog(p *process) {
	l := p.head.logs[p.fence]
	p.at = l.start
	if !r.has(StartHonoured) {
		p.at = 0
	}
	for ; p.at < maxOffsets; p.at++ {
		o := r.w.logs[l.log][p.at]
		if o.kind == nothing {
			break
		}
		if o.kind == fenceObject && r.has(FindFence) {
			r.say("lists %s from %d: finds %s at %d", l.log, l.start, o, p.at)
			r.fenced(p)
			return
		}
	}
	r.say("lists %s from %d: offset %d is free", l.log, l.start, p.at)
	p.phase = fencing
}

// putFence creates the fence at the first free offset, and goes on to the next one when a batch was faster.
func (r *run) putFence(p *process) {
	l := p.head.logs[p.fence]
	if p.at >= maxOffsets {
		r.impossible = true
		return
	}
	if !p.doubt {
		fence := object{kind: fenceObject, by: p.id}
		if r.send(request{kind: putLog, condition: ifAbsent, by: p.id, log: l.log, at: p.at, object: fence}) == done {
			r.fenced(p)
			return
		}
		p.doubt = true
		return
	}
	p.doubt = false
	o := r.w.logs[l.log][p.at]
	r.say("reads %s/%d back: %s", l.log, p.at, o)
	switch o.kind {
	case fenceObject:
		r.fenced(p)
	case batchObject:
		p.at++
	}
}

// fenced notes where a log ends.
func (r *run) fenced(p *process) {
	p.ends[p.fence] = p.at + 1
	p.at = 0
	p.phase = listing
	if !p.nextOpen() {
		p.fence = 0
		p.phase = closing
	}
}

// close writes the ends into the own head and drops what is empty.
func (r *run) close(p *process) {
	next := p.head
	for i := range next.ranges() {
		if end := p.ends[i]; end != 0 {
			next.logs[i].end, next.logs[i].open = end-1, false
		}
	}
	next.keep(func(l logRange) bool { return !l.empty() })
	switch r.update(p, next) {
	case won:
		p.ends = [maxRanges]uint8{}
		r.proceed(p)
	case changed:
		p.stop()
	}
}
