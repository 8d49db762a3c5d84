package broker

import (
	"strings"

	"github.com/sluicemq/sluice/internal/subject"
)

// shadow is the receiver of a subscription in an exporter's space that stands for one of an importer's. It receives
// nothing itself: routes have the importer's subscription in its place.
type shadow struct {
	sub      *Subscription
	subjects *subject.Bridge
	key      string // of the import
}

// Deliver is never called.
func (*shadow) Deliver([]Delivery) <-chan struct{} { return nil }

// cast is a shadow and where it lies.
type cast struct {
	space *Space
	sub   *Subscription
}

// end takes a shadow away.
func (c cast) end(changed changes) changes {
	if c.space.remove(c.sub) {
		changed = append(changed, change{c.space, c.sub.Subject()})
	}
	return changed
}

// change is something that watches may see, changes are told when no lock is held.
type (
	change struct {
		space   *Space
		pattern string
	}
	changes []change
)

func (all changes) tell() {
	for _, c := range all {
		c.space.watches.changed(c.space, c.pattern)
	}
}

// streamImport is a stream import and the space it is from.
type streamImport struct {
	StreamImport
	far *Space
	key string
}

// imports are the stream imports of a space.
type imports struct{ streams []streamImport }

// importStreams takes new imports over: subscriptions get shadows, or lose them; shareMu is held.
func (s *Space) importStreams(b *Broker, list []StreamImport) (changed changes) {
	next := &imports{}
	have := map[string]bool{}
	if old := s.sharing.Load(); old != nil {
		for _, i := range old.streams {
			have[i.key] = true
		}
	}
	var added []streamImport
	keep := map[string]bool{}
	for _, i := range list {
		im := streamImport{i, b.Space(i.From), i.key()}
		next.streams = append(next.streams, im)
		keep[im.key] = true
		if !have[im.key] {
			added = append(added, im)
		}
	}
	s.sharing.Store(next)
	for sub, shadows := range s.shadows {
		kept := shadows[:0]
		for _, c := range shadows {
			if keep[c.sub.to.(*shadow).key] {
				kept = append(kept, c)
			} else {
				changed = c.end(changed)
			}
		}
		if s.shadows[sub] = kept; len(kept) == 0 {
			delete(s.shadows, sub)
		}
	}
	if len(added) == 0 {
		return changed
	}
	var all []*Subscription
	s.All(func(sub *Subscription) bool {
		all = append(all, sub)
		return true
	})
	for _, sub := range all {
		changed = append(changed, s.castFor(sub, added)...)
	}
	return changed
}

// shade gives a new subscription its shadows.
func (s *Space) shade(sub *Subscription) {
	s.shareMu.Lock()
	changed := s.castFor(sub, s.sharing.Load().streams)
	s.shareMu.Unlock()
	changed.tell()
}

// castFor makes the shadows of a subscription for some imports; shareMu is held, so that the subscription does not end
// before its shadows are known.
func (s *Space) castFor(sub *Subscription, streams []streamImport) (changed changes) {
	if sub.Closed() || !takesImports(sub) {
		return nil
	}
	for _, i := range streams {
		if s.hasShadow(sub, i.key) {
			continue
		}
		pattern, ok := i.Subjects.FarPart(sub.Subject())
		if !ok {
			continue
		}
		c := cast{i.far, NewSubscription(pattern, sub.Queue(), "", &shadow{sub, i.Subjects, i.key})}
		first, err := c.space.insert(c.sub)
		if err != nil {
			continue // both patterns are valid, so nothing can be wrong with what they have in common
		}
		if first {
			changed = append(changed, change{c.space, pattern})
		}
		if s.shadows == nil {
			s.shadows = map[*Subscription][]cast{}
		}
		s.shadows[sub] = append(s.shadows[sub], c)
	}
	return changed
}

func (s *Space) hasShadow(sub *Subscription, key string) bool {
	for _, c := range s.shadows[sub] {
		if c.sub.to.(*shadow).key == key {
			return true
		}
	}
	return false
}

// takesImports reports whether a subscription is one that imports concern: not those that make imports work, and not
// those by which JetStream is asked and answered, since they are of one account.
func takesImports(sub *Subscription) bool {
	switch sub.to.(type) {
	case *shadow, *importer, *replies:
		return false
	case Outlet:
		return true
	}
	subj := sub.Subject()
	if strings.HasPrefix(subj, "$SYS.") {
		return false
	}
	return !strings.HasPrefix(subj, "$JS.") || strings.HasPrefix(subj, "$JS.M.") || strings.HasPrefix(subj, "$JS.S.")
}

// unshade ends the shadows of a subscription that has ended.
func (s *Space) unshade(sub *Subscription) {
	s.shareMu.Lock()
	shadows := s.shadows[sub]
	delete(s.shadows, sub)
	s.shareMu.Unlock()
	var changed changes
	for _, c := range shadows {
		changed = c.end(changed)
	}
	changed.tell()
}
