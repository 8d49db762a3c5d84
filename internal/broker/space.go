package broker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/internal/subject"
)

// ErrInvalidSubject: a subscription's subject has an empty token, or something behind ">".
var ErrInvalidSubject = errors.New("broker: invalid subject")

// Space is the subject space of one account: its subscriptions, and who waits to hear of interest. All methods may be
// called concurrently.
type Space struct {
	account string
	index   *subject.Trie[*Subscription]
	// policy counts the calls of Invalidate: routes found before are old.
	policy     atomic.Uint64
	watches    watches
	publishers sync.Pool // *Publisher, for PublishOnce

	mappings atomic.Pointer[[]Mapping] // nil: none
	sharing  atomic.Pointer[imports]   // nil: imports nothing, and never did
	relays   sync.Pool                 // *Publisher of what comes from other accounts
	replies  *replies

	shareMu  sync.Mutex // guards what follows; may be held while that of no other space is
	services map[string]*importer
	shadows  map[*Subscription][]cast
}

func newSpace(account string) *Space {
	s := &Space{account: account, index: subject.NewTrie[*Subscription](subject.TrieOptions{})}
	s.publishers.New = func() any { return s.NewPublisher() }
	s.relays.New = func() any { return newRelay(s) }
	s.replies = newReplies(s)
	return s
}

// Account is the name of the account.
func (s *Space) Account() string { return s.account }

// Subscriptions counts the subscriptions, those of the server itself included.
func (s *Space) Subscriptions() int { return s.index.Count() }

// Subscribe lets r receive what is published to subjects that match, alone or as a member of a queue group ("" is
// none). The receiver gets messages from the moment that this returns, and maybe a little earlier.
func (s *Space) Subscribe(subject, queue string, r Receiver) (*Subscription, error) {
	sub := NewSubscription(subject, queue, "", r)
	if err := s.Add(sub); err != nil {
		return nil, err
	}
	return sub, nil
}

// Add lets a subscription that [NewSubscription] made take effect.
func (s *Space) Add(sub *Subscription) error {
	first, err := s.insert(sub)
	if err != nil {
		return err
	}
	if first {
		s.watches.changed(s, sub.Subject())
	}
	if s.sharing.Load() != nil {
		s.shade(sub)
	}
	return nil
}

// insert lets a subscription take effect and tells nobody; first means that watches may see a difference.
func (s *Space) insert(sub *Subscription) (first bool, err error) {
	first, err = s.index.Insert(sub.Subject(), sub.Queue(), sub)
	if err != nil {
		return false, fmt.Errorf("%w: %q", ErrInvalidSubject, sub.Subject())
	}
	return first, nil
}

// Unsubscribe ends a subscription. Messages that a publisher has staged for it but not handed over are not delivered;
// those of a queue group go to another member. It does nothing when the subscription has ended already.
func (s *Space) Unsubscribe(sub *Subscription) {
	if sub.closed.Swap(true) {
		return
	}
	if s.remove(sub) {
		s.watches.changed(s, sub.Subject())
	}
	if s.sharing.Load() != nil {
		s.unshade(sub)
	}
}

// remove ends a subscription and tells nobody; last means that watches may see a difference.
func (s *Space) remove(sub *Subscription) (last bool) {
	sub.closed.Store(true)
	_, last = s.index.Remove(sub.Subject(), sub.Queue(), sub)
	return last
}

// Invalidate makes every publisher find its routes anew: a receiver's filter, or what a publisher may do, has changed.
func (s *Space) Invalidate() { s.policy.Add(1) }

// All calls f with every subscription until it returns false: for monitoring.
func (s *Space) All(f func(*Subscription) bool) {
	for item := range s.index.All() {
		if !f(item.Value) {
			return
		}
	}
}

// Find gives a subscription of the receiver, outside queue groups, that the subject reaches; nil if it has none.
func (s *Space) Find(subj []byte, r Receiver) *Subscription {
	var res subject.Result[*Subscription]
	s.index.Match(subj, &res)
	for _, sub := range res.Plain {
		if sub.to == r {
			return sub
		}
	}
	return nil
}
