package broadcast

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/broker"
)

// kindMessage is the kind of a record that holds a message. Numbers are part of the format and never reused; a reader
// passes over kinds that it does not know.
const kindMessage = 1

// maxRecordOverhead is the most bytes that a record has beside the texts of its message.
const maxRecordOverhead = 1 + 5*binary.MaxVarintLen32

// ErrMalformed: a batch of a broadcast log is not made of records.
var ErrMalformed = errors.New("broadcast: malformed record")

// Message is a broadcast message: docs/format/broadcast.md has its bytes. The reply subject is not part of it, since
// whoever waits there is a client of one node.
type Message struct {
	Account string
	broker.Msg
}

func (m *Message) size() int {
	return maxRecordOverhead + len(m.Account) + len(m.Subject) + len(m.Header) + len(m.Data)
}

// appendMessage writes a message as a record.
func appendMessage(dst []byte, m *Message) []byte {
	body := 1 + uvarintLen(len(m.Account)) + uvarintLen(len(m.Subject)) + uvarintLen(len(m.Header)) +
		len(m.Account) + len(m.Subject) + len(m.Header) + len(m.Data)
	dst = binary.AppendUvarint(dst, uint64(body))
	dst = append(dst, kindMessage)
	dst = binary.AppendUvarint(dst, uint64(len(m.Account)))
	dst = binary.AppendUvarint(dst, uint64(len(m.Subject)))
	dst = binary.AppendUvarint(dst, uint64(len(m.Header)))
	dst = append(dst, m.Account...)
	dst = append(dst, m.Subject...)
	dst = append(dst, m.Header...)
	return append(dst, m.Data...)
}

func uvarintLen(n int) int {
	size := 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}

// nextMessage reads the first record of a batch's body; its slices point into it. known is false for a record of a kind
// that this version does not know.
func nextMessage(b []byte) (m Message, known bool, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n < 1 || n > uint64(len(b)-w) {
		return m, false, nil, fmt.Errorf("%w: %d bytes in %d", ErrMalformed, n, len(b))
	}
	record, rest := b[w:w+int(n)], b[w+int(n):]
	if record[0] != kindMessage {
		return m, false, rest, nil
	}
	record = record[1:]
	var lens [3]int
	for i := range lens {
		n, w := binary.Uvarint(record)
		if w <= 0 || n > uint64(len(record)-w) {
			return m, false, nil, fmt.Errorf("%w: part %d of a message has %d bytes in %d", ErrMalformed, i, n, len(record))
		}
		lens[i], record = int(n), record[w:]
	}
	if lens[0]+lens[1]+lens[2] > len(record) || lens[1] == 0 {
		return m, false, nil, fmt.Errorf("%w: a message's parts have %v bytes in %d", ErrMalformed, lens, len(record))
	}
	m.Account, record = string(record[:lens[0]]), record[lens[0]:]
	m.Subject, record = record[:lens[1]], record[lens[1]:]
	m.Header, m.Data = record[:lens[2]], record[lens[2]:]
	return m, true, rest, nil
}
