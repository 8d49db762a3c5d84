package protocol

// phase is what a process does next. A claim goes through them from the top; each is at most one request.
type phase uint8

const (
	reading   phase = iota // the manifest, before anything else: only without FreezeFirst
	taking                 // its node's head: a fresh epoch
	moving                 // what an earlier claim had begun to move
	clearing               // notes that those moves are over
	listing                // the next open log
	fencing                // it, at the next free offset
	closing                // notes where the fences are
	marking                // a dead head as taken
	sourcing               // ends the moves that the dead node had begun
	adding                 // the dead node's ranges to the own head
	emptying               // the dead head
	opening                // the manifest
	replaying              // segments and logs
	releasing              // gives its head up: the claim has failed half-way
	serving                // it owns the stream
	stopped                // it has lost, or has nothing to serve
	phases
)

// process is one start of a node, with all that it has in memory. There is no crash: a process dies by taking no more
// steps, which any process may do at any time, and nobody else's step depends on whether it has. What it had sent before
// is a write that is late.
type process struct {
	id         uint8 // 1 and up, the instance of its claim
	node       uint8
	adopts     uint8 // set of nodes that it takes for dead
	phase      phase
	epoch      uint8
	generation uint8

	claimState
	recovered history // what its recovery read
	manifest  manifest
	head      head // as it wrote it last
	doubt     bool // the outcome of its last swap is unknown: it reads back

	writerState
	compactorState
}

// stop ends a process. What it recovered stays known to the judge if it has served.
func (p *process) stop() {
	*p = process{id: p.id, node: p.node, phase: stopped, epoch: p.epoch}
}

// act lets a process take one of the steps that it can take. ok is false if it cannot take the one that was picked.
func (r *run) act(p *process) (ok bool) {
	r.who = p.id
	switch {
	case p.phase == stopped:
		return false
	case p.phase > taking && p.phase < releasing && r.setting.GiveUp && r.pick(2) == 1:
		p.phase, p.doubt = releasing, false
		r.claim(p)
		return true
	case p.phase < serving:
		r.claim(p)
		return true
	}
	appends := r.appendsOf(p)
	switch i := r.pick(appends + 2); {
	case i < appends:
		return r.put(p, i)
	case i == appends:
		return r.acknowledge(p)
	}
	return r.keepHouse(p)
}

// swapped is how a swap of a head stands.
type swapped uint8

const (
	pending swapped = iota // not settled: another step goes on with it
	won
	changed // another version lies there; the swap has not landed and never will
)

// swap replaces version etag of a node's head by next, of which the caller makes the same at every step until this is
// settled. A swap that is refused or in doubt is settled by reading the head back.
func (r *run) swap(p *process, node, etag uint8, next head) swapped {
	if p.doubt {
		p.doubt = false
		now := r.w.heads[node]
		r.say("reads heads/%s back: %s", nodeName(node), now)
		switch {
		case now == next:
			return won
		case now.counter == etag:
			return pending
		}
		return changed
	}
	q := request{kind: putHead, condition: ifMatch, etag: etag, by: p.id, at: node, head: next}
	if etag == 0 {
		q.condition = ifAbsent
	}
	if !r.has(HeadIfMatch) {
		q.condition = always
	}
	if r.send(q) == done {
		return won
	}
	p.doubt = true
	return pending
}

// update rewrites the own head. When another version lies there it is an earlier write of this process, or it has lost.
func (r *run) update(p *process, next head) swapped {
	next.counter++
	s := r.swap(p, p.node, p.head.counter, next)
	switch s {
	case won:
		p.head = next
	case changed:
		if now := r.w.heads[p.node]; now.instance == p.id && !now.released {
			p.head = now
			return pending
		}
		r.say("has lost its head")
	}
	return s
}
