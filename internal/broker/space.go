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
}

func newSpace(account string) *Space {
	s := &Space{account: account, index: subject.NewTrie[*Subscription](subject.TrieOptions{})}
	s.publishers.New = func() any { return s.NewPublisher() }
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
	first, err := s.index.Insert(sub.Subject(), sub.Queue(), sub)
	if err != nil {
		return fmt.Errorf("%w: %q", ErrInvalidSubject, sub.Subject())
	}
	if first {
		s.watches.changed(s, sub.Subject())
	}
	return nil
}

// Unsubscribe ends a subscription. Messages that a publisher has staged for it but not handed over are not delivered;
// those of a queue group go to another member. It does nothing when the subscription has ended already.
func (s *Space) Unsubscribe(sub *Subscription) {
	if sub.closed.Swap(true) {
		return
	}
	if _, last := s.index.Remove(sub.Subject(), sub.Queue(), sub); last {
		s.watches.changed(s, sub.Subject())
	}
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
