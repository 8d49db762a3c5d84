package proto

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// HeaderLine begins every header block; a status stands between the version and the line end.
const HeaderLine = "NATS/1.0\r\n"

const headerVersion = "NATS/1.0"

var (
	// ErrBadHeader: a header block is not made as ADR-4 says.
	ErrBadHeader = errors.New("malformed header")
	// ErrBadHeaderKey: a field name is empty, or has a blank, a colon or a byte that is not printable ASCII.
	ErrBadHeaderKey = errors.New("invalid header key")
)

// Header is the header block of a message as it is on the wire: the version line, fields, and the empty line, all
// ended by CRLF. See https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-4.md.
//
// NATS passes blocks on as they come, so one may be anything: every method takes garbage, finds in it what there is to
// find, and never reads beyond it. Keys are case-sensitive. A nil Header is a message without one. Methods do not change
// the block; those that make a new one append it to dst, which must not share memory with the block.
type Header []byte

// Validate checks the whole block; the error wraps ErrBadHeader and says what is wrong.
func (h Header) Validate() error {
	first, rest, ok := h.firstLine()
	switch {
	case !ok:
		return fmt.Errorf("%w: it does not begin with %s", ErrBadHeader, headerVersion)
	case len(first) > len(headerVersion):
		if _, _, ok := h.Status(); !ok {
			return fmt.Errorf("%w: status %.40q", ErrBadHeader, first[len(headerVersion):])
		}
	}
	for {
		var line []byte
		if line, rest, ok = headerLine(rest); !ok {
			return fmt.Errorf("%w: it does not end with an empty line", ErrBadHeader)
		}
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			return fmt.Errorf("%w: line %.40q has no colon", ErrBadHeader, line)
		}
		if !validHeaderKey(line[:colon]) {
			return fmt.Errorf("%w: key %.40q", ErrBadHeader, line[:colon])
		}
		if bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, '\n') >= 0 {
			return fmt.Errorf("%w: a bare line end in %.40q", ErrBadHeader, line)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the empty line", ErrBadHeader, len(rest))
	}
	return nil
}

// ValidHeaderKey reports whether key may be a field name: printable ASCII without blanks and colons.
func ValidHeaderKey(key string) bool { return validHeaderKey(key) }

func validHeaderKey[S string | []byte](key S) bool {
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == ':' {
			return false
		}
	}
	return len(key) > 0
}

// headerLine splits the first line off b.
func headerLine(b []byte) (line, rest []byte, ok bool) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return b, nil, false
	}
	return b[:end], b[end+2:], true
}

// Get finds the first value of a key, without the blanks before it but with those after it. The value shares memory with
// the block. ok is false where there is no such field; a field without a value is there, and empty. It does not
// allocate.
func (h Header) Get(key string) (value []byte, ok bool) {
	at := h.find(key, 0)
	if at < 0 {
		return nil, false
	}
	value, _ = h.valueAt(at + len(key) + 1)
	return value, true
}

// Has reports whether there is a field of that key.
func (h Header) Has(key string) bool { return h.find(key, 0) >= 0 }

// Values walks over the values of a key in the order of the block, as Get finds them.
func (h Header) Values(key string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := h.find(key, 0); at >= 0; {
			value, next := h.valueAt(at + len(key) + 1)
			if !yield(value) {
				return
			}
			at = h.find(key, next)
		}
	}
}

// All walks over the fields in the order of the block; keys and values share its memory. It stops at the empty line and
// skips lines that are no fields.
func (h Header) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		_, rest, ok := headerLine(h)
		for ok && len(rest) > 0 {
			var line []byte
			line, rest, ok = headerLine(rest)
			if len(line) == 0 {
				return
			}
			colon := bytes.IndexByte(line, ':')
			if colon <= 0 {
				continue
			}
			if !yield(line[:colon:colon], trimLeft(line[colon+1:])) {
				return
			}
		}
	}
}

// find is where the line of a key begins, at or after from. A field begins after a CRLF, so never in the first line.
func (h Header) find(key string, from int) int {
	if key == "" {
		return -1
	}
	for {
		lineEnd := bytes.IndexByte(h[from:], '\n')
		if lineEnd < 0 {
			return -1
		}
		from += lineEnd + 1
		if from >= 2 && h[from-2] == '\r' && isField(h[from:], key) {
			return from
		}
	}
}

// isField reports whether a line is a field of that key.
func isField(line []byte, key string) bool {
	return len(line) > len(key) && line[len(key)] == ':' && string(line[:len(key)]) == key
}

// valueAt cuts out the value that begins after a colon, and tells where its line ends.
func (h Header) valueAt(start int) (value []byte, end int) {
	line, _, _ := headerLine(h[start:])
	return trimLeft(line), start + len(line)
}

func trimLeft(value []byte) []byte {
	for len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return value[:len(value):len(value)]
}

