package subject

import (
	"fmt"
	"strings"
)

// Bridge tells how subjects of one account appear in another that imports them: the far subjects are the exporter's,
// the near ones the importer's. Every far subject has one near one, and the other way round, unless the far side has no
// wildcard: then all near subjects lead to it. It is immutable.
type Bridge struct {
	far, near side
}

// side is a pattern, and for each of its wildcards the position of the token on the other side that it stands for.
type side struct {
	pattern string
	tokens  []string
	of      []int // by position; -1 for a token that is as it is
	rest    int   // the position of ">"; -1: none
}

// NewBridge reads the two patterns. far is an ordinary one. near may name the wildcards of far by their position, as $1 or
// {{wildcard(1)}}, in any order, or have them as "*", in far's own order; each stands there once, and both end in ">" or
// neither does. The error wraps ErrInvalid or ErrDestination.
func NewBridge(far, near string) (*Bridge, error) {
	if !Valid(far) {
		return nil, fmt.Errorf("%w: %q", ErrInvalid, far)
	}
	if !wellFormed(near) {
		return nil, fmt.Errorf("%w: %q", ErrInvalid, near)
	}
	b := &Bridge{far: newSide(far)}
	var wildcards []int
	for i, token := range b.far.tokens {
		if isStar(token) {
			wildcards = append(wildcards, i)
		}
	}
	if len(wildcards) == 0 && b.far.rest < 0 {
		b.near = newSide(near)
		return b, nil
	}
	named, err := nameWildcards(near, wildcards, b.far.rest >= 0)
	if err != nil {
		return nil, err
	}
	b.near = newSide(named.pattern)
	for i, at := range named.of {
		if at < 0 {
			continue
		}
		if !isStar(b.far.tokens[at]) {
			return nil, fmt.Errorf("%w: %q", ErrWildcardIndex, near)
		}
		if b.far.of[at] >= 0 {
			return nil, fmt.Errorf("%w: %q has the wildcard %d of %q twice", ErrDestination, near, i+1, far)
		}
		b.near.of[i], b.far.of[at] = at, i
	}
	for _, at := range wildcards {
		if b.far.of[at] < 0 {
			return nil, fmt.Errorf("%w: %q does not use all the wildcards of %q", ErrDestination, near, far)
		}
	}
	if (b.near.rest >= 0) != (b.far.rest >= 0) {
		return nil, fmt.Errorf("%w: only one of %q and %q ends in >", ErrInvalid, far, near)
	}
	return b, nil
}

// nameWildcards finds out which wildcard each token of near stands for, and gives the plain pattern.
func nameWildcards(near string, wildcards []int, tailed bool) (side, error) {
	var s side
	var tokens []string
	stars := 0
	for _, token := range Tokens(near) {
		at := -1
		switch {
		case isStar(token):
			if stars == len(wildcards) {
				return s, fmt.Errorf("%w: %q has more wildcards than there are", ErrDestination, near)
			}
			at = wildcards[stars]
			stars++
		case !isTail(token):
			step, err := parseStep(token, wildcards, tailed)
			if err != nil {
				return s, err
			}
			switch {
			case step.function == wildcard && len(step.tokens) == 1:
				at, token = step.tokens[0], "*"
			case step.function != asIs:
				return s, fmt.Errorf("%w: %q: imports know {{wildcard(n)}} only", ErrDestination, token)
			}
		}
		tokens, s.of = append(tokens, token), append(s.of, at)
	}
	s.pattern = strings.Join(tokens, ".")
	if !Valid(s.pattern) {
		return s, fmt.Errorf("%w: %q", ErrInvalid, near)
	}
	return s, nil
}

func newSide(pattern string) side {
	s := side{pattern: pattern, rest: -1}
	for i, token := range Tokens(pattern) {
		s.tokens, s.of = append(s.tokens, token), append(s.of, -1)
		if isTail(token) {
			s.rest = i
		}
	}
	return s
}

// Far is the exporter's pattern.
func (b *Bridge) Far() string { return b.far.pattern }

// Near is the importer's pattern, with * for each wildcard.
func (b *Bridge) Near() string { return b.near.pattern }

// AppendNear appends what the importer calls a subject that Far reaches.
func (b *Bridge) AppendNear(dst []byte, subj []byte) []byte {
	return b.near.append(dst, view(subj), b.far.rest)
}

// AppendFar appends what the exporter calls a subject that Near reaches.
func (b *Bridge) AppendFar(dst []byte, subj []byte) []byte {
	return b.far.append(dst, view(subj), b.near.rest)
}

// append writes the subject that this side calls what the other side calls subj. rest is where ">" is there.
func (s *side) append(dst []byte, subj string, rest int) []byte {
	var known [32]string
	tokens := known[:0]
	for _, token := range Tokens(subj) {
		tokens = append(tokens, token)
	}
	return s.join(dst, tokens, rest)
}

func (s *side) join(dst []byte, other []string, rest int) []byte {
	for i, token := range s.tokens {
		if i == s.rest && rest >= 0 {
			for _, token := range other[rest:] {
				dst = append(append(dst, token...), separator)
			}
			break
		}
		if s.of[i] >= 0 {
			token = other[s.of[i]]
		}
		dst = append(append(dst, token...), separator)
	}
	return dst[:len(dst)-1]
}

// FarPart gives the pattern of those far subjects whose near ones a subscription to pattern reaches. It is false where
// there are none.
func (b *Bridge) FarPart(pattern string) (string, bool) {
	var sub []string
	for _, token := range Tokens(pattern) {
		sub = append(sub, token)
	}
	common, ok := intersect(b.near.tokens, sub)
	if !ok {
		return "", false
	}
	return string(b.far.join(nil, common, b.near.rest)), true
}

// intersect gives the pattern of what two patterns reach both.
func intersect(a, b []string) (common []string, ok bool) {
	for i := 0; ; i++ {
		switch {
		case i == len(a) || i == len(b):
			return common, len(a) == len(b)
		case isTail(a[i]):
			return append(common, b[i:]...), true
		case isTail(b[i]):
			return append(common, a[i:]...), true
		case isStar(a[i]):
			common = append(common, b[i])
		case isStar(b[i]) || a[i] == b[i]:
			common = append(common, a[i])
		default:
			return nil, false
		}
	}
}
