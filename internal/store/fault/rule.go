package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what goes wrong with a request.
type Kind uint8

// The kinds, each by its name in the rule language.
const (
	// Lost: the write happens, its answer is lost. ErrUnknownOutcome.
	Lost Kind = iota + 1
	// Delayed: nothing happens yet. ErrUnknownOutcome, and the write lands later, under its condition as it is then.
	Delayed
	// Duplicate: the write happens and is answered, and lands a second time later, under the same condition.
	Duplicate
	// OwnRetry: the write happens, its answer is lost, a layer below tries again, and the caller gets the answer to
	// that: ErrPrecondition because of itself, if the write was conditional.
	OwnRetry
	// Conflict: 409, nothing happens. ErrUnknownOutcome.
	Conflict
	// Throttled: 503 SlowDown, nothing happens. ErrThrottled.
	Throttled
	// Timeout: no answer, nothing happens. ErrUnknownOutcome for writes, os.ErrDeadlineExceeded.
	Timeout
	// Full: no space, nothing happens. ErrFull.
	Full
	// Slow: the request is made after a while.
	Slow
	// Torn: a read gives only the beginning of the data, without an error.
	Torn
	// Broken: a read fails half way. io.ErrUnexpectedEOF.
	Broken
	kindEnd
)

var kindNames = [kindEnd]string{
	Lost: "lost", Delayed: "delayed", Duplicate: "duplicate", OwnRetry: "own-retry", Conflict: "conflict",
	Throttled: "throttled", Timeout: "timeout", Full: "full", Slow: "slow", Torn: "torn", Broken: "broken",
}

func (k Kind) String() string {
	if k < kindEnd && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Operation is a set of requests.
type Operation uint8

// The operations, each by its name in the rule language.
const (
	Create    Operation = 1 << iota // create-only Put: "create"
	Replace                         // if-match Put: "replace"
	Overwrite                       // unconditional Put: "overwrite"
	Get                             // Get and GetRange: "get"
	List                            // "list"
	Delete                          // "delete"

	Put   = Create | Replace | Overwrite // "put"
	Write = Put | Delete                 // "write"
	Any   = Write | Get | List           // "*"
)

var operationNames = []struct {
	name string
	op   Operation
}{
	{"create", Create}, {"replace", Replace}, {"overwrite", Overwrite}, {"put", Put}, {"delete", Delete}, {"write", Write},
	{"get", Get}, {"list", List}, {"*", Any},
}

func (o Operation) String() string {
	for _, named := range operationNames {
		if named.op == o {
			return named.name
		}
	}
	return fmt.Sprintf("Operation(%#x)", uint8(o))
}

// possible gives the operations that a kind of fault can befall.
func (k Kind) possible() Operation {
	switch k {
	case Lost, Delayed, Duplicate, Conflict:
		return Write
	case OwnRetry, Full:
		return Put
	case Torn, Broken:
		return Get
	default:
		return Any
	}
}

// Rule says which requests a fault befalls. As text it is one line:
//
//	create wal/* lost p=0.1           one in ten creates under wal/
//	replace heads/* delayed times=1   the first replacement of a head lands when the test says so
//	put */manifest duplicate after=2s skip=3
//	get * torn p=0.01
//	* * slow after=50ms p=0.2
type Rule struct {
	Operation Operation
	// Key is a pattern in which '*' stands for any characters, '/' too. A deletion matches if one of its keys does, a
	// listing if its prefix does.
	Key  string
	Kind Kind
	// Probability of the fault for a request that matches: 0 means 1. Text: p.
	Probability float64
	// Skip lets so many requests that match pass first. Text: skip.
	Skip int
	// Times bounds the faults of this rule; 0 means no bound. Text: times.
	Times int
	// After is the time until a delayed or duplicate write lands; 0 means when the test says so. For Slow it is the
	// wait. Text: after.
	After time.Duration
}

// Validate reports every fault of a rule.
func (r Rule) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("fault: "+format, args...)) }
	if r.Operation == 0 || r.Operation&^Any != 0 {
		fault("no such operation: %v", r.Operation)
	}
	if r.Kind == 0 || r.Kind >= kindEnd {
		fault("no such kind: %v", r.Kind)
	} else if r.Operation&r.Kind.possible() == 0 {
		fault("%v cannot befall %v", r.Kind, r.Operation)
	}
	if r.Key == "" {
		fault("no key pattern")
	}
	if strings.ContainsAny(r.Key, " \t\r\n#") {
		fault("key pattern %q has a space or a #", r.Key)
	}
	if !(r.Probability >= 0 && r.Probability <= 1) {
		fault("probability is %v, want 0 to 1", r.Probability)
	}
	if r.Skip < 0 || r.Times < 0 || r.After < 0 {
		fault("skip %d, times %d, after %v: want 0 or more", r.Skip, r.Times, r.After)
	}
	if r.Kind == Slow && r.After == 0 {
		fault("slow needs after=")
	}
	if r.After != 0 && !slices.Contains([]Kind{Slow, Delayed, Duplicate}, r.Kind) {
		fault("after= has no meaning for %v", r.Kind)
	}
	return errors.Join(faults...)
}

