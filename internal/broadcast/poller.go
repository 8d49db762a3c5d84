package broadcast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/head"
	"github.com/sluicemq/sluice/internal/key"
	"github.com/sluicemq/sluice/internal/store"
)

const (
	// minPoll is the least time between two looks at the heads, however often the poller is poked.
	minPoll = 20 * time.Millisecond
	// requestTimeout bounds one request.
	requestTimeout = 5 * time.Second
	// headReads bounds the heads that are read at a time.
	headReads = 8
	// maxBackoff bounds the wait before a node whose batches could not be read is tried again.
	maxBackoff = 30 * time.Second
)

// poller looks at the heads again and again and has the batches of nodes that have news fetched. One goroutine owns it;
// a fetch owns its follower's position while it runs.
type poller struct {
	*Service
	own       string // key of the node's own head
	pokes     chan struct{}
	followers map[string]*follower // by key; heads are never deleted, so nothing leaves
	ready     []*follower          // have news and wait for a fetch
	fetching  int
	fetched   chan fetched // has room for all of them
	fetches   sync.WaitGroup
	begun     bool // the first look is over: heads that appear now are of nodes that are new
	crowded   bool // there are more nodes than are followed
	failing   bool // the last look failed
	interval  time.Duration
}

// follower is what is known of one node.
type follower struct {
	key      string
	etag     string // of the version that was read; "": to be read again
	head     *head.Head
	known    bool // at is set
	early    bool // the head was there at the first look
	at       position
	busy     bool // waits for a fetch, or is being fetched
	failures int
	retryAt  time.Time
	behind   int
	told     string // the last error that was logged
}

// fetched is how a fetch ended.
type fetched struct {
	f   *follower
	at  position
	err error
}

func newPoller(s *Service) *poller {
	return &poller{Service: s, own: key.HeadKey(s.opts.Head.Node()), pokes: make(chan struct{}, 1), followers: map[string]*follower{},
		fetched: make(chan fetched, s.opts.MaxFetches), interval: s.opts.Poll}
}

func (p *poller) poke() {
	select {
	case p.pokes <- struct{}{}:
	default: // it has not seen the last one yet
	}
}

// begin finds the newest batch of every node.
func (p *poller) begin(ctx context.Context) error {
	var err error
	for wait := 50 * time.Millisecond; wait < time.Minute; wait *= 2 {
		if _, err = p.look(ctx); err == nil {
			p.begun = true
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("broadcast: first look at the heads: %w", ctx.Err())
		}
	}
	return fmt.Errorf("broadcast: first look at the heads: %w", err)
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	defer p.fetches.Wait()
	timer := time.NewTimer(p.interval)
	defer timer.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-p.fetched:
			p.settle(done)
			p.dispatch(ctx)
			continue
		case <-p.pokes:
			p.interval = p.opts.Poll
			if wait := minPoll - time.Since(last); wait > 0 {
				timer.Reset(wait)
				continue
			}
		case <-timer.C:
		}
		last = time.Now()
		p.poll(ctx)
		timer.Reset(p.interval)
	}
}

// poll looks at the heads once and sets the time of the next look.
func (p *poller) poll(ctx context.Context) {
	p.metrics.polls.Inc()
	news, err := p.look(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		p.metrics.failures.Inc()
		if !p.failing {
			p.opts.Logger.Warn("broadcasts of other nodes cannot be looked for; trying again", "error", err)
		}
	case p.failing:
		p.opts.Logger.Info("broadcasts of other nodes can be looked for again")
	}
	p.failing = err != nil
	if news {
		p.interval = p.opts.Poll
	} else {
		p.interval = min(p.interval*3/2, p.opts.IdlePoll)
	}
	p.metrics.interval.Set(p.interval.Seconds())
	p.metrics.publishers.Set(float64(len(p.followers)))
	p.dispatch(ctx)
	p.count()
}

// count tells how far behind this node is.
func (p *poller) count() {
	total := 0
	for _, f := range p.followers {
		total += f.behind
	}
	p.metrics.behind.Set(float64(total))
}

