package account

import (
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/internal/subject"
)

// SharingFault is what is wrong with one export, import or mapping.
type SharingFault struct {
	Account string // "" is the default account
	List    string // "exports", "imports" or "mappings"
	Index   int
	Err     error
}

func (f *SharingFault) Error() string {
	return fmt.Sprintf("account %q: %s[%d]: %v", f.Account, f.List, f.Index, f.Err)
}

// Unwrap gives what is wrong.
func (f *SharingFault) Unwrap() error { return f.Err }

// SharingFaults checks exports, imports and mappings against each other.
func (s *Settings) SharingFaults() []*SharingFault {
	c := &sharingCheck{accounts: map[string]*AccountSettings{}, taken: map[string][]taken{}}
	for i := range s.Mappings {
		c.mapping("", i, &s.Mappings[i])
	}
	for i := range s.Accounts {
		c.accounts[s.Accounts[i].Name] = &s.Accounts[i]
	}
	for i := range s.Accounts {
		a := &s.Accounts[i]
		for k := range a.Mappings {
			c.mapping(a.Name, k, &a.Mappings[k])
		}
		for k := range a.Exports {
			c.export(a, k, &a.Exports[k])
		}
	}
	// Streams come first, as in nats-server, where the order decides which of a circle's imports is at fault.
	for _, service := range []bool{false, true} {
		for i := range s.Accounts {
			a := &s.Accounts[i]
			for k := range a.Imports {
				if a.Imports[k].Service != service {
					continue
				}
				if err := c.take(a, &a.Imports[k]); err != nil {
					c.fault(a.Name, "imports", k, err)
				}
			}
		}
	}
	return c.faults
}

type sharingCheck struct {
	accounts map[string]*AccountSettings
	taken    map[string][]taken // the imports of an account that are sound
	faults   []*SharingFault
}

// taken is an import with its subjects.
type taken struct {
	from    string
	service bool
	*subject.Bridge
}

func (c *sharingCheck) fault(account, list string, index int, err error) {
	c.faults = append(c.faults, &SharingFault{Account: account, List: list, Index: index, Err: err})
}

func (c *sharingCheck) mapping(account string, at int, m *Mapping) {
	if _, _, err := m.Transforms(); err != nil {
		c.fault(account, "mappings", at, fmt.Errorf("mapping of %q: %w", m.Source, err))
	}
}

func (c *sharingCheck) export(a *AccountSettings, at int, e *Export) {
	if err := e.check(); err != nil {
		c.fault(a.Name, "exports", at, err)
	}
	for _, name := range e.Accounts {
		if c.accounts[name] == nil {
			c.fault(a.Name, "exports", at, fmt.Errorf("there is no account %q", name))
		}
	}
}

// take checks one import, and remembers it if it is sound.
func (c *sharingCheck) take(a *AccountSettings, i *Import) error {
	from := c.accounts[i.Account]
	if from == nil {
		return fmt.Errorf("there is no account %q", i.Account)
	}
	b, err := i.Bridge()
	if err != nil {
		return err
	}
	if from.exportFor(a.Name, i.Subject, i.Service) == nil {
		return fmt.Errorf("%q of account %q: %w", i.Subject, i.Account, errNotExported)
	}
	for _, other := range c.taken[a.Name] {
		if other.from == i.Account && other.service == i.Service &&
			(i.Service && other.Near() == b.Near() || !i.Service && other.Far() == b.Far()) {
			return fmt.Errorf("%q: %w", i.Subject, errTwice)
		}
	}
	circle := c.streamCircle
	if i.Service {
		circle = c.serviceCircle
	}
	if circle(from, b.Near(), []string{a.Name}) || !i.Service && circle(from, b.Far(), []string{a.Name}) {
		return fmt.Errorf("%q: %w", i.Subject, errCycle)
	}
	c.taken[a.Name] = append(c.taken[a.Name], taken{i.Account, i.Service, b})
	return nil
}

// exportFor finds the export by which an account may import a subject.
func (a *AccountSettings) exportFor(importer, subj string, service bool) *Export {
	for _, exact := range []bool{true, false} {
		for i := range a.Exports {
			e := &a.Exports[i]
			if e.Service == service && (e.Subject == subj || !exact && subject.IsSubset(subj, e.Subject)) && e.allows(importer, subj) {
				return e
			}
		}
	}
	return nil
}

// streamCircle reports whether what at exports under subj comes, by its own imports, from an account that has been
// visited.
func (c *sharingCheck) streamCircle(at *AccountSettings, subj string, visited []string) bool {
	if !slices.ContainsFunc(at.Exports, func(e Export) bool { return !e.Service && subject.IsSubset(subj, e.Subject) }) {
		return false
	}
	for _, i := range c.taken[at.Name] {
		if !i.service && subject.Overlap(subj, i.Near()) && c.visited(i, visited, func(visited []string) bool {
			next := subj
			if subject.IsSubset(i.Near(), subj) {
				next = i.Near()
			}
			return c.streamCircle(c.accounts[i.from], next, append(visited, at.Name))
		}) {
			return true
		}
	}
	return false
}

// serviceCircle reports whether a request to subj would come back to an account that has been visited.
func (c *sharingCheck) serviceCircle(at *AccountSettings, subj string, visited []string) bool {
	for _, i := range c.taken[at.Name] {
		if i.service && subject.Overlap(subj, i.Far()) && c.visited(i, visited, func(visited []string) bool {
			next := subj
			if subject.IsSubset(i.Near(), subj) {
				next = i.Near()
			}
			return c.serviceCircle(c.accounts[i.from], next, append(visited, at.Name))
		}) {
			return true
		}
	}
	return false
}

func (c *sharingCheck) visited(i taken, visited []string, further func(visited []string) bool) bool {
	return slices.Contains(visited, i.from) || further(slices.Clone(visited))
}

// Source is the export that an import of the account is from; nil where there is none.
func (s *Settings) Source(importer string, i *Import) *Export {
	for k := range s.Accounts {
		if s.Accounts[k].Name == i.Account {
			return s.Accounts[k].exportFor(importer, i.Subject, i.Service)
		}
	}
	return nil
}
