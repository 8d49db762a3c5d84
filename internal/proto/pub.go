package proto

// Pub is a message in the form in which it goes through the server: as it was received, and as it will be sent on.
type Pub struct {
	Subject []byte
	// Wire is what a MSG (or, with headers, an HMSG) line holds behind the subscription's id, and what follows it:
	// "[reply ][header-length ]total-length\r\n" + header + payload + "\r\n".
	Wire      []byte
	ReplyLen  int32 // the reply's length: it begins Wire
	HeaderLen int32 // 0: no header
	DataOff   int32 // where header and payload begin in Wire
	Receivers int32 // set by the broker: how many it was staged for
}

// Reply gives the reply subject; empty: none.
func (m *Pub) Reply() []byte { return m.Wire[:m.ReplyLen] }

// Header gives the header block; empty: none.
func (m *Pub) Header() []byte { return m.Wire[m.DataOff : m.DataOff+m.HeaderLen] }

// Data gives the payload.
func (m *Pub) Data() []byte { return m.Wire[m.DataOff+m.HeaderLen : len(m.Wire)-2] }

// Size is the length of header and payload in bytes.
func (m *Pub) Size() int { return len(m.Wire) - 2 - int(m.DataOff) }
