package broker

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/internal/subject"
)

// Interest says whose interest is meant.
type Interest struct {
	queue string
	kind  interestKind
}

type interestKind uint8

const (
	anyInterest interestKind = iota
	plainInterest
	queueInterest
)

// AnyInterest counts every subscription.
func AnyInterest() Interest { return Interest{} }

// PlainInterest counts the subscriptions that are in no queue group.
func PlainInterest() Interest { return Interest{kind: plainInterest} }

// QueueInterest counts the members of one queue group.
func QueueInterest(queue string) Interest { return Interest{kind: queueInterest, queue: queue} }

// HasInterest reports whether somebody, the server itself included, would receive a message to the subject.
func (s *Space) HasInterest(subj string) bool {
	if strings.HasPrefix(subj, replyPrefix) {
		if interested, known := s.replies.hasInterest(subj); known {
			return interested
		}
	}
	return s.index.HasInterest([]byte(subj))
}

// HasInterestOf is HasInterest for a part of the subscriptions.
func (s *Space) HasInterestOf(subj string, in Interest) bool {
	if in.kind == anyInterest {
		return s.HasInterest(subj)
	}
	var r subject.Result[*Subscription]
	s.index.Match([]byte(subj), &r)
	if in.kind == plainInterest {
		return len(r.Plain) > 0
	}
	return slices.ContainsFunc(r.Queues, func(g subject.Group[*Subscription]) bool { return g.Name == in.queue })
}

// WatchInterest calls f whenever interest in a subject without wildcards appears or vanishes, and first, before it
// returns, with what holds now. Calls for one watch come one after the other, on whichever goroutine made the change
// and without a lock held; f must not wait. After cancel has returned f may still run once, if it was running.
func (s *Space) WatchInterest(subj string, in Interest, f func(interested bool)) (cancel func()) {
	w := &watch{subject: subj, in: in, notify: f}
	s.watches.add(w)
	w.evaluate(s)
	return func() { s.watches.remove(w) }
}

// watch is somebody who waits to hear of interest.
type watch struct {
	subject string
	in      Interest
	notify  func(bool)

	mu      sync.Mutex
	known   bool // there was a first call
	last    bool
	running bool // a goroutine evaluates
	again   bool // something changed since it began
	gone    bool
}

// evaluate compares interest with what was last told, and tells. Of several goroutines one does the work.
func (w *watch) evaluate(s *Space) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if w.running {
		return
	}
	w.running = true
	for w.again && !w.gone {
		w.again = false
		w.mu.Unlock()
		now := s.HasInterestOf(w.subject, w.in)
		w.mu.Lock()
		if w.known && now == w.last || w.gone {
			continue
		}
		w.known, w.last = true, now
		w.mu.Unlock()
		w.notify(now)
		w.mu.Lock()
	}
	w.running = false
}

// watches are the watches of a space by subject.
type watches struct {
	n  atomic.Int64 // how many: mostly the answer is none
	mu sync.RWMutex
	by map[string]map[*watch]struct{}
}

func (ws *watches) add(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = make(map[string]map[*watch]struct{})
	}
	if ws.by[w.subject] == nil {
		ws.by[w.subject] = make(map[*watch]struct{})
	}
	ws.by[w.subject][w] = struct{}{}
	ws.n.Add(1)
}

func (ws *watches) remove(w *watch) {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if _, ok := ws.by[w.subject][w]; !ok {
		return
	}
	delete(ws.by[w.subject], w)
	if len(ws.by[w.subject]) == 0 {
		delete(ws.by, w.subject)
	}
	ws.n.Add(-1)
}

// changed evaluates the watches that a pattern concerns.
func (ws *watches) changed(s *Space, pattern string) {
	if ws.n.Load() == 0 {
		return
	}
	var affected []*watch
	ws.mu.RLock()
	if !subject.HasWildcard(pattern) {
		affected = slices.Collect(maps.Keys(ws.by[pattern]))
	} else {
		for subj, set := range ws.by {
			if subject.Match(subj, pattern) {
				affected = slices.AppendSeq(affected, maps.Keys(set))
			}
		}
	}
	ws.mu.RUnlock()
	for _, w := range affected {
		w.evaluate(s)
	}
}
