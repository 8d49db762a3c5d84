package subject

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The faults of a transform's destination. All wrap ErrDestination; the texts are NATS's, which clients see.
var (
	ErrDestination        = errors.New("invalid mapping destination")
	ErrDestinationSubject = fmt.Errorf("%w: invalid transform", ErrDestination)
	ErrUnknownFunction    = fmt.Errorf("%w: unknown function", ErrDestination)
	ErrWildcardIndex      = fmt.Errorf("%w: wildcard index out of range", ErrDestination)
	ErrFewArguments       = fmt.Errorf("%w: not enough arguments passed to the function", ErrDestination)
	ErrManyArguments      = fmt.Errorf("%w: too many arguments passed to the function", ErrDestination)
	ErrBadArgument        = fmt.Errorf("%w: function argument is invalid or in the wrong format", ErrDestination)
	ErrFunctionContext    = fmt.Errorf("%w: function is not available in this context", ErrDestination)
)

// call finds a function and its arguments. Only the first letter of a word may be of either case.
var call = regexp.MustCompile(`\{\{\s*([pP]artition|[wW]ildcard|[sS]plit|[sS]plit[fF]rom[lL]eft|[sS]plit[fF]rom[rR]ight|` +
	`[sS]lice[fF]rom[lL]eft|[sS]lice[fF]rom[rR]ight|[lL]eft|[rR]ight|[rR]andom|` +
	`[aA]ccount-[hH]ash(?:-[iI]mport|-[lL]eaf-[rR]emote)?)\s*\((.*)\)\s*\}\}`)

var arguments = regexp.MustCompile(`,\s*`)

var functions = map[string]function{
	"wildcard": wildcard, "partition": partition, "split": split, "splitfromleft": splitFromLeft,
	"splitfromright": splitFromRight, "slicefromleft": sliceFromLeft, "slicefromright": sliceFromRight,
	"left": left, "right": right, "random": random,
}

func isCall(token string) bool {
	return len(token) > 4 && strings.HasPrefix(token, "{{") && strings.HasSuffix(token, "}}")
}

// checkDestination looks at the destination as a subject, in whose calls blanks are allowed, and at the names of functions.
// What is wrong first, and so what a client is told, is as in NATS.
func checkDestination(destination string) error {
	tailed := false
	for _, token := range Tokens(destination) {
		switch {
		case token == "" || tailed:
			return in(token, ErrDestinationSubject)
		case isTail(token):
			tailed = true
		case isCall(token):
			if _, _, err := parseCall(token); err != nil {
				return in(token, err)
			}
		case strings.ContainsAny(token, "\t\n\f\r "):
			return ErrDestinationSubject
		}
	}
	return nil
}

func in(token string, err error) error {
	if token == "" {
		return err
	}
	return fmt.Errorf("%w in %s", err, token)
}

// parseStep reads one token of a destination. wildcards are the positions of "*" in the source.
func parseStep(token string, wildcards []int, tailed bool) (step, error) {
	s, err := parseToken(token)
	if err != nil || s.function == asIs || s.function == random {
		return s, err
	}
	if len(wildcards) == 0 && !tailed {
		// Without wildcards there is nothing to name. A partition takes the whole subject then, whatever it names.
		if s.function != partition {
			return s, in(token, ErrWildcardIndex)
		}
		s.tokens = nil
		return s, nil
	}
	for i, index := range s.tokens {
		switch {
		case index > len(wildcards):
			return s, fmt.Errorf("%w in %s: [%d]", ErrWildcardIndex, token, index)
		case index < 1:
			s.tokens[i] = 0 // NATS takes the subject's first token, and streams may be configured so
		default:
			s.tokens[i] = wildcards[index-1]
		}
	}
	return s, nil
}

// parseToken leaves the wildcards' indexes in tokens.
func parseToken(token string) (s step, err error) {
	s = step{text: token}
	if len(token) > 1 && token[0] == '$' {
		if index, err := strconv.Atoi(token[1:]); err == nil {
			s.function, s.tokens = wildcard, []int{index}
		}
		return s, nil // a token such as $JS is an ordinary one
	}
	if !isCall(token) {
		return s, nil
	}
	var args []string
	if s.function, args, err = parseCall(token); err != nil {
		return s, in(token, err)
	}
	s.text = ""
	if err := s.parseArguments(args); err != nil {
		return s, in(token, err)
	}
	return s, nil
}

func parseCall(token string) (f function, args []string, err error) {
	parts := call.FindStringSubmatch(token)
	if parts == nil {
		return 0, nil, ErrUnknownFunction
	}
	name := strings.ToLower(parts[1])
	if strings.HasPrefix(name, "account-") {
		return 0, nil, ErrFunctionContext
	}
	return functions[name], arguments.Split(parts[2], -1), nil
}

// parseArguments reads the arguments of the step's function; there is always at least one, which may be empty.
func (s *step) parseArguments(args []string) (err error) {
	switch s.function {
	case wildcard:
		if len(args) == 1 && args[0] == "" {
			return ErrFewArguments
		}
		if err = want(args, 1); err != nil {
			return err
		}
		s.tokens, err = parseIndexes(args)
		return err
	case random:
		if len(args) != 1 {
			return ErrFewArguments
		}
		s.n, err = parseCount(args[0])
		return err
	case partition:
		if s.n, err = parseCount(args[0]); err != nil {
			return err
		}
		s.tokens, err = parseIndexes(args[1:])
		return err
	case split:
		if err = want(args, 2); err != nil {
			return err
		}
		if strings.ContainsAny(args[1], " .") {
			return ErrBadArgument
		}
		s.text = args[1]
	default:
		if err = want(args, 2); err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.Trim(args[1], " "), 10, 32)
		if err != nil {
			return ErrBadArgument
		}
		s.n = int32(n)
	}
	s.tokens, err = parseIndexes(args[:1])
	return err
}

func want(args []string, n int) error {
	switch {
	case len(args) < n:
		return ErrFewArguments
	case len(args) > n:
		return ErrManyArguments
	}
	return nil
}

func parseIndexes(args []string) (indexes []int, err error) {
	for _, arg := range args {
		index, err := strconv.Atoi(strings.Trim(arg, " "))
		if err != nil {
			return nil, ErrBadArgument
		}
		indexes = append(indexes, index)
	}
	return indexes, nil
}

func parseCount(arg string) (int32, error) {
	n, err := strconv.Atoi(strings.Trim(arg, " "))
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		return 0, ErrBadArgument
	}
	return int32(n), nil
}
