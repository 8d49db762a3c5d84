package broker

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/proto"
)

// importer receives the requests of a service import and publishes them in the exporter's space.
type importer struct {
	ServiceImport
	near, far *Space
	sub       *Subscription // in near
	server    string
}

// ackPrefix begins the replies that JetStream gives messages. They are passed on as they are, since consumers are
// acknowledged by subject.
const ackPrefix = "$JS.ACK."

// newRelay makes a publisher of what comes from other accounts.
func newRelay(s *Space) *Publisher {
	p := s.NewPublisherFor(PublisherOptions{Mapped: true})
	p.imported = true
	return p
}

// relay lends a publisher for what a batch holds, which came through via.
func (s *Space) relay(b *Batch, via Receiver) *Publisher {
	p := s.relays.Get().(*Publisher)
	p.opts.Origin, p.via, p.parent = b.From, via, b.by
	p.Refresh()
	return p
}

// endRelay hands over what is staged.
func (s *Space) endRelay(p *Publisher) (gate <-chan struct{}) {
	gate = p.Flush()
	p.opts.Origin, p.opts.Lost, p.via, p.parent = nil, nil, nil, nil
	s.relays.Put(p)
	return gate
}

// cameThrough reports whether a message has passed the receiver before: imports may form a circle.
func (b *Batch) cameThrough(via Receiver) bool {
	for p := b.by; p != nil; p = p.parent {
		if p.via == via {
			return true
		}
	}
	return false
}

// DeliverStaged sends requests on. Those that reach nobody are refused, so that who asked hears of it.
func (i *importer) DeliverStaged(b *Batch) (gate <-chan struct{}) {
	if b.cameThrough(i) {
		b.Refused = append(b.Refused, b.Refs...)
		return nil
	}
	p := i.far.relay(b, i)
	type sent struct {
		ref   Ref
		token string
	}
	var staged []sent // since the last hand-off
	refuse := func(ref Ref, token string) {
		i.far.replies.drop(token)
		b.Refused = append(b.Refused, ref)
	}
	p.opts.Lost = func(_ *proto.Pub, at int) {
		if at < len(staged) {
			refuse(staged[at].ref, staged[at].token)
		}
	}
	for _, ref := range b.Refs {
		m := &b.Msgs[ref.Msg]
		routedBy := b.routedBy(ref.Msg)
		far := i.Subjects.AppendFar(nil, routedBy)
		wire := proto.Pub{Subject: far}
		r := p.Follow(p.Route(far), &wire)
		far = wire.Subject
		if ref.Sub.Closed() || r.empty() || borrowsRights(b, routedBy, far, m.Reply()) {
			refuse(ref, "")
			continue
		}
		if len(p.msgs) == 0 {
			staged = staged[:0]
		}
		token, reply := i.replyTo(m)
		out := Msg{Subject: far, Reply: reply, Header: i.header(b, m), Data: m.Data()}
		if !bytes.Equal(routedBy, m.Subject) {
			out.Subject = m.Subject
		}
		wire = p.copy(out)
		for len(staged) < len(p.msgs) {
			staged = append(staged, sent{}) // variants
		}
		staged = append(staged, sent{ref, token})
		if p.stageDetour(r, far, &wire) == 0 {
			staged = staged[:len(staged)-1]
			refuse(ref, token)
		}
	}
	return i.far.endRelay(p)
}

// borrowsRights reports whether a message would make JetStream do something for somebody who may not ask for it himself:
// the server published it to a subject that a user chose, such as a consumer's deliver subject, or it is a response, and
// an import gives a request of JetStream that name. Requests of the server's own have a reply, and it is not JetStream's.
func borrowsRights(b *Batch, near, far, reply []byte) bool {
	_, response := b.by.via.(*replies)
	response = response || b.by.granted
	if b.From != nil && !response {
		return false
	}
	isJetStream := func(subj []byte) bool { return bytes.HasPrefix(subj, []byte("$JS.")) }
	return isJetStream(far) && !isJetStream(near) && (response || len(reply) == 0 || isJetStream(reply))
}

// replyTo gives what stands for a request's reply in the exporter's account.
func (i *importer) replyTo(m *proto.Pub) (token string, reply []byte) {
	reply = m.Reply()
	if len(reply) == 0 || bytes.HasPrefix(reply, []byte(ackPrefix)) {
		return "", reply
	}
	token = i.far.replies.add(i.near, reply, i.Many, i.Threshold)
	return token, []byte(token)
}

// Remaining is without a limit.
func (*importer) Remaining(*Subscription) uint64 { return 1 << 63 }

// Gone reports whether the import has ended.
func (i *importer) Gone() bool { return i.sub.Closed() }

// Deliver is never called: an importer is an outlet.
func (*importer) Deliver([]Delivery) <-chan struct{} { return nil }

// RequestInfo is the header that tells an exporter who asks.
const RequestInfo = "Nats-Request-Info"

// clientInfo is its value, in nats-server's form.
type clientInfo struct {
	Start   *time.Time    `json:"start,omitempty"`
	Host    string        `json:"host,omitempty"`
	ID      uint64        `json:"id,omitempty"`
	Account string        `json:"acc,omitempty"`
	Service string        `json:"svc,omitempty"`
	User    string        `json:"user,omitempty"`
	Name    string        `json:"name,omitempty"`
	Lang    string        `json:"lang,omitempty"`
	Version string        `json:"ver,omitempty"`
	RTT     time.Duration `json:"rtt,omitempty"`
	Server  string        `json:"server,omitempty"`
	Kind    string        `json:"kind,omitempty"`
	Type    string        `json:"client_type,omitempty"`
	Reply   string        `json:"reply,omitempty"`
}

// header gives a request's header with RequestInfo. What the requester itself wrote there is replaced, unless the
// request came through another import, which is then named.
func (i *importer) header(b *Batch, m *proto.Pub) []byte {
	h := proto.Header(m.Header())
	var info clientInfo
	known := false
	if b.by.imported {
		if v, ok := h.Get(RequestInfo); ok && json.Unmarshal(v, &info) == nil {
			known = true
			info.Service = i.near.account
			if i.Share {
				info.Server = i.server
			}
		}
	}
	if !known {
		info = i.describe(b.From, m)
	}
	value, err := json.Marshal(&info)
	if err != nil {
		return h // it is made of texts and numbers
	}
	out, err := h.Set(nil, RequestInfo, string(value))
	if err != nil {
		return h
	}
	return out
}

// describe says of the requester what the import tells.
func (i *importer) describe(from *Origin, m *proto.Pub) clientInfo {
	info := clientInfo{Account: i.near.account}
	if from != nil {
		if info.Account = from.Account; from.RTT != nil {
			info.RTT = from.RTT()
		}
		if i.Share {
			start := from.Start
			info.Start, info.Host, info.ID, info.User, info.Name = &start, from.Host, from.ID, from.User, from.Name
			info.Lang, info.Version, info.Kind, info.Type = from.Lang, from.Version, from.Kind, "nats"
		}
	}
	if i.Share {
		info.Server = i.server
	}
	// JetStream needs to know these: a fast batch says in its reply what it wants, and a pull may end with its inbox.
	if reply := string(m.Reply()); strings.HasSuffix(reply, fastBatch) || strings.HasPrefix(i.Subjects.Far(), "$JS.API.CONSUMER.MSG.NEXT.") {
		info.Reply = reply
	}
	return info
}