// String gives the rule in the form that Parse reads.
func (r Rule) String() string {
	s := fmt.Sprintf("%v %s %v", r.Operation, r.Key, r.Kind)
	if r.Probability != 0 {
		s += " p=" + strconv.FormatFloat(r.Probability, 'g', -1, 64)
	}
	if r.Skip != 0 {
		s += fmt.Sprintf(" skip=%d", r.Skip)
	}
	if r.Times != 0 {
		s += fmt.Sprintf(" times=%d", r.Times)
	}
	if r.After != 0 {
		s += fmt.Sprintf(" after=%v", r.After)
	}
	return s
}

// Parse reads rules, one a line; empty lines and what follows a '#' do not count.
func Parse(text string) ([]Rule, error) {
	var rules []Rule
	var faults []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		rule, err := parseRule(fields)
		if err == nil {
			err = rule.Validate()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("fault: line %d: %w", number, err))
			continue
		}
		rules = append(rules, rule)
	}
	return rules, errors.Join(faults...)
}

// MustParse is Parse for rules that stand in a test's source; it panics on a bad one.
func MustParse(text string) []Rule {
	rules, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return rules
}

func parseRule(fields []string) (Rule, error) {
	if len(fields) < 3 {
		return Rule{}, errors.New("want: operation key fault [p=] [skip=] [times=] [after=]")
	}
	rule := Rule{Key: fields[1]}
	for _, named := range operationNames {
		if named.name == fields[0] {
			rule.Operation = named.op
		}
	}
	if rule.Operation == 0 {
		return Rule{}, fmt.Errorf("no such operation: %q", fields[0])
	}
	kind := slices.Index(kindNames[:], fields[2])
	if kind <= 0 {
		return Rule{}, fmt.Errorf("no such fault: %q", fields[2])
	}
	rule.Kind = Kind(kind)
	for _, field := range fields[3:] {
		if err := rule.parseOption(field); err != nil {
			return Rule{}, fmt.Errorf("option %q: %w", field, err)
		}
	}
	return rule, nil
}

func (r *Rule) parseOption(field string) (err error) {
	name, value, ok := strings.Cut(field, "=")
	if !ok {
		return errors.New("want name=value")
	}
	switch name {
	case "p":
		if r.Probability, err = strconv.ParseFloat(value, 64); err == nil && r.Probability == 0 {
			err = errors.New("want more than 0")
		}
	case "skip":
		r.Skip, err = strconv.Atoi(value)
	case "times":
		r.Times, err = strconv.Atoi(value)
	case "after":
		r.After, err = time.ParseDuration(value)
	default:
		err = errors.New("want p, skip, times or after")
	}
	return err
}

// match compares a key with a pattern.
func match(pattern, key string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == key
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(key) < len(first)+len(last) || !strings.HasPrefix(key, first) || !strings.HasSuffix(key, last) {
		return false
	}
	key = key[len(first) : len(key)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(key, part)
		if i < 0 {
			return false
		}
		key = key[i+len(part):]
	}
	return true
}
