package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/internal/proto"
)

func TestSubscribeRefusesInvalidSubjects(t *testing.T) {
	s := New(Options{}).Space("A")
	for _, subj := range []string{"", "a..b", ".a", "a.", "a.>.b"} {
		if _, err := s.Subscribe(subj, "", &sink{}); !errors.Is(err, ErrInvalidSubject) {
			t.Errorf("%q: %v", subj, err)
		}
	}
	if n := s.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions", n)
	}
}

func TestSpacesAreApart(t *testing.T) {
	b := New(Options{})
	r := &sink{}
	if _, err := b.Space("A").Subscribe("a", "", r); err != nil {
		t.Fatal(err)
	}
	if n := b.Space("B").PublishOnce(Msg{Subject: []byte("a")}); n != 0 {
		t.Errorf("a message of another account has %d receivers", n)
	}
	if n := b.Space("A").PublishOnce(Msg{Subject: []byte("a"), Data: []byte("x")}); n != 1 || len(r.got) != 1 {
		t.Errorf("%d receivers, got %v", n, r.got)
	}
	if again := b.Space("A"); again.Subscriptions() != 1 {
		t.Error("an account has two spaces")
	}
}

// keeper writes down what a delivery holds.
type keeper struct{ got []string }

func (k *keeper) Deliver(batch []Delivery) <-chan struct{} {
	for _, d := range batch {
		k.got = append(k.got, fmt.Sprintf("%s reply %q header %q data %q by %q from %v", d.Subject, d.Reply, d.Header, d.Data, d.Sub.Subject(), d.From))
	}
	return nil
}

func TestPublishToAnotherSubject(t *testing.T) {
	s := New(Options{}).Space("A")
	k := &keeper{}
	if _, err := s.Subscribe("deliver.*", "", k); err != nil {
		t.Fatal(err)
	}
	p := s.NewPublisher()
	to, subj, reply, data := []byte("deliver.1"), []byte("orders.7"), []byte("ack.1"), []byte("data")
	if n := p.PublishTo(to, Msg{Subject: subj, Reply: reply, Header: []byte("H"), Data: data}); n != 1 {
		t.Fatalf("%d receivers", n)
	}
	// The slices were good during the call only.
	for _, b := range [][]byte{to, subj, reply, data} {
		clear(b)
	}
	if len(k.got) > 0 {
		t.Error("delivered before the hand-off")
	}
	p.Flush()
	if want := `orders.7 reply "ack.1" header "H" data "data" by "deliver.*" from <nil>`; len(k.got) != 1 || k.got[0] != want {
		t.Errorf("got %q, want %q", k.got, want)
	}
}

func TestPublishReusesMemory(t *testing.T) {
	s := New(Options{}).Space("A")
	k := &outletSink{space: s}
	if _, err := s.Subscribe("a", "", k); err != nil {
		t.Fatal(err)
	}
	p := s.NewPublisher()
	m := Msg{Subject: []byte("a"), Reply: []byte("r"), Data: []byte("0123456789")}
	k.got = make([]receipt, 0, 1<<20)
	publish := func() {
		for range 100 {
			p.Publish(m)
		}
		p.Flush()
	}
	publish()
	// The sink itself makes a string of every message; a few more are for the chunk.
	if n := testing.AllocsPerRun(100, publish); n > 110 {
		t.Errorf("%v allocations for 100 messages, of which the sink makes 100", n)
	}
}

func TestGates(t *testing.T) {
	s := New(Options{}).Space("A")
	gate := make(chan struct{})
	behind, ready := &sink{gate: gate}, &sink{}
	for _, r := range []*sink{behind, ready} {
		if _, err := s.Subscribe("a", "", r); err != nil {
			t.Fatal(err)
		}
	}
	p := s.NewPublisher()
	p.Publish(Msg{Subject: []byte("a")})
	if got := p.Flush(); got != (<-chan struct{})(gate) {
		t.Errorf("gate %v", got)
	}
	if len(p.Gates()) != 1 || len(ready.got) != 1 || len(behind.got) != 1 {
		t.Errorf("gates %v, got %v and %v", p.Gates(), ready.got, behind.got)
	}
	behind.gate = nil
	p.Publish(Msg{Subject: []byte("a")})
	if got := p.Flush(); got != nil {
		t.Error("a gate although nobody is behind")
	}
}

