package protocol

// claimState is what a claim remembers between its steps.
type claimState struct {
	stage    uint8 // of the claim's course, see proceed
	seen     head  // a version to replace
	dead     head  // of the node that is being adopted, as marked
	target   uint8 // that node
	finished uint8 // set of nodes whose moves to this head are over
	at       uint8 // where to put the next fence
	fence    uint8 // index of the range to fence
	ends     [maxRanges]uint8
}

// claim takes the next step of a claim: see package head.
func (r *run) claim(p *process) {
	switch p.phase {
	case reading:
		p.manifest = r.w.manifest
		r.say("reads the manifest: %s", p.manifest)
		p.phase = taking
	case taking:
		r.take(p)
	case moving:
		r.finishMoves(p)
	case clearing:
		next := p.head
		for i := range next.ranges() {
			next.logs[i].from = 0
		}
		r.updateThen(p, next)
	case listing:
		r.listLog(p)
	case fencing:
		r.putFence(p)
	case closing:
		r.close(p)
	case marking:
		r.mark(p)
	case sourcing:
		r.finishSources(p)
	case adding:
		r.add(p)
	case emptying:
		if r.finish(p, p.target, &p.head, p.node) {
			p.target++
			r.proceed(p)
		}
	case opening:
		r.open(p)
	case replaying:
		r.replay(p)
	case releasing:
		next := p.head
		next.released = true
		if r.update(p, next) != pending {
			p.stop()
		}
	}
}

// proceed finds the next phase of a claim that has come to the end of one: end old moves, fence, adopt, end the moves
// that came with that, fence those logs, recover.
func (r *run) proceed(p *process) {
	for ; ; p.stage++ {
		switch p.stage {
		case 0, 3:
			if p.finished = 0; r.has(MovesEnd) && p.source() != 0 {
				p.phase = moving
				return
			}
		case 1, 4:
			if r.has(FenceFirst) && p.nextOpen() {
				p.phase = listing
				return
			}
		case 2:
			for ; p.target < maxNodes; p.target++ {
				if p.adopts&(1<<p.target) != 0 {
					p.phase = marking
					return
				}
			}
		default:
			p.generation = p.head.generation
			switch {
			case p.generation == 0: // the stream is another's
				p.stop()
			case !r.has(FreezeFirst):
				p.phase = replaying
			default:
				p.phase = opening
			}
			return
		}
	}
}

// updateThen rewrites the own head, and goes on or stops.
func (r *run) updateThen(p *process, next head) {
	switch r.update(p, next) {
	case won:
		r.proceed(p)
	case changed:
		p.stop()
	}
}

// take swaps the node's head to the next epoch.
func (r *run) take(p *process) {
	if !p.doubt {
		p.seen = r.w.heads[p.node]
		if !r.settle(p, &p.seen) {
			return
		}
	}
	old := &p.seen
	next := head{epoch: old.epoch + 1, counter: old.counter + 1, instance: p.id, n: old.n, logs: old.logs}
	if old.n > 0 && old.generation > 0 {
		next.generation = old.generation + 1
	}
	if !r.has(FreshEpoch) && old.epoch > 0 {
		next.epoch = old.epoch
	} else {
		if next.epoch > maxEpochs {
			r.impossible = true
			return
		}
		next.insert(int(next.n), logRange{log: logOf(p.node, next.epoch), open: true})
	}
	if r.swap(p, p.node, old.counter, next) == won {
		p.head, p.epoch, p.seen = next, next.epoch, head{}
		r.proceed(p)
	}
}