// Status reads the status of the first line: a number of three digits, and the text after it. ok is false where
// there is none, as in the headers of ordinary messages.
func (h Header) Status() (code int, description []byte, ok bool) {
	line, _, begins := h.firstLine()
	if !begins {
		return 0, nil, false
	}
	rest := bytes.Trim(line[len(headerVersion):], " \t")
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' && rest[3] != '\t' {
		return 0, nil, false
	}
	for _, digit := range rest[:3] {
		if digit < '0' || digit > '9' {
			return 0, nil, false
		}
		code = code*10 + int(digit-'0')
	}
	return code, bytes.TrimLeft(rest[3:], " \t"), true
}

// Append appends a copy of the block to dst, with one more field at its end, whether or not it has the key. The error
// wraps ErrBadHeaderKey, and dst is returned as it was.
func (h Header) Append(dst []byte, key, value string) ([]byte, error) {
	if !ValidHeaderKey(key) {
		return dst, fmt.Errorf("%w: %.40q", ErrBadHeaderKey, key)
	}
	dst = h.appendOpen(dst, func([]byte) bool { return false })
	dst = AppendHeaderField(dst, key, value)
	return append(dst, "\r\n"...), nil
}

// Set is Append, but all fields of that key are left out first.
func (h Header) Set(dst []byte, key, value string) ([]byte, error) {
	if !ValidHeaderKey(key) {
		return dst, fmt.Errorf("%w: %.40q", ErrBadHeaderKey, key)
	}
	dst = h.appendOpen(dst, func(line []byte) bool { return isField(line, key) })
	dst = AppendHeaderField(dst, key, value)
	return append(dst, "\r\n"...), nil
}

// Remove appends a copy of the block to dst without the fields of a key. Where that leaves nothing but the bare
// first line, it appends nothing: such a message has no header. A block that does not begin as one is copied as it is.
func (h Header) Remove(dst []byte, key string) []byte {
	return h.without(dst, func(line []byte) bool { return isField(line, key) })
}

// RemovePrefix is Remove for all keys that begin with prefix.
func (h Header) RemovePrefix(dst []byte, prefix string) []byte {
	return h.without(dst, func(line []byte) bool {
		return len(line) >= len(prefix) && string(line[:len(prefix)]) == prefix
	})
}

// RemoveStatus is Remove for the status of the first line.
func (h Header) RemoveStatus(dst []byte) []byte {
	first, rest, ok := h.firstLine()
	switch {
	case !ok || len(first) == len(headerVersion):
		return append(dst, h...)
	case len(rest) == 0 || string(rest) == "\r\n":
		return dst
	}
	return append(append(dst, HeaderLine...), rest...)
}

func (h Header) without(dst []byte, drop func(line []byte) bool) []byte {
	if _, rest, ok := h.firstLine(); !ok || len(rest) <= len("\r\n") {
		return append(dst, h...)
	}
	start := len(dst)
	dst = h.appendOpen(dst, drop)
	if string(dst[start:]) == HeaderLine {
		return dst[:start]
	}
	return append(dst, "\r\n"...)
}

// firstLine fails where the block does not begin as one.
func (h Header) firstLine() (line, rest []byte, ok bool) {
	line, rest, ok = headerLine(h)
	return line, rest, ok && bytes.HasPrefix(line, []byte(headerVersion))
}

// appendOpen copies the block up to its empty line, but for the fields to drop. A block that does not begin as one becomes the
// bare first line.
func (h Header) appendOpen(dst []byte, drop func(line []byte) bool) []byte {
	first, rest, ok := h.firstLine()
	if !ok {
		return append(dst, HeaderLine...)
	}
	dst = append(append(dst, first...), "\r\n"...)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = headerLine(rest)
		if len(line) == 0 {
			break
		}
		if !drop(line) {
			dst = append(append(dst, line...), "\r\n"...)
		}
	}
	return dst
}

// AppendHeaderField appends one line of a block that the caller is building: after HeaderLine or AppendStatusLine, and
// before the empty line. The key must be valid. Line ends in the value become blanks, as in NATS's clients, so that
// no value can begin a field of its own.
func AppendHeaderField(dst []byte, key, value string) []byte {
	dst = append(append(dst, key...), ": "...)
	return append(appendOneLine(dst, value), "\r\n"...)
}

// AppendStatusLine appends the first line of a block with a status, such as 503, or 100 with "Idle Heartbeat". Fields
// may follow, and then an empty line. The code has three digits: what is below 100 is written as 100, what is above
// 999 as 999.
func AppendStatusLine(dst []byte, code int, description string) []byte {
	code = min(max(code, 100), 999)
	dst = append(dst, headerVersion+" "...)
	dst = append(dst, byte('0'+code/100), byte('0'+code/10%10), byte('0'+code%10))
	if description != "" {
		dst = appendOneLine(append(dst, ' '), description)
	}
	return append(dst, "\r\n"...)
}

// StatusHeader is a whole block that has a status and no fields.
func StatusHeader(code int, description string) Header {
	return append(AppendStatusLine(nil, code, description), "\r\n"...)
}

func appendOneLine(dst []byte, text string) []byte {
	start := len(dst)
	dst = append(dst, text...)
	for i := start; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return dst
}
