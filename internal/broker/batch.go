package broker

import "github.com/sluicemq/sluice/internal/proto"

// Ref says that a staged message goes to a subscription.
type Ref struct {
	Sub *Subscription
	Msg int // position in Batch.Msgs
}

// Batch is what one chunk of one publisher holds for one outlet. It belongs to the publisher.
type Batch struct {
	Msgs    []proto.Pub // all of the chunk
	Refs    []Ref       // those for this outlet, in the order of publication
	Refused []Ref       // the outlet's answer: what it could not take
	From    *Origin
	by      *Publisher
	// Few: the chunk goes to so few receivers that each may write on the publisher's goroutine.
	Few bool
}

// routedBy is the subject by which a message was matched: mostly its own.
func (b *Batch) routedBy(msg int) []byte { return b.by.routedBy(msg) }

func msgOf(m *proto.Pub) Msg {
	return Msg{Subject: m.Subject, Reply: m.Reply(), Header: m.Header(), Data: m.Data()}
}

// detour is where a message goes that was matched by another subject than its own.
type detour struct {
	msg int
	to  []byte
}
