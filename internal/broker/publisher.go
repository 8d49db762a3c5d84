package broker

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

// maxStaged bounds what a publisher stages before it hands off in the middle of a chunk: references of 16 bytes.
const maxStaged = 32 << 10

// PublisherOptions say on whose behalf a publisher publishes.
type PublisherOptions struct {
	Origin *Origin // nil: the server itself
	Self   Receiver
	NoEcho bool // Self does not get what it publishes
	// Mapped: the account's subject mappings apply, as they do to what clients publish.
	Mapped bool
	// Check judges a subject when it is first seen; its answer is Route.Verdict until subscriptions or permissions change.
	Check func(subject []byte) uint8
	// Lost is told of a message that was staged, but whose receivers had all gone when it was handed over, and how many
	// were staged before it since the last hand-off.
	Lost func(m *proto.Pub, at int)
}

// Publisher publishes into a space. It is not safe for concurrent use: each goroutine has its own.
type Publisher struct {
	space  *Space
	opts   PublisherOptions
	routes routes
	last   *Route
	epoch  uint64 // how often Refresh was called
	spare  Route  // for subjects that are not in the cache
	// mapped are the routes of subjects that a mapping led to; nil until the first.
	mapped *mappedRoutes
	// imported: what it publishes came through a service import, via that one. parent published it there.
	imported bool
	granted  bool // see Grant
	via      Receiver
	parent   *Publisher
	result   subject.Result[*Subscription]

	stages     map[Receiver]*stage
	sweepAt    int // how many stages there may be before sweep looks at them
	active     []*stage
	msgs       []proto.Pub
	detours    []detour // for some of msgs, in order
	staged     int
	grouped    bool                       // a message went to a queue group
	refused    map[*Subscription]struct{} // by receivers that are closing; of this chunk
	missed     map[int]int32              // by message of this chunk: receivers that had gone
	batch      Batch
	deliveries []Delivery // memory for the next batch
	gates      []<-chan struct{}
	arena      []byte
	random     rand.PCG
}

// stage collects what a chunk holds for one receiver.
type stage struct {
	to     Receiver
	outlet Outlet // to, if it is one
	refs   []Ref
	active bool
	handed bool // in a hand-off: has had its turn
	done   int  // in a hand-off: one more than the last message that it was handed
}

// maxStages is how many receivers a publisher remembers, unless a single chunk goes to more than a quarter of that.
const maxStages = 1024

// NewPublisher makes a publisher for the server itself.
func (s *Space) NewPublisher() *Publisher { return s.NewPublisherFor(PublisherOptions{}) }

// NewPublisherFor makes a publisher.
func (s *Space) NewPublisherFor(opts PublisherOptions) *Publisher {
	p := &Publisher{space: s, opts: opts}
	p.random.Seed(rand.Uint64(), rand.Uint64())
	return p
}

// Space is where it publishes.
func (p *Publisher) Space() *Space { return p.space }

// Publish stages a message and reports how many receivers it has, of which a queue group is one. The message is copied.
func (p *Publisher) Publish(m Msg) (receivers int) { return p.PublishTo(m.Subject, m) }

// PublishTo is Publish for a message that goes to the subscribers of another subject than its own, as a consumer's
// deliveries do.
func (p *Publisher) PublishTo(to []byte, m Msg) (receivers int) {
	p.Refresh()
	r := p.Route(to)
	if r.empty() {
		return 0
	}
	wire := p.copy(m)
	return p.stageDetour(r, to, &wire)
}

// stageDetour stages a message that takes the route of to.
func (p *Publisher) stageDetour(r *Route, to []byte, m *proto.Pub) (receivers int) {
	if !bytes.Equal(to, m.Subject) {
		start := len(p.arena)
		p.arena = append(p.arena, to...)
		p.detours = append(p.detours, detour{len(p.msgs), p.arena[start:]})
	}
	return p.Stage(r, m)
}

// copy puts a message into the arena in the form that is staged.
func (p *Publisher) copy(m Msg) proto.Pub {
	need := len(m.Subject) + len(m.Reply) + len(m.Header) + len(m.Data) + 32
	if cap(p.arena)-len(p.arena) < need {
		// What is staged keeps the old arena alive.
		p.arena = make([]byte, 0, max(need, min(2*cap(p.arena), maxKeptArena), 1<<10))
	}
	a := p.arena
	start := len(a)
	a = append(a, m.Subject...)
	s := proto.Pub{Subject: a[start:len(a):len(a)], ReplyLen: int32(len(m.Reply)), HeaderLen: int32(len(m.Header))}
	start = len(a)
	if len(m.Reply) > 0 {
		a = append(a, m.Reply...)
		a = append(a, ' ')
	}
	if len(m.Header) > 0 {
		a = strconv.AppendInt(a, int64(len(m.Header)), 10)
		a = append(a, ' ')
	}
	a = strconv.AppendInt(a, int64(len(m.Header)+len(m.Data)), 10)
	a = append(a, '\r', '\n')
	s.DataOff = int32(len(a) - start)
	a = append(a, m.Header...)
	a = append(a, m.Data...)
	a = append(a, '\r', '\n')
	s.Wire = a[start:len(a):len(a)]
	p.arena = a
	return s
}

