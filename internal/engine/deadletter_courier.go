package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// courier takes dead letters from consumers to where they go: one goroutine a node, one round at a time, so that at
// most one stream has lent an entry. It holds no letters between rounds: its list names consumers, each once at most.
type courier struct {
	wake chan struct{} // capacity 1
	over chan struct{} // closed when it has ended

	mu   sync.Mutex // guards list
	list []*Consumer
}

func newCourier() *courier {
	return &courier{wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// call has the courier come. It may be called from anywhere.
func (k *courier) call(c *Consumer) {
	k.mu.Lock()
	k.list = append(k.list, c)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *courier) next() *Consumer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		k.list = nil
		return nil
	}
	c := k.list[0]
	k.list[0] = nil
	k.list = k.list[1:]
	return c
}

// run makes rounds until ctx ends. A round that has begun to store letters is brought to its end.
func (k *courier) run(ctx context.Context) {
	defer close(k.over)
	for ctx.Err() == nil {
		if c := k.next(); c != nil {
			k.visit(ctx, c)
			continue
		}
		select {
		case <-k.wake:
		case <-ctx.Done():
		}
	}
}

// visit makes one round for a consumer.
func (k *courier) visit(ctx context.Context, c *Consumer) {
	s := c.stream
	written := make(chan []deadLetter, 1)
	s.inbox.command(func() { c.writeDead(func(l []deadLetter) { written <- l }) })
	letters, ok := hear(ctx, s, written)
	if !ok {
		return
	}
	letters = k.round(ctx, c, letters)
	s.inbox.command(func() { c.roundOver(letters) })
}

// hear waits for an answer of a stream's owner. ok is false when there will be none, or ctx ended.
func hear[T any](ctx context.Context, s *Stream, answer <-chan T) (a T, ok bool) {
	select {
	case a = <-answer:
		return a, true
	case <-ctx.Done():
		return a, false
	case <-s.done:
	}
	select {
	case a = <-answer:
		return a, true
	default:
		return a, false
	}
}

// round stores the first letters that go to one place, and gives back those that it was concerned with: the others are
// still due.
func (k *courier) round(ctx context.Context, c *Consumer, letters []deadLetter) []deadLetter {
	var good, all []deadLetter
	var target *Stream
	for i := range letters {
		l := &letters[i]
		if l.refused != nil {
			all = append(all, *l)
			continue
		}
		to, err := c.stream.account.deadTarget(l.subject)
		switch {
		case err != nil:
			l.refused = err
			all = append(all, *l)
			continue
		case len(good) == 0:
			target = to
		case to != target:
			continue
		}
		good = append(good, *l)
	}
	switch {
	case len(good) == 0:
	case target == nil:
		k.publish(ctx, c, good)
	default:
		k.store(ctx, c, target, good)
	}
	return append(all, good...)
}

var errNobodyListens = errors.New("no stream takes its subject, and nobody listens there")

// deadTarget finds where letters to a subject go: a stream, or nil when they are published.
func (a *Account) deadTarget(subj string) (*Stream, error) {
	if s := a.captures(subj); s != nil {
		if !s.isUp() {
			return nil, errors.New("the stream that takes its subject is being created")
		}
		return s, nil
	}
	if !a.space.HasInterest(subj) {
		return nil, errNobodyListens
	}
	return nil, nil
}

// captures finds the stream that takes a subject, or nil. It may not be up yet.
func (a *Account) captures(subj string) *Stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.streams {
		if s.listensOn(subj) {
			return s
		}
	}
	return nil
}

// publish settles the messages of letters that no stream takes, and then publishes those: at most once.
func (k *courier) publish(ctx context.Context, c *Consumer, letters []deadLetter) {
	s := c.stream
	done := make(chan error, 1)
	s.errand(func() bool {
		if !s.mayBury(nil) {
			return false
		}
		c.bury(letters, nil, func(err error) {
			if err == nil {
				c.publishDead(letters)
			}
			done <- err
		})
		return true
	})
	hear(ctx, s, done)
}

// How far an offer of letters to a stream has come.
const (
	offered   int32 = iota
	taken           // the stream has it in hand, and will answer
	withdrawn       // nobody waits for it any more
)

// placed is a stream's answer to an offer of letters.
type placed struct {
	loan   *loan // to be borrowed; nil: the letters need not be waited for any more
	stored int
	err    error
}

// store has a stream take letters and the source settle their messages with it.
func (k *courier) store(ctx context.Context, c *Consumer, target *Stream, letters []deadLetter) {
	handed := make(chan error, 1)
	got, ok := k.offer(ctx, c, target, letters, handed)
	if ok && got.err != nil {
		for i := range letters {
			letters[i].refused = got.err
		}
	}
	switch {
	case !ok || got.err != nil || got.stored == 0:
	case target == c.stream && got.loan != nil:
		hear(ctx, c.stream, handed)
	default:
		k.settle(ctx, c, accepted(letters), got.loan, handed)
	}
}

// accepted are the letters that found a place.
func accepted(letters []deadLetter) []deadLetter {
	return slices.DeleteFunc(slices.Clone(letters), func(l deadLetter) bool { return l.refused != nil })
}

// offer waits until a stream has accepted letters, or refused them. ok is false when it never will.
func (k *courier) offer(ctx context.Context, c *Consumer, target *Stream, letters []deadLetter, handed chan error) (got placed, ok bool) {
	var state atomic.Int32
	answer := make(chan placed, 1)
	target.errand(func() bool {
		ended := target.failed != nil || target.deleting
		if !ended && !target.mayAccept() && state.Load() == offered {
			return false
		}
		switch {
		case !state.CompareAndSwap(offered, taken):
		case ended:
			answer <- placed{err: errors.New("the stream that takes its subject has ended")}
		default:
			target.takeDead(c, letters, handed, answer)
		}
		return true
	})
	got, ok = hear(ctx, target, answer)
	if !ok && !state.CompareAndSwap(offered, withdrawn) {
		// It is being taken: the answer is near, unless the stream has ended.
		got, ok = hear(context.WithoutCancel(ctx), target, answer)
	}
	return got, ok
}

// takeDead accepts letters of a consumer and answers with how they are to go on. A stream that is its own target
// settles the messages in the same step.
func (s *Stream) takeDead(c *Consumer, letters []deadLetter, handed chan<- error, answer chan<- placed) {
	stored := s.acceptDead(letters)
	switch {
	case stored == 0:
		answer <- placed{}
	case s.log == nil:
		s.seal()
		answer <- placed{stored: stored}
	case c.stream.log == nil:
		// The source forgets its messages when they are safe here.
		e := s.building
		e.then = append(e.then, func(err error) { answer <- placed{stored: stored, err: err} })
		s.seal()
	default:
		l := s.lend(handed)
		if c.stream == s && !c.bury(accepted(letters), l, func(error) {}) {
			l.giveBack()
			handed <- nil
		}
		answer <- placed{loan: l, stored: stored}
	}
}

// settle has the source settle messages with the letters that were lent.
func (k *courier) settle(ctx context.Context, c *Consumer, letters []deadLetter, l *loan, handed <-chan error) {
	s := c.stream
	buried := make(chan bool, 1)
	s.errand(func() bool {
		if !s.mayBury(l) && s.failed == nil && !s.deleting {
			return false
		}
		buried <- c.bury(letters, l, func(error) {})
		return true
	})
	// Without ctx: what was lent must go on.
	grouped, _ := hear(context.WithoutCancel(ctx), s, buried)
	switch {
	case l == nil:
	case grouped:
		hear(ctx, s, handed)
	default:
		l.giveBack()
	}
}
