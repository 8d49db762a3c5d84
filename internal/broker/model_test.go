package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/internal/subject"
)

// sink is a receiver that writes down what it gets.
type sink struct {
	name   string
	got    []receipt
	closed bool // refuses everything
	deny   string
	gate   chan struct{}
}

type receipt struct {
	sub *Subscription
	msg string
}

func (s *sink) Deliver(batch []Delivery) <-chan struct{} {
	for _, d := range batch {
		s.got = append(s.got, receipt{d.Sub, string(d.Data)})
	}
	return s.gate
}

func (s *sink) Denies(_ *Subscription, subj []byte) bool { return string(subj) == s.deny }

// outletSink is the same as an outlet, with unsubscribe-after-n.
type outletSink struct {
	sink
	space *Space
}

func (s *outletSink) DeliverStaged(b *Batch) <-chan struct{} {
	for _, ref := range b.Refs {
		sub := ref.Sub
		if s.closed || sub.Closed() || s.Remaining(sub) == 0 {
			b.Refused = append(b.Refused, ref)
			continue
		}
		sub.Delivered++
		s.got = append(s.got, receipt{sub, string(b.Msgs[ref.Msg].Data())})
		if sub.Delivered == sub.Limit() {
			s.space.Unsubscribe(sub)
		}
	}
	return s.gate
}

func (s *outletSink) Gone() bool { return s.closed }

func (s *outletSink) Remaining(sub *Subscription) uint64 {
	if sub.Limit() == 0 {
		return 1 << 40
	}
	return sub.Limit() - sub.Delivered
}

// world is a space under test beside the naive model of it.
type world struct {
	t          *testing.T
	random     *rand.Rand
	space      *Space
	receivers  []Receiver
	sinks      []*sink
	subs       []*Subscription // open ones
	publishers []*Publisher
	staged     [][]expectation // by publisher
	next       int
	// limitedGroups have had a member with a limit.
	limitedGroups map[string]bool
}

// expectation is what the model says of one message.
type expectation struct {
	msg    string
	plain  []*Subscription            // must get it, if still open at the hand-off
	groups map[string][]*Subscription // one of those that are open must
}

var modelSubjects = []string{"a", "a.b", "a.b.c", "x", "x.y", "b"}
var modelPatterns = []string{"a", "a.b", "a.*", "a.>", ">", "*", "x.y", "*.y", "x.*", "a.*.c", "b"}

// TestAgainstModel subscribes, unsubscribes, publishes and hands off at random, and compares with what a list and a
// loop say.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 200 {
				w.step()
			}
			for i := range w.publishers {
				w.flush(i)
			}
		})
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), space: New(Options{}).Space("A"), limitedGroups: map[string]bool{}}
	for i := range 6 {
		if i%2 == 0 {
			s := &sink{name: fmt.Sprint("sink ", i)}
			w.receivers, w.sinks = append(w.receivers, s), append(w.sinks, s)
			continue
		}
		s := &outletSink{sink: sink{name: fmt.Sprint("outlet ", i)}, space: w.space}
		w.receivers, w.sinks = append(w.receivers, s), append(w.sinks, &s.sink)
	}
	for i := range 3 {
		opts := PublisherOptions{}
		if i == 0 {
			opts = PublisherOptions{Self: w.receivers[0], NoEcho: true}
		}
		p := w.space.NewPublisherFor(opts)
		p.random.Seed(seed, uint64(i))
		w.publishers = append(w.publishers, p)
	}
	w.staged = make([][]expectation, len(w.publishers))
	return w
}

func (w *world) step() {
	switch n := w.random.IntN(20); {
	case n < 4:
		w.subscribe()
	case n < 7 && len(w.subs) > 0:
		i := w.random.IntN(len(w.subs))
		w.space.Unsubscribe(w.subs[i])
		w.subs = slices.Delete(w.subs, i, i+1)
	case n < 17:
		w.publish(w.random.IntN(len(w.publishers)))
	default:
		w.flush(w.random.IntN(len(w.publishers)))
	}
}

func (w *world) subscribe() {
	queue := []string{"q3", "q4", "", "", "q1", "q2"}[w.random.IntN(6)]
	r := w.receivers[w.random.IntN(len(w.receivers))]
	sub := NewSubscription(modelPatterns[w.random.IntN(len(modelPatterns))], queue, "", r)
	if _, ok := r.(Outlet); ok && queue != "q3" && queue != "q4" && w.random.IntN(4) == 0 {
		sub.SetLimit(uint64(1 + w.random.IntN(3)))
		w.limitedGroups[queue] = true
	}
	if err := w.space.Add(sub); err != nil {
		w.t.Fatal(err)
	}
	w.subs = append(w.subs, sub)
}

