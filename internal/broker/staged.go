package broker

// Staged is a message in the form that a publisher keeps between matching and hand-off. Its slices belong to the
// publisher and hold until the hand-off has returned.
type Staged struct {
	Subject []byte
	// Wire is "[reply ][header-length ]total-length\r\n" + header + payload + "\r\n", as the protocol wants it behind
	// the subscription's id.
	Wire      []byte
	To        []byte // the subject that was matched, where it is not Subject
	ReplyLen  int32
	HeaderLen int32
	DataOff   int32 // where header and payload begin in Wire
}

// Reply gives the reply subject; empty: none.
func (m *Staged) Reply() []byte { return m.Wire[:m.ReplyLen] }

// Header gives the header block; empty: none.
func (m *Staged) Header() []byte { return m.Wire[m.DataOff : m.DataOff+m.HeaderLen] }

// Data gives the payload.
func (m *Staged) Data() []byte { return m.Wire[m.DataOff+m.HeaderLen : len(m.Wire)-2] }

// Size is the length of header and payload.
func (m *Staged) Size() int { return len(m.Wire) - 2 - int(m.DataOff) }

func (m *Staged) msg() Msg {
	return Msg{Subject: m.Subject, Reply: m.Reply(), Header: m.Header(), Data: m.Data()}
}

// Ref says that a staged message goes to a subscription.
type Ref struct {
	Sub *Subscription
	Msg int // position in Batch.Msgs
}

// Batch is what one chunk of one publisher holds for one outlet.
type Batch struct {
	Msgs    []Staged // all of the chunk
	Refs    []Ref    // those for this outlet, in the order of publication
	Refused []Ref    // the outlet's answer: what it could not take
	From    *Origin
}
