// Package broker routes messages inside one node: from a publisher, through the subscriptions that its subject
// reaches, to the receivers. An account is a [Space] of its own. Nothing here waits for a store, a lock held for long,
// or a receiver.
//
// The way of a message: a [Publisher] finds the subscriptions in its cache of routes, notes the message once and, per
// receiver, that it goes there, and at the end of a chunk hands each receiver all that is for it, in order. So
// messages of one publisher reach one receiver in the order of publication, whatever happens around them.
package broker

import "sync"

// Broker holds the subject spaces of all accounts.
type Broker struct {
	opts   Options
	mu     sync.RWMutex
	spaces map[string]*Space // never removed: there are as many as there are configured accounts
}

// Options configure a Broker.
type Options struct {
	// ServerName is what a service import with share tells the exporter.
	ServerName string
}

// New makes a broker without spaces.
func New(opts Options) *Broker { return &Broker{opts: opts, spaces: make(map[string]*Space)} }

// Space gives the subject space of an account, and makes it at the first call.
func (b *Broker) Space(account string) *Space {
	b.mu.RLock()
	s := b.spaces[account]
	b.mu.RUnlock()
	if s != nil {
		return s
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s = b.spaces[account]; s == nil {
		s = newSpace(account)
		b.spaces[account] = s
	}
	return s
}
