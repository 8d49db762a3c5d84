package wire

import (
	"encoding/binary"
	"fmt"
)

// PutMark marks a payload of at least 8 bytes with the index of the message among those of its publisher to its
// subject, modulo Fixed.Cycle, and with the publisher, both little-endian.
func PutMark(payload []byte, index, publisher int) {
	binary.LittleEndian.PutUint32(payload, uint32(index))
	binary.LittleEndian.PutUint32(payload[4:], uint32(publisher))
}

// Fixed describes messages that all take the same number of bytes on the wire.
type Fixed struct {
	Size       int // bytes of a MSG as delivered: line, payload and both CR LF
	PayloadLen int // bytes of the payload, at least 8 when Cycle is set
	Cycle      int // marks count modulo Cycle and must come in order from each publisher; 0 checks no order
	Publishers int // number of publishers, at most 64
}

// NewFixed computes the size for the subject and sid as the server will write them.
func NewFixed(subject, sid string, payload int) Fixed {
	line := fmt.Sprintf("MSG %s %s %d\r\n", subject, sid, payload)
	return Fixed{Size: len(line) + payload + 2, PayloadLen: payload}
}

// CountFixed reads messages of one size until the connection fails or onRead says stop. After every read it hands the
// number of whole messages and of PONGs that the read completed to onRead. It looks at one byte per message (is this
// a border?) and, with a Cycle, at the mark: a lost, doubled or reordered message is an error that tells where.
func (c *Conn) CountFixed(f Fixed, onRead func(messages, pongs int) error) error {
	var next [64]uint32
	if f.Publishers > len(next) {
		return fmt.Errorf("%d publishers, at most %d", f.Publishers, len(next))
	}
	markAt := f.Size - 2 - f.PayloadLen
	for {
		messages, pongs := 0, 0
		for c.w-c.r >= len("PING\r\n") {
			if c.buf[c.r] != 'M' {
				line, ok := c.wholeLine()
				if !ok {
					break
				}
				if string(line) == "PONG" {
					pongs++
				} else if err := c.control(line); err != nil {
					return err
				}
				continue
			}
			if c.w-c.r < f.Size {
				break
			}
			if f.Cycle > 0 {
				mark := c.buf[c.r+markAt:]
				index, publisher := binary.LittleEndian.Uint32(mark), binary.LittleEndian.Uint32(mark[4:])
				if int(publisher) >= f.Publishers || index != next[publisher] {
					return fmt.Errorf("message out of order: publisher %d index %d, expected %d (modulo %d)", publisher, index, next[publisher&63], f.Cycle)
				}
				if next[publisher]++; int(next[publisher]) == f.Cycle {
					next[publisher] = 0
				}
			}
			messages++
			c.r += f.Size
		}
		if messages > 0 || pongs > 0 {
			if err := onRead(messages, pongs); err != nil {
				return err
			}
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// wholeLine takes a line from the buffer if it is whole.
func (c *Conn) wholeLine() ([]byte, bool) {
	for i := c.r; i < c.w; i++ {
		if c.buf[i] == '\n' {
			line := c.buf[c.r:i]
			c.r = i + 1
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, true
		}
	}
	return nil, false
}
