package record

import (
	"encoding/binary"
	"fmt"
)

// StoredMessage is the body of a Message record. Its slices point into the record.
type StoredMessage struct {
	Seq     uint64
	Time    int64 // ns UTC
	Subject []byte
	Header  []byte
	Data    []byte
}

// messageFixed: sequence (8), time (8), subject length (2), header length (4).
const messageFixed = 8 + 8 + 2 + 4

// MessageSize is how many bytes AppendMessage writes at most.
func MessageSize(m *StoredMessage) int {
	return MaxFrame + messageFixed + len(m.Subject) + len(m.Header) + len(m.Data)
}

// AppendMessage writes a message's record.
func AppendMessage(dst []byte, stream StreamID, m *StoredMessage) []byte {
	dst = appendFrame(dst, Message, stream, messageFixed+len(m.Subject)+len(m.Header)+len(m.Data))
	dst = binary.BigEndian.AppendUint64(dst, m.Seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Time))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Subject)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Header)))
	dst = append(dst, m.Subject...)
	dst = append(dst, m.Header...)
	return append(dst, m.Data...)
}

// ParseMessage reads the body of a Message record.
func ParseMessage(body []byte) (m StoredMessage, err error) {
	if len(body) < messageFixed {
		return m, fmt.Errorf("%w: message of %d bytes", ErrMalformed, len(body))
	}
	m.Seq = binary.BigEndian.Uint64(body)
	m.Time = int64(binary.BigEndian.Uint64(body[8:]))
	s := int(binary.BigEndian.Uint16(body[16:]))
	h := int(binary.BigEndian.Uint32(body[18:]))
	rest := body[messageFixed:]
	if s+h > len(rest) {
		return m, fmt.Errorf("%w: subject of %d and header of %d bytes in %d", ErrMalformed, s, h, len(rest))
	}
	m.Subject, m.Header, m.Data = rest[:s:s], rest[s:s+h:s+h], rest[s+h:]
	return m, nil
}
