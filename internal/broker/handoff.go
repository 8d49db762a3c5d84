package broker

import (
	"slices"

	"github.com/sluicemq/sluice/internal/subject"
)

// Flush hands over all that is staged. It returns a gate if a receiver is behind; see [Receiver].
func (p *Publisher) Flush() (gate <-chan struct{}) {
	p.gates = p.gates[:0]
	p.HandOff()
	if len(p.gates) > 0 {
		gate = p.gates[0]
	}
	return gate
}

// HandOff is Flush for a publisher that looks at Gates when it is done with a chunk: they gather until ForgetGates.
func (p *Publisher) HandOff() {
	if len(p.msgs) > 0 {
		p.handOff()
	}
	if p.arena = p.arena[:0]; cap(p.arena) > maxKeptArena {
		p.arena = nil
	}
}

// maxKeptArena bounds what a publisher keeps for the messages of its next chunk.
const maxKeptArena = 64 << 10

// Gates gives all the gates since ForgetGates or Flush. The slice holds until the next of them.
func (p *Publisher) Gates() []<-chan struct{} { return p.gates }

// ForgetGates empties Gates.
func (p *Publisher) ForgetGates() { p.gates = p.gates[:0] }

// Pending reports whether something is staged.
func (p *Publisher) Pending() bool { return len(p.msgs) > 0 }

// handOff gives every receiver its part: one call each, and a further one for those that get messages of queue groups
// whose chosen member has gone meanwhile.
func (p *Publisher) handOff() {
	p.batch.Msgs, p.batch.From, p.batch.Few, p.batch.by = p.msgs, p.opts.Origin, len(p.active) <= few, p
	if p.grouped {
		p.chooseAgain()
	}
	// active may grow as this runs.
	for i := 0; i < len(p.active); i++ {
		st := p.active[i]
		st.handed = true
		if len(st.refs) == 0 {
			continue
		}
		p.handTo(st)
		if len(p.batch.Refused) > 0 {
			p.reroute()
		}
	}
	if len(p.missed) > 0 {
		for i := range p.msgs {
			if m := &p.msgs[i]; p.missed[i] == m.Receivers {
				p.opts.Lost(m, i)
			}
		}
	}
	p.reset()
}

// miss counts a receiver that had gone.
func (p *Publisher) miss(msg int) {
	if p.opts.Lost == nil {
		return
	}
	if p.missed == nil {
		p.missed = make(map[int]int32)
	}
	p.missed[p.whole(msg)]++
}

func (p *Publisher) handTo(st *stage) {
	refs := st.refs
	st.refs = nil
	st.done = refs[len(refs)-1].Msg + 1
	var gate <-chan struct{}
	if st.outlet != nil {
		p.batch.Refs = refs
		gate = st.outlet.DeliverStaged(&p.batch)
		p.batch.Refs = nil
	} else {
		gate = p.deliver(st.to, refs)
	}
	if gate != nil {
		p.gate(gate)
	}
	st.refs = giveBack(refs, keptRefs, &refScratch)
}

// few is the most receivers of a chunk that count as few.
const few = 32

// gate notes a gate, once.
func (p *Publisher) gate(gate <-chan struct{}) {
	for _, g := range p.gates {
		if g == gate {
			return
		}
	}
	if len(p.gates) < maxGates {
		p.gates = append(p.gates, gate)
	}
}

// maxGates bounds how many receivers a publisher waits for.
const maxGates = 64

// deliver is for receivers that are no outlets: the server's own.
func (p *Publisher) deliver(to Receiver, refs []Ref) (gate <-chan struct{}) {
	batch := p.deliveries[:0]
	for _, ref := range refs {
		if ref.Sub.Closed() {
			p.batch.Refused = append(p.batch.Refused, ref)
			continue
		}
		batch = append(batch, Delivery{Msg: msgOf(&p.msgs[ref.Msg]), Sub: ref.Sub, From: p.opts.Origin})
	}
	p.deliveries = nil
	if len(batch) > 0 {
		gate = to.Deliver(batch)
	}
	clear(batch)
	if cap(batch) <= largeScratch {
		p.deliveries = batch
	}
	return gate
}

// chooseAgain takes messages of queue groups away from members that have gone, or have reached their limit, since they
// were chosen, before anything is handed over, so that their new places keep the order.
func (p *Publisher) chooseAgain() {
	var remaining map[*Subscription]uint64
	for i := 0; i < len(p.active); i++ {
		st := p.active[i]
		kept := st.refs[:0]
		for _, ref := range st.refs {
			sub := ref.Sub
			ended := sub.Closed()
			if !ended && st.outlet != nil && sub.limit.Load() > 0 && sub.Queue() != "" {
				if remaining == nil {
					remaining = make(map[*Subscription]uint64)
				}
				left, ok := remaining[sub]
				if !ok {
					left = st.outlet.Remaining(sub)
				}
				ended = left == 0
				remaining[sub] = max(left, 1) - 1
			}
			if ended {
				p.batch.Refused = append(p.batch.Refused, ref)
			} else {
				kept = append(kept, ref)
			}
		}
		st.refs = kept
		if len(p.batch.Refused) > 0 {
			p.reroute()
		}
	}
}

