package broker

import (
	"bytes"

	"github.com/sluicemq/sluice/internal/proto"
)

// foreign is a subscription of an account that imports the subject, and which of the route's variants it is sent.
type foreign struct {
	target
	variant int
}

// ordinary forgets what makes a route special.
func (r *Route) ordinary() {
	// What is staged still refers to the variants, so their memory is not used again.
	r.special, r.foreign, r.variants, r.mapping, r.dest = false, nil, nil, nil, nil
}

// appendForeign adds what a shadow stands for.
func (p *Publisher) appendForeign(r *Route, list []foreign, s *shadow) []foreign {
	if p.imported {
		return list
	}
	called := s.subjects.AppendNear(nil, r.subject)
	if p.barred(s.sub, called) {
		return list
	}
	r.special = true
	variant := 0
	for variant < len(r.variants) && !bytes.Equal(r.variants[variant], called) {
		variant++
	}
	if variant == len(r.variants) {
		r.variants = append(r.variants, called)
	}
	return append(list, foreign{target{s.sub, p.stageOf(s.sub.to)}, variant})
}

// stageSpecial is Stage for a route with receivers in other accounts. Behind the message itself stand
// its variants, one for each further subject that it has elsewhere; their Receivers says, as a negative number, where
// the message is. So a member of a queue group can be chosen anew, whatever account it belongs to.
func (p *Publisher) stageSpecial(r *Route, m *proto.Pub) (receivers int) {
	n := r.Receivers()
	detoured := len(p.detours) > 0 && p.detours[len(p.detours)-1].msg == len(p.msgs)
	at := p.push(m, n)
	for i, called := range r.variants {
		variant := *m
		if !detoured {
			variant.Subject = called
		}
		p.push(&variant, -(i + 1))
	}
	for i := range r.plain {
		p.add(&r.plain[i], at)
	}
	for i := range r.foreign {
		p.addForeign(&r.foreign[i], at)
	}
	for i := range r.groups {
		g := &r.groups[i]
		p.grouped = true
		if k := p.choose(len(g.members) + len(g.foreign)); k < len(g.members) {
			p.add(&g.members[k], at)
		} else {
			p.addForeign(&g.foreign[k-len(g.members)], at)
		}
	}
	if p.staged >= maxStaged {
		p.handOff()
	}
	return n
}

func (p *Publisher) addForeign(f *foreign, at int) { p.add(&f.target, at+1+f.variant) }

// whole is the position of the message that a variant belongs to, and that of any other message itself.
func (p *Publisher) whole(msg int) int {
	if r := p.msgs[msg].Receivers; r < 0 {
		msg += int(r)
	}
	return msg
}

// variantOf finds the variant of a message for a shadow; -1 if it has none, because the import came after the message.
func (p *Publisher) variantOf(msg int, s *shadow, to []byte) (at int, called []byte) {
	if p.imported {
		return -1, nil
	}
	called = s.subjects.AppendNear(nil, to)
	detoured := !bytes.Equal(p.msgs[msg].Subject, to)
	for at = msg + 1; at < len(p.msgs) && p.msgs[at].Receivers < 0; at++ {
		if detoured || bytes.Equal(p.msgs[at].Subject, called) {
			return at, called
		}
	}
	return -1, nil
}