// look lists the heads, reads those that have changed, and reports whether some node has news.
func (p *poller) look(ctx context.Context) (news bool, err error) {
	var changed []*follower
	list := store.ListOptions{Prefix: key.Head.Prefix()}
	for {
		p.metrics.lists.Inc()
		page, err := p.list(ctx, list)
		if err != nil {
			return false, fmt.Errorf("list the heads: %w", err)
		}
		for _, object := range page.Objects {
			list.StartAfter = object.Key
			if f := p.follow(object.Key); f != nil && f.etag != object.ETag {
				changed = append(changed, f)
			}
		}
		if !page.More || len(page.Objects) == 0 {
			break
		}
	}
	p.readHeads(ctx, changed)
	now := time.Now()
	for _, f := range p.followers {
		if f.head != nil && !f.busy && !now.Before(f.retryAt) && p.hasNews(f) {
			f.busy, news = true, true
			p.ready = append(p.ready, f)
		}
	}
	return news, nil
}

func (p *poller) list(ctx context.Context, o store.ListOptions) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return p.opts.Store.List(ctx, o)
}

// follow gives what is known of the node of a head; nil for the own one, and for one too many.
func (p *poller) follow(k string) *follower {
	if k == p.own {
		return nil
	}
	f := p.followers[k]
	if f == nil {
		if len(p.followers) >= p.opts.MaxPublishers {
			if !p.crowded {
				p.opts.Logger.Error("broadcasts of some nodes are not heard here: there are too many nodes", "followed", len(p.followers), "not_followed", k)
			}
			p.crowded = true
			return nil
		}
		f = &follower{key: k, early: !p.begun}
		p.followers[k] = f
	}
	return f
}

// readHeads reads heads, some at a time. One that cannot be read is tried again at the next look.
func (p *poller) readHeads(ctx context.Context, changed []*follower) {
	next := make(chan *follower)
	var readers sync.WaitGroup
	for range min(headReads, len(changed)) {
		readers.Go(func() {
			for f := range next {
				p.readHead(ctx, f)
			}
		})
	}
	for _, f := range changed {
		next <- f
	}
	close(next)
	readers.Wait()
}

func (p *poller) readHead(ctx context.Context, f *follower) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p.metrics.headReads.Inc()
	object, err := p.opts.Store.Get(ctx, f.key)
	if err == nil {
		f.head, err = decode(f, object.Data)
	}
	if err != nil {
		f.etag = ""
		p.complain(f, err)
		return
	}
	// The ETag of the read: it is never newer than the data, while that of the listing may be.
	f.etag, f.told = object.ETag, ""
}

// decode reads a head; upon an error it is the one that is known.
func decode(f *follower, data []byte) (*head.Head, error) {
	h, err := head.Decode(f.key, data)
	if err != nil {
		return f.head, err
	}
	return h, nil
}

// complain logs that something of a node cannot be read, once for each error. Torn reads are common enough to be told
// only when they stay.
func (p *poller) complain(f *follower, err error) {
	p.metrics.failures.Inc()
	if text := err.Error(); f.told != text && !errors.Is(err, context.Canceled) {
		f.told = text
		p.opts.Logger.Warn("broadcasts of a node cannot be read; trying again", "head", f.key, "error", err)
	}
}

// hasNews reports whether a node's head tells of batches that were not delivered. A node that is seen for the first time
// is followed from its newest batch on if it was there before this one looked, else from its first.
func (p *poller) hasNews(f *follower) bool {
	if !f.known {
		f.known = true
		if f.early {
			f.at = newest(f.head)
		}
	}
	r := plan(f.at, f.head)
	f.behind = r.batches()
	if len(r.spans) == 0 && len(r.gaps) == 0 {
		f.at = r.end
		return false
	}
	return true
}

// dispatch starts fetches as far as there is room.
func (p *poller) dispatch(ctx context.Context) {
	for p.fetching < p.opts.MaxFetches && len(p.ready) > 0 && ctx.Err() == nil {
		f := p.ready[0]
		p.ready[0] = nil
		p.ready = p.ready[1:]
		p.fetching++
		from, h := f.at, f.head
		p.fetches.Go(func() {
			at, err := p.fetch(ctx, from, h)
			p.fetched <- fetched{f, at, err}
		})
	}
}

// settle notes how a fetch ended, and has it go on if the head has moved meanwhile.
func (p *poller) settle(done fetched) {
	f := done.f
	p.fetching--
	f.busy, f.at = false, done.at
	if done.err != nil {
		f.failures++
		f.retryAt = time.Now().Add(min(p.opts.Poll<<min(f.failures, 10), maxBackoff))
		f.etag = "" // a batch that is missing may have been deleted: the head tells
		p.complain(f, done.err)
		return
	}
	f.failures, f.retryAt = 0, time.Time{}
	if p.hasNews(f) {
		f.busy = true
		p.ready = append(p.ready, f)
	}
	p.count()
}