// reroute gives messages of queue groups that were refused to other members.
func (p *Publisher) reroute() {
	for _, ref := range p.batch.Refused {
		if ref.Sub.Queue() == "" {
			p.miss(ref.Msg)
			continue
		}
		if !ref.Sub.Closed() {
			// Its receiver is closing, and the subscription will end soon: not a second time.
			if p.refused == nil {
				p.refused = make(map[*Subscription]struct{})
			}
			p.refused[ref.Sub] = struct{}{}
		}
		p.rechoose(ref)
	}
	p.batch.Refused = p.batch.Refused[:0]
}

// rechoose finds a new member for a message. A member that has been handed a later message of this chunk already is
// taken only where there is no other, and one that might refuse too: it sees this one out of order, but the group loses
// nothing.
func (p *Publisher) rechoose(ref Ref) {
	to := p.routedBy(ref.Msg)
	p.space.index.Match(to, &p.result)
	type candidate struct {
		target
		at int // the position of the message
	}
	var candidates, inOrder []candidate // the second are the better ones
	for i := range p.result.Queues {
		if p.result.Queues[i].Name != ref.Sub.Queue() {
			continue
		}
		for _, sub := range p.result.Queues[i].Members {
			at, called := p.whole(ref.Msg), to
			if s, ok := sub.to.(*shadow); ok {
				if at, called = p.variantOf(at, s, to); at < 0 {
					continue
				}
				sub = s.sub
			}
			if _, refused := p.refused[sub]; refused || sub == ref.Sub || sub.Closed() || p.barred(sub, called) {
				continue
			}
			c := candidate{target{sub, p.stageOf(sub.to)}, at}
			candidates = append(candidates, c)
			if c.st.done <= at && sub.Limit() == 0 {
				inOrder = append(inOrder, c)
			}
		}
	}
	if len(inOrder) > 0 {
		candidates = inOrder
	}
	if len(candidates) == 0 {
		p.miss(ref.Msg)
		return
	}
	chosen := &candidates[p.choose(len(candidates))]
	p.insert(&chosen.target, chosen.at)
}

// routedBy is the subject by which a message was matched.
func (p *Publisher) routedBy(msg int) []byte {
	msg = p.whole(msg)
	i, found := slices.BinarySearchFunc(p.detours, msg, func(d detour, msg int) int { return d.msg - msg })
	if found {
		return p.detours[i].to
	}
	return p.msgs[msg].Subject
}

// insert adds a message to a stage at its place in the order.
func (p *Publisher) insert(t *target, at int) {
	p.add(t, at)
	st := t.st
	i := len(st.refs) - 1
	for ; i > 0 && st.refs[i-1].Msg > at; i-- {
		st.refs[i] = st.refs[i-1]
	}
	st.refs[i] = Ref{Sub: t.sub, Msg: at}
	if st.handed {
		st.handed = false
		p.active = append(p.active, st) // it has had its turn, and gets another
	}
}

// reset makes ready for the next chunk.
func (p *Publisher) reset() {
	width := len(p.active)
	for _, st := range p.active {
		st.active, st.handed, st.done = false, false, 0
	}
	p.active = p.active[:0]
	p.grouped, p.refused, p.missed = false, nil, nil
	p.msgs, p.detours = giveBack(p.msgs, keptMsgs, &msgScratch), p.detours[:0]
	p.staged = 0
	p.batch.Msgs, p.batch.by = nil, nil
	if len(p.stages) > max(p.sweepAt, minSweep) {
		p.sweep(width)
	}
}

// minSweep is how many receivers a publisher remembers without looking whether they are still there.
const minSweep = 64

// sweep forgets everything when most of the receivers are gone, or when there are too many.
func (p *Publisher) sweep(width int) {
	gone := 0
	for _, st := range p.stages {
		if st.outlet != nil && st.outlet.Gone() {
			gone++
		}
	}
	if 2*gone > len(p.stages) || len(p.stages) > max(maxStages, 4*width) {
		p.forget()
		return
	}
	p.sweepAt = min(2*len(p.stages), max(maxStages, 4*width))
}

// forget drops all routes and stages, and with them receivers that are gone.
func (p *Publisher) forget() {
	p.routes = routes{}
	p.last = nil
	p.spare, p.mapped = Route{}, nil
	p.result = subject.Result[*Subscription]{}
	p.stages = nil
	p.sweepAt = 0
}
