package subject

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Transform rewrites subjects that match a source pattern into ones made after a destination, as NATS does for subject
// mappings, stream transforms and republishing. It is immutable.
//
// A token of the destination is taken as it is, or names wildcards of the source by their position, from 1: $1 or
// {{wildcard(1)}}, {{partition(n,1,2)}}, {{split(1,-)}}, {{splitFromLeft(1,n)}}, {{splitFromRight(1,n)}},
// {{sliceFromLeft(1,n)}}, {{sliceFromRight(1,n)}}, {{left(1,n)}}, {{right(1,n)}}; {{partition(n)}} and {{random(n)}}
// stand for a number below n. See
// https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-30.md.
type Transform struct {
	source, destination string
	steps               []step // one for every token of the destination; nil: subjects stay as they are
	// rest is the position of the source token from which on everything is kept: where ">" stands. -1 where nothing is.
	rest int
}

// step makes one token of the result, or several where a function splits.
type step struct {
	function function
	text     string // the token itself, or what to split at
	tokens   []int  // positions in the subject, from 0
	n        int32
}

type function uint8

const (
	asIs function = iota
	wildcard
	partition
	split
	splitFromLeft
	splitFromRight
	sliceFromLeft
	sliceFromRight
	left
	right
	random
)

// NewTransform reads a source pattern and a destination. An empty source is ">"; an empty destination leaves subjects
// as they are, so that the transform is a filter only. The error wraps ErrInvalid where the source is no pattern or
// the two do not go together, and ErrDestination where the destination is at fault.
func NewTransform(source, destination string) (*Transform, error) {
	if source == "" {
		source = string(tail)
	}
	if !wellFormed(source) {
		return nil, fmt.Errorf("%w: source %q", ErrInvalid, source)
	}
	t := &Transform{source: source, destination: destination, rest: -1}
	if destination == "" || source == ">" && destination == ">" {
		return t, nil
	}
	var wildcards []int
	for i, token := range Tokens(source) {
		switch {
		case isStar(token):
			wildcards = append(wildcards, i)
		case isTail(token):
			t.rest = i
		}
	}
	if err := checkDestination(destination); err != nil {
		return nil, err
	}
	kept := false
	for _, token := range Tokens(destination) {
		if isStar(token) {
			return nil, fmt.Errorf("%w: destination %q has a wildcard *", ErrInvalid, destination)
		}
		kept = isTail(token)
	}
	if kept != (t.rest >= 0) {
		return nil, fmt.Errorf("%w: only one of source %q and destination %q ends in >", ErrInvalid, source, destination)
	}
	for _, token := range Tokens(destination) {
		if isTail(token) {
			break
		}
		s, err := parseStep(token, wildcards, kept)
		if err != nil {
			return nil, err
		}
		t.steps = append(t.steps, s)
	}
	return t, nil
}

// Source is the pattern of the subjects that Apply takes.
func (t *Transform) Source() string { return t.source }

// Destination is what NewTransform was given.
func (t *Transform) Destination() string { return t.destination }

// Apply gives the new subject. It is false for subjects that the source does not match. Whether the result is a valid
// subject depends on the subject too: a wildcard's token may itself be one character that means something.
func (t *Transform) Apply(subject string) (string, bool) {
	if t.unchanged() {
		return subject, t.takes(subject)
	}
	var buffer [128]byte
	out, ok := t.Append(buffer[:0], subject)
	return string(out), ok
}

// IsRandom reports whether the same subject may become different ones.
func (t *Transform) IsRandom() bool {
	for i := range t.steps {
		if t.steps[i].function == random {
			return true
		}
	}
	return false
}

func (t *Transform) unchanged() bool { return t.steps == nil && t.rest < 0 }

// takes is false for subjects with wildcards, unless everything passes unchanged, as in NATS.
func (t *Transform) takes(subject string) bool {
	if t.source == ">" && t.destination == ">" {
		return true
	}
	return ValidLiteral(subject) && match(subject, t.source)
}

// Append is Apply for those who own memory for the result: it appends it to dst.
func (t *Transform) Append(dst []byte, subject string) ([]byte, bool) {
	if !t.takes(subject) {
		return dst, false
	}
	if t.unchanged() {
		return append(dst, subject...), true
	}
	var known [32]string
	tokens := known[:0]
	for _, token := range Tokens(subject) {
		tokens = append(tokens, token)
	}
	for i := range t.steps {
		if i > 0 {
			dst = append(dst, separator)
		}
		dst = t.steps[i].append(dst, subject, tokens)
	}
	if t.rest >= 0 {
		for i, token := range tokens[t.rest:] {
			if i > 0 || len(t.steps) > 0 {
				dst = append(dst, separator)
			}
			dst = append(dst, token...)
		}
	}
	return dst, true
}

func (s *step) append(dst []byte, subject string, tokens []string) []byte {
	switch s.function {
	case asIs:
		return append(dst, s.text...)
	case partition:
		return strconv.AppendUint(dst, uint64(s.partition(subject, tokens)), 10)
	case random:
		return strconv.AppendInt(dst, int64(s.random()), 10)
	}
	token := tokens[s.tokens[0]]
	n, fits := int(s.n), s.n > 0 && int(s.n) < len(token)
	switch {
	case s.function == split:
		return appendSplit(dst, token, s.text)
	case !fits: // a token too short for the function stays whole
		return append(dst, token...)
	}
	switch s.function {
	case splitFromLeft:
		return appendCut(dst, token, n, len(token))
	case splitFromRight:
		return appendCut(dst, token, len(token)-n, len(token))
	case sliceFromLeft:
		return appendCut(dst, token, n, n)
	case sliceFromRight:
		first := len(token) % n
		if first == 0 {
			first = n
		}
		return appendCut(dst, token, first, n)
	case left:
		return append(dst, token[:n]...)
	case right:
		return append(dst, token[len(token)-n:]...)
	}
	return append(dst, token...)
}

// appendCut cuts a token into pieces: the first of one length, the others of another, the last may be shorter.
func appendCut(dst []byte, token string, first, others int) []byte {
	dst = append(dst, token[:first]...)
	for token = token[first:]; token != ""; {
		n := min(others, len(token))
		dst = append(append(dst, separator), token[:n]...)
		token = token[n:]
	}
	return dst
}

// appendSplit joins the parts of a token that are not empty.
func appendSplit(dst []byte, token, at string) []byte {
	start := len(dst)
	for part := range strings.SplitSeq(token, at) {
		if part == "" {
			continue
		}
		if len(dst) > start {
			dst = append(dst, separator)
		}
		dst = append(dst, part...)
	}
	return dst
}

// partition is FNV-1a of the chosen tokens, or of the whole subject where none are chosen.
func (s *step) partition(subject string, tokens []string) uint32 {
	const offset, prime = 2166136261, 16777619
	if s.n == 0 {
		return 0
	}
	hash := uint32(offset)
	add := func(text string) {
		for i := range len(text) {
			hash = (hash ^ uint32(text[i])) * prime
		}
	}
	for _, at := range s.tokens {
		add(tokens[at])
	}
	if len(s.tokens) == 0 {
		add(subject)
	}
	return hash % uint32(s.n)
}

func (s *step) random() int {
	if s.n == 0 {
		return 0
	}
	return int(rand.Int32()) % int(s.n)
}
