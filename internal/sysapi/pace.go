package sysapi

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// cheap is what an announcement of an account's connections may cost without being paced: that of thousands.
	cheap = time.Millisecond
	// rest is how many times the cost of a dear one passes until the next.
	rest = 20
	// catchUp is the time between two looks for accounts whose announcement was put off.
	catchUp = time.Second
)

// pace bounds what announcing accounts' connections costs where there are many, which are counted each time: to a
// twentieth of a processor. What comes too early is announced later, once for each account. It remembers at most one
// entry for each account.
type pace struct {
	mu    sync.Mutex // guards what follows
	until time.Time
	due   map[string]struct{}
}

// tooEarly puts an account's announcement off, if it is.
func (p *pace) tooEarly(account string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.until) {
		delete(p.due, account)
		return false
	}
	if p.due == nil {
		p.due = map[string]struct{}{}
	}
	p.due[account] = struct{}{}
	return true
}

// spent notes what an announcement cost that ended now.
func (p *pace) spent(cost time.Duration, now time.Time) {
	if cost <= cheap {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = now.Add(rest * cost)
}

// late gives the accounts whose announcement was put off.
func (p *pace) late() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.due))
}