func TestFilter(t *testing.T) {
	s := New(Options{}).Space("A")
	r := &sink{deny: "a.no"}
	sub, err := s.Subscribe("a.*", "", r)
	if err != nil {
		t.Fatal(err)
	}
	p := s.NewPublisher()
	count := func(subj string) int { return p.Publish(Msg{Subject: []byte(subj)}) }
	if count("a.no") != 1 {
		t.Error("filtered without being asked to")
	}
	sub.SetFiltered(true)
	s.Invalidate()
	if count("a.no") != 0 || count("a.yes") != 1 {
		t.Error("the filter does not hold")
	}
	r.deny = "a.yes"
	s.Invalidate()
	if count("a.no") != 1 || count("a.yes") != 0 {
		t.Error("a change of the filter does not hold")
	}
}

func TestCheckIsRemembered(t *testing.T) {
	s := New(Options{}).Space("A")
	asked := 0
	verdict := uint8(3)
	p := s.NewPublisherFor(PublisherOptions{Check: func(subj []byte) uint8 { asked++; return verdict }})
	for range 10 {
		if v := p.Route([]byte("a")).Verdict; v != 3 {
			t.Fatalf("verdict %d", v)
		}
		p.Route([]byte("b"))
		p.Refresh()
	}
	if asked > 4 { // each is seen twice before it is remembered
		t.Errorf("asked %d times", asked)
	}
	verdict = 4
	s.Invalidate()
	p.Refresh()
	if v := p.Route([]byte("a")).Verdict; v != 4 {
		t.Errorf("verdict %d after a change", v)
	}
}

// TestManySubjects goes far beyond what a publisher remembers.
func TestManySubjects(t *testing.T) {
	s := New(Options{}).Space("A")
	r := &sink{}
	const n = 3 * maxRoutes
	for i := range n {
		if _, err := s.Subscribe(fmt.Sprint("s.", i), "", r); err != nil {
			t.Fatal(err)
		}
	}
	p := s.NewPublisher()
	for range 3 {
		for i := range n {
			subj := fmt.Sprint("s.", i)
			if got := p.Publish(Msg{Subject: []byte(subj), Data: []byte(subj)}); got != 1 {
				t.Fatalf("%s has %d receivers", subj, got)
			}
		}
		p.Flush()
	}
	if len(r.got) != 3*n {
		t.Fatalf("%d of %d messages", len(r.got), 3*n)
	}
	for _, g := range r.got {
		if g.sub.Subject() != g.msg {
			t.Fatalf("%s came to %s", g.msg, g.sub.Subject())
		}
	}
	if len(p.routes.slots) > maxRoutes {
		t.Errorf("%d routes are remembered", len(p.routes.slots))
	}
}

// TestReceiversAreForgotten checks that a publisher does not hold on to receivers for ever.
func TestReceiversAreForgotten(t *testing.T) {
	s := New(Options{}).Space("A")
	p := s.NewPublisher()
	for range 3 * maxStages {
		sub, err := s.Subscribe("a", "", &sink{})
		if err != nil {
			t.Fatal(err)
		}
		p.Publish(Msg{Subject: []byte("a")})
		p.Flush()
		s.Unsubscribe(sub)
	}
	if len(p.stages) > maxStages+1 {
		t.Errorf("%d receivers are remembered", len(p.stages))
	}
	for range maxStages {
		r := &outletSink{space: s}
		sub, err := s.Subscribe("a", "", r)
		if err != nil {
			t.Fatal(err)
		}
		p.Publish(Msg{Subject: []byte("a")})
		p.Flush()
		s.Unsubscribe(sub)
		r.closed = true
	}
	if len(p.stages) > 2*minSweep {
		t.Errorf("%d receivers that are gone are remembered", len(p.stages))
	}
}

func TestQueueChoiceIsFair(t *testing.T) {
	s := New(Options{}).Space("A")
	members := make([]*sink, 4)
	for i := range members {
		members[i] = &sink{}
		if _, err := s.Subscribe("a", "q", members[i]); err != nil {
			t.Fatal(err)
		}
	}
	p := s.NewPublisher()
	const n = 4000
	for range n {
		p.Publish(Msg{Subject: []byte("a")})
	}
	p.Flush()
	for i, m := range members {
		if len(m.got) < n/4*8/10 || len(m.got) > n/4*12/10 {
			t.Errorf("member %d got %d of %d", i, len(m.got), n)
		}
	}
}

