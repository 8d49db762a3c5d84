package broker

import (
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/subject"
)

// Sharing is what an account takes from others, and how it maps its own subjects. Whether the others allow it has been
// checked.
//
// A subscription to subjects of a stream import gets a shadow: a subscription of the exporter's space, of the same queue
// group, which stands for it there. So interest and queue groups are right without more, and whoever publishes there
// finds the importer's receivers in its own routes; a route without shadows costs nothing more than before.
// A service import is a receiver in the importer's space that publishes in the exporter's.
type Sharing struct {
	Streams  []StreamImport
	Services []ServiceImport
	Mappings []Mapping
}

// StreamImport makes what is published in another account to far subjects known under near ones.
type StreamImport struct {
	From     string
	Subjects *subject.Bridge
}

// ServiceImport sends requests to near subjects to another account, under far ones.
type ServiceImport struct {
	From     string
	Subjects *subject.Bridge
	// Many: a request has several responses, the last of which is empty. Otherwise the first is the only one.
	Many bool
	// Threshold is how long a response is waited for: the first, or with Many also the next.
	Threshold time.Duration
	// Share tells the exporter more of who asks than the account.
	Share bool
}

// key tells whether an import is still the same after a reload.
func (i *StreamImport) key() string {
	return fmt.Sprintf("%q %q %q", i.From, i.Subjects.Far(), i.Subjects.Near())
}

func (i *ServiceImport) key() string {
	return fmt.Sprintf("%q %q %q %v %v %v", i.From, i.Subjects.Far(), i.Subjects.Near(), i.Many, i.Threshold, i.Share)
}

// Share makes an account share as given, in place of what it did before.
func (b *Broker) Share(account string, to Sharing) error {
	s := b.Space(account)
	var mappings *[]Mapping
	if len(to.Mappings) > 0 {
		mappings = &to.Mappings
	}
	s.mappings.Store(mappings)
	s.policy.Add(1)
	if s.sharing.Load() == nil && len(to.Streams)+len(to.Services) == 0 {
		return nil
	}
	s.shareMu.Lock()
	changed, err := s.importServices(b, to.Services)
	changed = append(changed, s.importStreams(b, to.Streams)...)
	s.shareMu.Unlock()
	changed.tell()
	return err
}

// importServices makes the receivers of service imports; shareMu is held.
func (s *Space) importServices(b *Broker, list []ServiceImport) (changed changes, err error) {
	keep := map[string]bool{}
	if s.services == nil {
		s.services = map[string]*importer{}
	}
	for _, i := range list {
		key := i.key()
		keep[key] = true
		if s.services[key] != nil {
			continue
		}
		im := &importer{ServiceImport: i, near: s, far: b.Space(i.From), server: b.opts.ServerName}
		im.sub = NewSubscription(i.Subjects.Near(), "", "", im)
		first, err := s.insert(im.sub)
		if err != nil {
			return changed, err
		}
		if first {
			changed = append(changed, change{s, im.sub.Subject()})
		}
		s.services[key] = im
	}
	for key, im := range s.services {
		if !keep[key] {
			changed = cast{s, im.sub}.end(changed)
			delete(s.services, key)
		}
	}
	return changed, nil
}

// ImportsService reports whether requests to the subject go to another account.
func (s *Space) ImportsService(subj []byte) bool {
	if s.sharing.Load() == nil {
		return false
	}
	s.shareMu.Lock()
	defer s.shareMu.Unlock()
	for _, im := range s.services {
		if subject.Match(subj, im.Subjects.Near()) {
			return true
		}
	}
	return false
}
