package stream

import (
	"bytes"
	"time"
)

// The headers that a stream acts upon: https://docs.nats.io/nats-concepts/jetstream/headers.
// Keys are compared exactly; of several headers of one key the first counts.
type headers struct {
	msgID                 []byte // Nats-Msg-Id
	expectedStream        []byte // Nats-Expected-Stream
	expectedLastID        []byte // Nats-Expected-Last-Msg-Id
	expectedLast          []byte // Nats-Expected-Last-Sequence
	expectedLastOfSubject []byte // Nats-Expected-Last-Subject-Sequence
	expectedSubject       []byte // Nats-Expected-Last-Subject-Sequence-Subject
	rollup                []byte // Nats-Rollup
	ttl                   []byte // Nats-TTL
	increment             []byte // Nats-Incr
	batch                 []byte // Nats-Batch-Id
	source                []byte // Nats-Stream-Source
	schedule              []byte // Nats-Schedule
	scheduleNext          []byte // Nats-Schedule-Next
	scheduler             []byte // Nats-Scheduler
}

var (
	lineEnd    = []byte("\r\n")
	ourHeaders = []byte("Nats-")
)

// parseHeaders reads a header block ("NATS/1.0\r\n…\r\n\r\n"). Values point into it.
func parseHeaders(block []byte) (h headers) {
	// Most headers are not ours.
	at := bytes.Index(block, ourHeaders)
	for at >= 0 {
		line := block[at:]
		if at < 2 || block[at-1] != '\n' || block[at-2] != '\r' {
			line = line[len(ourHeaders):]
		} else {
			end := bytes.Index(line, lineEnd)
			if end < 0 {
				end = len(line)
			}
			h.take(line[:end])
			line = line[end:]
		}
		rest := bytes.Index(line, ourHeaders)
		if rest < 0 {
			return h
		}
		at = len(block) - len(line) + rest
	}
	return h
}

func (h *headers) take(line []byte) {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return
	}
	var to *[]byte
	switch string(line[len(ourHeaders):colon]) {
	case "Msg-Id":
		to = &h.msgID
	case "Expected-Stream":
		to = &h.expectedStream
	case "Expected-Last-Msg-Id":
		to = &h.expectedLastID
	case "Expected-Last-Sequence":
		to = &h.expectedLast
	case "Expected-Last-Subject-Sequence":
		to = &h.expectedLastOfSubject
	case "Expected-Last-Subject-Sequence-Subject":
		to = &h.expectedSubject
	case "Rollup":
		to = &h.rollup
	case "TTL":
		to = &h.ttl
	case "Incr":
		to = &h.increment
	case "Batch-Id":
		to = &h.batch
	case "Stream-Source":
		to = &h.source
	case "Schedule":
		to = &h.schedule
	case "Schedule-Next":
		to = &h.scheduleNext
	case "Scheduler":
		to = &h.scheduler
	default:
		return
	}
	if *to != nil {
		return
	}
	value := line[colon+1:]
	for len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	*to = value
}

// rollup is what a message says about the messages before it.
type rollup uint8

const (
	rollupNone rollup = iota
	rollupSubject
	rollupAll
	rollupInvalid
)

func parseRollup(value []byte) rollup {
	switch {
	case len(value) == 0:
		return rollupNone
	case bytes.EqualFold(value, []byte("sub")):
		return rollupSubject
	case bytes.EqualFold(value, []byte("all")):
		return rollupAll
	}
	return rollupInvalid
}

// parseSequence reads a decimal number as nats-server does: what is none becomes a number that no sequence equals.
func parseSequence(d []byte) uint64 {
	n := int64(0)
	for _, c := range d {
		if c < '0' || c > '9' {
			return ^uint64(0)
		}
		n = n*10 + int64(c-'0')
	}
	return uint64(n)
}

func isInteger(d []byte) bool {
	if len(d) > 1 && (d[0] == '-' || d[0] == '+') {
		d = d[1:]
	}
	for _, c := range d {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(d) > 0
}

// parseTTL reads a Nats-TTL: a duration of at least a second, a number of seconds, or "never", which is -1. Nothing is 0.
func parseTTL(d []byte) (seconds int64, ok bool) {
	switch {
	case len(d) == 0:
		return 0, true
	case bytes.EqualFold(d, []byte("never")):
		return -1, true
	}
	if dur, err := time.ParseDuration(string(d)); err == nil {
		return int64(dur / time.Second), dur >= time.Second
	}
	n := int64(parseSequence(d))
	return n, n >= 0
}
