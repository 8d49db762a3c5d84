package stream

import "bytes"

// noted are the headers that a State must know of a message that it does not read again.
var noted = []string{
	"TTL", "Marker-Reason", "Schedule", "Schedule-Time-Zone", "Schedule-TTL", "Schedule-Rollup", "Schedule-Target",
	"Schedule-Source", "Schedule-Next", "Scheduler",
}

// AppendNote appends what a State needs to know of a message's header block when the message is loaded (see [Loader]):
// a block of the few headers that act later, or nothing. withID says that the message's id belongs to them, since the
// dedup window may still remember it.
func AppendNote(dst, header []byte, withID bool) []byte {
	if len(header) == 0 || !bytes.Contains(header, ourHeaders) && !bytes.Contains(header, kvPurge) {
		return dst
	}
	start := len(dst)
	for line := range bytes.SplitAfterSeq(header, lineEnd) {
		if !isNoted(line) && !(withID && isID(line)) {
			continue
		}
		if len(dst) == start {
			dst = append(dst, "NATS/1.0\r\n"...)
		}
		dst = append(dst, line...)
	}
	if len(dst) > start {
		dst = append(dst, lineEnd...)
	}
	return dst
}

func isNoted(line []byte) bool {
	if bytes.Equal(line, kvPurge[len(lineEnd):]) {
		return true
	}
	rest, ours := bytes.CutPrefix(line, ourHeaders)
	if !ours {
		return false
	}
	for _, key := range noted {
		if hasKey(rest, key) {
			return true
		}
	}
	return false
}

func isID(line []byte) bool {
	rest, ours := bytes.CutPrefix(line, ourHeaders)
	return ours && hasKey(rest, "Msg-Id")
}
