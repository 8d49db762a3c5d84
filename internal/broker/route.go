package broker

import (
	"bytes"

	"github.com/sluicemq/sluice/internal/subject"
)

// Route is what a subject reaches, for one publisher, until subscriptions or permissions change.
type Route struct {
	// Verdict is what the publisher's Check said of the subject, or VerdictMapped.
	Verdict uint8

	subject []byte
	hash    uint64
	stamp   subject.Stamp // whether the subscriptions are still the same
	policy  uint64
	epoch   uint64 // the publisher's, when it was last found to hold
	plain   []target
	groups  []group

	// special: it is not plain and groups that tell where a message goes.
	special  bool
	foreign  []foreign // subscriptions of accounts that import the subject
	variants [][]byte  // what those call it
	mapping  *Mapping  // of the subject: the route is one to follow, not to stage
	dest     []byte    // where mapping leads, if it always leads there
}

// Receivers is how many receivers a message would have, of which a queue group is one.
func (r *Route) Receivers() int { return len(r.plain) + len(r.groups) + len(r.foreign) }

// empty reports whether a message would reach nobody.
func (r *Route) empty() bool { return r.Receivers() == 0 }

// target is a subscription together with the stage of its receiver.
type target struct {
	sub *Subscription
	st  *stage
}

type group struct {
	members []target
	foreign []foreign // members in accounts that import the subject
}

// Bounds of a publisher's cache of routes: sets of four, which grow with use.
const (
	ways      = 4
	minRoutes = 16
	minSeen   = 256
	maxRoutes = 4096
)

// routes is a set-associative cache. Where a subject could enter only at another's expense, or by making the cache
// larger, it must have been seen before, so that a publisher that never repeats a subject does not churn memory.
type routes struct {
	slots []*Route
	seen  []uint32 // hashes seen once, directly mapped
	turn  uint32   // which way to give up next
}

func (c *routes) find(hash uint64, subj []byte) *Route {
	if c.slots == nil {
		return nil
	}
	for _, r := range c.set(hash) {
		if r != nil && r.hash == hash && bytes.Equal(r.subject, subj) {
			return r
		}
	}
	return nil
}

func (c *routes) set(hash uint64) []*Route {
	i := int(hash) & (len(c.slots)/ways - 1) * ways
	return c.slots[i : i+ways]
}

// secondTime notes a subject and reports whether it was noted before.
func (c *routes) secondTime(hash uint64) bool {
	if c.seen == nil {
		c.seen = make([]uint32, max(minSeen, len(c.slots)))
	}
	s := &c.seen[int(hash)&(len(c.seen)-1)]
	h := uint32(hash>>32) | 1
	if *s == h {
		return true
	}
	*s = h
	return false
}

// enter gives the route to fill for a new subject: a new one, or one that another subject gives up. It is nil for a
// subject that may not enter yet.
func (c *routes) enter(hash uint64, subj []byte) *Route {
	if c.slots == nil {
		c.slots = make([]*Route, minRoutes)
	}
	for asked := false; ; asked = true {
		set := c.set(hash)
		for i := range set {
			if set[i] == nil {
				set[i] = &Route{hash: hash, subject: bytes.Clone(subj)}
				return set[i]
			}
		}
		if !asked && !c.secondTime(hash) {
			return nil
		}
		if len(c.slots) < maxRoutes {
			c.grow()
			continue
		}
		c.turn++
		r := set[c.turn%ways]
		r.hash, r.subject = hash, append(r.subject[:0], subj...)
		return r
	}
}

func (c *routes) grow() {
	old := c.slots
	c.slots = make([]*Route, 2*len(old))
	c.seen = nil
	for _, r := range old {
		if r == nil {
			continue
		}
		set := c.set(r.hash)
		for i := range set {
			if set[i] == nil {
				set[i] = r
				break
			}
		}
	}
}

// fill finds out what the route's subject reaches.
func (p *Publisher) fill(r *Route) {
	if p.opts.Mapped && p.fillMapping(r) {
		return
	}
	p.fillDirect(r)
}

// fillDirect is fill without the account's mappings.
func (p *Publisher) fillDirect(r *Route) {
	r.policy = p.space.policy.Load()
	res := &p.result
	r.stamp = p.space.index.MatchStamped(r.subject, res)
	r.plain, r.groups = r.plain[:0], r.groups[:0]
	if r.special {
		r.ordinary()
	}
	if p.opts.Check != nil {
		r.Verdict = p.opts.Check(r.subject)
	}
	for _, sub := range res.Plain {
		if to, ok := sub.to.(*shadow); ok {
			r.foreign = p.appendForeign(r, r.foreign, to)
		} else if !p.barred(sub, r.subject) {
			r.plain = append(r.plain, target{sub, p.stageOf(sub.to)})
		}
	}
	for i := range res.Queues {
		p.fillGroup(r, &res.Queues[i])
	}
}

func (p *Publisher) fillGroup(r *Route, g *subject.Group[*Subscription]) {
	n := len(r.groups)
	if n < cap(r.groups) {
		r.groups = r.groups[:n+1]
	} else {
		r.groups = append(r.groups, group{})
	}
	members, abroad := r.groups[n].members[:0], r.groups[n].foreign[:0]
	for _, sub := range g.Members {
		if to, ok := sub.to.(*shadow); ok {
			abroad = p.appendForeign(r, abroad, to)
		} else if !p.barred(sub, r.subject) {
			members = append(members, target{sub, p.stageOf(sub.to)})
		}
	}
	r.groups[n].members, r.groups[n].foreign = members, abroad
	if len(members)+len(abroad) == 0 {
		r.groups = r.groups[:n]
	}
}

// barred reports whether a subscription that matches gets nothing all the same: echo is off, or its receiver's
// permissions deny the subject.
func (p *Publisher) barred(sub *Subscription, subj []byte) bool {
	if p.opts.NoEcho && sub.to == p.opts.Self {
		return true
	}
	return sub.filtered.Load() && sub.to.(Filter).Denies(sub, subj)
}