func TestMemberThatRefusesEverything(t *testing.T) {
	s := New(Options{}).Space("A")
	dead, other := &outletSink{sink: sink{closed: true}, space: s}, &outletSink{sink: sink{closed: true}, space: s}
	alive := &outletSink{space: s}
	for _, r := range []*outletSink{dead, other, alive} {
		if _, err := s.Subscribe("a", "q", r); err != nil {
			t.Fatal(err)
		}
	}
	p := s.NewPublisher()
	for range 100 {
		p.Publish(Msg{Subject: []byte("a")})
	}
	p.Flush()
	if len(alive.got) != 100 {
		t.Errorf("the member that is left got %d of 100", len(alive.got))
	}
	alive.closed = true
	lost := 0
	p = s.NewPublisherFor(PublisherOptions{Lost: func(*proto.Pub, int) { lost++ }})
	for range 100 {
		p.Publish(Msg{Subject: []byte("a")})
	}
	p.Flush()
	if lost != 100 {
		t.Errorf("%d of 100 messages were reported as lost", lost)
	}
}

func TestInterest(t *testing.T) {
	s := New(Options{}).Space("A")
	var log []string
	watch := func(name, subj string, in Interest) func() {
		return s.WatchInterest(subj, in, func(yes bool) { log = append(log, fmt.Sprintf("%s %v", name, yes)) })
	}
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(log)
		if !slices.Equal(log, want) {
			t.Errorf("got %q, want %q", log, want)
		}
		log = nil
	}
	cancel := watch("any", "a.b", AnyInterest())
	watch("plain", "a.b", PlainInterest())
	watch("queue", "a.b", QueueInterest("q"))
	expect("any false", "plain false", "queue false")
	sub := func(subj, queue string) *Subscription {
		sub, err := s.Subscribe(subj, queue, &sink{})
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	q := sub("a.*", "q")
	expect("any true", "queue true")
	other := sub("a.b", "other")
	expect()
	plain := sub("a.b", "")
	expect("plain true")
	s.Unsubscribe(q)
	expect("queue false")
	s.Unsubscribe(other)
	s.Unsubscribe(plain)
	expect("any false", "plain false")
	if s.HasInterest("a.b") || s.HasInterestOf("a.b", QueueInterest("q")) {
		t.Error("interest without subscriptions")
	}
	cancel()
	sub(">", "")
	expect("plain true")
	sub("x.y", "")
	expect()
}

// TestInterestUnderRace checks that the last word is the right one, whoever says it.
func TestInterestUnderRace(t *testing.T) {
	s := New(Options{}).Space("A")
	var last atomic.Bool
	s.WatchInterest("a", AnyInterest(), func(yes bool) { last.Store(yes) })
	for range 200 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				sub, err := s.Subscribe("a", "", &sink{})
				if err != nil {
					t.Error(err)
					return
				}
				s.Unsubscribe(sub)
			}()
		}
		wg.Wait()
		if last.Load() {
			t.Fatal("interest is said to be left")
		}
	}
}

// counter counts deliveries; many goroutines may deliver.
type counter struct{ n atomic.Int64 }

func (c *counter) Deliver(batch []Delivery) <-chan struct{} {
	c.n.Add(int64(len(batch)))
	return nil
}

// TestConcurrentUse publishes while others subscribe and unsubscribe: what stays subscribed gets everything.
func TestConcurrentUse(t *testing.T) {
	s := New(Options{}).Space("A")
	steady := &counter{}
	for _, subj := range []string{"a.1", "a.*"} {
		if _, err := s.Subscribe(subj, "", steady); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var churn, publishers sync.WaitGroup
	for i := range 2 {
		churn.Add(1)
		go func() {
			defer churn.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				sub, err := s.Subscribe([]string{"a.1", "a.>", "b"}[n%3], []string{"", "q"}[(n+i)%2], &counter{})
				if err != nil {
					t.Error(err)
					return
				}
				s.Unsubscribe(sub)
			}
		}()
	}
	const perPublisher = 5000
	for range 3 {
		publishers.Add(1)
		go func() {
			defer publishers.Done()
			p := s.NewPublisher()
			for i := range perPublisher {
				if n := p.Publish(Msg{Subject: []byte("a.1")}); n < 2 {
					t.Errorf("%d receivers", n)
				}
				if i%7 == 0 {
					p.Flush()
				}
			}
			p.Flush()
		}()
	}
	publishers.Wait()
	close(stop)
	churn.Wait()
	if got := steady.n.Load(); got != 2*3*perPublisher {
		t.Errorf("%d deliveries, want %d", got, 2*3*perPublisher)
	}
}

func TestTags(t *testing.T) {
	sub := NewSubscription("a.b", "q", " 17 ", &sink{})
	if got := strings.Join([]string{sub.Subject(), sub.Queue(), sub.Tag()}, "|"); got != "a.b|q| 17 " {
		t.Errorf("%q", got)
	}
}
