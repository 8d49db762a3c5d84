// Package proto reads and writes the NATS client protocol (https://docs.nats.io/reference/reference-protocols/nats-protocol)
// as nats-server [Version] speaks it on its client port.
//
// The parser works in place on a chunk of input: it copies nothing, and what it hands out points into the chunk.
package proto

// Version is the NATS server version that INFO announces: clients decide by it what a server can do.
const Version = "2.15.3"

// Protocol numbers of INFO and CONNECT.
const (
	ProtocolZero = 0
	// ProtocolInfo: the peer understands INFO at any time and the echo option.
	ProtocolInfo = 1
)

// Defaults of nats-server.
const (
	DefaultMaxControlLine = 4096
	DefaultMaxPayload     = 1 << 20
)

// maxSizeDigits bounds a length on a control line, as nats-server does: 999,999,999 bytes is the largest.
const maxSizeDigits = 9

// The lines that never change.
const (
	PingLine = "PING\r\n"
	PongLine = "PONG\r\n"
	OKLine   = "+OK\r\n"
)

// AppendErr appends an -ERR line with the given text.
func AppendErr(b []byte, text string) []byte {
	b = append(b, "-ERR '"...)
	b = append(b, text...)
	return append(b, "'\r\n"...)
}

// ParseSize reads a decimal length of at most nine digits; -1 is anything else.
func ParseSize(d []byte) int {
	if len(d) == 0 || len(d) > maxSizeDigits {
		return -1
	}
	n := 0
	for _, c := range d {
		c -= '0'
		if c > 9 {
			return -1
		}
		n = n*10 + int(c)
	}
	return n
}
