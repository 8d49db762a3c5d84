package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/subject"
)

// Export offers subjects to other accounts: a stream of messages that they may receive, or a service that they may
// send requests to.
type Export struct {
	Subject string
	Service bool
	// Accounts may import it; empty: all.
	Accounts []string
	// TokenPosition, from 1, is that of a wildcard in Subject where an importer must have its own name; 0: none.
	TokenPosition int
	// Responses of a service to one request, and how long one is waited for; 0 is DefaultResponseThreshold.
	Responses Responses
	Threshold time.Duration
}

// Responses is how many responses a service gives to a request.
type Responses uint8

// Single is one response; Streamed and Chunked are several, the last of which is empty.
const (
	Single Responses = iota
	Streamed
	Chunked
)

// DefaultResponseThreshold is how long a response of another account is waited for.
const DefaultResponseThreshold = 2 * time.Minute

// Import takes what another account exports.
type Import struct {
	Account string
	Subject string // of the exporter
	Service bool
	// To is the subject in the importing account; "" is the same. Prefix, of a stream only, is put before instead.
	To, Prefix string
	Share      bool // of a service: tell the exporter who asks
}

// Mapping gives what is published to the subjects of a pattern other subjects.
type Mapping struct {
	Source string
	To     []MappedTo
}

// MappedTo is where a part of it goes: Weight percent.
type MappedTo struct {
	Subject string
	Weight  int
}

var (
	errNotExported   = errors.New("not authorized: the account does not export it to this one")
	errCycle         = errors.New("import forms a cycle")
	errTwice         = errors.New("the subject is imported from that account twice")
	errLiteralPrefix = errors.New("a prefix cannot contain wildcards")
	errPrefixAndTo   = errors.New("an import cannot have both a prefix and a to")
	errToken         = errors.New("account_token_position is not that of a *")
	errPlaceholder   = errors.New("account functions in subjects are not supported")
)

// Near is what the subjects of the import are called in the importing account.
func (i *Import) Near() string {
	switch {
	case i.Prefix != "":
		return strings.TrimSuffix(i.Prefix, ".") + "." + i.Subject
	case i.To != "":
		return i.To
	}
	return i.Subject
}

// Bridge gives the import's subjects on both sides.
func (i *Import) Bridge() (*subject.Bridge, error) {
	if i.Prefix != "" && i.To != "" {
		return nil, errPrefixAndTo
	}
	if subject.HasWildcard(i.Prefix) {
		return nil, errLiteralPrefix
	}
	if strings.Contains(i.Subject+i.Prefix+i.To, "{{account") {
		return nil, errPlaceholder
	}
	b, err := subject.NewBridge(i.Subject, i.Near())
	if err == nil && !i.Service && !subject.HasWildcard(i.Subject) && subject.HasWildcard(b.Near()) {
		err = fmt.Errorf("%w: %q has wildcards that %q has not", subject.ErrDestination, i.Near(), i.Subject)
	}
	return b, err
}

func (e *Export) check() error {
	switch tokens := strings.Split(e.Subject, "."); {
	case strings.Contains(e.Subject, "{{account"):
		return errPlaceholder
	case !subject.Valid(e.Subject):
		return fmt.Errorf("%w: %q", subject.ErrInvalid, e.Subject)
	case e.TokenPosition < 0 || e.TokenPosition > len(tokens) || e.TokenPosition > 0 && tokens[e.TokenPosition-1] != "*":
		return errToken
	}
	return nil
}

// allows reports whether an account may import a subject by this export.
func (e *Export) allows(importer, subj string) bool {
	if e.TokenPosition > 0 {
		return e.Subject != subj && subject.Token(subj, e.TokenPosition-1) == importer
	}
	return len(e.Accounts) == 0 || slices.Contains(e.Accounts, importer)
}

// Transforms gives the mapping's destinations; their weights add up to 100 or less. What they leave goes to the source
// itself, unless that is one of them.
func (m *Mapping) Transforms() (to []*subject.Transform, weights []int, err error) {
	if !subject.Valid(m.Source) {
		return nil, nil, fmt.Errorf("%w: %q", subject.ErrInvalid, m.Source)
	}
	sum := 0
	seen := map[string]bool{}
	add := func(dest string, weight int) error {
		switch {
		case strings.Contains(dest, "{{account"):
			return errPlaceholder
		case dest == "":
			return fmt.Errorf("%w: a mapping needs a destination", subject.ErrDestination)
		case seen[dest]:
			return fmt.Errorf("the destination %q is there twice", dest)
		case weight < 0 || weight > 100:
			return fmt.Errorf("a weight of %d is not between 0 and 100", weight)
		}
		seen[dest] = true
		if sum += weight; sum > 100 {
			return errors.New("the weights add up to more than 100")
		}
		t, err := subject.NewTransform(m.Source, dest)
		if err == nil {
			to, weights = append(to, t), append(weights, weight)
		}
		return err
	}
	for _, d := range m.To {
		if err := add(d.Subject, d.Weight); err != nil {
			return nil, nil, err
		}
	}
	if sum < 100 && !seen[m.Source] {
		if err := add(positional(m.Source), 100-sum); err != nil {
			return nil, nil, err
		}
	}
	return to, weights, nil
}

// positional names the wildcards of a pattern by their position.
func positional(pattern string) string {
	tokens := strings.Split(pattern, ".")
	n := 0
	for i, token := range tokens {
		if token == "*" {
			n++
			tokens[i] = fmt.Sprintf("$%d", n)
		}
	}
	return strings.Join(tokens, ".")
}
