package segment

import "encoding/binary"

// cursor reads numbers off bytes that may be anything. Beyond the end, or on a number that is none, it turns bad, gives
// zeros, and stays bad.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

func (c *cursor) fail() {
	c.bad = true
	c.at = len(c.b)
}

func (c *cursor) uvarint() uint64 {
	if b := c.b[c.at:]; len(b) >= 2 { // most have one byte or two
		if b[0] < 0x80 {
			c.at++
			return uint64(b[0])
		}
		if b[1] < 0x80 {
			c.at += 2
			return uint64(b[0]&0x7f) | uint64(b[1])<<7
		}
	}
	v, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		c.fail()
		return 0
	}
	c.at += n
	return v
}

// below is a uvarint that must be less than bound.
func (c *cursor) below(bound uint64) uint64 {
	v := c.uvarint()
	if v >= bound {
		c.fail()
		return 0
	}
	return v
}

func (c *cursor) varint() int64 { return zigzag(c.uvarint()) }

func (c *cursor) uint32() uint32 {
	if len(c.b)-c.at < 4 {
		c.fail()
		return 0
	}
	c.at += 4
	return binary.BigEndian.Uint32(c.b[c.at-4:])
}

// bytes gives the next n bytes, which alias what is read.
func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)-c.at) {
		c.fail()
		return nil
	}
	c.at += int(n)
	return c.b[c.at-int(n) : c.at : c.at]
}

func (c *cursor) atEnd() bool { return !c.bad && c.at == len(c.b) }
