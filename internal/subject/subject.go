// Package subject knows NATS subjects: their grammar, wildcards, the relations between patterns, the index that tells
// which subscriptions a subject reaches ([Trie]), and the rewriting of subjects ([Transform]).
//
// A subject is a list of tokens joined by dots. A pattern is a subject in which the token "*" stands for exactly one
// token and the token ">", allowed at the end only, for one or more. Both have meaning only when they are a token by
// themselves: "foo*" is an ordinary token. See https://docs.nats.io/nats-concepts/subjects.
package subject

import (
	"strings"
	"unsafe"
)

const (
	separator = '.'
	star      = '*' // one token
	tail      = '>' // one or more tokens, at the end
)

// Text is what subjects come as: strings in configurations and requests, byte slices on the wire.
type Text interface{ ~string | ~[]byte }

// view reads either kind of text as a string, without a copy. The result shares the memory of s, so it must not
// outlive the call that took s. A slice header begins with the two words that make a string header.
func view[S Text](s S) string { return *(*string)(unsafe.Pointer(&s)) }

// Valid reports whether s is a subject or pattern: no empty token, no blank (space, tab, form feed, line end) and
// nothing after the token ">".
func Valid[S Text](s S) bool {
	v := view(s)
	return wellFormed(v) && !strings.ContainsAny(v, " \t\n\f\r")
}

// ValidLiteral reports whether s has no empty token and no wildcard. It does not look at blanks: this is the check
// that NATS makes of a publish in pedantic mode, where blanks have been taken for the ends of arguments already.
func ValidLiteral[S Text](s S) bool {
	v := view(s)
	return tokensFilled(v) && !hasWildcard(v)
}

// ValidPublish reports whether s is valid and has no wildcard.
func ValidPublish[S Text](s S) bool {
	v := view(s)
	return Valid(v) && !hasWildcard(v)
}

// ValidPattern reports whether s may be subscribed to: no empty token and nothing after ">". It does not look at
// blanks, which the wire cannot carry. [Trie] takes exactly these patterns.
func ValidPattern[S Text](s S) bool { return wellFormed(view(s)) }

// HasWildcard reports whether a token of s is a wildcard.
func HasWildcard[S Text](s S) bool { return hasWildcard(view(s)) }

// wellFormed is the rule for patterns, blanks aside.
func wellFormed(v string) bool {
	start := 0
	for i := 0; ; i++ {
		if i < len(v) && v[i] != separator {
			continue
		}
		if i == start || i < len(v) && i == start+1 && v[start] == tail {
			return false
		}
		if i == len(v) {
			return true
		}
		start = i + 1
	}
}

func tokensFilled(v string) bool {
	previous := byte(separator)
	for i := range len(v) {
		if v[i] == separator && previous == separator {
			return false
		}
		previous = v[i]
	}
	return previous != separator
}

func hasWildcard(v string) bool {
	for i := range len(v) {
		if v[i] == star || v[i] == tail {
			if (i == 0 || v[i-1] == separator) && (i+1 == len(v) || v[i+1] == separator) {
				return true
			}
		}
	}
	return false
}

// Tokens walks over the tokens of s with their positions, without copying: range over it as
// for i, token := range Tokens(s). An empty s has one empty token. The tokens share the memory of s.
func Tokens[S Text](s S) func(yield func(int, S) bool) {
	return func(yield func(int, S) bool) {
		for i, start := 0, 0; ; i++ {
			end := start + tokenEnd(view(s[start:]))
			if !yield(i, s[start:end]) || end == len(s) {
				return
			}
			start = end + 1
		}
	}
}

// NumTokens counts the tokens of s; an empty s has none.
func NumTokens[S Text](s S) int {
	if len(s) == 0 {
		return 0
	}
	return strings.Count(view(s), ".") + 1
}

// Token is the token of s at position i, counted from 0, and empty where there is none.
func Token[S Text](s S, i int) S {
	for at, token := range Tokens(s) {
		if at == i {
			return token
		}
	}
	return s[:0]
}

// tokenEnd is the length of the first token of v.
func tokenEnd(v string) int {
	// Most tokens are short, where a loop beats the call of a vectorised search.
	for i := range len(v) {
		if v[i] == separator {
			return i
		}
	}
	return len(v)
}

// cut splits the first token off v; more tells whether others follow (rest may be empty all the same, where v is not
// a valid subject).
func cut(v string) (token, rest string, more bool) {
	end := tokenEnd(v)
	if end == len(v) {
		return v, "", false
	}
	return v[:end], v[end+1:], true
}

func isStar(token string) bool { return len(token) == 1 && token[0] == star }
func isTail(token string) bool { return len(token) == 1 && token[0] == tail }

// Match reports whether pattern reaches the subject. Wildcards in the subject count as ordinary tokens, as they do
// for NATS when somebody publishes to one.
func Match[S, P Text](subject S, pattern P) bool { return match(view(subject), view(pattern)) }

func match(subject, pattern string) bool {
	for {
		p, prest, pmore := cut(pattern)
		s, srest, smore := cut(subject)
		if s == "" {
			return false
		}
		if isTail(p) && !pmore {
			return tokensFilled(subject)
		}
		if !isStar(p) && p != s || pmore != smore {
			return false
		}
		if !pmore {
			return true
		}
		pattern, subject = prest, srest
	}
}

// IsSubset reports whether every subject that a reaches is reached by b too. Both are valid patterns.
func IsSubset[A, B Text](a A, b B) bool { return isSubset(view(a), view(b)) }

func isSubset(a, b string) bool {
	for {
		at, arest, amore := cut(a)
		bt, brest, bmore := cut(b)
		switch {
		case at == "" || bt == "":
			return false
		case isTail(bt):
			return true
		case isTail(at):
			return false
		case !isStar(bt) && at != bt:
			return false
		case amore != bmore:
			return false
		case !amore:
			return true
		}
		a, b = arest, brest
	}
}

// Overlap reports whether there is a subject that both patterns reach. Both are valid patterns.
func Overlap[A, B Text](a A, b B) bool { return overlap(view(a), view(b)) }

func overlap(a, b string) bool {
	for {
		at, arest, amore := cut(a)
		bt, brest, bmore := cut(b)
		switch {
		case at == "" || bt == "":
			return false
		case isTail(at) || isTail(bt):
			return true
		case at != bt && !isStar(at) && !isStar(bt):
			return false
		case amore != bmore:
			return false
		case !amore:
			return true
		}
		a, b = arest, brest
	}
}
