package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/proto"
	"github.com/sluicemq/sluice/internal/subject"
)

func bridge(t testing.TB, far, near string) *subject.Bridge {
	t.Helper()
	b, err := subject.NewBridge(far, near)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func share(t testing.TB, b *Broker, account string, s Sharing) {
	t.Helper()
	if err := b.Share(account, s); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t testing.TB, s *Space, subj, queue string, r Receiver) *Subscription {
	t.Helper()
	sub, err := s.Subscribe(subj, queue, r)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// streamOf imports a stream of A into B.
func streamOf(t testing.TB, far, near string) Sharing {
	return Sharing{Streams: []StreamImport{{From: "A", Subjects: bridge(t, far, near)}}}
}

func TestStreamImportHasInterest(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", streamOf(t, "events.*", "from.a.*"))
	a := b.Space("A")
	if a.HasInterest("events.1") {
		t.Error("interest without a subscription")
	}
	var heard []bool
	cancel := a.WatchInterest("events.1", AnyInterest(), func(on bool) { heard = append(heard, on) })
	defer cancel()
	other := subscribe(t, b.Space("B"), "from.a.2", "", &keeper{})
	sub := subscribe(t, b.Space("B"), "from.>", "q", &keeper{})
	if !a.HasInterest("events.1") || a.HasInterestOf("events.1", PlainInterest()) || !a.HasInterestOf("events.1", QueueInterest("q")) {
		t.Error("interest of another account's queue group is not seen as that")
	}
	b.Space("B").Unsubscribe(sub)
	b.Space("B").Unsubscribe(other)
	if want := []bool{false, true, false}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
	if n := a.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestStreamImportDetour: a consumer delivers to one subject messages that show another, here as at home.
func TestStreamImportDetour(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", streamOf(t, "deliver.*", "d.*"))
	k := &keeper{}
	subscribe(t, b.Space("B"), "d.x", "", k)
	p := b.Space("A").NewPublisher()
	if n := p.PublishTo([]byte("deliver.x"), Msg{Subject: []byte("orders"), Reply: []byte("$JS.ACK.x"), Data: []byte("1")}); n != 1 {
		t.Errorf("%d receivers", n)
	}
	p.Flush()
	if len(k.got) != 1 || !strings.HasPrefix(k.got[0], `orders reply "$JS.ACK.x"`) {
		t.Errorf("got %q", k.got)
	}
}

func TestReloadOfStreamImports(t *testing.T) {
	b := New(Options{})
	k := &keeper{}
	sub := subscribe(t, b.Space("B"), ">", "", k)
	publish := func(subj string) int {
		return b.Space("A").PublishOnce(Msg{Subject: []byte(subj)})
	}
	if publish("a") != 0 {
		t.Error("it is received without an import")
	}
	share(t, b, "B", streamOf(t, "a", "x.a"))
	share(t, b, "B", streamOf(t, "a", "x.a"))
	if publish("a") != 1 {
		t.Error("a subscription from before an import does not receive it, or twice")
	}
	share(t, b, "B", streamOf(t, "b", "x.b"))
	if publish("a") != 0 || publish("b") != 1 {
		t.Error("a change of imports does not count")
	}
	share(t, b, "B", Sharing{})
	if publish("b") != 0 || b.Space("A").Subscriptions() != 0 {
		t.Error("an import that is gone still receives")
	}
	share(t, b, "B", streamOf(t, "b", "x.b"))
	b.Space("B").Unsubscribe(sub)
	if n := b.Space("A").Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestQueueGroupOverAccounts: every message goes to one member, also where members have gone when it is handed over.
func TestQueueGroupOverAccounts(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", streamOf(t, "work", "job"))
	home := &outletSink{space: b.Space("A")}
	abroad := &outletSink{space: b.Space("B")}
	gone := &outletSink{space: b.Space("B"), sink: sink{closed: true}}
	subscribe(t, b.Space("A"), "work", "q", home)
	subscribe(t, b.Space("B"), "job", "q", abroad)
	subscribe(t, b.Space("B"), "job", "q", gone)
	lost := 0
	p := b.Space("A").NewPublisherFor(PublisherOptions{Lost: func(*proto.Pub, int) { lost++ }})
	const n = 600
	for i := range n {
		p.Publish(Msg{Subject: []byte("work"), Data: fmt.Append(nil, i)})
		if i%50 == 49 {
			p.Flush()
		}
	}
	if got := len(home.got) + len(abroad.got); got != n || lost != 0 {
		t.Fatalf("%d of %d received, %d lost", got, n, lost)
	}
	if len(home.got) < n/4 || len(abroad.got) < n/4 {
		t.Errorf("%d went to the member at home and %d to the one abroad", len(home.got), len(abroad.got))
	}
	seen := map[string]bool{}
	for _, r := range append(home.got, abroad.got...) {
		if seen[r.msg] {
			t.Errorf("message %s came twice", r.msg)
		}
		seen[r.msg] = true
	}
	home.closed, abroad.closed = true, true
	p.Publish(Msg{Subject: []byte("work")})
	p.Flush()
	if lost != 1 {
		t.Errorf("%d lost, want 1", lost)
	}
}

// TestImportKeepsLimit: a subscription with a limit ends by what comes from other accounts, too.
func TestImportKeepsLimit(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", streamOf(t, "a", "b"))
	o := &outletSink{space: b.Space("B")}
	sub := subscribe(t, b.Space("B"), "b", "", o)
	sub.SetLimit(2)
	for range 4 {
		b.Space("A").PublishOnce(Msg{Subject: []byte("a")})
	}
	if len(o.got) != 2 || b.Space("A").HasInterest("a") {
		t.Errorf("%d received, interest %v", len(o.got), b.Space("A").HasInterest("a"))
	}
}

// serviceOf imports a service of A into B.
func serviceOf(t testing.TB, far, near string, many bool) Sharing {
	return Sharing{Services: []ServiceImport{{From: "A", Subjects: bridge(t, far, near), Many: many, Threshold: time.Minute}}}
}

// answers keeps the replies that it is asked for.
type answers struct {
	subjects []string
	replies  []string
}

func (a *answers) Deliver(batch []Delivery) <-chan struct{} {
	for _, d := range batch {
		a.subjects = append(a.subjects, string(d.Subject))
		a.replies = append(a.replies, string(d.Reply))
	}
	return nil
}

func TestServiceReplyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		share(t, b, "B", serviceOf(t, "svc", "svc", true))
		a, k := &answers{}, &keeper{}
		subscribe(t, b.Space("A"), "svc", "", a)
		inbox := subscribe(t, b.Space("B"), "inbox", "", k)
		ask := func() string {
			b.Space("B").PublishOnce(Msg{Subject: []byte("svc"), Reply: []byte("inbox")})
			return a.replies[len(a.replies)-1]
		}
		answer := func(to string) { b.Space("A").PublishOnce(Msg{Subject: []byte(to), Data: []byte("x")}) }
		reply := ask()
		if !b.Space("A").HasInterest(reply) || b.Space("A").HasInterest(reply+"x") {
			t.Error("interest in a private reply is wrong")
		}
		for range 3 { // each response gives it time for the next
			time.Sleep(50 * time.Second)
			answer(reply)
		}
		if len(k.got) != 3 {
			t.Errorf("%d responses arrived, want 3", len(k.got))
		}
		time.Sleep(61 * time.Second)
		answer(reply)
		if len(k.got) != 3 || b.Space("A").HasInterest(reply) {
			t.Error("a response came too late and arrived all the same")
		}
		reply = ask()
		b.Space("B").Unsubscribe(inbox)
		if b.Space("A").HasInterest(reply) {
			t.Error("nobody waits for the response, and there is interest in it")
		}
		answer(reply)
		if n := len(b.Space("A").replies.by); n != 0 {
			t.Errorf("%d replies are left", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		r := b.Space("A").replies
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.queues); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

func TestServiceRepliesAreBounded(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", serviceOf(t, "svc", "svc", false))
	a, k := &answers{}, &keeper{}
	subscribe(t, b.Space("A"), "svc", "", a)
	subscribe(t, b.Space("B"), "inbox", "", k)
	for range maxReplies + 10 {
		b.Space("B").PublishOnce(Msg{Subject: []byte("svc"), Reply: []byte("inbox")})
	}
	if n := len(b.Space("A").replies.by); n != maxReplies {
		t.Errorf("%d replies, want %d", n, maxReplies)
	}
	for _, i := range []int{0, 9, 10, len(a.replies) - 1} {
		b.Space("A").PublishOnce(Msg{Subject: []byte(a.replies[i]), Data: []byte("x")})
	}
	if len(k.got) != 2 {
		t.Errorf("%d responses arrived, want those to the two newest", len(k.got))
	}
}

// TestServiceNobodyAnswers: who asks hears of it, whether nobody was there, or has gone since.
func TestServiceNobodyAnswers(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", serviceOf(t, "svc.*", "ask.*", false))
	share(t, b, "C", Sharing{Services: []ServiceImport{{From: "B", Subjects: bridge(t, "ask.*", "*"), Threshold: time.Minute}}})
	gone := &outletSink{sink: sink{closed: true}}
	here := &answers{}
	subscribe(t, b.Space("A"), "svc.gone", "", gone)
	subscribe(t, b.Space("A"), "svc.here", "", here)
	var lost []string
	p := b.Space("C").NewPublisherFor(PublisherOptions{Lost: func(m *proto.Pub, _ int) { lost = append(lost, string(m.Subject)) }})
	for _, subj := range []string{"nobody", "here", "gone", "here", "nobody"} {
		p.Publish(Msg{Subject: []byte(subj), Reply: []byte("inbox")})
	}
	p.Flush()
	if want := []string{"nobody", "gone", "nobody"}; !slices.Equal(lost, want) {
		t.Errorf("lost %q, want %q", lost, want)
	}
	if want := []string{"svc.here", "svc.here"}; !slices.Equal(here.subjects, want) {
		t.Errorf("received %q", here.subjects)
	}
	if n := len(b.Space("A").replies.by); n != 2 {
		t.Errorf("%d replies are waited for, want 2", n)
	}
}

// TestImportsInACircle: configurations cannot have them, but nothing hangs if they do.
func TestImportsInACircle(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", serviceOf(t, "x", "x", false))
	share(t, b, "A", Sharing{Services: []ServiceImport{{From: "B", Subjects: bridge(t, "x", "x"), Threshold: time.Minute}}})
	a := &answers{}
	subscribe(t, b.Space("A"), "x", "", a)
	b.Space("B").PublishOnce(Msg{Subject: []byte("x"), Reply: []byte("r")})
	if len(a.subjects) != 1 {
		t.Errorf("it came %d times", len(a.subjects))
	}
}

// TestServerLendsNoRights: what the server publishes to a subject that a user chose is no request to JetStream.
func TestServerLendsNoRights(t *testing.T) {
	b := New(Options{})
	share(t, b, "B", serviceOf(t, "$JS.API.>", "js.>", false))
	a := &answers{}
	subscribe(t, b.Space("A"), "$JS.API.>", "", a)
	publish := func(from *Origin, reply string) {
		p := b.Space("B").NewPublisherFor(PublisherOptions{Origin: from})
		p.Publish(Msg{Subject: []byte("js.STREAM.DELETE.S"), Reply: []byte(reply)})
		p.Flush()
	}
	publish(nil, "$JS.ACK.x") // a delivery
	publish(nil, "")          // an answer
	if len(a.subjects) != 0 {
		t.Errorf("it went through: %q", a.subjects)
	}
	p := b.Space("B").NewPublisherFor(PublisherOptions{Origin: &Origin{Account: "B"}})
	p.Grant(true) // an answer of a client that may only answer
	p.Publish(Msg{Subject: []byte("js.STREAM.DELETE.S"), Reply: []byte("inbox")})
	p.Flush()
	if len(a.subjects) != 0 {
		t.Errorf("an answer went through: %q", a.subjects)
	}
	publish(nil, "inbox") // a request for a mirror
	publish(&Origin{Account: "B"}, "")
	if len(a.subjects) != 2 {
		t.Errorf("%d requests arrived, want 2", len(a.subjects))
	}
}

func TestWeightedMapping(t *testing.T) {
	b := New(Options{})
	to := func(weight int, dest string) Destination {
		tr, err := subject.NewTransform("in.*", dest)
		if err != nil {
			t.Fatal(err)
		}
		return Destination{weight, tr}
	}
	share(t, b, "A", Sharing{Mappings: []Mapping{{Source: "in.*", To: []Destination{to(20, "a.$1"), to(50, "b.{{random(3)}}")}}}})
	k := map[string]int{}
	counts := &firstTokens{k}
	subscribe(t, b.Space("A"), ">", "", counts)
	p := b.Space("A").NewPublisherFor(PublisherOptions{Mapped: true})
	const n = 10000
	for i := range n {
		m := proto.Pub{Subject: fmt.Append(nil, "in.", i%5), Wire: []byte("0\r\n\r\n"), DataOff: 3}
		p.Stage(p.Follow(p.Route(m.Subject), &m), &m)
		if i%100 == 99 {
			p.Flush()
		}
	}
	for first, want := range map[string]int{"a": 2000, "b": 5000} {
		if got := k[first]; got < want*9/10 || got > want*11/10 {
			t.Errorf("%d messages went to %s, want about %d", got, first, want)
		}
	}
	if k["in"] != 0 {
		t.Errorf("%d messages stayed", k["in"])
	}
}

type firstTokens struct{ byFirst map[string]int }

func (c *firstTokens) Deliver(batch []Delivery) <-chan struct{} {
	for _, d := range batch {
		first, _, _ := strings.Cut(string(d.Subject), ".")
		c.byFirst[first]++
	}
	return nil
}

// TestSharingConcurrently changes everything at once, for the race detector, and finds nothing left in the end.
func TestSharingConcurrently(t *testing.T) {
	b := New(Options{})
	var wg sync.WaitGroup
	both := Sharing{Streams: streamOf(t, "s.>", "in.>").Streams, Services: serviceOf(t, "svc", "svc", false).Services}
	back := Sharing{Streams: []StreamImport{{From: "B", Subjects: bridge(t, "t.>", "in.>")}}}
	for i := range 4 {
		wg.Go(func() {
			for k := range 200 {
				switch i {
				case 0:
					share(t, b, "B", []Sharing{both, {}}[k%2])
					share(t, b, "A", []Sharing{back, {}}[k%2])
				case 1:
					sub := subscribe(t, b.Space("B"), "in.*", "", &firstTokens{map[string]int{}})
					other := subscribe(t, b.Space("A"), "in.*", "q", &firstTokens{map[string]int{}})
					b.Space("B").Unsubscribe(sub)
					b.Space("A").Unsubscribe(other)
				case 2:
					b.Space("A").PublishOnce(Msg{Subject: []byte("s.x")})
					b.Space("B").PublishOnce(Msg{Subject: []byte("svc"), Reply: []byte("r")})
				case 3:
					sub := subscribe(t, b.Space("A"), "svc", "", &answers{})
					b.Space("A").Unsubscribe(sub)
				}
			}
		})
	}
	wg.Wait()
	share(t, b, "A", Sharing{})
	share(t, b, "B", Sharing{})
	for _, name := range []string{"A", "B"} {
		b.Space(name).All(func(sub *Subscription) bool {
			if !strings.HasPrefix(sub.Subject(), replyPrefix) {
				t.Errorf("%s still has %s", name, sub.Subject())
			}
			return true
		})
	}
}
