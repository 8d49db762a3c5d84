package consumer

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go/api"

	"github.com/sluicemq/sluice/internal/subject"
)

// fakeMessage is a message of a fakeStream.
type fakeMessage struct {
	seq     uint64
	subject string
	time    int64
	size    int
}

// fakeStream is the naive stand-in of a stream: a list.
type fakeStream struct {
	messages []fakeMessage
	last     uint64
}

func (s *fakeStream) bounds() (uint64, uint64) {
	if len(s.messages) == 0 {
		return s.last + 1, s.last
	}
	return s.messages[0].seq, s.last
}

func (s *fakeStream) get(seq uint64) (fakeMessage, bool) {
	i := sort.Search(len(s.messages), func(i int) bool { return s.messages[i].seq >= seq })
	if i < len(s.messages) && s.messages[i].seq == seq {
		return s.messages[i], true
	}
	return fakeMessage{}, false
}

func (s *fakeStream) add(subj string, at int64, size int) uint64 {
	s.last++
	s.messages = append(s.messages, fakeMessage{s.last, subj, at, size})
	return s.last
}

func (s *fakeStream) remove(seq uint64) (fakeMessage, bool) {
	m, ok := s.get(seq)
	if ok {
		s.messages = slices.DeleteFunc(s.messages, func(m fakeMessage) bool { return m.seq == seq })
	}
	return m, ok
}

// fakeView is a fakeStream through a filter.
type fakeView struct {
	stream  *fakeStream
	filters []string
}

func (v *fakeView) match(m fakeMessage) bool {
	return len(v.filters) == 0 || slices.ContainsFunc(v.filters, func(f string) bool { return subject.Match(m.subject, f) })
}

func (v *fakeView) Next(from uint64) (uint64, bool) {
	for _, m := range v.stream.messages {
		if m.seq >= from && v.match(m) {
			return m.seq, true
		}
	}
	return 0, false
}

func (v *fakeView) Pending(from uint64) (n uint64) {
	for _, m := range v.stream.messages {
		if m.seq >= from && v.match(m) {
			n++
		}
	}
	return n
}

func (v *fakeView) Last() (last uint64) {
	for _, m := range v.stream.messages {
		if v.match(m) {
			last = m.seq
		}
	}
	return last
}

func (v *fakeView) Bounds() (first, last uint64) { return v.stream.bounds() }

func (v *fakeView) Has(seq uint64) bool {
	_, ok := v.stream.get(seq)
	return ok
}

func (v *fakeView) SeqAt(t int64) uint64 {
	for _, m := range v.stream.messages {
		if m.time >= t {
			return m.seq
		}
	}
	return v.stream.last + 1
}

