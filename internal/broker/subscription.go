package broker

import "sync/atomic"

// Subscription is one interest of one Receiver. It is small, since a server may hold millions: the strings share one
// allocation.
type Subscription struct {
	to   Receiver
	text string // subject, queue and tag, one behind the other
	// Delivered belongs to the Receiver, which guards it: how many messages it took for this subscription.
	Delivered          uint64
	limit              atomic.Uint64
	subjectLen, tagLen uint32
	closed             atomic.Bool
	filtered           atomic.Bool
}

// NewSubscription makes a subscription for [Space.Add]. The tag is a text that the receiver finds again in
// [Subscription.Tag].
func NewSubscription(subject, queue, tag string, r Receiver) *Subscription {
	return &Subscription{
		to:         r,
		text:       subject + queue + tag,
		subjectLen: uint32(len(subject)),
		tagLen:     uint32(len(tag)),
	}
}

// Subject is the subject, maybe with wildcards.
func (s *Subscription) Subject() string { return s.text[:s.subjectLen] }

// Queue is the queue group; "" is none.
func (s *Subscription) Queue() string { return s.text[s.subjectLen : len(s.text)-int(s.tagLen)] }

// Tag is what the Receiver gave with Subscribe, for its own use: a client's subscription id between two blanks.
func (s *Subscription) Tag() string { return s.text[len(s.text)-int(s.tagLen):] }

// Receiver is who gets the messages.
func (s *Subscription) Receiver() Receiver { return s.to }

// Closed reports whether the subscription has ended.
func (s *Subscription) Closed() bool { return s.closed.Load() }

// SetFiltered says whether the receiver, which must be a [Filter], is asked about every subject that matches. Routes
// take notice after [Space.Invalidate].
func (s *Subscription) SetFiltered(on bool) { s.filtered.Store(on) }

// SetLimit makes the subscription end after n messages; 0 is never. It is the receiver that counts and ends it.
func (s *Subscription) SetLimit(n uint64) { s.limit.Store(n) }

// Limit gives what SetLimit set.
func (s *Subscription) Limit() uint64 { return s.limit.Load() }
