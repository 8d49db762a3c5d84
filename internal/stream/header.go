package stream

import (
	"bytes"
	"slices"
	"strings"
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
	counterSources        []byte // Nats-Counter-Sources
	batch                 []byte // Nats-Batch-Id
	batchSeq              []byte // Nats-Batch-Sequence
	batchCommit           []byte // Nats-Batch-Commit
	level                 []byte // Nats-Required-Api-Level
	source                []byte // Nats-Stream-Source
	schedule              []byte // Nats-Schedule
	scheduleZone          []byte // Nats-Schedule-Time-Zone
	scheduleTTL           []byte // Nats-Schedule-TTL
	scheduleRollup        []byte // Nats-Schedule-Rollup
	scheduleTarget        []byte // Nats-Schedule-Target
	scheduleSource        []byte // Nats-Schedule-Source
	scheduleNext          []byte // Nats-Schedule-Next
	scheduler             []byte // Nats-Scheduler
	markerReason          []byte // Nats-Marker-Reason
	kvPurge               bool   // KV-Operation: PURGE
}

// isMarker reports whether a message tells that its subject has no value any more, so that no marker need follow it.
func (h *headers) isMarker() bool { return len(h.markerReason) > 0 || h.kvPurge }

var (
	lineEnd    = []byte("\r\n")
	ourHeaders = []byte("Nats-")
	kvPurge    = []byte("\r\nKV-Operation: PURGE\r\n")
)

// parseHeaders reads a header block ("NATS/1.0\r\n…\r\n\r\n"). Values point into it.
func parseHeaders(block []byte) (h headers) {
	h.kvPurge = bytes.Contains(block, kvPurge)
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
	case "Marker-Reason":
		to = &h.markerReason
	case "Incr":
		to = &h.increment
	case "Counter-Sources":
		to = &h.counterSources
	case "Batch-Id":
		to = &h.batch
	case "Batch-Sequence":
		to = &h.batchSeq
	case "Batch-Commit":
		to = &h.batchCommit
	case "Required-Api-Level":
		to = &h.level
	case "Stream-Source":
		to = &h.source
	case "Schedule":
		to = &h.schedule
	case "Schedule-Time-Zone":
		to = &h.scheduleZone
	case "Schedule-TTL":
		to = &h.scheduleTTL
	case "Schedule-Rollup":
		to = &h.scheduleRollup
	case "Schedule-Target":
		to = &h.scheduleTarget
	case "Schedule-Source":
		to = &h.scheduleSource
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

// appendWithout copies a header block without the fields of some keys. A key that ends in * stands for all that begin
// so.
func appendWithout(dst, block []byte, keys ...string) []byte {
	for len(block) > 0 {
		line := block
		if end := bytes.Index(block, lineEnd); end >= 0 {
			line = block[:end+len(lineEnd)]
		}
		if !slices.ContainsFunc(keys, func(key string) bool { return hasKey(line, key) }) {
			dst = append(dst, line...)
		}
		block = block[len(line):]
	}
	return dst
}

func hasKey(line []byte, key string) bool {
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		return bytes.HasPrefix(line, []byte(prefix)) && bytes.IndexByte(line, ':') >= 0
	}
	return len(line) > len(key) && line[len(key)] == ':' && string(line[:len(key)]) == key
}

// appendField adds a field to a whole header block.
func appendField(block []byte, key, value string) []byte {
	block = bytes.TrimSuffix(block, lineEnd)
	block = append(append(append(append(block, key...), ": "...), value...), lineEnd...)
	return append(block, lineEnd...)
}