// settle finds out which ranges of a dead head are its own while another claim is taking them over: that claim either
// has listed them, or can do it no more. If it might, its head is taken from it, and the next step looks again.
func (r *run) settle(p *process, h *head) (settled bool) {
	if h.taker == 0 || !r.has(AskTaker) {
		return true
	}
	taker := r.w.heads[h.takerNode]
	rest := h.without(&taker)
	if rest.n == h.n && taker.instance == h.taker && !taker.released {
		if h.taker == p.id {
			r.impossible = true
			return false
		}
		next := taker
		next.instance = 0
		next.counter++
		r.say("ends the claim of %s, which is taking the logs of %s over", processName(h.taker), nodeName(p.node))
		q := request{kind: putHead, condition: ifMatch, etag: taker.counter, by: p.id, at: h.takerNode, head: next}
		if !r.has(HeadIfMatch) {
			q.condition = always
		}
		r.send(q)
		return false
	}
	if rest.n == 0 {
		rest.generation = 0
	}
	*h = rest
	return true
}

// source gives the first node, plus 1, that may still list ranges which this head lists; 0: none.
func (p *process) source() uint8 {
	for _, l := range p.head.ranges() {
		if l.from != 0 && p.finished&(1<<(l.from-1)) == 0 {
			return l.from
		}
	}
	return 0
}

// finishMoves ends the moves to the own head that are not over.
func (r *run) finishMoves(p *process) {
	for from := p.source(); from != 0; from = p.source() {
		if !r.finish(p, from-1, &p.head, p.node) {
			return
		}
		p.finished |= 1 << (from - 1)
	}
	p.phase = clearing
}

// finishSources ends the moves that the node which is being adopted had begun.
func (r *run) finishSources(p *process) {
	for _, l := range p.dead.ranges() {
		if l.from != 0 && p.finished&(1<<(l.from-1)) == 0 {
			if !r.finish(p, l.from-1, &p.dead, p.target) {
				return
			}
			p.finished |= 1 << (l.from - 1)
		}
	}
	p.phase = adding
	r.add(p)
}

// finish takes the ranges that taker lists off the head of a node that says that taker is taking them. over is false if
// another step has to go on with it.
func (r *run) finish(p *process, node uint8, taker *head, takerNode uint8) (over bool) {
	if !p.doubt {
		p.seen = r.w.heads[node]
		rest := p.seen.without(taker)
		if p.seen.taker == 0 || p.seen.takerNode != takerNode || rest.n == p.seen.n && rest.n > 0 {
			p.seen = head{}
			return true
		}
	}
	next := p.seen.without(taker)
	if next.n == 0 {
		next.taker, next.takerNode, next.released, next.generation = 0, 0, true, 0
	}
	next.counter++
	if r.swap(p, node, p.seen.counter, next) != won {
		return false
	}
	p.seen = head{}
	return true
}

// mark ends the claim of the node to adopt, and freezes its list.
func (r *run) mark(p *process) {
	if !p.doubt {
		now := r.w.heads[p.target]
		if now.n == 0 && now.taker == 0 { // nothing there to adopt
			p.target++
			r.proceed(p)
			if p.phase < opening {
				r.claim(p)
			}
			return
		}
		if now.taker == p.id || !r.has(MarkFirst) {
			r.marked(p, now)
			return
		}
		p.seen = now
		if !r.settle(p, &p.seen) {
			return
		}
	}
	next := p.seen
	next.counter++
	next.instance, next.taker, next.takerNode = 0, p.id, p.node
	if r.swap(p, p.target, p.seen.counter, next) == won {
		r.marked(p, next)
	}
}

func (r *run) marked(p *process, dead head) {
	p.dead, p.seen, p.finished = dead, head{}, 0
	p.phase = adding
	for _, l := range dead.ranges() {
		if l.from != 0 {
			p.phase = sourcing
		}
	}
}

// add lists the dead node's ranges in the own head, before its current one.
func (r *run) add(p *process) {
	next := p.head
	for _, l := range p.dead.ranges() {
		if !next.lists(l.log) {
			l.from = p.target + 1
			next.insert(int(next.n)-1, l)
		}
	}
	if p.dead.n > 0 && p.dead.generation > 0 {
		next.generation = max(next.generation, p.dead.generation+1)
	}
	switch r.update(p, next) {
	case won:
		p.dead = head{}
		p.phase = emptying
		if !r.has(MovesEnd) {
			p.target++
			r.proceed(p)
		}
	case changed:
		p.stop()
	}
}