// Refresh makes Route look whether what it remembers still holds. A connection calls it for every chunk, and where it
// has subscribed itself: a subscription that somebody made while the chunk was being worked off counts from the next
// chunk on, since whoever sent the chunk cannot have known of it.
func (p *Publisher) Refresh() { p.epoch++ }

// Route finds what a subject reaches. The route holds until the next call of Route.
func (p *Publisher) Route(subj []byte) *Route {
	if r := p.last; r != nil && r.epoch == p.epoch && bytes.Equal(r.subject, subj) {
		return r
	}
	return p.lookUp(subj)
}

func (p *Publisher) lookUp(subj []byte) *Route {
	hash := subject.Hash(subj)
	r := p.routes.find(hash, subj)
	switch {
	case r == nil:
		if r = p.routes.enter(hash, subj); r == nil {
			r = &p.spare
			r.subject = append(r.subject[:0], subj...)
		}
		p.fill(r)
	case r.epoch != p.epoch && !p.holds(r):
		p.fill(r)
	}
	r.epoch = p.epoch
	p.last = r
	return r
}

// holds reports whether a route is still what a new look would find.
func (p *Publisher) holds(r *Route) bool {
	return r.policy == p.space.policy.Load() && r.stamp.Holds()
}

// Stage notes that a message takes a route, and reports how many receivers it has. Its slices must hold until the
// hand-off.
func (p *Publisher) Stage(r *Route, m *proto.Pub) (receivers int) {
	if r.special {
		return p.stageSpecial(r, m)
	}
	n := len(r.plain) + len(r.groups)
	if n == 0 {
		return 0
	}
	at := p.push(m, n)
	for i := range r.plain {
		p.add(&r.plain[i], at)
	}
	for i := range r.groups {
		p.addMember(r.groups[i].members, at)
	}
	if p.staged >= maxStaged {
		p.handOff()
	}
	return n
}

// push notes a message and gives its position.
func (p *Publisher) push(m *proto.Pub, receivers int) (at int) {
	at = len(p.msgs)
	if at == cap(p.msgs) {
		p.msgs = grow(p.msgs, keptMsgs, &msgScratch)
	}
	p.msgs = append(p.msgs, *m)
	p.msgs[at].Receivers = int32(receivers)
	return at
}

func (p *Publisher) add(t *target, at int) {
	st := t.st
	if !st.active {
		st.active = true
		p.active = append(p.active, st)
	}
	if len(st.refs) == cap(st.refs) {
		st.refs = grow(st.refs, keptRefs, &refScratch)
	}
	st.refs = append(st.refs, Ref{Sub: t.sub, Msg: at})
	p.staged++
}

// addMember chooses a member of a queue group at random.
func (p *Publisher) addMember(members []target, at int) {
	p.grouped = true
	p.add(&members[p.choose(len(members))], at)
}

// choose gives a random number below n.
func (p *Publisher) choose(n int) int {
	if n == 1 {
		return 0
	}
	return int(uint64(uint32(p.random.Uint64())) * uint64(n) >> 32)
}

// Grant says whether what is staged from now on is allowed only because the publisher was asked for it, on a subject that
// who asked chose. Nothing must be staged when it is called.
func (p *Publisher) Grant(on bool) { p.granted = on }

// stageOf finds or makes the stage of a receiver.
func (p *Publisher) stageOf(to Receiver) *stage {
	if st := p.stages[to]; st != nil {
		return st
	}
	if p.stages == nil {
		p.stages = make(map[Receiver]*stage)
	}
	st := &stage{to: to}
	st.outlet, _ = to.(Outlet)
	p.stages[to] = st
	return st
}

// PublishOnce publishes one message of the server itself at once: for messages that are rare.
func (s *Space) PublishOnce(m Msg) (receivers int) {
	p := s.publishers.Get().(*Publisher)
	receivers = p.Publish(m)
	p.Flush()
	s.publishers.Put(p)
	return receivers
}
