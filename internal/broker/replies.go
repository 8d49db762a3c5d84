package broker

import (
	"bytes"
	"container/list"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/proto"
)

// replyPrefix begins the subjects that stand for replies of other accounts. Clients may not name them as replies of
// their own, and cannot guess them.
const replyPrefix = "_R_."

// maxReplies bounds the responses that an account may still owe to others. Beyond it the oldest are forgotten.
const maxReplies = 64 << 10

// replies are the private replies of an exporter's space: each stands for the reply of a request that came through a
// service import, and ends with the response, or when none has come in time.
type replies struct {
	space *Space

	mu     sync.Mutex // guards what follows
	prefix string     // replyPrefix and a part that is the space's own; "" until the first
	by     map[string]*pending
	queues map[time.Duration]*replyQueue
}

// pending is one reply.
type pending struct {
	token string
	to    *Space // of who asked
	reply []byte
	many  bool
	wait  time.Duration
	used  time.Time
	at    *list.Element
}

// replyQueue has the replies that expire after the same time, those first that were used longest ago.
type replyQueue struct {
	wait  time.Duration
	order list.List // of *pending
	timer *time.Timer
}

func newReplies(s *Space) *replies {
	return &replies{space: s, by: map[string]*pending{}, queues: map[time.Duration]*replyQueue{}}
}

// add makes a private reply; many means that more than one response may come, each within wait of the one before.
func (r *replies) add(to *Space, reply []byte, many bool, wait time.Duration) (token string) {
	text := rand.Text()
	p := &pending{to: to, reply: bytes.Clone(reply), many: many, wait: wait, used: time.Now()}
	r.mu.Lock()
	if r.prefix == "" {
		r.prefix = replyPrefix + text[:6] + "."
		sub := NewSubscription(r.prefix+">", "", "", r)
		_, _ = r.space.insert(sub) // the subject is valid
		text = rand.Text()
	}
	p.token = r.prefix + text + instructions(reply)
	q := r.queues[wait]
	if q == nil {
		q = &replyQueue{wait: wait}
		q.order.Init()
		r.queues[wait] = q
	}
	if len(r.by) >= maxReplies {
		r.forgetOldest(q)
	}
	r.by[p.token] = p
	p.at = q.order.PushBack(p)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, func() { r.expire(q) })
	}
	r.mu.Unlock()
	return p.token
}

// fastBatch ends the replies of JetStream's fast batches.
const fastBatch = ".$FI"

// instructions are what a reply tells JetStream, which it must find in the private one: the message's place in a fast
// batch, in five tokens, and what says so.
func instructions(reply []byte) string {
	if !bytes.HasSuffix(reply, []byte(fastBatch)) {
		return ""
	}
	at := len(reply) - len(fastBatch)
	for range 5 {
		if at = bytes.LastIndexByte(reply[:at], '.'); at < 0 {
			return ""
		}
	}
	return string(reply[at:])
}

// forgetOldest makes room, in one queue if that has any, or in another.
func (r *replies) forgetOldest(q *replyQueue) {
	for _, other := range r.queues {
		if q.order.Len() > 0 {
			break
		}
		q = other
	}
	if first := q.order.Front(); first != nil {
		r.remove(first.Value.(*pending))
	}
}

// remove forgets a reply; mu is held.
func (r *replies) remove(p *pending) {
	if r.by[p.token] == p {
		delete(r.by, p.token)
		r.queues[p.wait].order.Remove(p.at)
	}
}

// expire forgets what has waited too long, and comes again when there is more.
func (r *replies) expire(q *replyQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := q.order.Front(); e != nil; e = q.order.Front() {
		p := e.Value.(*pending)
		if left := q.wait - time.Since(p.used); left > 0 {
			q.timer.Reset(left)
			return
		}
		r.remove(p)
	}
	q.timer = nil
	delete(r.queues, q.wait)
}

// drop forgets a reply that will not be needed; "" is none.
func (r *replies) drop(token string) {
	if token == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.by[token]; p != nil {
		r.remove(p)
	}
}

// take finds a reply for a response, and ends it if that is the last.
func (r *replies) take(token string, last bool) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.by[token]
	switch {
	case p == nil:
	case last || !p.many:
		r.remove(p)
	default:
		p.used = time.Now()
		r.queues[p.wait].order.MoveToBack(p.at)
	}
	return p
}

// hasInterest reports whether a response to the subject would be received. known is false for a subject that is not one
// of these replies.
func (r *replies) hasInterest(subj string) (interested, known bool) {
	r.mu.Lock()
	p := r.by[subj]
	known = r.prefix != "" && strings.HasPrefix(subj, r.prefix)
	r.mu.Unlock()
	return p != nil && p.to.HasInterest(string(p.reply)), known
}

// Deliver is never called: replies are an outlet.
func (*replies) Deliver([]Delivery) <-chan struct{} { return nil }

// Remaining is without a limit.
func (*replies) Remaining(*Subscription) uint64 { return 1 << 63 }

// Gone is never so.
func (*replies) Gone() bool { return false }

// DeliverStaged brings responses to who asked.
func (r *replies) DeliverStaged(b *Batch) (gate <-chan struct{}) {
	var (
		to    *Space // of the publisher that is in use
		relay *Publisher
	)
	end := func() {
		if relay == nil {
			return
		}
		if g := to.endRelay(relay); g != nil {
			gate = g
		}
	}
	for _, ref := range b.Refs {
		m := &b.Msgs[ref.Msg]
		routedBy := b.routedBy(ref.Msg)
		p := r.take(string(routedBy), m.HeaderLen == 0 && len(m.Data()) == 0)
		if p == nil {
			continue // it has been answered, or comes too late
		}
		if p.to != to {
			end()
			to, relay = p.to, p.to.relay(b, r)
		}
		if !r.respond(relay, p, Msg{Subject: m.Subject, Reply: m.Reply(), Header: m.Header(), Data: m.Data()}, bytes.Equal(routedBy, m.Subject)) {
			r.drop(p.token)
		}
	}
	end()
	return gate
}

// respond stages a response in the space of who asked. plain means that the message has no subject of its own beside the
// one by which it was routed. It is false when nobody receives it.
func (r *replies) respond(relay *Publisher, p *pending, m Msg, plain bool) bool {
	wire := proto.Pub{Subject: p.reply}
	route := relay.Follow(relay.Route(p.reply), &wire)
	if route.empty() {
		return false
	}
	to := wire.Subject
	if plain {
		m.Subject = to
	}
	token := ""
	if len(m.Reply) > 0 && !bytes.HasPrefix(m.Reply, []byte(ackPrefix)) {
		// An answer that asks for an answer goes the other way through a reply of the same kind.
		token = p.to.replies.add(r.space, m.Reply, p.many, p.wait)
		m.Reply = []byte(token)
	}
	wire = relay.copy(m)
	if relay.stageDetour(route, to, &wire) == 0 {
		p.to.replies.drop(token)
		return false
	}
	return true
}