func (v *fakeView) LastPerSubject(upTo uint64) (seqs []uint64) {
	last := map[string]uint64{}
	for _, m := range v.stream.messages {
		if m.seq <= upTo && v.match(m) {
			last[m.subject] = m.seq
		}
	}
	for _, seq := range last {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// delivered is a message that went out.
type deliveredMessage struct {
	Dispatch
	at time.Time
}

// world drives a consumer as its owner would: it delivers whenever something can go out, carries the effects out, keeps
// the consumer's progress, and checks all the while that the progress replays to the same state.
type world struct {
	t       testing.TB
	now     time.Time
	stream  *fakeStream
	view    *fakeView
	opts    Options
	c       *Consumer
	fx      Effects
	log     [][]byte           // progress
	left    map[string]bool    // subjects that nobody listens on
	replies map[uint64]string  // newest ack subject by stream sequence
	sent    []deliveredMessage // all deliveries
	settled map[uint64]int     // Effects.Settled
	status  func(s Status)     // called for each status
	deliver func(d *Dispatch)  // called for each delivery
	advise  func(a *Advisory)  // called for each advisory
	gone    bool               // the consumer asked to be deleted
	taken   Dispatch
	peak    int // most pending messages so far
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(t testing.TB) *world {
	return &world{
		t: t, now: epoch, stream: &fakeStream{}, left: map[string]bool{}, replies: map[uint64]string{}, settled: map[uint64]int{},
		status: func(Status) {}, deliver: func(*Dispatch) {}, advise: func(*Advisory) {},
	}
}

func (w *world) create(cfg api.ConsumerConfig) {
	w.view = &fakeView{w.stream, Filters(&cfg)}
	w.opts.Stream, w.opts.Name, w.opts.Config, w.opts.Created, w.opts.Messages = "S", "C", cfg, w.now, w.view
	w.opts.Listening = func(reply string) bool { return !w.left[reply] }
	w.opts.Seed = 1
	w.c = New(w.opts, w.now)
	w.settle()
}

func (w *world) publish(subj string, size int) uint64 {
	seq := w.stream.add(subj, w.now.UnixNano(), size)
	if w.c != nil {
		if m, _ := w.stream.get(seq); w.view.match(m) {
			w.c.Visible(seq)
		}
		w.settle()
	}
	return seq
}

func (w *world) remove(seq uint64) {
	m, ok := w.stream.remove(seq)
	switch {
	case !ok || w.c == nil:
	case w.view.match(m):
		w.c.Removed(seq, &w.fx)
	case w.c.Strangers():
		w.c.RemovedStranger(seq, &w.fx)
	}
	w.settle()
}

// ack answers a delivered message on the subject that it came with.
func (w *world) ack(seq uint64, body, reply string) bool {
	a, ok := ParseAckSubject([]byte(w.replies[seq]))
	if !ok {
		w.t.Fatalf("sequence %d was not delivered: %q", seq, w.replies[seq])
	}
	answer := w.c.Ack(&a, []byte(body), []byte(reply), w.now, &w.fx)
	w.settle()
	return answer
}

// advance lets time pass, with a Tick whenever one is due.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for range 1_000_000 {
		at, ok := w.c.NextTimer()
		if !ok || at.After(end) {
			w.now = end
			return
		}
		if at.After(w.now) {
			w.now = at
		}
		w.c.Tick(w.now, &w.fx)
		w.settle()
	}
	w.t.Fatal("the timers never come to rest")
}

// settle delivers what can go out and carries the effects out.
func (w *world) settle() {
	for {
		w.effects()
		seq, ok := w.c.Peek(w.now, &w.fx)
		if !ok {
			break
		}
		m, ok := w.stream.get(seq)
		if !ok {
			w.c.Skip(seq, &w.fx)
			continue
		}
		d := &w.taken
		if !w.c.Take(d, Message{Seq: seq, Time: m.time, Subject: len(m.subject), Data: m.size}, w.now, &w.fx) {
			continue
		}
		if w.left[d.To] {
			w.c.Undelivered(d, w.now)
			continue
		}
		w.replies[seq] = string(d.Reply)
		kept := *d
		kept.Reply = slices.Clone(d.Reply)
		w.sent = append(w.sent, deliveredMessage{kept, w.now})
		w.deliver(d)
	}
	w.effects()
	w.check()
}

func (w *world) effects() {
	for _, s := range w.fx.Statuses {
		w.status(s)
	}
	for i := range w.fx.Advisories {
		w.advise(&w.fx.Advisories[i])
	}
	for _, seq := range w.fx.Settled {
		w.settled[seq]++
	}
	w.gone = w.gone || w.fx.Inactive
	w.fx.Reset()
}

// check verifies what must hold at any time.
func (w *world) check() {
	w.t.Helper()
	c := w.c
	if want := w.trueNumPending(); c.numPending != want {
		w.t.Fatalf("num_pending is %d, should be %d (cursor %d)", c.numPending, want, c.cursor)
	}
	live, again := 0, 0
	for _, e := range c.pending.all {
		live++
		if e.deliveries > 1 {
			again++
		}
	}
	if live != c.pending.live || again != c.pending.redelivered {
		w.t.Fatalf("pending counts %d live and %d redelivered, there are %d and %d", c.pending.live, c.pending.redelivered, live, again)
	}
	if c.maxPending > 0 && live > c.maxPending {
		w.t.Fatalf("%d messages pending, max_ack_pending is %d", live, c.maxPending)
	}
	w.peak = max(w.peak, live)
	if n := len(c.deadlines); n > 2*w.peak+slack {
		w.t.Fatalf("%d deadlines for at most %d pending messages", n, w.peak)
	}
	if n := len(c.redeliver.seqs); n > 4*(live+slack) {
		w.t.Fatalf("%d places in the redelivery queue for %d pending messages", n, live)
	}
	if n := len(c.pending.entries) - c.pending.head; n > 2*live+slack {
		w.t.Fatalf("%d entries for %d pending messages", n, live)
	}
	if len(w.log) == 0 || c.Dirty() {
		part := c.Progress(nil)
		if len(part) == 0 {
			w.t.Fatal("Progress is empty though the consumer is dirty")
		}
		w.log = append(w.log, part)
		if again := c.Progress(nil); again != nil || c.Dirty() {
			w.t.Fatalf("Progress repeats itself: %x", again)
		}
	}
}

func (w *world) trueNumPending() uint64 {
	return w.c.skip.left() + w.view.Pending(w.c.cursor)
}

// replayed makes a consumer from the progress that was kept, without its newest parts.
func (w *world) replayed(lose int) *Consumer {
	w.t.Helper()
	c := Restore(w.opts)
	for i, part := range w.log[:len(w.log)-lose] {
		if err := c.ApplyProgress(part); err != nil {
			w.t.Fatalf("part %d %x: %v", i, part, err)
		}
	}
	return c
}

// crash goes on with what the progress says.
func (w *world) crash(lose int) {
	w.opts.Seed++
	w.c = w.replayed(lose)
	w.c.Resume(w.now)
	w.log = w.log[:len(w.log)-lose]
}

// durable renders all that must survive.
func durable(c *Consumer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "delivered %v floor %v skip %d%v exhausted %v\n", c.delivered, c.floor, c.skip.upTo, listed(c), c.exhausted.spans)
	for _, e := range c.pending.all {
		deadline := milliseconds(e.deadline)
		if e.flags&queued != 0 {
			deadline = 0
		}
		fmt.Fprintf(&b, "%d: %d x%d until %d\n", e.stream, e.consumer, e.deliveries, deadline)
	}
	return b.String()
}

// listed is what a list of last messages still has to give, also before it was resumed.
func listed(c *Consumer) (left []uint64) {
	spans, ok := c.skip.spans()
	if !c.skip.active() || !ok {
		return nil
	}
	for _, s := range spans {
		for seq := max(s.lo, c.delivered.stream+1); seq <= s.hi && seq <= 1<<20; seq++ {
			if c.messages.Has(seq) {
				left = append(left, seq)
			}
		}
	}
	return left
}

// checkReplay compares the state with what its progress replays to.
func (w *world) checkReplay() {
	w.t.Helper()
	if got, want := durable(w.replayed(0)), durable(w.c); got != want {
		w.t.Fatalf("progress replays to\n%sthe state is\n%s", got, want)
	}
	snap := Restore(w.opts)
	if err := snap.ApplyProgress(w.c.Snapshot(nil)); err != nil {
		w.t.Fatal(err)
	}
	if got, want := durable(snap), durable(w.c); got != want {
		w.t.Fatalf("the snapshot is\n%sthe state is\n%s", got, want)
	}
}
