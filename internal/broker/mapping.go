package broker

import (
	"math/rand/v2"

	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

// Mapping gives messages to the subjects of a pattern other subjects, before anybody is looked for who receives them.
// It is immutable.
type Mapping struct {
	Source string
	To     []Destination
}

// Destination is where a part of a mapping's messages goes. What the weights leave of 100 is lost.
type Destination struct {
	Weight  int // of 100
	Subject *subject.Transform
}

// always reports whether the same subject always leads to the same place.
func (m *Mapping) always() bool {
	return len(m.To) == 1 && m.To[0].Weight >= 100 && !m.To[0].Subject.IsRandom()
}

// choose gives a destination; nil means that the message is lost.
func (m *Mapping) choose() *subject.Transform {
	w := 0
	if len(m.To) > 1 || m.To[0].Weight < 100 {
		w = rand.IntN(100)
	}
	for i := range m.To {
		if w < m.To[i].Weight {
			return m.To[i].Subject
		}
		w -= m.To[i].Weight
	}
	return nil
}

// mappingFor finds the mapping of a subject: one for exactly it, or the first whose pattern reaches it.
func (s *Space) mappingFor(subj []byte) *Mapping {
	all := s.mappings.Load()
	if all == nil {
		return nil
	}
	var found *Mapping
	for i := range *all {
		m := &(*all)[i]
		if m.Source == string(subj) {
			return m
		}
		if found == nil && subject.HasWildcard(m.Source) && subject.Match(subj, m.Source) {
			found = m
		}
	}
	return found
}

// mappedRoutes are the routes of subjects that mappings lead to, for which no mapping counts any more.
type mappedRoutes struct {
	routes routes
	spare  Route
}

// VerdictMapped is the verdict on a subject that has a mapping: [Publisher.Follow] gives the route to take.
const VerdictMapped = 255

// fillMapping notes the mapping of the route's subject, if it has one.
func (p *Publisher) fillMapping(r *Route) bool {
	policy := p.space.policy.Load()
	m := p.space.mappingFor(r.subject)
	if m == nil {
		return false
	}
	r.ordinary()
	r.policy, r.stamp = policy, p.space.index.MatchStamped(r.subject, &p.result)
	r.plain, r.groups = r.plain[:0], r.groups[:0]
	r.special, r.mapping, r.Verdict = true, m, VerdictMapped
	if m.always() {
		r.dest, _ = m.To[0].Subject.Append(nil, string(r.subject))
	}
	return true
}

// Follow gives a message the subject that the mapping of its route leads to, and the route of that. Whatever else is
// checked of a subject is checked of that one, as in nats-server. Other routes it gives back as they are.
func (p *Publisher) Follow(r *Route, m *proto.Pub) *Route {
	if r.mapping == nil {
		return r
	}
	dest := r.dest
	if dest == nil {
		t := r.mapping.choose()
		if t == nil {
			m.Subject = nil
			return &Route{}
		}
		// Not into the arena: that may be used again by a hand-off before the message is staged.
		dest, _ = t.Append(nil, string(r.subject))
	}
	m.Subject = dest
	return p.mappedRoute(dest)
}

// mappedRoute is Route for what a mapping led to.
func (p *Publisher) mappedRoute(subj []byte) *Route {
	if p.mapped == nil {
		p.mapped = &mappedRoutes{}
	}
	hash := subject.Hash(subj)
	r := p.mapped.routes.find(hash, subj)
	switch {
	case r == nil:
		if r = p.mapped.routes.enter(hash, subj); r == nil {
			r = &p.mapped.spare
			r.subject = append(r.subject[:0], subj...)
		}
		p.fillDirect(r)
	case r.epoch != p.epoch && !p.holds(r):
		p.fillDirect(r)
	}
	r.epoch = p.epoch
	return r
}