func (w *world) publish(i int) {
	w.drop()
	p := w.publishers[i]
	subj := modelSubjects[w.random.IntN(len(modelSubjects))]
	w.next++
	e := expectation{msg: fmt.Sprint(w.next), groups: map[string][]*Subscription{}}
	for _, sub := range w.subs {
		if !subject.Match(subj, sub.Subject()) || p.opts.NoEcho && sub.to == p.opts.Self {
			continue
		}
		if q := sub.Queue(); q != "" {
			e.groups[q] = append(e.groups[q], sub)
		} else {
			e.plain = append(e.plain, sub)
		}
	}
	if n, want := p.Publish(Msg{Subject: []byte(subj), Data: []byte(e.msg)}), len(e.plain)+len(e.groups); n != want {
		w.t.Fatalf("Publish says %d receivers, want %d", n, want)
	}
	// A group may get a member after the message was staged; the model allows for all there are at the hand-off.
	e.groups = withSubject(e.groups, subj)
	w.staged[i] = append(w.staged[i], e)
}

// withSubject keeps the subject with the groups, under a name that is none.
func withSubject(groups map[string][]*Subscription, subj string) map[string][]*Subscription {
	groups["\x00"+subj] = nil
	return groups
}

// drop forgets subscriptions that have ended by their limit.
func (w *world) drop() {
	w.subs = slices.DeleteFunc(w.subs, (*Subscription).Closed)
}

func (w *world) flush(i int) {
	w.drop()
	for _, s := range w.sinks {
		s.got = nil
	}
	before := map[*Subscription]uint64{}
	for _, sub := range w.subs {
		before[sub] = sub.Delivered
	}
	open := slices.Clone(w.subs)
	p := w.publishers[i]
	p.Flush()
	got := map[string]map[*Subscription]int{}
	for _, s := range w.sinks {
		last := -1
		for _, r := range s.got {
			if got[r.msg] == nil {
				got[r.msg] = map[*Subscription]int{}
			}
			got[r.msg][r.sub]++
			if q := r.sub.Queue(); q != "" && w.limitedGroups[q] {
				continue // a member with a limit may refuse what it got as the last resort, when it is late for others
			}
			n := 0
			_, _ = fmt.Sscan(r.msg, &n)
			if n < last {
				w.t.Fatalf("%s got %d after %d", s.name, n, last)
			}
			last = n
		}
	}
	for _, e := range w.staged[i] {
		w.check(e, got[e.msg], open, p)
	}
	for _, sub := range open {
		if sub.Limit() > 0 && sub.Delivered > sub.Limit() {
			w.t.Fatalf("a subscription for %d messages got %d", sub.Limit(), sub.Delivered)
		}
	}
	w.staged[i] = nil
}

func (w *world) check(e expectation, got map[*Subscription]int, open []*Subscription, p *Publisher) {
	subj := ""
	for name := range e.groups {
		if name[0] == 0 {
			subj = name[1:]
		}
	}
	for _, sub := range e.plain {
		want := 0
		if slices.Contains(open, sub) {
			want = 1
		}
		if n := got[sub]; n != want && !(sub.Limit() > 0 && n < want) {
			w.t.Fatalf("message %s on %s: plain %q got it %d times, want %d", e.msg, subj, sub.Subject(), n, want)
		}
	}
	for name, members := range e.groups {
		if name[0] == 0 {
			continue
		}
		n, limited, any := 0, false, false
		for _, sub := range open {
			if sub.Queue() != name || !subject.Match(subj, sub.Subject()) || p.opts.NoEcho && sub.to == p.opts.Self {
				continue
			}
			any = true
			limited = limited || sub.Limit() > 0
			n += got[sub]
		}
		for _, sub := range members {
			if !slices.Contains(open, sub) && got[sub] > 0 {
				w.t.Fatalf("message %s went to a closed member", e.msg)
			}
		}
		if any && n != 1 && !(limited && n == 0) || n > 1 {
			w.t.Fatalf("message %s on %s: group %s got it %d times", e.msg, subj, name, n)
		}
	}
}
